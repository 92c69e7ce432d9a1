"""The metrics of a training: lines of metrics.jsonl, and the same numbers for loggers and the progress display."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from posnmt.base.output import sync, write_text
from posnmt.training.build import Training
from posnmt.training.loggers import LOGGERS, Guarded
from posnmt.training.progress import Outcome, Progress, Update, Window


class Metrics:
    """Metrics as JSONL in a run folder, and for the loggers of `train.loggers`; written by the first process.

    Args:
        t: the training; lines after its current step are removed.
        folder: the run folder.

    Attributes:
        count: lines written so far.
    """

    def __init__(self, t: Training, folder: Path) -> None:
        self.path, self.count = folder / "metrics.jsonl", 0
        self._writes, self._config, self._display = t.fabric.is_global_zero, t.config, t.display
        self._loggers: list[Guarded] = []
        if lost := self.rewind(t.progress):
            self._warn(f"{lost} lines of {self.path} are damaged or missing")

    def rewind(self, progress: Progress) -> int:
        """Remove the lines that were written after this progress; return how many before it are damaged or missing."""
        if not self._writes:
            return 0
        self.close()
        step, count = progress.step, progress.metrics
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines() if self.path.exists() else []
        kept = [line for line in lines[:count] if _step(line) <= step]
        self.count = len(kept)
        write_text(self.path, "".join(line + "\n" for line in kept))
        tree = self._config.model_dump(mode="json")
        self._loggers = [
            Guarded(name, partial(LOGGERS[name], self.path.parent, step, tree), self._warn)
            for name in dict.fromkeys(self._config.train.loggers)
        ]
        return count - len(kept)

    def add(self, t: Training, update: Update, outcome: Outcome) -> None:
        """Add an update to the sums and show them; every `train.log_every` updates, write them as a line."""
        train, progress = t.config.train, t.progress
        spent = t.spend()
        progress.clock.add_update(spent)
        progress.window.add(outcome, *t.plan.tokens(update.batches), spent)
        then = replace(progress, step=update.step, cursor=update.cursor)  # there may be newer updates already
        self._display.show("training", *then.shown(train, len(t.plan.of(then.cursor))))
        if update.step % train.log_every == 0:
            figures = {**progress.window.figures(), "learning_rate": update.rate, "epoch": update.cursor.epoch}
            self.write("train", then, figures)
            progress.window = Window()

    def write(self, kind: str, progress: Progress, figures: dict[str, Any]) -> None:
        """Append one line {kind, step, ...figures, seconds}; loggers receive the numbers under the names kind/name."""
        if not self._writes:
            return
        figures = {**figures, "seconds": progress.seconds}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": progress.step, **figures}) + "\n")
        self.count += 1
        numbers = {
            f"{kind}/{name}": float(value)
            for name, value in figures.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        for logger in self._loggers:
            logger.log(progress.step, numbers)

    def sync(self) -> None:
        """Wait until the lines are on the disk."""
        sync(self.path)

    def close(self) -> None:
        """Close the loggers, each after its last number."""
        for logger in self._loggers:
            logger.close()

    def _warn(self, message: str) -> None:
        self._display.say(f"warning: {message}")


def _step(line: str) -> float:
    """The step of a line of metrics; infinite if the line is truncated or damaged."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return math.inf
