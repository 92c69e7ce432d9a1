"""Progress on standard error: a bar on a terminal, plain lines otherwise. Results never go here.

Work of a known size counts what is done in a `Work`, which shows the time that is left on the display that is open.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from _thread import start_new_thread
from collections.abc import Callable
from contextvars import ContextVar, Token
from threading import Event, Lock
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from posnmt.base.errors import printable

EVERY = 10.0
"""Seconds between two lines of progress if there is no terminal."""

SOON = 1.0
"""Seconds before work is shown on a terminal, so that short work does not flicker."""

Result = TypeVar("Result")


class Display:
    """Shows the progress of long work, and messages on separate lines. As a context, it is open for every `Work`.

    Args:
        quiet: show nothing.
        verbose: print details as well.
    """

    def __init__(self, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet, self.verbose = quiet, verbose
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._last = 0.0
        self._before: Token[Display | None] | None = None

    def __enter__(self) -> Display:
        self._before = _open.set(self)
        if self.console.is_terminal and not self.quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        assert self._before is not None
        _open.reset(self._before)

    @property
    def redraws(self) -> bool:
        """Whether progress is one line that is drawn again and again, as on a terminal."""
        return self._bar is not None

    def silence(self, silent: bool) -> None:
        """If `silent`, show nothing from now on: for all processes but the first."""
        if silent:
            self.quiet = self.console.quiet = True

    def say(self, message: str) -> None:
        """Print one line; control characters in it are escaped."""
        self.console.print("\n".join(map(printable, message.split("\n"))), markup=False)

    def detail(self, message: str) -> None:
        """Print one line that only those who ask for details want to read."""
        if self.verbose:
            self.say(message)

    def brief(self, message: str) -> None:
        """Print one line, shortened to the width of the terminal."""
        line = Text(message)
        line.truncate(self.console.width, overflow="ellipsis")
        self.console.print(line)

    def show(self, description: str, fraction: float | None, state: str) -> None:
        """Show the progress: a fraction from 0 to 1, or None if it is not known, and a short status."""
        if self._bar is not None:
            total = None if fraction is None else 1.0  # rich cannot take the total away from a task
            if not self._bar.tasks or self._bar.tasks[0].total != total:
                self.hide()
                self._bar.add_task(description, total=total, state=state)
            self._bar.update(self._bar.task_ids[0], description=description, completed=fraction, state=state)
        elif time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            share = "" if fraction is None else f" {fraction:4.0%}"
            self.say(f"{description}{share}  {state}")

    def hide(self) -> None:
        """Remove the progress of work that has ended, until other work is shown."""
        if self._bar is not None:
            for place in self._bar.task_ids:
                self._bar.remove_task(place)


_open: ContextVar[Display | None] = ContextVar("display", default=None)


class Work:
    """Work whose progress is shown on the open display, with the time that is left; without a display, nothing is.

    Time is extrapolated from the part that is done. Threads may share one.

    Args:
        doing: what is done, as "evaluating".
        unit: what is counted, as "lines".
        total: how many there are; None if that is not known.
        size: of all of them, in what their time is proportional to, such as bytes; None: each takes the same time.
    """

    def __init__(self, doing: str, unit: str, total: int | None = None, size: int | None = None) -> None:
        self.doing, self.unit, self.total, self.size = doing, unit, total, size
        self.done = self.done_size = 0
        self._display, self._began, self._lock = _open.get(), time.monotonic(), Lock()

    def __enter__(self) -> Work:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None:
            self._display.hide()

    def add(self, number: int, size: int = 0) -> None:
        """Count what is done: how many more, and their size."""
        with self._lock:
            self.done += number
            self.done_size += size
        share = self.done_size / self.size if self.size else self.done / self.total if self.total else None
        of = "" if self.total is None else f" of {self.total:,}"
        self._show(share, f"{self.done:,}{of} {self.unit}")

    def waiting(self) -> None:
        """Show work that counts nothing, with the time that has passed."""
        self._show(None, duration(time.monotonic() - self._began))

    def _show(self, share: float | None, state: str) -> None:
        spent, display = time.monotonic() - self._began, self._display
        if display is None or spent < (SOON if display.redraws else EVERY):
            return
        if share == 1 and not display.redraws:
            return  # a line that nobody needs
        if share:
            share = min(1.0, share)
            state += f"  {duration(spent * (1 - share) / share)} left"
        display.show(self.doing, share, state)


def waited_for(doing: str, work: Callable[[], Result]) -> Result:
    """The result of work that stays in a library for long and counts nothing; meanwhile Ctrl-C is answered at once.

    Python handles a signal in its main thread, between two of its own steps. So the library works in another thread,
    which an interrupted program leaves behind. A program that ends before that thread does so with status 130.

    Raises:
        BaseException: that of `work`.
        MemoryError: the thread has ended before it began; `start` of `Thread` would wait for it for ever.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    done = Event()  # since `join` of a thread, when interrupted, takes the thread for ended

    def run(_: Event) -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    held = Event()  # by the thread alone, as long as it lives
    lives = weakref.ref(held)
    start_new_thread(run, (held,))
    del held
    try:
        with Work(doing, "") as shown:
            while not done.wait(0.2) and lives() is not None:
                shown.waiting()
    except BaseException:
        atexit.register(_leave, done)
        raise
    if errors:
        raise errors[0]
    if not results:
        raise MemoryError
    return results[0]


def _leave(done: Event) -> None:
    """End the process at once if a library is still at work, which would crash as Python ends around it."""
    if not done.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)


def duration(seconds: float) -> str:
    """A duration in its two largest units: "2 d 3 h", "1 h 05 min" or "4 min 30 s"."""
    total = round(seconds)
    days, hours, minutes = total // 86400, total % 86400 // 3600, total % 3600 // 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {total % 60:02} s" if minutes else f"{total} s"


def warn(message: str) -> None:
    """Print a warning to standard error, as one line without control characters."""
    print(printable(f"warning: {message}"), file=sys.stderr)
