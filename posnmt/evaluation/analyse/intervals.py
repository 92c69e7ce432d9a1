"""Bootstrap percentile intervals of every measure, and of differences between systems, from shared resamples.

An interval of a difference is narrower than the intervals of the two scores suggest, since both are measured on the
same samples. The score of a system with several seeds is the mean of its outputs' scores in each sample; the interval
is over sentences, not over seeds.

Legend: N sentences, S samples, G bins, M outputs.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from posnmt.base.progress import Work
from posnmt.evaluation.analyse.additive import Additive, plain
from posnmt.evaluation.analyse.resample import bootstrap_sums

LEVEL = 0.95


@threadpool_limits.wrap(limits=1, user_api="blas")  # see posnmt.evaluation.analyse.resample
def resampled_measures(
    additive: Additive, groups: np.ndarray, count: int, samples: int, seed: int
) -> dict[str, np.ndarray]:
    """Every measure in every bootstrap sample.

    Args:
        additive: N sentences of M systems.
        groups: `[N]` the bin of each sentence, 0 to `count` - 1.
        count: the number of bins, G.
        samples: the number of samples, S.
        seed: determines the samples.

    Returns:
        Measure → `[S, 1 + G, M]`: overall, then each bin; NaN where a sample has no sentence of a bin. In each sample,
        all systems are measured on the same sentences.
    """
    shape = (samples, 1 + count, additive.rows.shape[1])
    values = {measure: np.empty(shape) for measure in additive.measures}
    with Work("resampling", "samples", samples) as work:
        for sums in bootstrap_sums(additive.rows, groups, count, samples, seed, documents=additive.documents):
            done = slice(work.done, work.done + len(sums))
            for measure, scores in additive.measure(sums).items():
                values[measure][done] = scores
            work.add(len(sums))
    return values


def percentile_interval(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The percentile interval with linear interpolation; it leaves out (1 - level) / 2 of the samples at each end.

    Args:
        values: `[S, ...]`; NaN are ignored.
        level: share of the samples inside the interval.

    Returns:
        Lower and upper ends, both `[...]`; NaN where no sample has a value. The interval of the negated values has
        exactly the negated ends.
    """
    share = (1 - level) / 2
    return _lower(values, share), 0.0 - _lower(-values, share)  # 0.0 - 0.0 has no sign


def _lower(values: np.ndarray, share: float) -> np.ndarray:
    """The value `[...]` with a share of the others `[S, ...]` below it."""
    ordered = np.sort(values, axis=0)  # NaN come last
    last = np.isfinite(ordered).sum(axis=0) - 1
    return _at(ordered, share * np.maximum(last, 0))


def _at(ordered: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The sorted values `[S, ...]` at fractional indices `[...]`, with linear interpolation."""
    below = np.floor(places).astype(int)
    above = np.ceil(places).astype(int)
    low, high = (np.take_along_axis(ordered, index[None], axis=0)[0] for index in (below, above))
    return low + (high - low) * (places - below)


def differences(
    values: dict[str, np.ndarray], resampled: dict[str, np.ndarray], groups: dict[str, list[int]]
) -> list[dict[str, Any]]:
    """The difference of each pair of systems in every measure.

    Args:
        values: measure → `[1 + G, M]`: overall, then each bin.
        resampled: the same of each sample, `[S, 1 + G, M]`, from `resampled_measures`.
        groups: system → indices of its outputs.

    Returns:
        For each pair `system`, `other`, `overall` and `bins`: measure → [difference, lower, upper] of `system` minus
        `other`, or None in a bin without sentences.
    """
    pairs = [{"system": one, "other": other} for one, other in combinations(groups, 2)]
    rows: list[list[dict[str, Any]]] = [[{} for _ in range(len(next(iter(values.values()))))] for _ in pairs]
    for measure, scores in values.items():
        means = {name: _mean(scores[:, outputs]) for name, outputs in groups.items()}
        sampled = {name: _mean(resampled[measure][..., outputs]) for name, outputs in groups.items()}
        for of_pair, (one, other) in zip(rows, combinations(groups, 2), strict=True):
            ends = percentile_interval(sampled[one] - sampled[other])
            figures = plain(np.stack([means[one] - means[other], *ends], axis=-1))
            for row, figure in zip(of_pair, figures, strict=True):
                row[measure] = None if None in figure else figure
    return [{**pair, "overall": of_pair[0], "bins": of_pair[1:]} for pair, of_pair in zip(pairs, rows, strict=True)]


def _mean(scores: np.ndarray) -> np.ndarray:
    """The mean of several outputs, `[..., outputs]`, which is bit-identical for any order of them."""
    return np.sort(scores, axis=-1).mean(axis=-1)
