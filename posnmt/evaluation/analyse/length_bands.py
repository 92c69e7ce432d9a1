"""Differences of systems on shorter and on longer sources, with one band of intervals for all cuts between lengths.

Each cut parts the sentences into shorter and longer ones. The difference of two systems is estimated on both sides of
every cut, in every bin, and as the change from the shorter to the longer side. All intervals hold at once with 95 %
confidence: each is the difference ± c standard errors, where c is the 95 % quantile of the largest |deviation| /
standard error of all of them in a bootstrap sample (the max-T method of Westfall and Young 1993; Montiel Olea and
Plagborg-Møller 2019). So a cut may be chosen by what is found there, and what is said of it still holds.

Legend: N sentences, C cells of neighbouring lengths, P parts (unions of cells), M outputs, K statistics, S samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from threadpoolctl import threadpool_limits

from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.bins import Bin, bin_numbers
from posnmt.evaluation.analyse.intervals import LEVEL
from posnmt.evaluation.analyse.resample import bootstrap_sums
from posnmt.metrics.metric import Metric

FEWEST = 30
"""Sentences on each side of a cut, and in each merged bin: intervals of fewer are too narrow."""
FEWEST_DOCUMENTS = 20
"""Documents on each side of a cut and in each merged bin, where documents are known."""
MOST_CUTS = 20
"""Of equal numbers of sentences; the ends of bins are cuts as well."""
MOST_SAMPLES = 2000
"""Enough for a quantile of 95 %: its standard error is that of 95 % ± 0.5 %."""

SHORTER, LONGER, BIN, CHANGE = "shorter", "longer", "bin", "change"


@dataclass(frozen=True)
class Part:
    """What one interval of a band is of.

    Attributes:
        kind: `shorter` or `longer` than a cut, `bin`, or `change`: the longer minus the shorter side of a cut.
        cut: the first length of the longer side; 0 for a bin.
        first, last: the lengths of its sentences; last None: no upper end.
        sentences: their number; of a change, on the side with fewer.
        units: the number of documents, where they are known, or else of sentences.
    """

    kind: str
    cut: int
    first: int
    last: int | None
    sentences: int
    units: int


@dataclass(frozen=True)
class Figure:
    """A difference in a part.

    Attributes:
        part: of the lengths.
        difference: in score, or of a change the difference of two differences.
        low, high: ends of its interval, which holds together with all others of the band.
        sign: 1 if the first system is ahead (of a change: gains from the shorter to the longer side), -1 if it is
            behind, 0 if neither is shown. With several seeds, every pair of seeds must show it.
        surety: |difference| / standard error, the smallest of all pairs of seeds.
        p: corrected for all parts and pairs.
    """

    part: Part
    difference: float
    low: float
    high: float
    sign: int
    surety: float
    p: float

    def turned(self) -> Figure:
        """The same of the second system minus the first."""
        return replace(self, difference=-self.difference, low=-self.high, high=-self.low, sign=-self.sign)


@dataclass(frozen=True)
class Cuts:
    """How the lengths of N sentences are cut.

    Attributes:
        lengths: `[N]` of the sources.
        documents: `[N]` numbers of their documents; None: not known.
        cuts: the first lengths of the longer sides, increasing; each side has `FEWEST` sentences and
            `FEWEST_DOCUMENTS`.
        bins: the bins of the analysis, merged until each has as many.
    """

    lengths: np.ndarray
    documents: np.ndarray | None
    cuts: list[int]
    bins: list[Bin]

    @classmethod
    def of(cls, lengths: np.ndarray, bins: Sequence[Bin], documents: np.ndarray | None = None) -> Cuts:
        """The cuts at `MOST_CUTS` - 1 quantiles of the lengths and between merged bins."""
        whole = cls(lengths, documents, [], [])
        merged = whole._merged(bins)
        ordered = np.sort(lengths)
        quantiles = [ordered[len(ordered) * number // MOST_CUTS] for number in range(1, MOST_CUTS)]
        cuts = {int(each) for each in [*quantiles, *(each.first for each in merged)]}
        kept = [each for each in sorted(cuts) if whole._enough(0, each - 1) and whole._enough(each, None)]
        return cls(lengths, documents, kept, merged)

    def parts(self) -> list[Part]:
        """Shorter sides, longer sides, merged bins if there are several, and changes; none without cuts."""
        sides = {cut: (self._sizes(0, cut - 1), self._sizes(cut, None)) for cut in self.cuts}
        return [
            *(Part(SHORTER, cut, 0, cut - 1, *sides[cut][0]) for cut in self.cuts),
            *(Part(LONGER, cut, cut, None, *sides[cut][1]) for cut in self.cuts),
            *(
                Part(BIN, 0, each.first, each.last, *self._sizes(each.first, each.last))
                for each in (self.bins if len(self.bins) > 1 else [])
            ),
            *(Part(CHANGE, cut, 0, None, *map(min, *sides[cut])) for cut in self.cuts),
        ]

    def _merged(self, bins: Sequence[Bin]) -> list[Bin]:
        """Neighbouring bins merged until each is large enough, the last ones with the bin before them."""
        merged, first = [], bins[0].first
        for each in bins:
            if self._enough(first, each.last):
                merged.append(Bin(first, each.last))
                first = 0 if each.last is None else each.last + 1
        if not merged or merged[-1].last is not None:
            merged = [*merged[:-1], Bin(merged[-1].first if merged else bins[0].first, bins[-1].last)]
        return merged

    def _sizes(self, first: int, last: int | None) -> tuple[int, int]:
        """The numbers of sentences and of units of some lengths."""
        inside = (self.lengths >= first) & (self.lengths <= (np.inf if last is None else last))
        sentences = int(inside.sum())
        return sentences, sentences if self.documents is None else len(np.unique(self.documents[inside]))

    def _enough(self, first: int, last: int | None) -> bool:
        """Whether some lengths have enough sentences and documents."""
        sentences, units = self._sizes(first, last)
        return sentences >= FEWEST and units >= (0 if self.documents is None else FEWEST_DOCUMENTS)


@dataclass(frozen=True)
class Bands:
    """The bands of some pairs of systems.

    Attributes:
        figures: (system, other) → its figures, in the order of `Cuts.parts`.
        critical: (system, other) → c, the number of standard errors from a difference to the ends of its interval;
            None: there are no cuts.
        samples: of the bootstrap.
    """

    figures: dict[tuple[str, str], list[Figure]]
    critical: dict[tuple[str, str], float | None]
    samples: int


@threadpool_limits.wrap(limits=1, user_api="blas")  # see posnmt.evaluation.analyse.resample
def bands(
    additive: Additive, metric: str, systems: Mapping[str, Sequence[int]], pairs: Sequence[tuple[str, str]],
    cuts: Cuts, samples: int, seed: int, jointly: bool = True,
) -> Bands:  # fmt: skip
    """The bands of pairs of systems.

    Args:
        additive: N sentences.
        metric: by which systems are compared.
        systems: name → indices of its outputs, one for each seed.
        pairs: of systems; all are corrected for together, unless not `jointly`.
        cuts: of the lengths; without any, there are no figures.
        samples, seed: of the bootstrap; at most `MOST_SAMPLES` are drawn.
    """
    if not cuts.cuts:
        return Bands({pair: [] for pair in pairs}, dict.fromkeys(pairs), 0)
    parts, measure = cuts.parts(), additive.metric(metric)
    outputs = sorted({output for pair in pairs for name in pair for output in systems[name]})
    rows = additive.rows[:, outputs, additive.columns[metric]]
    places = {name: [outputs.index(each) for each in systems[name]] for pair in pairs for name in pair}
    firsts = [0, *cuts.cuts]
    numbers = bin_numbers(cuts.lengths, [Bin(first, None) for first in firsts])
    cells = np.array([_holds(part, firsts) for part in parts if part.kind != CHANGE], dtype=float)
    measured = _scores(measure, cells, np.stack([rows[numbers == cell].sum(axis=0) for cell in range(len(firsts))]))
    samples = min(samples, MOST_SAMPLES)
    drawn = bootstrap_sums(rows, numbers, len(firsts), samples, seed, documents=additive.documents)
    sampled = np.concatenate([_scores(measure, cells, each[:, 1:]) for each in drawn])
    estimated = {
        (one, other): _Estimated.of(measured, sampled, list(product(places[one], places[other])), len(cuts.cuts))
        for one, other in pairs
    }
    largest = {pair: each.largest for pair, each in estimated.items()}
    if jointly:
        together: np.ndarray = np.maximum.reduce(list(largest.values()))
        largest = dict.fromkeys(largest, together)
    critical = {pair: float(np.quantile(each, LEVEL, method="higher")) for pair, each in largest.items()}
    figures = {pair: each.figures(parts, measure, critical[pair], largest[pair]) for pair, each in estimated.items()}
    return Bands(figures, {**critical}, samples)


def _holds(part: Part, firsts: Sequence[int]) -> list[bool]:
    """`[C]` which cells are in a part."""
    return [part.first <= first <= (np.inf if part.last is None else part.last) for first in firsts]


def _scores(metric: Metric, cells: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Scores of parts `[..., P, M]` from sums of cells `[..., C, M, K]` and which cells are in them `[P, C]`."""
    return metric.score(np.moveaxis(np.tensordot(cells, sums, axes=(1, -3)), 0, -3))


