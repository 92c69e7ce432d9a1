"""Learning rate schedules: those of the papers, the usual one, and those that end with the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from posnmt.config.schema import WARMUP, Schedule, Train
from posnmt.run import defaults


def learning_rate(step: int, train: Train, d_model: int, decays: int = 0, share: float = 0.0) -> float:
    """The rate of update number `step` (the first is 1), with `share` of the budget spent before it.

    If `warmup` is below 1, it is a share of the budget, and "step" below is the share that is spent.

    - constant: linear growth over `warmup` steps, then constant.
    - noam: `factor x d^-0.5 x min(step^-0.5, step x warmup^-1.5)` (Vaswani et al. 2017 eq. 3; C19a, C19b, N19's code).
    - inverse-square-root: linear growth to `learning_rate`, then `learning_rate x sqrt(warmup / step)`.
    - plateau: as constant, times `decay` for each decay due to dev perplexity (R19: 3e-4, 0.9).
    - cosine: linear growth, times half a cosine that falls to 0 at the end of the budget (Loshchilov & Hutter 2017).

    With `cooldown: c`, each is multiplied by a factor that falls linearly to 0 over the last share c of the budget
    (Hägele et al. 2024; with `constant` it is known as warm-up, stable, decay).
    """
    warmup, cooldown = warmup_and_cooldown(train, (step - 1) / share if share else math.inf)
    factor = min(1.0, max(0.0, 1.0 - share) / cooldown) if cooldown else 1.0
    return factor * _before_cooldown(step, warmup, train, d_model, decays, share)


def warmup_and_cooldown(train: Train, updates: float) -> tuple[float, float]:
    """`warmup` and `cooldown` from the configuration, or defaults that depend on the kind of budget.

    For a budget in minutes, both depend on the number of updates that will fit into it.

    Args:
        updates: of the whole training, as far as it can be known now.
    """
    schedule = train.schedule
    warmup, cooldown = float(WARMUP), 0.0
    if train.minutes is not None and schedule.type not in ("noam", "plateau"):
        warmup = float(defaults.warmup(updates, train.init is not None))
        cooldown = 0.0 if schedule.type == "cosine" else defaults.cooldown(updates)  # a cosine falls to 0 anyway
    return (
        warmup if schedule.warmup is None else schedule.warmup,
        cooldown if schedule.cooldown is None else schedule.cooldown,
    )


def _before_cooldown(step: int, warmup: float, train: Train, d_model: int, decays: int, share: float) -> float:
    schedule, peak = train.schedule, train.learning_rate
    at = share if 0 < warmup < 1 else step
    growth = min(1.0, at / warmup) if warmup else 1.0
    if schedule.type == "constant":
        return peak * growth
    if schedule.type == "plateau":
        return max(peak * growth * schedule.decay**decays, min(schedule.minimum, peak * growth))
    if schedule.type == "cosine":
        return peak * growth * 0.5 * (1.0 + math.cos(math.pi * min(1.0, share)))
    if schedule.type == "noam":
        return peak * d_model**-0.5 * min(step**-0.5, step * max(1.0, warmup) ** -1.5)
    return peak * growth * ((warmup or 1.0) / at) ** 0.5 if at > (warmup or 1.0) else peak * growth


@dataclass
class Plateau:
    """Counts evaluations without a better dev perplexity, and the decays that follow (R19: after 6, rate x 0.9)."""

    best: float = float("inf")
    waited: int = 0
    decays: int = 0

    def observe(self, perplexity: float, schedule: Schedule) -> None:
        """Update the counts with the result of one evaluation."""
        if perplexity < self.best:
            self.best, self.waited = perplexity, 0
            return
        self.waited += 1
        if self.waited >= schedule.patience:
            self.decays, self.waited = self.decays + 1, 0
