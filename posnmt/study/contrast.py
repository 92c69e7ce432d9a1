"""Differences of means over seeds, and their variance over sentences and seeds.

Legend: T terms, S seeds of a term, N sentences, n those that any term is measured on, c bootstrap samples per batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import NormalDist, fmean, variance
from typing import TYPE_CHECKING

from posnmt.analyse.resample import bootstrap_sums
from posnmt.analyse.seeds import t_tails

if TYPE_CHECKING:
    import numpy as np

    from posnmt.study.evidence import Evidence, Variant

SAMPLES = 2000
SEED = 1
# With more degrees of freedom, Student's t distribution is replaced by the normal distribution.
NORMAL = 10_000


@dataclass(frozen=True)
class Term:
    """A mean over seeds that a contrast adds or subtracts.

    Attributes:
        variant: the system and its training; the seeds of two variants are independent of each other.
        places: indices of its outputs in the evidence, in the order of the seeds.
        chosen: `[N]` mask of the sentences that it is measured on.
        sign: 1 or -1, its sign on its side.
        than: whether it belongs to `than`, not to `of`.
    """

    variant: Variant
    places: list[int]
    chosen: np.ndarray
    sign: int
    than: bool


@dataclass(frozen=True)
class Estimate:
    """An estimate with its variance over sentences and seeds.

    Attributes:
        value: the estimate.
        variance: of the value.
        freedom: degrees of freedom of the variance; may be infinite.
        over_sentences: the part of the variance that more seeds would not lower.
    """

    value: float
    variance: float
    freedom: float
    over_sentences: float = 0.0

    def interval(self, level: float) -> tuple[float, float]:
        """Student's t interval with confidence `level`, from 0 to 1."""
        reach = t_quantile((1 + level) / 2, self.freedom) * math.sqrt(self.variance)
        return self.value - reach, self.value + reach


@dataclass(frozen=True)
class Contrast:
    """`of` - `than`, or, if relative, `of` / `than` - 1.

    Attributes:
        evidence: of one analysis.
        measure: one of `evidence.measures`.
        terms: of both sides; at least one of `of`.
        relative: as above.
    """

    evidence: Evidence
    measure: str
    terms: Sequence[Term]
    relative: bool = False

    @cached_property
    def scores(self) -> list[np.ndarray]:
        """For each term, the scores `[S]` of its seeds' outputs on the term's sentences."""
        import numpy as np

        scores = []
        for term in self.terms:
            table = self.evidence.table(self.measure, np.flatnonzero(term.chosen), term.places)
            scores.append(table.measure(table.rows.sum(axis=0))[self.measure])
        return scores

    @cached_property
    def sides(self) -> tuple[float, float]:
        """The estimates of `of` and `than`; `than` is 0 without terms."""
        import numpy as np

        of, than = self._sides(np.array([scores.mean() for scores in self.scores]))
        return float(of), float(than)

    @property
    def value(self) -> float:
        """The contrast; NaN if it is undefined."""
        of, than = self.sides
        return of / than - 1 if self.relative else of - than

    def estimate(self) -> Estimate:
        """The contrast and its variance: that over sentences, plus that over the seeds of each variant.

        A variant with sample variance s^2 over its seeds and coefficient g contributes g^2 s^2 / S, with S - 1 degrees
        of freedom; the contribution of the sentences counts as having infinitely many. The degrees of freedom of the
        sum follow Welch (1947) and Satterthwaite (1946). Interactions of seeds and sentences are in both
        contributions, so the variance is conservative.
        """
        over_seeds = self._seed_variances()
        over_sentences = self._sentence_variance()
        total = over_sentences + sum(part for part, _ in over_seeds)
        return Estimate(self.value, total, satterthwaite(total, over_seeds), over_sentences)

    def _sides(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`of` and `than` from the terms' means `[..., T]`, both `[...]`."""
        import numpy as np

        weights = np.array([[term.sign * (term.than == side) for term in self.terms] for side in (False, True)])
        return means @ weights[0], means @ weights[1]

    def _coefficients(self) -> list[float]:
        """The derivative of the contrast with respect to the mean of each term, `[T]`."""
        of, than = self.sides
        by_side = (1 / than, -of / than**2) if self.relative else (1.0, -1.0)
        return [term.sign * by_side[term.than] for term in self.terms]

    def _seed_variances(self) -> list[tuple[float, int]]:
        """The variance and degrees of freedom that each variant contributes; its terms share its seeds."""
        parts: dict[Variant, np.ndarray] = {}
        for term, scores, coefficient in zip(self.terms, self.scores, self._coefficients(), strict=True):
            parts[term.variant] = parts.get(term.variant, 0) + coefficient * scores
        return [(float(part.var(ddof=1)) / len(part), len(part) - 1) for part in parts.values()]

    def _sentence_variance(self) -> float:
        """The variance over bootstrap samples of sentences, which all outputs share.

        Samples are drawn from all sentences that any term is measured on, so terms on different lengths share them.
        """
        import numpy as np

        chosen = np.stack([term.chosen for term in self.terms], axis=1)
        sentences = np.flatnonzero(chosen.any(axis=1))
        # Sentences that the same terms are measured on form a group; a term's sum is the sum of its groups.
        members, groups = np.unique(chosen[sentences], axis=0, return_inverse=True)
        places = sorted({place for term in self.terms for place in term.places})
        table = self.evidence.table(self.measure, sentences, places)
        at = [[places.index(place) for place in term.places] for term in self.terms]
        values = []
        for sums in bootstrap_sums(table.rows, groups.reshape(-1), len(members), SAMPLES, SEED):
            of_groups = sums[:, 1:]  # [c, groups, outputs, K]
            means = []
            for term, of_term in enumerate(at):
                of_outputs = of_groups[:, members[:, term]][:, :, of_term].sum(axis=1)
                means.append(table.measure(of_outputs)[self.measure].mean(axis=-1))
            of, than = self._sides(np.stack(means, axis=-1))
            with np.errstate(divide="ignore", invalid="ignore"):
                values.append(of / than - 1 if self.relative else of - than)
        # Samples without any sentence of some term are not finite, and left out.
        sampled = np.concatenate(values)
        return float(sampled[np.isfinite(sampled)].var(ddof=1))


def paired(of: Sequence[float], than: Sequence[float], relative: bool) -> Estimate:
    """The contrast of two figures that were measured in turn: its mean over the turns, and the variance of the mean.

    Args:
        of, than: a figure of each turn, two turns or more.
        relative: as in `Contrast`.
    """
    values = [one / other - 1 if relative else one - other for one, other in zip(of, than, strict=True)]
    return Estimate(fmean(values), variance(values) / len(values), len(values) - 1)


def satterthwaite(total: float, parts: Sequence[tuple[float, int]]) -> float:
    """The degrees of freedom of a variance, of which some parts have finitely many.

    Args:
        total: the variance.
        parts: of the variance, each with its degrees of freedom.
    """
    by_freedom = sum(part**2 / freedom for part, freedom in parts)
    return total**2 / by_freedom if by_freedom else math.inf


@cache
def t_quantile(share: float, freedom: float) -> float:
    """The quantile of Student's t distribution at `share` >= 0.5, with `freedom` >= 1 degrees of freedom."""
    if freedom > NORMAL:
        return NormalDist().inv_cdf(share)
    low, high = 0.0, 1.0
    while t_tails(high, freedom) > 2 * (1 - share):
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if t_tails(middle, freedom) > 2 * (1 - share) else (low, middle)
    return high
