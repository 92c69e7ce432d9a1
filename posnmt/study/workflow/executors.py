"""The interface of executors, and the executor that runs steps on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from posnmt.base.errors import UserError
from posnmt.base.lock import holder, now
from posnmt.study.workflow.folder import LOG, RUNNING
from posnmt.study.workflow.kind import Resources

NAMES = ("local", "slurm", "submitit-local")


@dataclass(frozen=True)
class Where:
    """Where steps run, and how many at a time.

    Attributes:
        executor: one of `NAMES`.
        jobs: maximum number of steps at a time; None: the executor's default.
        per_gpu: number of steps that share a GPU of this machine.
    """

    executor: str = "local"
    jobs: int | None = None
    per_gpu: int = 1


LOCAL = Where()
"""As many steps at a time as this machine has cores for."""


class Job(Protocol):
    """A step that was started, by this process or by an earlier one."""

    def poll(self) -> int | None:
        """Return None while it runs, then its exit status or `UNKNOWN`."""

    def stop(self) -> bool:
        """Ask it to save its state and exit; return False if it continues without the runner."""


class Executor(ABC):
    """Start steps, on this machine or on a cluster, as far as its resources allow."""

    name: str
    """As `--executor` has it."""

    def resources(self, requested: Resources, uses_gpu: bool) -> Resources:
        """The resources that a step gets: what it asks for, on one machine.

        Raises:
            UserError: it asks for more than the executor can ever provide.
        """
        if requested.nodes > 1:
            where = f"--executor {self.name}"
            raise UserError(f"the step asks for {requested.nodes} nodes", where, "use --executor slurm")
        return requested

    @abstractmethod
    def has_capacity(self, requested: Resources) -> bool:
        """Whether a step with these resources can start now."""

    @abstractmethod
    def start(self, out: Path, folder: Path, key: str, resources: Resources) -> Job:
        """Start a step whose step.json is written.

        Raises:
            TemporaryRefusal: it cannot be started now, but perhaps later.
            UserError: it cannot be started.
        """

    @abstractmethod
    def running(self, folder: Path, key: str) -> Job | None:
        """The job of a step that another process started, if it has not ended."""

    @abstractmethod
    def ended(self, folder: Path) -> None:
        """Release the resources of a step that ended."""


UNKNOWN = -1000
"""The exit status of a step that is not a child of this process and left no record."""


def visible_gpus() -> list[str]:
    """The names in CUDA_VISIBLE_DEVICES; none where it is not set."""
    return [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]


def gpus() -> list[str]:
    """The GPUs that this process may use, by their names in CUDA_VISIBLE_DEVICES."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return []  # all are hidden; loading PyTorch takes longer than many steps of a study

    import torch

    count = torch.cuda.device_count()
    return visible_gpus()[:count] or [str(number) for number in range(count)]


def command(out: Path, key: str, resources: Resources, rendezvous: list[str] | None = None) -> list[str]:
    """The command line of a step: one process, or torchrun with one process per GPU.

    Args:
        rendezvous: torchrun's options for the rendezvous of several nodes; None on one node.
    """
    step = ["-m", "posnmt.study.workflow.execute", str(out), key]
    if resources.gpus <= 1 and resources.nodes == 1:
        return [sys.executable, *step]
    torchrun = ["-m", "torch.distributed.run", f"--nproc-per-node={max(1, resources.gpus)}"]
    return [sys.executable, *torchrun, *(rendezvous or ["--standalone"]), *step]


