"""Bootstrap percentile intervals of every measure, overall and by bin, from shared resamples."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from posnmt.evaluation.analyse.additive import Additive
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
    done = 0
    for sums in bootstrap_sums(additive.rows, groups, count, samples, seed):
        for measure, scores in additive.measure(sums).items():
            values[measure][done : done + len(sums)] = scores
        done += len(sums)
    return values


def percentile_interval(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The percentile interval, which excludes (1 - level) / 2 of the samples at each end, with linear interpolation.

    Args:
        values: `[S, ...]`; NaN are ignored.
        level: share of the samples inside the interval.

    Returns:
        Lower and upper ends, both `[...]`; NaN where no sample has a value. Those of the negative values are exactly
        the negative ends.
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
