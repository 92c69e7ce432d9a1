"""Differences between means over seeds, and what chance does to them: other sentences, and other seeds.

Legend: T terms, S seeds of a term, N sentences, n those that any term is measured on, c bootstrap samples at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

from posnmt.analyse.resample import bootstrap_sums
from posnmt.analyse.seeds import t_tails

if TYPE_CHECKING:
    import numpy as np

    from posnmt.study.evidence import Evidence, Variant

SAMPLES = 2000
SEED = 1
# With more degrees of freedom Student's t and the normal distribution differ by less than a figure shows.
NORMAL = 10_000


@dataclass(frozen=True)
class Term:
    """A mean over seeds that a contrast adds or subtracts.

    Attributes:
        variant: the system and its training; the seeds of two variants are independent of each other.
        places: of its outputs in the evidence, in the order of the seeds.
        chosen: `[N]` whether it is measured on a sentence.
        sign: 1 or -1: how it counts on its side.
        than: whether it is on the side that is compared with.
    """

    variant: Variant
    places: list[int]
    chosen: np.ndarray
    sign: int
    than: bool


@dataclass(frozen=True)
class Estimate:
    """A value that would be another with other sentences and seeds.

    Attributes:
        value: the estimate.
        variance: of it, over sentences and seeds.
        freedom: degrees of freedom of the variance; may be infinite.
    """

    value: float
    variance: float
    freedom: float

    def interval(self, level: float) -> tuple[float, float]:
        """Student's t interval that holds the true value in a share `level` of all studies."""
        reach = t_quantile((1 + level) / 2, self.freedom) * math.sqrt(self.variance)
        return self.value - reach, self.value + reach


@dataclass(frozen=True)
class Contrast:
    """`of` less `than`, or, if relative, by which share of `than` it is more: of / than - 1.

    Attributes:
        evidence: of one analysis.
        measure: one of `evidence.measures`, or None where `figures` has the scores.
        terms: of both sides; at least one of `of`.
        relative: as above.
        figures: for each term a figure of each seed that is no function of sentences (a speed).
    """

    evidence: Evidence
    measure: str | None
    terms: Sequence[Term]
    relative: bool = False
    figures: Sequence[Sequence[float]] | None = None

    @cached_property
    def scores(self) -> list[np.ndarray]:
        """For each term the score of each seed's output on the term's sentences, `[S]`."""
        import numpy as np

        if self.figures is not None:
            return [np.array(each, float) for each in self.figures]
        assert self.measure is not None
        scores = []
        for term in self.terms:
            table = self.evidence.table(self.measure, np.flatnonzero(term.chosen), term.places)
            scores.append(table.measure(table.rows.sum(axis=0))[self.measure])
        return scores

    @cached_property
    def sides(self) -> tuple[float, float]:
        """The estimates of `of` and of `than`; `than` is 0 where there is none."""
        import numpy as np

        of, than = self._sides(np.array([scores.mean() for scores in self.scores]))
        return float(of), float(than)

    @property
    def value(self) -> float:
        """The contrast; NaN where a figure is not defined."""
        of, than = self.sides
        return of / than - 1 if self.relative else of - than

    def estimate(self) -> Estimate:
        """The contrast and its variance: over sentences, plus over the seeds of each variant.

        A variant whose seeds have the sample variance s^2 and that counts with the coefficient g adds g^2 s^2 / S, with
        S - 1 degrees of freedom; the part of the sentences has so many that they count as infinite. The degrees of
        freedom of the sum are Welch's (1947) and Satterthwaite's (1946). What a seed makes of single sentences is in
        both parts, so that the variance is rather too large than too small.
        """
        over_seeds = self._seed_variances()
        variance = self._sentence_variance() + sum(part for part, _ in over_seeds)
        by_freedom = sum(part**2 / freedom for part, freedom in over_seeds)
        return Estimate(self.value, variance, variance**2 / by_freedom if by_freedom else math.inf)

    def _sides(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`of` and `than` from the terms' means `[..., T]`, both `[...]`."""
        import numpy as np

        weights = np.array([[term.sign * (term.than == side) for term in self.terms] for side in (False, True)])
        return means @ weights[0], means @ weights[1]

    def _coefficients(self) -> list[float]:
        """How the contrast changes with the mean of each term, `[T]`."""
        of, than = self.sides
        by_side = (1 / than, -of / than**2) if self.relative else (1.0, -1.0)
        return [term.sign * by_side[term.than] for term in self.terms]

    def _seed_variances(self) -> list[tuple[float, int]]:
        """For each variant its part of the variance and its degrees of freedom; terms of a variant share its seeds."""
        parts: dict[Variant, np.ndarray] = {}
        for term, scores, coefficient in zip(self.terms, self.scores, self._coefficients(), strict=True):
            parts[term.variant] = parts.get(term.variant, 0) + coefficient * scores
        return [(float(part.var(ddof=1)) / len(part), len(part) - 1) for part in parts.values()]

    def _sentence_variance(self) -> float:
        """The variance over bootstrap samples, each of the same sentences for every output; 0 for figures of runs.

        The sentences that any term is measured on are drawn together, so that terms on different lengths share them.
        """
        import numpy as np

        if self.measure is None:
            return 0.0
        chosen = np.stack([term.chosen for term in self.terms], axis=1)
        sentences = np.flatnonzero(chosen.any(axis=1))
        # Sentences that the same terms are measured on are a group: the sums of a term are those of its groups.
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
        # A sample without a sentence of some term says nothing.
        sampled = np.concatenate(values)
        return float(sampled[np.isfinite(sampled)].var(ddof=1))


def t_quantile(share: float, freedom: float) -> float:
    """Where Student's t with `freedom` >= 1 degrees of freedom is below with chance `share`, from 0.5 on."""
    if freedom > NORMAL:
        return NormalDist().inv_cdf(share)
    low, high = 0.0, 1.0
    while t_tails(high, freedom) > 2 * (1 - share):
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if t_tails(middle, freedom) > 2 * (1 - share) else (low, middle)
    return high
