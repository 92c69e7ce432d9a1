"""Run steps on a cluster of Dask distributed, which clouds and batch systems can start.

Each step is a task that starts the step's process on a worker and waits for it. If the worker is lost, the task runs on
another one, where the step continues from its saved state. All machines share the file system with the steps' folders,
and its locks.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from posnmt.base.errors import UserError
from posnmt.base.lock import holder
from posnmt.study.workflow.execute import STOPPED, TAKEN
from posnmt.study.workflow.executors import UNKNOWN, Child, Executor, Job, command, launch, stop_step
from posnmt.study.workflow.folder import RUNNING, SHORT
from posnmt.study.workflow.kind import Resources
from posnmt.study.workflow.refusal import Backoff, TemporaryRefusal

CONNECT = 10.0  # seconds in which a scheduler has to answer
LOOK = 0.2  # seconds between two checks of a step, and of whether it has to stop
QUERY_INTERVAL = 2.0  # seconds between two questions about the workers


def run_step(out: Path, folder: Path, key: str, resources: Resources, stop: str) -> int:
    """Run a step's process on this worker; return its exit status.

    If the process of a lost worker still runs the step, wait for the end of that process.

    Args:
        out, folder, key, resources: of the step.
        stop: name of the event that asks all steps to save their state.
    """
    while not _is_set(stop):
        child = Child(folder, launch(command(out, key, resources), folder, resources.cores, {}))
        asked = False
        while (status := child.poll()) is None:
            if not asked and _is_set(stop):
                asked = child.stop()
            time.sleep(LOOK)
        if status != TAKEN:
            return status
        while holder(folder / RUNNING) is not None:
            if _is_set(stop):
                stop_step(folder)
            time.sleep(LOOK)
    return STOPPED


def _is_set(stop: str) -> bool:
    """Whether the event is set; a scheduler that does not answer has not set it."""
    from distributed import Event

    try:
        return bool(Event(stop).is_set())
    except (OSError, RuntimeError, ValueError):
        return False


class Dask(Executor):
    """Executor that runs steps on the workers of a Dask scheduler; GPUs are those of `dask worker --resources GPU=1`.

    Args:
        address: of the scheduler, such as `tcp://host:8786`.
        jobs: maximum number of steps at a time; None: one for each thread of the workers.

    Raises:
        UserError: distributed is not installed, or no scheduler answers.
    """

    name = "dask"

    def __init__(self, address: str | None, jobs: int | None) -> None:
        try:
            from distributed import Client, Event
        except ImportError:
            raise UserError("distributed is not installed", "--executor", "pip install 'posnmt[dask]'") from None
        if address is None:
            todo = "add --scheduler ADDRESS, such as tcp://host:8786"
            raise UserError("Dask needs the address of its scheduler", "--executor dask", todo)
        try:
            self._client = Client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            why = f"no Dask scheduler answers at {address}: {error}"
            raise UserError(why, "--scheduler", "start one with `dask scheduler`, or check the address") from None
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what matters is said here, in a line
        self._address = address
        self._stop = Event(f"posnmt-stop-{uuid4().hex}", client=self._client)
        self._jobs = jobs
        self._backoff = Backoff(first=1.0, longest=60.0)
        self._workers: dict[str, dict[str, Any]] = {}
        self._asked = -QUERY_INTERVAL

    def has_capacity(self, requested: Resources) -> bool:
        """Whether another step may be submitted."""
        if not self._backoff.is_over():
            return False
        threads = sum(worker["nthreads"] for worker in self._known_workers().values())
        return self._active < (self._jobs or max(1, threads))

    def _known_workers(self) -> dict[str, dict[str, Any]]:
        """Address -> the facts about a worker, as of a moment ago."""
        if time.monotonic() - self._asked >= QUERY_INTERVAL:
            self._asked = time.monotonic()
            self._workers = {}  # until the scheduler answers
            # Not by Client.scheduler_info, which gives what it last heard where the scheduler does not answer.
            if (scheduler := self._client.scheduler) is not None:
                with suppress(OSError, RuntimeError, ValueError):
                    answer = self._client.sync(scheduler.identity, n_workers=-1, callback_timeout=CONNECT)
                    self._workers = answer["workers"]
        return self._workers

    def start(self, out: Path, folder: Path, key: str, resources: Resources) -> Job:
        """Submit a step as a task.

        Raises:
            TemporaryRefusal: there are no workers, or none with so many GPUs.
            UserError: the scheduler has ended.
        """
        if self._client.status == "closed":
            todo = "start one, and run the study again"
            raise UserError(f"the Dask scheduler at {self._address} has ended", "--scheduler", todo)
        self._asked = -QUERY_INTERVAL  # ask now: the scheduler may have ended a moment ago
        gpus = [worker["resources"].get("GPU", 0) for worker in self._known_workers().values()]
        if max(gpus, default=-1) < resources.gpus:
            lacking = f"worker that was started with --resources GPU={resources.gpus}" if gpus else "worker"
            raise TemporaryRefusal(f"the scheduler has no {lacking}; looking again in {self._backoff.refused():.0f} s")
        self._backoff.accepted()
        self._active += 1
        future = self._client.submit(
            run_step, out.resolve(), folder.resolve(), key, resources, self._stop.name,
            key=f"posnmt-{key[:SHORT]}-{uuid4().hex}", pure=False,
            resources={"GPU": resources.gpus} if resources.gpus else None,
        )  # fmt: skip
        return _Task(folder, future, self._stop)

    def close(self) -> None:
        """Leave the scheduler."""
        self._client.close()


class _Task:
    """A step that is a task of this client."""

    def __init__(self, folder: Path, future: Any, stop: Any) -> None:
        self._folder, self._future, self._stop = folder, future, stop

    def poll(self) -> int | None:
        """None while it waits or runs, then its exit status."""
        if not self._future.done():
            return None
        if self._future.status != "finished":
            return UNKNOWN  # lost with the scheduler, or with one worker after the other
        return int(self._future.result())

    def stop(self) -> bool:
        """Ask this and all other steps of the runner to save their state."""
        self._stop.set()
        return True
