"""Outputs and references as word numbers in flat arrays, for TER.

Legend: P pairs of an output and its reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Bits = NDArray[np.uint64]
Booleans = NDArray[np.bool_]

ONE = np.uint64(1)


@dataclass(frozen=True)
class Pairs:
    """Pairs in which neither side is empty, the longest output first.

    The table of a pair has a row for each output word and a column for each reference word, after row 0 and column 0.
    The rows of all pairs are numbered consecutively, including row 0 of each pair, and so are the columns. Word numbers
    are distinct for each reference; 0 is an output word that is not in its reference.

    Attributes:
        rows, columns: `[P]` the numbers of each pair's row 0 and column 0.
        heights, widths: `[P]` numbers of output and reference words.
        output: `[rows]` the word of each row, 0 for row 0.
        reference: `[columns]` the word of each column, 0 for column 0.
        least: `[P]` lower bound of the edits: words of the longer side that the other side lacks.
        masks: bit masks of the columns of a word, 64 columns per number, from column 1 of the reference.
        masks_at: `[words]` index in `masks` of each word's first mask; the last mask of each word is 0.
    """

    rows: Integers
    columns: Integers
    heights: Integers
    widths: Integers
    output: Integers
    reference: Integers
    least: Integers
    masks: Bits
    masks_at: Integers

    def take(self, chosen: Integers) -> Pairs:
        """Some of the pairs, renumbered in the order of `chosen`."""
        heights, widths = self.heights[chosen], self.widths[chosen]
        return replace(
            self,
            rows=_firsts(heights),
            columns=_firsts(widths),
            heights=heights,
            widths=widths,
            output=self.output[spans(self.rows[chosen], heights + 1)],
            reference=self.reference[spans(self.columns[chosen], widths + 1)],
            least=self.least[chosen],
        )

    @property
    def of_row(self) -> Integers:
        """`[rows]` the pair of each row, 0 to P - 1."""
        return np.repeat(np.arange(len(self.rows)), self.heights + 1)


def pairs_of(outputs: Sequence[Sequence[int]], references: Sequence[Sequence[int]]) -> Pairs:
    """Build `Pairs` from P outputs and references as word numbers from 0: none empty, the longest output first."""
    sides = [np.array(list(chain.from_iterable(side)), np.int64) for side in (outputs, references)]
    heights, widths = (np.array([len(words) for words in side], np.int64) for side in (outputs, references))
    vocabulary = 1 + max(side.max() for side in sides)
    # Word numbers that differ from pair to pair.
    written, expected = (
        np.repeat(np.arange(len(lengths)) * vocabulary, lengths) + side
        for lengths, side in zip((heights, widths), sides, strict=True)
    )
    kinds, reference = np.unique(expected, return_inverse=True)
    at = np.minimum(np.searchsorted(kinds, written), len(kinds) - 1)
    output = np.where(kinds[at] == written, at + 1, 0)
    reference = reference + 1

    pair_of_kind = kinds // vocabulary
    times, in_reference = (np.bincount(side, minlength=len(kinds) + 1)[1:] for side in (output, reference))
    common = np.bincount(pair_of_kind, np.minimum(times, in_reference), len(heights)).astype(np.int64)

    sizes = np.concatenate([[widths.max()], widths[pair_of_kind]]) // 64 + 2
    masks, masks_at = np.zeros(sizes.sum(), np.uint64), np.cumsum(sizes) - sizes
    places = spans(np.zeros_like(widths), widths)
    np.bitwise_or.at(masks, masks_at[reference] + places // 64, ONE << (places % 64).astype(np.uint64))
    rows, columns = _firsts(heights), _firsts(widths)
    return Pairs(
        rows,
        columns,
        heights,
        widths,
        _with_zeros(output, rows),
        _with_zeros(reference, columns),
        np.maximum(heights, widths) - common,
        masks,
        masks_at,
    )


def spans(firsts: Integers, lengths: Integers) -> Integers:
    """Concatenate the ranges that start at `firsts`, of the given lengths."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) + np.repeat(firsts - ends + lengths, lengths)


def _firsts(lengths: Integers) -> Integers:
    """The start of each pair, if pairs are stored consecutively with one extra element each."""
    return np.cumsum(lengths + 1) - lengths - 1


def _with_zeros(words: Integers, firsts: Integers) -> Integers:
    """Insert a 0 before the words of each pair."""
    return np.insert(words, firsts - np.arange(len(firsts)), 0)
