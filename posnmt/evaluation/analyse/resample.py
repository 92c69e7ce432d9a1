"""Sums over random resamples of a test set, for the bootstrap and for approximate randomisation.

A resample is a row of weights, one per sentence; a matrix product gives the sums of many resamples. The samples do not
depend on the batch size, and sums of counts are exact, so that a seed gives the same figures on any machine.

Callers limit BLAS to one thread, because the threads of OpenBLAS wait in busy loops. With several threads on a loaded
machine, these products took ten times the CPU time, and more wall-clock time, too.

Legend: N sentences, M systems, K statistics, S samples, c samples per batch, G groups of sentences (bins).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

# Numbers per batch, of its weights or of its sums: 8 million float32 are 32 MB, and float64 64 MB.
WEIGHTS = 8_000_000
# float32 represents all integers up to this one.
EXACT = 2**24
# Rows whose products are added up in float32: their sums are mostly below EXACT, also in a text of millions of lines.
BLOCK = 8192


def bootstrap_sums(
    rows: np.ndarray, groups: np.ndarray, count: int, samples: int, seed: int, weights: int = WEIGHTS,
    documents: np.ndarray | None = None,
) -> Iterator[np.ndarray]:  # fmt: skip
    """Sums over bootstrap samples: N sentences drawn with replacement (Efron 1979; Koehn 2004).

    Samples are drawn from the whole test set. The sum of a group is that of its sentences in the sample, so the size of
    the group varies as it would between test sets.

    Args:
        rows: `[N, M, K]` counts.
        groups: `[N]` the group of each sentence, 0 to `count` - 1.
        count: the number of groups, G.
        samples: S.
        seed: of NumPy's default generator.
        weights: number of weights, or of sums, per batch; it does not change the sums.
        documents: `[N]` numbers of documents, which are drawn whole; None: sentences are drawn.

    Yields:
        `[c, 1 + G, M, K]`: overall, then each group; S samples in all.
    """
    generator = np.random.default_rng([seed, 0])
    total = len(rows)
    units, numbers = _units(documents, total)
    order = np.argsort(groups, kind="stable")
    edges = np.searchsorted(groups[order], np.arange(count + 1))
    parts = [slice(*ends) for ends in pairwise(edges.tolist())]
    tables = [_Table(rows.reshape(total, -1), order[part]) for part in parts]
    for size in _steps(max(total, (1 + count) * rows[0].size), samples, weights):
        drawn = np.zeros((size, units), np.float32)
        for sample in drawn:
            np.add.at(sample, generator.integers(0, units, size=units), np.float32(1))
        times = drawn if documents is None else drawn[:, numbers[order]]
        sums = np.empty((size, 1 + count, rows[0].size))
        for group, (part, table) in enumerate(zip(parts, tables, strict=True), start=1):
            sums[:, group] = table.sums(times[:, part])
        sums[:, 0] = sums[:, 1:].sum(axis=1)
        yield sums.reshape(size, 1 + count, *rows.shape[1:])


def half_sums(
    rows: np.ndarray, samples: int, seed: int, weights: int = WEIGHTS, beside: int = 0,
    documents: np.ndarray | None = None,
) -> Iterator[np.ndarray]:  # fmt: skip
    """Sums over samples that include each sentence, or each whole document, with probability 1/2.

    Args:
        rows, samples, seed, weights, documents: as in `bootstrap_sums`.
        beside: number of values that the caller computes for each sample, which limits a batch, too.

    Yields:
        `[c, M, K]`; S samples in all.
    """
    generator = np.random.default_rng([seed, 1])
    total = len(rows)
    units, numbers = _units(documents, total)
    table = _Table(rows.reshape(total, -1), np.arange(total))
    for size in _steps(max(total, rows[0].size, beside), samples, weights):
        words = generator.integers(0, 2**64, size=(size, -(-units // 64)), dtype=np.uint64)
        taken = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, count=units).astype(np.float32)
        yield table.sums(taken if documents is None else taken[:, numbers]).reshape(size, *rows.shape[1:])


def _units(documents: np.ndarray | None, sentences: int) -> tuple[int, np.ndarray]:
    """The number of units that are drawn, and the unit of each sentence `[N]`, from 0."""
    if documents is None:
        return sentences, np.arange(sentences)
    distinct, numbers = np.unique(documents, return_inverse=True)
    return len(distinct), numbers


class _Table:
    """Counts `[N, K]` for weighted sums, in blocks of rows.

    float32 products take half the time of float64. Counts and weights are not negative, so partial sums are never
    larger than the result: if that is below `EXACT`, nothing was rounded. Sums over all rows may be larger; they are
    added up in float64. Columns with counts of `EXACT` or more, and columns of sentence scores from other programs,
    which may be negative or fractions, are multiplied in float64.
    """

    def __init__(self, counts: np.ndarray, order: np.ndarray) -> None:
        """`order`: the rows of the counts that the table has, in this order."""
        columns = (counts[order, column] for column in range(counts.shape[1]))
        whole = np.array([((each >= 0) & (each < EXACT) & (each % 1 == 0)).all() for each in columns], dtype=bool)
        self._narrow_columns, self._wide_columns = np.flatnonzero(whole), np.flatnonzero(~whole)
        self._narrow = _columns(counts, order, self._narrow_columns, np.float32)
        self._wide = _columns(counts, order, self._wide_columns, np.float64)

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """The exact sums `[c, K]` (float64) for integer weights `[c, N]` (float32)."""
        sums = np.zeros((len(weights), len(self._narrow_columns) + len(self._wide_columns)))
        for first in range(0, weights.shape[1], BLOCK):
            rows = slice(first, first + BLOCK)
            times = weights[:, rows]
            products = times @ self._narrow[rows]
            if products.max(initial=0) >= EXACT:
                products = times.astype(float) @ self._narrow[rows].astype(float)
            sums[:, self._narrow_columns] += products
            if self._wide.size:
                sums[:, self._wide_columns] += times.astype(float) @ self._wide[rows]
        return sums


def _columns(counts: np.ndarray, order: np.ndarray, columns: np.ndarray, kind: type[np.floating]) -> np.ndarray:
    """Some columns of counts in an order of their rows; column by column, since a copy of all would take gigabytes."""
    table = np.empty((len(order), len(columns)), kind)
    for place, column in enumerate(columns.tolist()):
        table[:, place] = counts[order, column]
    return table


def _steps(each: int, samples: int, weights: int) -> Iterator[int]:
    """Yield the sizes of the batches of samples; `each`: how many numbers one sample has."""
    step = max(1, weights // max(each, 1))
    for done in range(0, samples, step):
        yield min(step, samples - done)
