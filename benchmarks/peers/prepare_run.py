"""Runs a command and says how long it took and how much memory it and all that it started held at once."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

EVERY = 0.2
"""Seconds between two looks at the memory."""


class Cost(NamedTuple):
    """What a command took: seconds on the clock, seconds of processors, MiB at most of all its processes together."""

    seconds: float
    processors: float
    memory: float


def run(command: Sequence[str | Path], log: Path) -> Cost:
    """Run a command to its end; what it prints goes to the log.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    before = os.times()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        ended, peaks = threading.Event(), [0.0]
        watch = threading.Thread(target=_watch, args=(process.pid, ended, peaks))
        watch.start()
        status = process.wait()
        after = os.times()
        ended.set()
        watch.join()
    if status:
        raise subprocess.CalledProcessError(status, [str(part) for part in command])
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(after.elapsed - before.elapsed, used, max(peaks))


def _watch(process: int, ended: threading.Event, peaks: list[float]) -> None:
    """Note the memory until the command has ended."""
    while not ended.wait(EVERY):
        peaks.append(sum(map(_memory, _with_children(process))))


def _with_children(process: int) -> list[int]:
    """A process and all below it."""
    found = [process]
    for each in found:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found


def _memory(process: int) -> float:
    """MiB of a process; what processes share counts for each by its share."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().split("\n"):
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
