"""The record of a run: its provenance, and its metrics."""

from __future__ import annotations

import json
import math
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import posnmt
from posnmt.files import sync, write_text
from posnmt.processor import processor


def provenance(seed: int, data_key: str, parameters: int) -> dict[str, Any]:
    """Command line, versions, commit, machine, data and seed of a run."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "posnmt": posnmt.__version__,
        "commit": _commit(),
        "seed": seed,
        "data": data_key,
        "parameters": parameters,
        "python": platform.python_version(),
        "packages": {
            name: metadata.version(name) for name in ("torch", "lightning-fabric", "sentencepiece", "sacrebleu")
        },
        "machine": {"system": platform.platform(), "processor": processor(), "threads": torch.get_num_threads()},
    }


def _commit() -> str | None:
    """The commit of the running source tree, with `+changes` if it has edits; None outside a repository."""
    folder = Path(posnmt.__file__).parent
    try:
        described = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty=+changes", "--abbrev=12"],  # noqa: S607
            capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


class Metrics:
    """Metrics as JSONL and for TensorBoard, in a run folder.

    Args:
        folder: the run folder.
        resumed_at: step that the run resumes from; later lines are removed.
        count: number of lines at that step; None if unknown: all lines up to the step are kept.

    Attributes:
        count: lines written so far.
        lost: lines before that step that are damaged or missing.
    """

    def __init__(self, folder: Path, resumed_at: int = 0, count: int | None = 0) -> None:
        from tensorboardX import SummaryWriter

        self.path = folder / "metrics.jsonl"
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines() if self.path.exists() else []
        kept = [line for line in lines[:count] if _step(line) <= resumed_at]
        self.count = len(kept)
        self.lost = 0 if count is None else count - len(kept)
        write_text(self.path, "".join(line + "\n" for line in kept))
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=resumed_at + 1 if resumed_at else None)

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Append one line {kind, step, ...values}; numbers are also written to TensorBoard as kind/name."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self.count += 1
        for name, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def sync(self) -> None:
        """Wait until the lines are on the disk."""
        sync(self.path)

    def close(self) -> None:
        """Flush and close TensorBoard's file."""
        self._board.close()


def _step(line: str) -> float:
    """The step of a line of metrics; infinite if the line is truncated or damaged."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return math.inf
