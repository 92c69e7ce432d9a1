"""Where the time of a run goes, and what is therefore left of a budget in minutes.

What is left is estimated anew before each update. So a machine that becomes faster makes more updates, one that becomes
slower makes fewer, and the learning rate falls to 0 at the end of either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median, median_low

from posnmt.config.schema import Train
from posnmt.run import defaults

RECENT = 11
"""Updates whose median is the time of the next ones: one that stalls does not count."""

LATEST = 3
"""Evaluations whose lower median is the time of the next ones; of two it is the shorter."""


@dataclass
class Clock:
    """The time of updates and evaluations, in seconds.

    Attributes:
        updates: of each of the newest updates.
        evaluations: of each of the newest evaluations; before the first, what was measured before the run.
        evaluating: of all evaluations together.
        evaluated: of the run, at the end of the newest evaluation.
    """

    updates: list[float] = field(default_factory=list)
    evaluations: list[float] = field(default_factory=list)
    evaluating: float = 0.0
    evaluated: float = 0.0

    def add_update(self, seconds: float) -> None:
        """Add the duration of an update."""
        self.updates = [*self.updates, seconds][-RECENT:]

    def add_evaluation(self, seconds: float, now: float) -> None:
        """Add the duration of an evaluation that ended when the run had taken `now` seconds."""
        self.evaluations = [*(self.evaluations if self.evaluating else ()), seconds][-LATEST:]
        self.evaluating += seconds
        self.evaluated = now

    def end(self, train: Train) -> float:
        """When updates end, in seconds of the run, so that the last evaluations fit into the minutes."""
        assert train.minutes is not None
        return max(0.0, 60 * train.minutes - self._closing(train))

    def is_due(self, train: Train, now: float) -> bool:
        """Whether to evaluate at `now` seconds of a run whose evaluations follow the clock."""
        between = self._between(train)
        return between > 0 and now - self.evaluated >= (self.end(train) - self.evaluated) / (between + 1)

    def updates_left(self, train: Train, now: float) -> float:
        """How many updates fit into the rest of the minutes, at the recent speed; infinite if it is unknown."""
        if not self.updates:
            return math.inf
        room, update = self.end(train) - now, median(self.updates)
        if train.evaluate_every is None:
            room -= self._between(train) * self._evaluation
        else:
            update += self._evaluation / train.evaluate_every
        return max(0.0, room) / max(update, 1e-9)

    @property
    def _evaluation(self) -> float:
        return median_low(self.evaluations) if self.evaluations else 0.0

    def _closing(self, train: Train) -> float:
        """Seconds that are kept for the end: to evaluate the last weights, and an average if there will be one."""
        assert train.minutes is not None
        return min(self._evaluation * (1 + (train.average > 1)), defaults.EVALUATING * 60 * train.minutes)

    def _between(self, train: Train) -> int:
        """How many evaluations are still to come before the last one, evenly over the time that is left."""
        assert train.minutes is not None
        budget, each = 60 * train.minutes, self._evaluation
        slots = round(defaults.evaluations(train.minutes) * (1 - self.evaluated / budget)) - 1
        if each:
            slots = min(slots, int((defaults.EVALUATING * budget - self.evaluating - self._closing(train)) / each))
        return max(0, slots)
