"""Where steps run: what an executor is, and the one that runs them on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from posnmt.errors import UserError
from posnmt.workflow.folder import LOG, RUNNING
from posnmt.workflow.kind import Resources
from posnmt.workflow.lock import holder, now

NAMES = ("local", "slurm", "submitit-local")


class Job(Protocol):
    """A step that was started, by this process or by an earlier one."""

    def poll(self) -> int | None:
        """None while it runs; then its exit status, or `UNKNOWN`."""

    def stop(self) -> bool:
        """Tell it to save its state and end; False where it is to go on without us."""


class Executor(Protocol):
    """Starts steps."""

    def resources(self, wanted: Resources, uses_gpu: bool) -> Resources:
        """What a step is given.

        Raises:
            UserError: it asks for more than there will ever be.
        """

    def has_capacity(self, wanted: Resources) -> bool:
        """Whether there is room for a step now."""

    def start(self, out: Path, folder: Path, key: str, given: Resources) -> Job:
        """Start a step whose step.json is written.

        Raises:
            NotNow: it cannot be started for the moment.
            UserError: it cannot be started.
        """

    def running(self, folder: Path, key: str) -> Job | None:
        """The step, if another process started it and it has not ended."""

    def ended(self, folder: Path) -> None:
        """A step that was started, or was running, is no more."""


UNKNOWN = -1000
"""The exit status of a step whose process was not ours to wait for, and which left no record."""


def gpus() -> list[str]:
    """The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES takes."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return []  # all are hidden; to load PyTorch takes longer than many a study's steps

    import torch

    count = torch.cuda.device_count()
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return visible[:count] or [str(number) for number in range(count)]


def command(out: Path, key: str, given: Resources, meeting: list[str] | None = None) -> list[str]:
    """The command line of a step: one process, or torchrun with a process for each GPU.

    Args:
        meeting: torchrun's options for where the processes of several nodes meet; None on one node.
    """
    step = ["-m", "posnmt.workflow.execute", str(out), key]
    if given.gpus <= 1 and given.nodes == 1:
        return [sys.executable, *step]
    torchrun = ["-m", "torch.distributed.run", f"--nproc-per-node={max(1, given.gpus)}"]
    return [sys.executable, *torchrun, *(meeting or ["--standalone"]), *step]


def launch(words: list[str], folder: Path, cores: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a step's process, with the log of its folder, in a session of its own, so that it outlives this one.

    A cluster's notice that time is over (SIGUSR2) goes to every process of a job, and would end those that do not know
    it; it is for the process that started the step, so the step ignores it.
    """
    threads = {name: str(cores) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write(f"--- {now()} on {socket.gethostname()}\n")
        log.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        try:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **threads, **environment},
            )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_step(folder: Path, process: int | None = None) -> bool:
    """Tell the first process of a step on this machine to save and end; whether there was one.

    Args:
        process: whom to tell where the step has not begun to keep its books.
    """
    who = holder(folder / RUNNING)
    if who is not None and who.get("host") == socket.gethostname():
        process = who.get("process", process)
    if process is None:
        return False
    try:
        os.kill(process, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


class Running:
    """A step that another process started on a machine that shares our locks: it runs while its lock is held."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def poll(self) -> int | None:
        """None while it runs, then `UNKNOWN`: its folder tells how it ended."""
        return None if holder(self._folder / RUNNING) is not None else UNKNOWN

    def stop(self) -> bool:
        """Tell it, if it is on this machine."""
        return stop_step(self._folder)


class _Child:
    """A step that this process started."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self._folder, self._process = folder, process

    def poll(self) -> int | None:
        status = self._process.poll()
        if status is not None:
            # What the step started and left behind, when it was killed, must not write into the next attempt.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        return status

    def stop(self) -> bool:
        return stop_step(self._folder, self._process.pid)


class Local:
    """Steps as processes of this machine, as many at once as its cores and GPUs allow.

    Args:
        cores: how many there are.
        gpus: their names.
        jobs: steps at once at most.
    """

    def __init__(self, cores: int, gpus: list[str], jobs: int | None) -> None:
        self._cores, self._gpus, self._jobs = cores, gpus, jobs
        self._taken: dict[Path, tuple[int, list[str]]] = {}

    def resources(self, wanted: Resources, uses_gpu: bool) -> Resources:
        """As wanted, with at most the cores that there are.

        A kind that uses a GPU is given one where there is any, and runs on the processor where there is none, though
        its resources ask for one. Beside each GPU it has a share of the cores at most, so that no GPU is idle.
        """
        if wanted.nodes > 1:
            raise UserError(f"the step asks for {wanted.nodes} nodes", "--executor local", "use --executor slurm")
        here = len(self._gpus)
        if wanted.gpus > max(here, int(uses_gpu)):
            has = f"the step asks for {wanted.gpus} GPUs, and this machine has {here}"
            raise UserError(has, "--executor local", "run it on a machine that has them, or ask for fewer")
        chosen = min(here, max(wanted.gpus, int(uses_gpu)))
        cores = min(wanted.cores, self._cores)
        if chosen:
            cores = min(cores, max(1, self._cores * chosen // here))
        return replace(wanted, cores=cores, gpus=chosen)

    def has_capacity(self, wanted: Resources) -> bool:
        """Whether so many cores and GPUs are free."""
        if self._jobs is not None and len(self._taken) >= self._jobs:
            return False
        used = sum(cores for cores, _ in self._taken.values())
        return used + wanted.cores <= self._cores and wanted.gpus <= len(self._free())

    def start(self, out: Path, folder: Path, key: str, given: Resources) -> Job:
        """Start its process."""
        mine = self._free()[: given.gpus]
        environment = {"CUDA_VISIBLE_DEVICES": ",".join(mine)}
        child = _Child(folder, launch(command(out, key, given), folder, given.cores, environment))
        self._taken[folder] = given.cores, mine
        return child

    def running(self, folder: Path, key: str) -> Job | None:
        """Its process, if that still lives; it keeps its cores and GPUs."""
        who = holder(folder / RUNNING)
        if who is None:
            return None
        self._taken[folder] = who.get("cores", 1), who.get("gpus", [])
        return Running(folder)

    def ended(self, folder: Path) -> None:
        """Its cores and GPUs are free again."""
        self._taken.pop(folder, None)

    def _free(self) -> list[str]:
        """The GPUs that nobody has."""
        taken = {name for _, names in self._taken.values() for name in names}
        return [name for name in self._gpus if name not in taken]