@dataclass(frozen=True)
class _Estimated:
    """The differences of two systems, Q pairs of their outputs, in P parts and changes.

    Attributes:
        differences, errors: `[P, Q]`.
        mean, mean_error: `[P]` of the mean over the pairs.
        largest: `[S]` the largest |deviation| / standard error in each sample.
    """

    differences: np.ndarray
    errors: np.ndarray
    mean: np.ndarray
    mean_error: np.ndarray
    largest: np.ndarray

    @classmethod
    def of(cls, measured: np.ndarray, sampled: np.ndarray, outputs: Sequence[tuple[int, int]], cuts: int) -> _Estimated:
        """From scores of parts `[P, M]`, the same of samples `[S, P, M]`, and the numbers of cuts and outputs."""
        one, other = (list(each) for each in zip(*outputs, strict=True))

        def of_parts(scores: np.ndarray) -> np.ndarray:
            """`[..., P, Q]` differences, and behind them those of the changes."""
            differences = scores[..., one] - scores[..., other]
            return np.concatenate(
                [differences, differences[..., cuts : 2 * cuts, :] - differences[..., :cuts, :]], axis=-2
            )

        differences, samples = of_parts(measured), of_parts(sampled)
        mean, of_means = _mean(differences), _mean(samples)
        every = np.concatenate([samples, of_means[..., None]], axis=-1)
        errors = every.std(axis=0)
        deviations = np.abs(every - every.mean(axis=0))
        apart = np.divide(deviations, errors, out=np.zeros_like(deviations), where=errors > 0)
        return cls(differences, errors[:, :-1], mean, errors[:, -1], apart.max(axis=(1, 2)))

    def figures(self, parts: Sequence[Part], metric: Metric, critical: float, largest: np.ndarray) -> list[Figure]:
        """The figure of each part: its mean, its simultaneous band, its sign if that is sure, and its p."""
        figures = []
        for row, part in enumerate(parts):
            signs = np.sign(metric.ahead(self.differences[row]))
            agree = bool(signs.min() == signs.max() != 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                apart = float((np.abs(self.differences[row]) / self.errors[row]).min()) if agree else 0.0
            wider = _wider(critical, part.units - 1)
            surety, reach = apart / wider, critical * wider * float(self.mean_error[row])
            p = (1 + int((largest >= surety).sum())) / (1 + len(largest))
            value, sign = float(self.mean[row]), int(signs[0]) if surety > critical else 0
            figures.append(Figure(part, value, value - reach, value + reach, sign, surety, p))
        return figures


def _wider(critical: float, freedom: int) -> float:
    """The ratio of a quantile of Student's t to the normal one (Fisher and Cornish 1960): errors are estimates."""
    square = critical**2
    return 1 + (square + 1) / (4 * freedom) + (5 * square**2 + 16 * square + 3) / (96 * freedom**2)


def _mean(values: np.ndarray) -> np.ndarray:
    """The mean over the last axis, which is bit-identical for any order."""
    return np.sort(values, axis=-1).mean(axis=-1)
