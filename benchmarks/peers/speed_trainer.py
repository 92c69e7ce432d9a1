"""What every toolkit that is measured has to say of itself: how it is started, and what its log tells."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from posnmt.config.systems import SIZES
from posnmt_position.relative import Relative

REPORT = 10
"""Updates between two lines of every log."""


class Report(NamedTuple):
    """The updates since the last report of a log: `step` is the last of them."""

    step: int
    tokens: float
    """real target tokens, the ends of sentences included"""
    seconds: float


@dataclass(frozen=True)
class Job:
    """One training.

    Attributes:
        system: `transformer` (sinusoids) or `relative` (Shaw), or another of posnmt's for posnmt alone.
        size: small or base.
        updates: how many to make.
        batch: padded tokens of a batch on either side.
        corpus: the tokenised text.
        data: what `speed_data.py` wrote.
        folder: the training may write there.
        environment: the toolkit's virtual environment.
        seed: of the weights, the order of the batches and what is dropped.
        warmup: updates in which the learning rate grows.
        evaluate_every: updates between two evaluations on dev; 0: none.
        rate: the highest learning rate.
        schedule: `inverse-square-root`, or `linear`: to 0 at the last update. Other than the first for fairseq alone.
        dropout: of embeddings and sub-layers. Other than 0.1 for fairseq alone.
        on_gpu: whether to train on a GPU; for fairseq alone.
    """

    system: str
    size: str
    updates: int
    batch: int
    corpus: Path
    data: Path
    folder: Path
    environment: Path
    seed: int = 1
    warmup: int = 600
    evaluate_every: int = 0
    rate: float = 1e-3
    schedule: str = "inverse-square-root"
    dropout: float = 0.1
    on_gpu: bool = False

    @property
    def shape(self) -> dict[str, int]:
        """width, feed_forward, heads, layers (of each stack)."""
        size = SIZES[self.size]
        return {
            "width": size["d_model"],
            "feed_forward": size["feed_forward"],
            "heads": size["heads"],
            "layers": size["encoder"]["layers"],
        }

    @property
    def distance(self) -> int:
        """The distance at which the relative system clips, in words."""
        return Relative.Settings().distance

    def write(self, name: str, content: dict[str, Any]) -> Path:
        """A configuration as JSON, which is YAML, in the folder."""
        path = self.folder / name
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8", newline="\n")
        return path

    def program(self, name: str) -> Path:
        """A command of the environment."""
        return self.environment.absolute() / "bin" / name


@dataclass(frozen=True)
class Trainer:
    """A toolkit.

    Attributes:
        key: of its environment's folder and packages, `constraints-KEY.txt`; empty for posnmt itself.
        name: as the table has it.
        package: as pip has it, for its version.
        command: writes its configuration into the job's folder; what is to be run.
        reports: its reports, from the job and what it printed.
        systems: what it can train.
        setup: what must be run once, on the data.
    """

    key: str
    name: str
    package: str
    command: Callable[[Job], list[str | Path]]
    reports: Callable[[Job, str], list[Report]]
    systems: tuple[str, ...] = ("transformer",)
    setup: Callable[[Job], list[str | Path]] | None = None


class TrainingFailed(Exception):
    """A toolkit could not be installed, did not end well, or said too little; the message is one line."""


def run(command: list[str | Path], log: Path) -> str:
    """Run a command of a toolkit and keep what it prints; that text.

    Raises:
        TrainingFailed: it ended with an error; names the log.
    """
    variables = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(command, env=variables, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    text = log.read_text(encoding="utf-8", errors="replace")
    if status:
        last = [line.strip() for line in text.splitlines() if line.strip()][-1:]
        raise TrainingFailed(f"status {status}: {' '.join(last)[:200]} (see {log})")
    return text


def speed(reports: list[Report], left_out: int) -> tuple[float, float]:
    """Real target tokens a second, and an update, over the reports of what came after the first updates.

    Raises:
        TrainingFailed: there are none.
    """
    counted = [report for report in reports if report.step > left_out]
    if not counted:
        raise TrainingFailed(f"its log has no report after update {left_out}")
    tokens = sum(report.tokens for report in counted)
    return tokens / sum(report.seconds for report in counted), tokens / (len(counted) * REPORT)


def by_pattern(pattern: str) -> Callable[[Job, str], list[Report]]:
    """A reader of logs whose reports match a pattern with the groups step; tokens (target tokens since the last report)
    or mean (an update); seconds (since the last report) or rate (target tokens a second)."""

    def reports(_: Job, log: str) -> list[Report]:
        found = []
        for match in re.finditer(pattern, log):
            figures = {name: float(value) for name, value in match.groupdict().items()}
            tokens = figures["tokens"] if "tokens" in figures else figures["mean"] * REPORT
            seconds = figures["seconds"] if "seconds" in figures else tokens / figures["rate"]
            found.append(Report(int(figures["step"]), tokens, seconds))
        return found

    return reports
