"""Read the bodies of requests completely, within limits of size and time, before anything else is done."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from posnmt.deploy.server.refusal import Refusal, refusal_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from posnmt.deploy.server.metrics import Metrics
    from posnmt.deploy.server.settings import Settings

DISCARDED = 64
"""A body above the limit is read and discarded up to this multiple of it: a client that sends reads no answer."""


class Bodies:
    """Middleware that refuses bodies that are too large (413), too slow (408), or too many at a time (503).

    It also counts answers by path; paths that are not in `paths` count as `other`.
    """

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self.settings, self.metrics, self.paths = app, settings, metrics, paths
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body within the limits, pass the request on, and count the answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.monotonic()
        path = scope["path"] if scope["path"] in self.paths else "other"

        began = False

        async def counted(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                self.metrics.requests.labels(path, str(message["status"])).inc()
                self.metrics.seconds.labels(path).observe(time.monotonic() - started)
            await send(message)

        body = bytearray()
        try:
            if await self._read(receive, body):
                await self.app(scope, _replayed(bytes(body), receive), counted)
        except asyncio.CancelledError:  # uvicorn cancels requests at the end of the grace period
            stopping = Refusal(503, "the server is being stopped")
            await refusal_response(scope["path"], stopping)(scope, receive, counted)
        except Refusal as refusal:
            await refusal_response(scope["path"], refusal)(scope, receive, counted)
        except Exception:  # answered here, inside the middleware that lets pages of allowed sites read answers
            if not began:
                fault = Refusal(500, "internal error of the server; its log has the details")
                await refusal_response(scope["path"], fault)(scope, receive, counted)
            raise  # uvicorn logs it
        finally:
            self._buffered -= len(body)

    async def _read(self, receive: Receive, body: bytearray) -> bool:
        """Read a body, however small its chunks are. Return False if the client has disconnected.

        Raises:
            Refusal: the body exceeds a limit.
        """
        limit, size = self.settings.request_bytes, 0
        try:
            async with asyncio.timeout(self.settings.read_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    if size <= limit:
                        body += chunk
                        self._buffered += len(chunk)
                    if self._buffered > self.settings.buffered_bytes:
                        what = "the server is busy reading other requests; send this one again"
                        raise Refusal(503, what, {"Retry-After": "1", "Connection": "close"})
                    if not message.get("more_body") or size > DISCARDED * limit:
                        break
        except TimeoutError:
            what = f"the body of the request did not arrive within {self.settings.read_seconds:g} seconds"
            raise Refusal(408, what, {"Connection": "close"}) from None
        if size > limit:
            what = f"the request is larger than {limit:,} bytes; send fewer texts at a time"
            raise Refusal(413, what, {"Connection": "close"})
        return True


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A channel that first delivers a body that was read, then further messages of the client, such as disconnects."""
    messages: deque[Message] = deque([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Message:
        return messages.popleft() if messages else await receive()

    return replay
