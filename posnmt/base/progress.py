"""Progress on standard error: a bar on a terminal, plain lines otherwise. Results never go here."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

EVERY = 10.0
"""Seconds between two lines of progress if there is no terminal."""


class Display:
    """Shows the progress of long work, and messages on separate lines.

    Args:
        quiet: show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._last = 0.0

    def __enter__(self) -> Display:
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

    def silence(self, silent: bool) -> None:
        """If `silent`, show nothing from now on: for all processes but the first."""
        if silent:
            self.quiet = self.console.quiet = True

    def say(self, message: str) -> None:
        """Print one line."""
        self.console.print(message, markup=False)

    def show(self, description: str, fraction: float, state: str) -> None:
        """Show the progress: a fraction from 0 to 1, and a short status."""
        if self._bar is not None:
            if not self._bar.tasks:
                self._bar.add_task(description, total=1.0, state=state)
            self._bar.update(self._bar.task_ids[0], description=description, completed=fraction, state=state)
        elif time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            self.say(f"{description} {fraction:4.0%}  {state}")


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
    """Print a warning to standard error."""
    print(f"warning: {message}", file=sys.stderr)
