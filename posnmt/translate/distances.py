"""Quantities by distance: sums of attention maps along their diagonals.

Shapes: L layers, H heads, Tq queries, Tk keys, W distances (key position minus query position).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ByDistance:
    """A quantity of each layer and head by distance, over all queries and keys of some lines.

    Attributes:
        distances: [W] key position minus query position, ascending; those that some head sees.
        values: [L,H,W]; NaN where a head sees no key at a distance.
        pairs: [W] queries that see a key at this distance, in the head that sees most.
    """

    distances: Integers
    values: Floats
    pairs: Integers


class Sums(NamedTuple):
    """The sums of one map over each of its diagonals.

    Attributes:
        first: the lowest distance, 1 - Tq.
        totals: [L,H,W] the sums, over what a query may see.
        counts: [L,H,W] how many values each is the sum of.
        queries: Tq.
    """

    first: int
    totals: NDArray[np.float64]
    counts: Integers
    queries: int

    @classmethod
    def of(cls, values: NDArray[Any], seen: NDArray[np.bool_]) -> Sums:
        """Of the values [L,H,Tq,Tk] of those pairs that are `seen`."""
        queries, keys = values.shape[-2:]
        distances = range(1 - queries, keys)
        hidden = np.where(seen, values, 0.0)
        totals = [np.trace(hidden, distance, -2, -1) for distance in distances]
        counts = [np.trace(seen, distance, -2, -1, dtype=np.int64) for distance in distances]
        return cls(1 - queries, np.stack(totals, -1).astype(np.float64), np.stack(counts, -1), queries)


def mean(sums: Sequence[Sums]) -> ByDistance:
    """The mean of the values at each distance."""
    distances, totals, counts, _ = _joined(sums)
    return _by_distance(distances, totals / np.maximum(counts, 1), counts)


def mass(sums: Sequence[Sums]) -> ByDistance:
    """The sum of the values at each distance by the number of queries: attention weights then sum to 1."""
    distances, totals, counts, queries = _joined(sums)
    return _by_distance(distances, totals / max(queries, 1), counts)


def _by_distance(distances: Integers, values: NDArray[np.float64], counts: Integers) -> ByDistance:
    """The values at those distances that some head sees."""
    pairs = counts.max(axis=(0, 1))
    known = np.where(counts > 0, values, np.nan).astype(np.float32)
    return ByDistance(distances[pairs > 0], known[..., pairs > 0], pairs[pairs > 0])


def _joined(sums: Sequence[Sums]) -> tuple[Integers, NDArray[np.float64], Integers, int]:
    """Distances [W], totals [L,H,W], counts [L,H,W] and queries of several maps together."""
    first = min(each.first for each in sums)
    end = max(each.first + each.totals.shape[-1] for each in sums)
    totals = np.zeros((*sums[0].totals.shape[:2], end - first))
    counts = np.zeros(totals.shape, np.int64)
    for each in sums:
        place = slice(each.first - first, each.first - first + each.totals.shape[-1])
        totals[..., place] += each.totals
        counts[..., place] += each.counts
    return np.arange(first, end), totals, counts, sum(each.queries for each in sums)
