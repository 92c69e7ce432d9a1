"""Connections whose clients do not send: closed after some time, so that they use up nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def patient(seconds: float) -> type[H11Protocol]:
    """A protocol that closes a connection on which no whole head of a request has arrived for so many seconds.

    uvicorn itself closes those that are idle after an answer.
    """

    class Connection(H11Protocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._timer: asyncio.TimerHandle | None = None
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Time the head of a request while there is no request."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._cancel()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self._expire)

        def _cancel(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _expire(self) -> None:
            self._timer = None
            if self.transport is not None and (self.cycle is None or self.cycle.response_complete):
                self.transport.close()

    return Connection
