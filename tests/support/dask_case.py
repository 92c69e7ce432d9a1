"""A Dask cluster on this machine: a scheduler and workers, each a process that a test may kill."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from posnmt.base.files import read_json
from tests.support.sources import SOURCES
from tests.support.study_case import wait_for


class DaskCluster:
    """A scheduler, and the workers that `worker` starts."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._file = folder / "scheduler.json"
        self._started = [self._process("scheduler", "--host", "127.0.0.1", "--port", "0")]
        self.address = wait_for(lambda: read_json(self._file))["address"]
        for _ in range(workers):
            self.worker()

    def worker(self) -> None:
        """Start a worker, for one step at a time."""
        self._started.append(self._process("worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1"))

    def _process(self, what: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(self._file)]
        return subprocess.Popen(
            [*command, "--no-dashboard", *words], env={**os.environ, "PYTHONPATH": SOURCES},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._file.parent,
        )  # fmt: skip

    def end_scheduler(self) -> None:
        """Kill the scheduler alone."""
        self._started[0].kill()

    def close(self) -> None:
        """End everything."""
        for process in reversed(self._started):
            process.kill()
            process.wait()


def free_address() -> str:
    """An address at which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{listener.getsockname()[1]}"
