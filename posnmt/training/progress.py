"""The progress of a run: the state in a checkpoint besides weights and moments, and its display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posnmt.base.progress import duration
from posnmt.config.schema import Train
from posnmt.data.batch import Cursor
from posnmt.training.clock import Clock
from posnmt.training.schedule import Plateau


@dataclass(frozen=True)
class Update:
    """One update, as the device was given it.

    Attributes:
        step: its number, from 1.
        cursor: where the batches of the next update begin.
        rate: the learning rate.
        batches: the numbers of the pairs of each batch, over all processes and accumulation rounds.
        values: [3] float64, on the CPU: those of `Outcome`, once `copied` has happened.
        copied: None if the values are there.
    """

    step: int
    cursor: Cursor
    rate: float
    batches: Sequence[NDArray[np.int64]]
    values: Tensor
    copied: torch.cuda.Event | None

    def outcome(self) -> Outcome:
        """Wait until the device has made the update, and read its values."""
        if self.copied is not None:
            self.copied.synchronize()
        return Outcome(*self.values.tolist())


def on_host(values: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """Copy values to the CPU without waiting; they are there once the event has happened, if there is one."""
    if values.device.type != "cuda":
        return values, None
    copy = torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record()
    return copy, copied


@dataclass(frozen=True)
class Outcome:
    """One update, over all processes.

    Attributes:
        loss, likelihood: the loss and the negative log-likelihood, summed over the target tokens.
        norm: of the gradient, before it was clipped.
    """

    loss: float
    likelihood: float
    norm: float

    @property
    def fault(self) -> str | None:
        """What is not finite, so that the update was not made; None if everything is finite."""
        named = {"loss": self.loss + self.likelihood, "gradient": self.norm}
        return next((name for name, value in named.items() if not math.isfinite(value)), None)


@dataclass
class Window:
    """Sums over the updates since the last line of metrics."""

    loss: float = 0.0
    likelihood: float = 0.0
    target_tokens: int = 0
    source_tokens: int = 0
    seconds: float = 0.0

    def add(self, update: Outcome, source_tokens: int, target_tokens: int, seconds: float) -> None:
        """Add one update, its tokens and its duration."""
        self.loss += update.loss
        self.likelihood += update.likelihood
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens
        self.seconds += seconds

    def figures(self) -> dict[str, float]:
        """Loss and perplexity per target token, and speed."""
        return {
            "loss": self.loss / self.target_tokens,
            "perplexity": math.exp(min(self.likelihood / self.target_tokens, 700.0)),
            "target_tokens": self.target_tokens,
            "target_tokens_per_second": self.target_tokens / self.seconds,
            "source_tokens_per_second": self.source_tokens / self.seconds,
        }


@dataclass
class Progress:
    """The progress of a run.

    Attributes:
        step: updates made.
        cursor: the next batch.
        seconds: spent in training and evaluation, resumes included.
        best: the best `selection_score` on dev so far, None before the first evaluation.
        best_step: the step of `best`.
        waited: evaluations since `best`.
        plateau: state of the plateau schedule.
        window: sums since the last line of metrics.
        saved: the step of the newest checkpoint.
        evaluated: the step of the newest checkpoint at which dev was evaluated.
        metrics: lines of metrics written before the newest checkpoint.
        skipped: how many updates in a row, up to the last one, were not made because they were not finite.
        halvings: how often the run went back to a checkpoint and halved its learning rate.
        clock: what updates and evaluations take.
    """

    step: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    seconds: float = 0.0
    best: tuple[float, float] | None = None
    best_step: int = 0
    waited: int = 0
    plateau: Plateau = field(default_factory=Plateau)
    window: Window = field(default_factory=Window)
    saved: int = -1
    evaluated: int = -1
    metrics: int = 0
    skipped: int = 0
    halvings: int = 0
    clock: Clock = field(default_factory=Clock)

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Progress:
        """Progress from the state in a checkpoint."""
        parts = {"cursor": Cursor, "plateau": Plateau, "window": Window, "clock": Clock}
        if state["best"] is not None:
            state = {**state, "best": tuple(state["best"])}  # a list in JSON
        return cls(**{key: parts[key](**value) if key in parts else value for key, value in state.items()})

    def observe(self, selection_score: tuple[float, float]) -> bool:
        """Record a selection score on dev (larger is better); return whether it is the best so far."""
        if self.best is None or selection_score > self.best:
            self.best, self.best_step, self.waited = selection_score, self.step, 0
            return True
        self.waited += 1
        return False

    def share(self, train: Train, batches_in_epoch: int) -> float:
        """The largest share of the budgets of steps, epochs and minutes that is spent.

        Of minutes it is the share of the updates that will fit into them.
        """
        spent = max(
            self.step / train.steps if train.steps else 0.0,
            self.epochs(batches_in_epoch) / train.epochs if train.epochs else 0.0,
            self._of_updates(train) if train.minutes else 0.0,
        )
        return min(1.0, spent)

    def _of_updates(self, train: Train) -> float:
        left = self.clock.updates_left(train, self.seconds)
        return self.step / (self.step + left) if self.step else 0.0

    def epochs(self, batches_in_epoch: int) -> float:
        """Return how often the training text has been read, with the current fraction."""
        return self.cursor.epoch + self.cursor.batch / max(1, batches_in_epoch)

    def shown(self, train: Train, batches_in_epoch: int) -> tuple[float, str]:
        """The share of the budget that is spent, and a line of status."""
        share, epoch = self.share(train, batches_in_epoch), self.epochs(batches_in_epoch)
        if train.minutes and not (train.steps or train.epochs):
            share = min(1.0, self.seconds / (60 * train.minutes))  # of the time, which is what people wait for
        left = duration(self.seconds * (1 - share) / share) if share else "?"
        loss = self.window.loss / max(1, self.window.target_tokens)
        speed = self.window.target_tokens / max(1e-9, self.window.seconds)
        return share, f"step {self.step:,}  epoch {epoch:.1f}  loss {loss:.3f}  {speed:,.0f} tokens/s  {left} left"
