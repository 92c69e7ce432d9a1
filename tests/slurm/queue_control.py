"""Waiting for Slurm, and hurrying it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def wait_for(true: Callable[[], object], seconds: float = 60) -> bool:
    """Whether it comes true in time; an idle machine needs a second or two."""
    end = time.monotonic() + seconds
    while not (came := bool(true())) and time.monotonic() < end:
        time.sleep(0.5)
    return came


def begin_again_soon(number: str) -> None:
    """Slurm lets a job that it put back into the queue wait for two minutes; here five seconds do.

    Not less: a job that begins in the second in which its first attempt ended may fail.
    """
    pending = ["squeue", "--noheader", "--states=PENDING", f"--jobs={number}"]
    assert wait_for(lambda: subprocess.check_output(pending)), f"job {number} is not back in the queue"
    subprocess.check_call(["scontrol", "update", f"JobId={number}", "StartTime=now+5"])
