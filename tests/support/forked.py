"""Commands in forks of a process that has imported everything: the same command, and no seconds of imports."""

from __future__ import annotations

import gc
import importlib
import io
import os
import pkgutil
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

import posnmt
from posnmt.cli.main import main


def import_all() -> None:
    """Import what commands import, but for Transformers, so that each of them begins where the imports have ended."""
    for module in pkgutil.walk_packages(posnmt.__path__, "posnmt."):
        if not module.name.startswith(("posnmt.__main__", "posnmt.deploy.huggingface", "posnmt.testing")):
            with suppress(ImportError):  # of extras that are not installed
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command."""


def fork() -> int:
    """Fork; until a child is a command, a signal of `ENDS` ends it, and never reaches the handlers of this process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    child = os.fork()
    if not child:
        for number in ENDS:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return child


def become(arguments: list[str], before: Callable[[], object] = int, closed: int | None = None) -> None:
    """Be the process of a command, in a fork: `python -m posnmt` from where all modules are imported.

    Args:
        before: called first, in a process group of its own.
        closed: the number of a standard stream that is closed, which Python then has as None.
    """
    status = 1
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        before()
        sys.argv = ["posnmt", *arguments]
        if closed is not None:
            os.close(closed)
        sys.stdin, sys.stdout, sys.stderr = (None if number == closed else _stream(number) for number in range(3))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python starts
        main()
        status = 0
    except KeyboardInterrupt:  # a signal in the moment before or after the command's own handling
        status = 130
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            for number in ENDS:
                signal.signal(number, signal.SIG_IGN)
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        finally:
            os._exit(status)


def _stream(number: int) -> TextIO:
    """A standard stream as Python opens it."""
    raw = io.FileIO(number, "w" if number else "r", closefd=False)
    buffered = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
    return io.TextIOWrapper(
        buffered, "utf-8", "strict" if number < 2 else "backslashreplace", line_buffering=number == 2
    )
