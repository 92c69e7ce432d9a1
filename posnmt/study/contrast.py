"""Differences of means over seeds, and their variance over sentences and seeds.

Legend: T terms, S seeds of a term, N sentences, n those that any term is measured on, c bootstrap samples per batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
        over_seeds: the parts of the variance that more seeds would lower, one of each system, with its degrees of
            freedom, one less than its seeds.
    """

    value: float
    variance: float
    freedom: float
    over_seeds: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, value: float, over_sentences: float, over_seeds: Sequence[tuple[float, float]]) -> Estimate:
        """The estimate whose variance has a part over sentences, and `over_seeds`.

        The degrees of freedom follow Welch (1947) and Satterthwaite (1946); the sentences have infinitely many.
        """
        total = over_sentences + sum(part for part, _ in over_seeds)
        by_freedom = sum(part**2 / freedom for part, freedom in over_seeds)
        return cls(value, total, total**2 / by_freedom if by_freedom else math.inf, tuple(over_seeds))

    def with_seeds(self, seeds: float) -> Estimate:
        """The estimate as it would be if each system had so many seeds or more, and all else stayed as it is."""
        over_sentences = max(0.0, self.variance - sum(part for part, _ in self.over_seeds))
        counted = [(part, freedom + 1, max(freedom + 1, seeds)) for part, freedom in self.over_seeds]
        over_seeds = [(part * now / then, then - 1) for part, now, then in counted]
        return Estimate.of(self.value, over_sentences, over_seeds)

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
        of freedom. What a seed does to single sentences is in this contribution alone.
        """
        over_seeds = self._seed_variances()
        return Estimate.of(self.value, self._sentence_variance(over_seeds), list(over_seeds.values()))

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

    def _by_variant(self, scores: Sequence[np.ndarray]) -> dict[Variant, np.ndarray]:
        """What each variant's seeds contribute `[..., S]`, from `[..., S]` of each term; its terms share its seeds."""
        parts: dict[Variant, np.ndarray] = {}
        for term, of_term, coefficient in zip(self.terms, scores, self._coefficients(), strict=True):
            parts[term.variant] = parts.get(term.variant, 0) + coefficient * of_term
        return parts

    def _seed_variances(self) -> dict[Variant, tuple[float, int]]:
        """The variance and degrees of freedom that each variant contributes."""
        parts = self._by_variant(self.scores)
        return {variant: (float(part.var(ddof=1)) / len(part), len(part) - 1) for variant, part in parts.items()}

    def _sentence_variance(self, over_seeds: Mapping[Variant, tuple[float, int]]) -> float:
        """The variance over bootstrap samples of sentences, which all outputs share, without that of `over_seeds`.

        Samples are drawn from all sentences that any term is measured on, so terms on different lengths share them.
        In a sample, the seeds of a variant also vary by what each does to single sentences. That adds to the variance
        of their mean, and is in `over_seeds` already: it is subtracted here.
        """
        import numpy as np

        chosen = np.stack([term.chosen for term in self.terms], axis=1)
        sentences = np.flatnonzero(chosen.any(axis=1))
        # Sentences that the same terms are measured on form a group; a term's sum is the sum of its groups.
        members, groups = np.unique(chosen[sentences], axis=0, return_inverse=True)
        places = sorted({place for term in self.terms for place in term.places})
        table = self.evidence.table(self.measure, sentences, places)
        at = [[places.index(place) for place in term.places] for term in self.terms]
        values, within = [], []
        for sums in bootstrap_sums(table.rows, groups.reshape(-1), len(members), SAMPLES, SEED):
            of_groups = sums[:, 1:]  # [c, groups, outputs, K]
            scores = []  # [c, S] of each term
            for term, of_term in enumerate(at):
                of_outputs = of_groups[:, members[:, term]][:, :, of_term].sum(axis=1)
                scores.append(table.measure(of_outputs)[self.measure])
            of, than = self._sides(np.stack([of_term.mean(axis=-1) for of_term in scores], axis=-1))
            with np.errstate(divide="ignore", invalid="ignore"):
                values.append(of / than - 1 if self.relative else of - than)
            parts = self._by_variant(scores).values()
            within.append(np.stack([part.var(axis=-1, ddof=1) / part.shape[-1] for part in parts], axis=-1))
        sampled = np.concatenate(values)
        # Samples without any sentence of some term are not finite, and left out.
        finite = np.isfinite(sampled)
        by_variant = np.concatenate(within)[finite].mean(axis=0)
        counted_twice = (by_variant - [part for part, _ in over_seeds.values()]).clip(min=0).sum()
        return max(0.0, float(sampled[finite].var(ddof=1) - counted_twice))


def paired(of: Sequence[float], than: Sequence[float], relative: bool) -> Estimate:
    """The contrast of two figures that were measured in turn: its mean over the turns, and the variance of the mean.

    Args:
        of, than: a figure of each turn, two turns or more.
        relative: as in `Contrast`.
    """
    values = [one / other - 1 if relative else one - other for one, other in zip(of, than, strict=True)]
    return Estimate(fmean(values), variance(values) / len(values), len(values) - 1)


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
