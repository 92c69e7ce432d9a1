"""Standard streams that are closed, full, or read by a program that has ended."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress

CLOSED_PIPE = 141
"""The exit status that a shell gives a program whose reader has ended: 128 and the number of SIGPIPE."""


def prepare() -> None:
    """Let the three descriptors be streams, also those that are closed, and let names be UTF-8.

    Otherwise the first file that is opened would get the number of a closed stream, and receive what is meant for it.
    Reading and writing fail (EBADF) on what takes the place of standard input and output. Messages are lost.
    """
    if sys.getfilesystemencoding() == "ascii":  # LC_ALL=C with PYTHONUTF8=0: what is not ASCII could not be printed
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606  this program
    for number, (name, mode, flags) in enumerate(
        (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
    ):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.fstat(number)
                continue
            nowhere = os.open(os.devnull, flags)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def tell(line: str) -> None:
    """Print a line to standard error, if that is possible."""
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def finish() -> None:
    """Write what is left for standard output, or give it up, so that Python does not fail at it as it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def reader_is_gone() -> bool:
    """Whether the program that reads standard output or standard error has ended."""
    with suppress(OSError, ValueError, AttributeError):  # no files; Windows has no poll
        poll = select.poll()
        for stream in (sys.stdout, sys.stderr):
            poll.register(stream.fileno(), 0)
        return any(state & (select.POLLERR | select.POLLHUP) for _, state in poll.poll(0))
    return False
