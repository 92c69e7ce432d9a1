"""Close connections whose clients neither send nor read, so that they do not use up resources."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def patient(seconds: float) -> type[H11Protocol]:
    """A protocol class that closes connections whose clients neither send nor read for a time.

    The head of a request must arrive completely within the time. An answer may take longer, as long as the client reads
    some of it within the time.

    Args:
        seconds: the time.
    """

    class Connection(H11Protocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._timer: asyncio.TimerHandle | None = None
            self._unread = 0
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Start the timer if no request is being answered."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._cancel()
            elif self._timer is None:
                self._unread = self._size()
                self._timer = self.loop.call_later(seconds, self._expire)

        def _size(self) -> int:
            """Bytes of answers that the client has not read."""
            return 0 if self.transport is None else self.transport.get_write_buffer_size()

        def _cancel(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _expire(self) -> None:
            self._timer, before = None, self._unread
            if 0 < self._size() < before:
                self._watch()
            elif self.transport is not None:
                self.transport.abort()  # close() would wait until the client has read everything

    return Connection
