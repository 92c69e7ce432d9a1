"""Intervals over seeds and documents as crossed random factors (Clark 1973; Baayen et al. 2008; Cameron et al. 2011).

Legend: R seeds, G documents, M models, S systems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.jackknife import Statistic
from posnmt.evaluation.analyse.losses import Scored
from posnmt.evaluation.analyse.moderated import PRIOR, components, moderated, suffices
from posnmt.evaluation.analyse.seeds import t_quantile, t_tails
from posnmt.evaluation.analyse.zones import Support

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its variance.

    Attributes:
        value: the mean; NaN if it is undefined.
        variance: of the mean, over documents and, with several seeds, over seeds; NaN if it cannot be estimated.
        freedom: degrees of freedom of the variance.
        support: the sentences and documents that it rests on.
        seeds: their number; with one seed, the variance is over documents only and says nothing about other seeds.
        parts: (V_g, V_r, V_gr): over documents, over seeds, and the part that is in both.
    """

    value: float
    variance: float
    freedom: float
    support: Support
    seeds: int
    parts: tuple[float, float, float] = (math.nan, 0.0, 0.0)

    @property
    def error(self) -> float:
        """Return the standard error: the square root of the variance."""
        return math.sqrt(self.variance)

    @property
    def p(self) -> float:
        """The two-sided p of a value of 0."""
        return t_tails(self.value / self.error, self.freedom) if self.variance else float(self.value == 0)

    def interval(self, level: float = LEVEL) -> tuple[float, float] | None:
        """Student's t interval with confidence `level`; None if the variance is unknown."""
        if math.isnan(self.variance):
            return None
        reach = t_quantile((1 + level) / 2, self.freedom) * self.error if self.variance else 0.0
        return self.value - reach, self.value + reach

    @property
    def sign(self) -> int:
        """1 or -1 if the estimate is decided: its interval excludes 0 and its support suffices; else 0."""
        ends = self.interval()
        if ends is None or self.support.status != "decided" or ends[0] <= 0 <= ends[1]:
            return 0
        return 1 if self.value > 0 else -1


def crossed(
    whole: np.ndarray, without: np.ndarray, support: Support, over_seeds: tuple[float, float] | None = None
) -> Estimate:
    """The mean D over seeds of a statistic D_r, with the variance max(V_g + V_r - V_gr, V_g, V_r).

    V_g = (G - 1) / G sum over g of (D_(-g) - mean)^2, the delete-one-document jackknife (CR3, MacKinnon et al. 2023);
    V_r = sum over r of (D_r - D)^2 / (R (R - 1)); V_gr = sum of the jackknife variances of D_r - D, by R (R - 1).
    The degrees of freedom are V^2 / (V_g^2 / (G* - 1) + V_r^2 / (R - 1)). With one seed V = V_g.

    Args:
        whole: D_r, `[R]`.
        without: `[G, R]` with each document left out.
        support: of the statistic; fewer than two effective documents have no variance.
        over_seeds: V_r and its degrees of freedom, if there is a better estimate: see `variance_over_seeds`.
    """
    seeds, value = len(whole), float(whole.mean())
    if not np.isfinite(value) or not np.isfinite(without).all() or support.effective < 2:
        return Estimate(value, math.nan, math.nan, support, seeds)
    documents = float(_jackknife(without.mean(axis=1)))
    if seeds == 1:
        return Estimate(value, documents, support.effective - 1, support, 1, (documents, 0.0, 0.0))
    pairs = seeds * (seeds - 1)
    by_seed, freedom = over_seeds or (float(((whole - value) ** 2).sum()) / pairs, seeds - 1)
    both = float(_jackknife(without - without.mean(axis=1, keepdims=True)).sum()) / pairs
    total = max(documents + by_seed - both, documents, by_seed)
    spread = documents**2 / (support.effective - 1) + by_seed**2 / freedom
    return Estimate(value, total, total**2 / spread if spread else math.inf, support, seeds, (documents, by_seed, both))


def _jackknife(without: np.ndarray) -> np.ndarray:
    """The jackknife variance over the first axis, the documents."""
    count = len(without)
    return np.asarray((count - 1) / count * ((without - without.mean(axis=0)) ** 2).sum(axis=0))


def variance_over_seeds(figures: np.ndarray, pair: tuple[int, int]) -> tuple[float, float]:
    """The moderated variance over seeds of the mean difference of two systems, and its degrees of freedom.

    Args:
        figures: `[S, R]` of systems that share seeds.
        pair: rows of the two systems.
    """
    systems, seeds = figures.shape
    weights = np.zeros((systems, 1))
    weights[list(pair), 0] = 1.0, -1.0
    among = components(figures[..., None], weights, np.ones((systems, seeds), dtype=bool))
    return float(moderated(among.own, among.usual, seeds)), PRIOR + seeds - 1


def models_by_seed(models: Sequence[Scored]) -> dict[str, dict[int, int]]:
    """System → seed → the index of its model.

    Raises:
        UserError: a system has two models of one seed.
    """
    systems: dict[str, dict[int, int]] = {}
    for place, model in enumerate(models):
        of_system = systems.setdefault(model.system, {})
        if model.seed in of_system:
            what = f"{models[of_system[model.seed]].name} and {model.name} are both seed {model.seed} of {model.system}"
            raise UserError(what, "the models", "name systems that differ differently, or leave one out")
        of_system[model.seed] = place
    return systems


def level_of(statistic: Statistic, models: Sequence[Scored], system: str) -> Estimate:
    """The figure of one system, the mean over its seeds."""
    places = list(models_by_seed(models)[system].values())
    return crossed(statistic.whole[places], statistic.without[:, places], statistic.support)


def shared_seeds(models: Sequence[Scored], system: str, other: str) -> list[int]:
    """The seeds of both systems, in order."""
    systems = models_by_seed(models)
    return sorted(systems[system].keys() & systems[other].keys())


def difference_of(statistic: Statistic, models: Sequence[Scored], system: str, other: str) -> Estimate:
    """The figure of `system` minus that of `other`, on the seeds that both have.

    If enough systems have these seeds, the variance over seeds is moderated (`moderated`). Systems without a common
    seed are compared by their means, as if they were single models: the variance is then over documents only.
    """
    systems = models_by_seed(models)
    seeds = shared_seeds(models, system, other)
    if not seeds:
        one, two = (list(systems[name].values()) for name in (system, other))
        whole = statistic.whole[one].mean() - statistic.whole[two].mean()
        without = statistic.without[:, one].mean(axis=1) - statistic.without[:, two].mean(axis=1)
        return crossed(np.array([whole]), without[:, None], statistic.support)
    sharing = [name for name, of_system in systems.items() if of_system.keys() >= set(seeds)]
    places = {name: [systems[name][seed] for seed in seeds] for name in sharing}
    over_seeds = None
    if suffices(len(sharing), len(seeds), len(sharing) * len(seeds)):
        figures = np.stack([statistic.whole[places[name]] for name in sharing])
        over_seeds = variance_over_seeds(figures, (sharing.index(system), sharing.index(other)))
    one, two = places[system], places[other]
    whole, without = statistic.whole[one] - statistic.whole[two], statistic.without[:, one] - statistic.without[:, two]
    return crossed(whole, without, statistic.support, over_seeds)
