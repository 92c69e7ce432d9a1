"""The kind of a step: a function and its version; and the arguments and resources of the function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Resources:
    """Resources of a step. They are not part of its key; a resource that affects the result is also in the settings.

    Attributes:
        cores: processor cores per node.
        gpus: GPUs per node. With several GPUs or nodes, torchrun starts one process per GPU.
        memory_gib: memory per node, in GiB; requested from a cluster, not enforced on this machine.
        minutes: time limit of a cluster's job. A step that reaches it is stopped and started again; it saves its state
            first if its kind can do so.
        nodes: number of machines.
        partition: of a Slurm cluster; None: its default.
    """

    cores: int = 1
    gpus: int = 0
    memory_gib: float = 2
    minutes: float = 60
    nodes: int = 1
    partition: str | None = None


@dataclass
class Context:
    """Arguments of a kind's function.

    Attributes:
        folder: where it writes. It still has the files of an earlier attempt.
        settings: of the step.
        inputs: role -> folder of a finished step.
        files: role -> input file.
        resources: granted by the executor.
        say: called with progress lines, for the status and the log.
    """

    folder: Path
    settings: dict[str, Any]
    inputs: dict[str, Path]
    files: dict[str, Path]
    resources: Resources
    say: Callable[[str], None]


@dataclass(frozen=True)
class Kind:
    """A kind of step.

    Attributes:
        run: does the work. It raises `UserError` for errors of the user, and `Interrupted` or KeyboardInterrupt if it
            was stopped and can be resumed.
        version: to be increased when the same settings give another result, so that steps are run again.
        uses_gpu: whether it gets a GPU on a machine that has any, even if its resources ask for none.
    """

    run: Callable[[Context], None]
    version: int
    uses_gpu: bool = False
