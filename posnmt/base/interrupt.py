"""Stop signals: long work receives the signal, saves its state, and ends."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Interrupted(Exception):
    """The work was stopped by a signal (Ctrl-C, or a cluster's notice) and has saved its state."""


class StopSignal:
    """Records SIGINT and SIGTERM, so that work can end where its state can be saved; a second one interrupts it.

    Args:
        answer: called at once when the first signal is heard, in another thread: whatever the work is doing, it may
            hold the lock of what the answer is written to.
    """

    def __init__(self, answer: Callable[[], None] | None = None) -> None:
        self.heard = False
        self._answer = answer
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._hear)
            except ValueError:  # only the main thread can set handlers
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.heard:
            raise KeyboardInterrupt
        self.heard = True
        if self._answer is not None:
            _thread.start_new_thread(self._answer, ())  # `threading` has a lock that the interrupted work may hold
