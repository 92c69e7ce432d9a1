"""An estimate, its variance over sentences and seeds, and its interval and p by Student's t distribution."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np

from posnmt.evaluation.analyse.moderated import PRIOR, components, moderated
from posnmt.evaluation.analyse.seeds import NORMAL, t_quantile, t_tails


class Undecidable(Exception):
    """A comparison cannot be decided; the message is the reason."""


@dataclass(frozen=True)
class Part:
    """A part of the variance of an estimate that more seeds would lower.

    Attributes:
        variance: its size.
        freedom: its degrees of freedom.
        seeds: number of seeds that it is estimated from.
    """

    variance: float
    freedom: float
    seeds: int

    def with_seeds(self, seeds: float) -> Part:
        """The part as it would be with at least so many seeds that vary as much."""
        more = max(0.0, seeds - self.seeds)
        variance = self.variance * self.seeds / (self.seeds + more)
        return Part(variance, self.freedom + more, self.seeds + more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Estimate:
    """An estimate with its variance over sentences and seeds.

    Attributes:
        value: the estimate.
        variance: of the value.
        freedom: degrees of freedom of the variance; may be infinite.
        over_seeds: the parts of the variance that more seeds would lower.
        sentences_freedom: degrees of freedom of the variance over sentences.
    """

    value: float
    variance: float
    freedom: float
    over_seeds: tuple[Part, ...] = ()
    sentences_freedom: float = math.inf

    @classmethod
    def of(
        cls, value: float, over_sentences: float, over_seeds: Sequence[Part], sentences_freedom: float = math.inf
    ) -> Estimate:
        """The estimate whose variance is the sum of a part over sentences and of parts over seeds.

        The degrees of freedom follow Welch (1947) and Satterthwaite (1946).

        Args:
            value: the estimate.
            over_sentences: the variance over sentences.
            over_seeds: the other parts.
            sentences_freedom: degrees of freedom over sentences; infinite where sentences are drawn one by one.
        """
        total = over_sentences + sum(part.variance for part in over_seeds)
        by_freedom = sum(part.variance**2 / part.freedom for part in over_seeds) + over_sentences**2 / sentences_freedom
        freedom = total**2 / by_freedom if by_freedom else math.inf
        return cls(value, total, freedom, tuple(over_seeds), sentences_freedom)

    def with_seeds(self, seeds: float) -> Estimate:
        """The estimate as it would be if each system had at least so many seeds, and nothing else changed."""
        over_sentences = max(0.0, self.variance - sum(part.variance for part in self.over_seeds))
        over_seeds = [part.with_seeds(seeds) for part in self.over_seeds]
        return Estimate.of(self.value, over_sentences, over_seeds, self.sentences_freedom)

    def interval(self, level: float) -> tuple[float, float]:
        """Student's t interval with confidence `level`, from 0 to 1."""
        reach = t_quantile((1 + level) / 2, self.freedom) * math.sqrt(self.variance)
        return self.value - reach, self.value + reach

    def p(self, margin: float = 0.0) -> float:
        """The two-sided p of the hypothesis that the true value is `margin`."""
        t = (self.value - margin) / math.sqrt(self.variance)
        return math.erfc(abs(t) / math.sqrt(2)) if self.freedom > NORMAL else t_tails(t, self.freedom)


def moderated_parts(figures: np.ndarray, weights: np.ndarray, present: np.ndarray) -> Iterator[Part]:
    """The parts of the variance over seeds of a contrast in a block: what systems share, if anything, and their own.

    Args:
        figures, weights, present: of the systems of the block; see `posnmt.evaluation.analyse.moderated.components`.
    """
    among, seeds = components(figures, weights, present), figures.shape[-2]
    if float(among.shared) > 0:
        yield Part(float(among.shared), seeds - 1, seeds)
    yield Part(float(moderated(among.own, among.usual, seeds)), PRIOR + seeds - 1, seeds)


def paired(of: Sequence[float], than: Sequence[float], relative: bool) -> Estimate:
    """The contrast of two figures that were measured in turn: the mean over turns, and the variance of the mean.

    Args:
        of, than: a figure of each turn, two turns or more.
        relative: as in `Contrast`.
    """
    values = [one / other - 1 if relative else one - other for one, other in zip(of, than, strict=True)]
    return Estimate(fmean(values), variance(values) / len(values), len(values) - 1)
