"""Covering arrays: few cases in which every two values that can meet do meet somewhere, instead of all combinations.

Most faults of a combination are those of two of its values (Kuhn, Wallace and Gallo 2004). Choices are greedy, and the
same each time.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any


def pairwise(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows with a value of each factor, such that each two values of two factors are in some row."""
    columns = [range(len(factor)) for factor in factors]
    missing = {
        ((one, left), (other, right))
        for one, other in itertools.combinations(range(len(factors)), 2)
        for left, right in itertools.product(columns[one], columns[other])
    }
    rows = []
    while missing:
        row = dict(min(missing))
        for place in sorted({*range(len(factors))} - row.keys()):
            row[place] = max(columns[place], key=lambda value: (len(missing & _met({**row, place: value})), -value))
        missing -= _met(row)
        rows.append(tuple(factor[row[place]] for place, factor in enumerate(factors)))
    return rows


def _met(row: dict[int, int]) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return set(itertools.combinations(sorted(row.items()), 2))


def covering(features: Mapping[str, Collection[Hashable]]) -> list[str]:
    """Names that have every feature between them, the first ones with most of those that are missing."""
    missing, found = {*itertools.chain(*features.values())}, []
    while missing:
        found.append(max(features, key=lambda name: len(missing.intersection(features[name]))))
        missing -= {*features[found[-1]]}
    return found


def groups(pairs: Iterable[tuple[Hashable, Hashable]], most: int) -> list[tuple[Any, ...]]:
    """Groups of at most so many in which every two are one of the pairs, such that each pair is in some group."""
    allowed = {frozenset(pair) for pair in pairs}
    names = sorted(frozenset().union(*allowed))
    missing, found = set(allowed), []
    while missing:
        group = sorted(min(missing, key=sorted))
        while len(group) < most:
            fitting = [each for each in names if _joined(group, each, allowed) == len(group)]
            best = max(fitting, key=lambda each: _joined(group, each, missing), default=None)
            if best is None or not _joined(group, best, missing):
                break
            group.append(best)
        missing -= {frozenset(pair) for pair in itertools.combinations(group, 2)}
        found.append(tuple(group))
    return found


def _joined(group: Collection[Any], name: Any, pairs: Collection[frozenset[Any]]) -> int:
    """How many members of a group make one of the pairs with a name."""
    return sum(frozenset((name, each)) in pairs for each in group)
