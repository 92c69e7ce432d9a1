"""Differences between systems with paired bootstrap intervals, overall and by bin.

An interval of a difference is narrower than those of the two scores suggest, as both are measured on the same samples.
A system with several seeds counts by the mean of its outputs' scores in each sample; the interval is over sentences,
not over seeds.

Legend: S samples, G bins, M outputs.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from posnmt.evaluation.analyse.additive import plain
from posnmt.evaluation.analyse.intervals import percentile_interval


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
    """The mean of several outputs, `[..., outputs]`, to the last bit the same in any order."""
    return np.sort(scores, axis=-1).mean(axis=-1)
