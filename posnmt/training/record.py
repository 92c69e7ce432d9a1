"""The record of a run: its provenance, and its metrics."""

from __future__ import annotations

import json
import math
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from posnmt.base.files import sync, write_text
from posnmt.base.version import __version__
from posnmt.config.schema import Config
from posnmt.training.loggers import LOGGERS, Guarded
from posnmt_position.processor import processor


def provenance(seed: int, data_key: str, parameters: int) -> dict[str, Any]:
    """Command line, versions, commit, machine, data and seed of a run."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "posnmt": __version__,
        "commit": _commit(),
        "seed": seed,
        "data": data_key,
        "parameters": parameters,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("torch", "lightning-fabric", "sentencepiece", "sacrebleu")},
        "machine": {"system": platform.platform(), "processor": processor(), "threads": torch.get_num_threads()},
    }


CONSEQUENCES = {
    "processes": ("number of processes", "updates have another number of batches, so the model becomes another one"),
    "device": ("device", "it rounds differently"),
    "precision": ("precision", "the losses are not those of a run that was never stopped"),
    "processor": ("processor", "it may round differently"),
    "torch": ("version of PyTorch", "it may round differently"),
    "posnmt": ("version of posnmt", "it may compute something else"),
}
"""What a training is computed with -> its name, and what follows if the training is resumed with another."""


def computed_with(fabric: Fabric) -> dict[str, Any]:
    """What decides, beside the configuration and the text, which weights a training ends with.

    The number of threads is not among them: it changes no weights.
    """
    gpu = torch.cuda.get_device_name(fabric.device) if fabric.device.type == "cuda" else None
    return {
        "processes": fabric.world_size,
        "device": gpu or fabric.device.type,
        "precision": str(fabric._precision.precision),
        "processor": processor(),
        "torch": _version("torch"),
        "posnmt": _commit() or __version__,
    }


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A sentence for each part of `computed_with` that has changed."""
    return [
        f"the run is resumed with another {named}: it was {before[key]} and is {now[key]}; {consequence}"
        for key, (named, consequence) in CONSEQUENCES.items()
        if before.get(key, now[key]) != now[key]
    ]


_version = cache(metadata.version)  # which searches the folders of packages


@cache
def _commit() -> str | None:
    """The commit of the running source tree, with `+changes` if it has edits; None outside a repository."""
    folder = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty=+changes", "--abbrev=12"],  # noqa: S607
            capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


class Metrics:
    """Metrics as JSONL in a run folder, and for the loggers of `train.loggers`.

    Args:
        folder: the run folder.
        config: of the run.
        warn: is given a warning when a logger fails.
        resumed_at: step that the run resumes from; later lines are removed.
        count: number of lines at that step; None if unknown: all lines up to the step are kept.

    Attributes:
        count: lines written so far.
        lost: lines before that step that are damaged or missing.
    """

    def __init__(
        self, folder: Path, config: Config, warn: Callable[[str], None], resumed_at: int = 0, count: int | None = 0
    ) -> None:
        self.path = folder / "metrics.jsonl"
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines() if self.path.exists() else []
        kept = [line for line in lines[:count] if _step(line) <= resumed_at]
        self.count = len(kept)
        self.lost = 0 if count is None else count - len(kept)
        write_text(self.path, "".join(line + "\n" for line in kept))
        tree = config.model_dump(mode="json")
        self._loggers = [
            Guarded(name, partial(LOGGERS[name], folder, resumed_at, tree), warn)
            for name in dict.fromkeys(config.train.loggers)
        ]

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Append one line {kind, step, ...values}; loggers get the numbers, as kind/name."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self.count += 1
        numbers = {
            f"{kind}/{name}": float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        for logger in self._loggers:
            logger.log(step, numbers)

    def sync(self) -> None:
        """Wait until the lines are on the disk."""
        sync(self.path)

    def close(self) -> None:
        """Close the loggers."""
        for logger in self._loggers:
            logger.close()


def _step(line: str) -> float:
    """The step of a line of metrics; infinite if the line is truncated or damaged."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return math.inf
