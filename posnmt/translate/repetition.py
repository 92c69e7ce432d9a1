"""Outputs that repeat themselves, as those of models that have lost track of the source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

REPEATS = 4
"""The least number of times that a repetitive output has a group of subwords in a row."""

SPAN = 12
"""The least subwords of such a row."""

LONGEST = 100
"""Subwords of the longest group that is looked for."""


def is_repetitive(source: Sequence[int], output: Sequence[int]) -> bool:
    """Whether an output repeats a group of subwords, and more than twice as often as its source repeats one."""
    times = repetitions(output)
    return times >= REPEATS and times > 2 * repetitions(source)


def repetitions(subwords: Sequence[int]) -> int:
    """The largest number of times that a group of subwords stands in a row.

    It is 1 if no row has at least `REPEATS` groups and `SPAN` subwords.

    A group has at most `LONGEST` subwords. "no no no no" is a group of one or two subwords, four or two times.
    """
    most = 1
    if len(subwords) < SPAN:
        return most
    ids = np.asarray(subwords)
    for period in range(1, min(LONGEST, len(ids) // REPEATS) + 1):
        again = np.concatenate(([False], ids[period:] == ids[:-period], [False]))
        edges = np.flatnonzero(again[1:] != again[:-1])
        row = int((edges[1::2] - edges[::2]).max(initial=0)) + period
        if row >= SPAN and row // period >= REPEATS:
            most = max(most, row // period)
    return most
