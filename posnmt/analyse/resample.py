"""Sums over random resamples of a test set: the bootstrap's, with replacement, and randomisation's, by halves.

A resample is a row of weights, one for each sentence, and the sums of many resamples are one product of matrices.
Samples are drawn in an order of their own, whatever is computed at a time, and sums of counts are exact: one seed gives
the same figures on any machine.

Legend: N sentences, M systems, K statistics, S samples, c samples computed at a time, G groups of sentences (bins).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# Weights at a time: 4 million float64 are 32 MB, and the drawing needs some times as much.
WEIGHTS = 4_000_000


def bootstrap_sums(
    rows: np.ndarray, groups: np.ndarray, count: int, samples: int, seed: int, weights: int = WEIGHTS
) -> Iterator[np.ndarray]:
    """Sums over samples of N sentences out of N with replacement (Efron 1979; Koehn 2004).

    Each sample is one draw from the whole test set: a group is summed over those of its sentences that are in it, so
    that groups and the whole share the samples, and a group's size varies as it would in another test set.

    Args:
        rows: `[N, M, K]` counts.
        groups: `[N]` the group of each sentence, 0 to `count` - 1.
        count: the number of groups, G.
        samples: S.
        seed: of NumPy's default generator.
        weights: how many to compute at a time; no figure depends on it.

    Yields:
        `[c, 1 + G, M, K]`: the whole first, then each group, until there were S samples.
    """
    import numpy as np

    generator = np.random.default_rng([seed, 0])
    total = len(rows)
    order = np.argsort(groups, kind="stable")
    table = rows[order].reshape(total, -1)
    edges = np.searchsorted(groups[order], np.arange(count + 1))
    for size in _steps(total, samples, weights):
        drawn = generator.integers(0, total, size=(size, total))
        drawn += np.arange(size)[:, None] * total
        times = np.bincount(drawn.ravel(), minlength=size * total).reshape(size, total).astype(float)
        sums = np.empty((size, 1 + count, table.shape[1]))
        for group in range(count):
            part = slice(edges[group], edges[group + 1])
            sums[:, 1 + group] = times[:, part] @ table[part]
        sums[:, 0] = sums[:, 1:].sum(axis=1)
        yield sums.reshape(size, 1 + count, *rows.shape[1:])


def half_sums(rows: np.ndarray, samples: int, seed: int, weights: int = WEIGHTS) -> Iterator[np.ndarray]:
    """Sums over samples that take each sentence or leave it, by the toss of a coin.

    Args:
        rows, samples, seed, weights: as in `bootstrap_sums`.

    Yields:
        `[c, M, K]` until there were S samples.
    """
    import numpy as np

    generator = np.random.default_rng([seed, 1])
    total = len(rows)
    table = rows.reshape(total, -1)
    for size in _steps(total, samples, weights):
        words = generator.integers(0, 2**64, size=(size, -(-total // 64)), dtype=np.uint64)
        taken = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, count=total).astype(float)
        yield (taken @ table).reshape(size, *rows.shape[1:])


def _steps(total: int, samples: int, weights: int) -> Iterator[int]:
    """How many samples to compute at each step."""
    step = max(1, weights // max(total, 1))
    for done in range(0, samples, step):
        yield min(step, samples - done)
