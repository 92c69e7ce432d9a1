"""A step's kind (a function and a version), what the function is told, and what it may use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Resources:
    """What a step takes while it runs. None of it is part of the key; what changes the result is in the settings too.

    Attributes:
        cores: processor cores, of each node.
        gpus: GPUs, of each node. With more than one, or with several nodes, torchrun starts a process for each.
        memory_gib: memory in GiB, of each node; asked of a cluster, not watched on this machine.
        minutes: a cluster's time limit. A step that reaches it is stopped, saved where it can be, and started again.
        nodes: machines.
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
    """What the function of a kind is given.

    Attributes:
        folder: where it writes. What an earlier attempt left there is still there.
        settings: the step's own.
        inputs: role -> folder of a finished step.
        files: role -> input file.
        resources: what it was given.
        say: takes a line about how far it has come, for the status and the log.
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
        run: does the work. A `UserError` is told as a mistake; `Interrupted` and KeyboardInterrupt say that it was
            stopped and can go on.
        version: a number to raise when the same settings give another result, so that steps are made anew.
        uses_gpu: whether it takes a GPU of its own on a machine that has any, though its resources ask for none.
    """

    run: Callable[[Context], None]
    version: int
    uses_gpu: bool = False


def load_kinds(path: str) -> Mapping[str, Kind]:
    """The kinds of steps by name, from a dotted path: `package.module:NAME`."""
    module, _, name = path.partition(":")
    kinds: Mapping[str, Kind] = getattr(importlib.import_module(module), name)
    return kinds