def launch(words: list[str], folder: Path, cores: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a step's process in a new session, so that it outlives this process; its output goes to the step's log.

    Before a time limit, Slurm sends SIGUSR2 to every process of a job, which terminates a process by default. The
    signal is meant for the process that started the step, so the step blocks it.
    """
    threads = {name: str(cores) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write(f"--- {now()} on {socket.gethostname()}\n")
        log.flush()
        with _notices_blocked():
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **threads, **environment},
            )  # fmt: skip


@contextmanager
def _notices_blocked() -> Iterator[None]:
    """A context whose child processes block SIGUSR2, if the system has signals that can be blocked."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_step(folder: Path, process: int | None = None) -> bool:
    """Send SIGTERM to the process that holds a step's lock on this machine; return whether there was one.

    Windows has no such signal: there the step ends at once, and the next run continues it from its latest checkpoint.

    Args:
        process: id of the process to signal if none holds the lock yet.
    """
    owner = holder(folder / RUNNING)
    if owner is not None and owner.get("host") == socket.gethostname():
        process = owner.get("process", process)
    if process is None:
        return False
    try:
        os.kill(process, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


class Running:
    """A step that another process started, on a machine with the same locks: it runs while its lock is held."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def poll(self) -> int | None:
        """None while it runs, then `UNKNOWN`; its folder records how it ended."""
        return None if holder(self._folder / RUNNING) is not None else UNKNOWN

    def stop(self) -> bool:
        """Ask the step to stop if it runs on this machine."""
        return stop_step(self._folder)


class Child:
    """A step that this process started."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self._folder, self._process = folder, process

    def poll(self) -> int | None:
        """None while it runs, then its exit status."""
        status = self._process.poll()
        if status is not None and hasattr(os, "killpg"):
            # Subprocesses that survive a killed step must not write into the next attempt.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        return status

    def stop(self) -> bool:
        """Ask it to save its state."""
        return stop_step(self._folder, self._process.pid)


class Local(Executor):
    """Executor that runs steps as processes of this machine, as many at a time as its cores and GPUs allow.

    Args:
        cores: number of cores.
        gpus: their names in CUDA_VISIBLE_DEVICES.
        jobs: maximum number of steps at a time; None: no maximum.
        per_gpu: number of steps that share a GPU. A small model leaves most of one idle.
    """

    name = "local"

    def __init__(self, cores: int, gpus: list[str], jobs: int | None, per_gpu: int = 1) -> None:
        self._cores, self._gpus, self._jobs = cores, gpus * per_gpu, jobs
        self._per_gpu = per_gpu
        self._taken: dict[Path, tuple[int, list[str]]] = {}

    def resources(self, requested: Resources, uses_gpu: bool) -> Resources:
        """The resources that the step asks for, with at most the machine's cores.

        A kind with `uses_gpu` gets one GPU if the machine has any. Otherwise it runs on the CPU, even if its resources
        ask for a GPU. For each GPU, a step gets at most a proportional share of the cores, so that no GPU stays idle.
        """
        requested = super().resources(requested, uses_gpu)
        here = len(self._gpus) // self._per_gpu
        if requested.gpus > max(here, int(uses_gpu)):
            has = f"the step asks for {requested.gpus} GPUs, and this machine has {here}"
            raise UserError(has, "--executor local", "run it on a machine that has them, or ask for fewer")
        chosen = min(here, max(requested.gpus, int(uses_gpu)))
        cores = min(requested.cores, self._cores)
        if chosen:
            cores = min(cores, max(1, self._cores * chosen // len(self._gpus)))
        return replace(requested, cores=cores, gpus=chosen)

    def has_capacity(self, requested: Resources) -> bool:
        """Whether enough cores and GPUs are free."""
        if self._jobs is not None and len(self._taken) >= self._jobs:
            return False
        used = sum(cores for cores, _ in self._taken.values())
        return used + requested.cores <= self._cores and requested.gpus <= len(self._free())

    def start(self, out: Path, folder: Path, key: str, resources: Resources) -> Job:
        """Start the process of a step."""
        mine = self._free()[: resources.gpus]
        environment = {"CUDA_VISIBLE_DEVICES": ",".join(mine)}
        child = Child(folder, launch(command(out, key, resources), folder, resources.cores, environment))
        self._taken[folder] = resources.cores, mine
        return child

    def running(self, folder: Path, key: str) -> Job | None:
        """The process of a step that still runs; it keeps its cores and GPUs."""
        owner = holder(folder / RUNNING)
        if owner is None:
            return None
        self._taken[folder] = owner.get("cores", 1), owner.get("gpus", [])
        return Running(folder)

    def ended(self, folder: Path) -> None:
        """Release the cores and GPUs of a step."""
        self._taken.pop(folder, None)

    def _free(self) -> list[str]:
        """The free GPUs, the least used ones first; each is listed as often as a further step may use it."""
        taken = Counter(name for _, names in self._taken.values() for name in names)
        return [name for round_ in range(self._per_gpu) for name in dict.fromkeys(self._gpus) if taken[name] <= round_]
