"""Stop signals: long work receives the signal, saves its state, and ends."""

from __future__ import annotations

import _thread
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, get_ident, main_thread
from types import FrameType, TracebackType
from typing import Any


class Interrupted(Exception):
    """The work was stopped by a signal (Ctrl-C, or a cluster's notice) and has saved its state."""


ENDS = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
"""Signals that end a process beside Ctrl-C: of `kill` and of a cluster, and of a terminal that is closed."""


@contextmanager
def as_interruption() -> Iterator[None]:
    """In the block, a signal of `ENDS` raises KeyboardInterrupt, as Ctrl-C does, so that temporary files are removed.

    A signal that is ignored, as SIGHUP by `nohup`, stays so. If it comes in a callback of Python's memory management,
    which drops all exceptions, it is raised again after that.
    """
    hook, inside = sys.unraisablehook, False

    def drop(dropped: sys.UnraisableHookArgs) -> None:
        nonlocal inside
        if not issubclass(dropped.exc_type, KeyboardInterrupt) or get_ident() != main_thread().ident:
            hook(dropped)
            return
        inside = True
        handlers = ((each, signal.getsignal(each)) for each in (signal.SIGINT, *ENDS))
        number, handler = next((each, handler) for each, handler in handlers if callable(handler))

        def handle(number: int, frame: FrameType | None) -> None:
            signal.signal(number, handler)
            handler(number, frame)

        signal.signal(number, handle)
        _thread.start_new_thread(raise_again, (number, handle))
        inside = False  # as the last step: no signal is handled between it and the return

    def raise_again(number: int, handle: Callable[[int, FrameType | None], None]) -> None:
        while inside:
            time.sleep(0.001)
        # a signal ends a wait in the system, but not one that just begins: so until it was handled
        while signal.getsignal(number) is handle:
            signal.pthread_kill(main_thread().ident or 0, number)
            time.sleep(0.1)

    before = {number: signal.getsignal(number) for number in ENDS}
    try:
        for number in (each for each, handler in before.items() if handler == signal.SIG_DFL):
            signal.signal(number, signal.default_int_handler)
    except ValueError:  # only the main thread can set handlers
        before = {}
    sys.unraisablehook = drop
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


class StopSignal:
    """Records SIGINT and those of `ENDS`, so that work can end where its state can be saved; a second one interrupts.

    Args:
        answer: gives the answer to the first signal, from the state of the work at that moment.
        say: called with the answer at once, in another thread: the work may hold the lock of what it is written to.
    """

    def __init__(self, answer: Callable[[], str] = str, say: Callable[[str], None] | None = None) -> None:
        self.heard = False
        self._answer, self._say, self._said = answer, say, Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        for number in (signal.SIGINT, *(each for each in ENDS if signal.getsignal(each) != signal.SIG_IGN)):
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
        if self.heard and self._say is not None:
            self._said.wait(1.0)  # so that the answer does not come after the last words of the work

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.heard:
            raise KeyboardInterrupt
        self.heard = True
        if self._say is not None:
            # not by `threading.Thread`, whose start takes a lock that the interrupted work may hold
            _thread.start_new_thread(self._tell, (self._say, self._answer()))

    def _tell(self, say: Callable[[str], None], answer: str) -> None:
        try:
            say(answer)
        finally:
            self._said.set()
