"""What a run writes down about itself: where it came from, and its metrics as they come."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import posnmt
from posnmt.run import FORMAT


def provenance(seed: int, data_key: str, parameters: int) -> dict[str, Any]:
    """Command line, versions, commit, machine, data and seed of a run."""
    return {
        "format": FORMAT,
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


def processor() -> str:
    """The processor's name as the system tells it, or the GPU's."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    try:
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def _commit() -> str | None:
    """The commit of the source tree that runs, with `+changes` where it was edited; None when installed elsewhere."""
    folder = Path(posnmt.__file__).parent
    try:
        described = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty=+changes", "--abbrev=12"],
            capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


class Metrics:
    """Metrics as JSONL and for TensorBoard, in a run folder.

    Args:
        folder: the run.
        resumed_at: step that the run continues from; lines of later steps, written by a run that was killed, go.
    """

    def __init__(self, folder: Path, resumed_at: int = 0) -> None:
        from tensorboardX import SummaryWriter

        self.path = folder / "metrics.jsonl"
        kept = [line for line in _lines(self.path) if json.loads(line)["step"] <= resumed_at]
        self.path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=resumed_at + 1 if resumed_at else None)

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Add one line {kind, step, ...values}; numbers go to TensorBoard as kind/name too."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        for name, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Write out what TensorBoard still holds."""
        self._board.close()


def _lines(path: Path) -> list[str]:
    """The whole lines of a file; a last line that a kill cut short is left out."""
    if not path.exists():
        return []
    return [line for line in path.read_text(encoding="utf-8").split("\n")[:-1] if line]
