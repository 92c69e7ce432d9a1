"""Sums over random resamples of a test set: the bootstrap's, with replacement, and randomisation's, by halves.

A resample is a row of weights, one for each sentence, and the sums of many resamples are one product of matrices.
Samples are drawn in an order of their own, whatever is computed at a time, and sums of counts are exact: one seed gives
the same figures on any machine.

Those who take the sums do so with one thread of BLAS: OpenBLAS's threads wait for each other busily, and where other
work had their processors these products took ten times the processor time, and longer by the clock.

Legend: N sentences, M systems, K statistics, S samples, c samples computed at a time, G groups of sentences (bins).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# Weights at a time: 4 million float32 are 16 MB.
WEIGHTS = 4_000_000
# Up to here float32 holds every whole number.
EXACT = 2**24


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
    edges = np.searchsorted(groups[order], np.arange(count + 1))
    parts = [slice(*ends) for ends in pairwise(edges.tolist())]
    tables = [_Table(rows[order[part]].reshape(-1, rows[0].size)) for part in parts]
    for size in _steps(total, samples, weights):
        times = np.empty((size, total), np.float32)
        for sample in times:
            sample[:] = np.bincount(generator.integers(0, total, size=total), minlength=total)
        sums = np.empty((size, 1 + count, rows[0].size))
        for group, (part, table) in enumerate(zip(parts, tables, strict=True), start=1):
            sums[:, group] = table.sums(times[:, part])
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
    table = _Table(rows.reshape(-1, rows[0].size))
    for size in _steps(total, samples, weights):
        words = generator.integers(0, 2**64, size=(size, -(-total // 64)), dtype=np.uint64)
        taken = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, count=total).astype(np.float32)
        yield table.sums(taken).reshape(size, *rows.shape[1:])


class _Table:
    """Counts `[N, K]` to be summed with many weights.

    Products of float32 take half the time. Neither counts nor weights are negative, so that no sum on the way is larger
    than the last one: where that is below `EXACT`, none was rounded.
    """

    def __init__(self, counts: np.ndarray) -> None:
        import numpy as np

        self._counts, self._narrow = counts, counts.astype(np.float32)

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """The exact sums `[c, K]` float64 with whole float32 weights `[c, N]`."""
        sums = weights @ self._narrow
        return sums.astype(float) if sums.max(initial=0) < EXACT else weights.astype(float) @ self._counts


def _steps(total: int, samples: int, weights: int) -> Iterator[int]:
    """How many samples to compute at each step."""
    step = max(1, weights // max(total, 1))
    for done in range(0, samples, step):
        yield min(step, samples - done)
