"""Banded edit distances and alignments of many pairs at once, as in sacreBLEU's TER, and the distances after shifts.

sacreBLEU computes only the cells of a row within 25 columns of the diagonal of a table. Adjacent cells of a row differ
by -1, 0 or 1, so a row is represented by two 64-bit numbers, and the next row computed by a few bit operations (Myers
1999, in the form of Hyyrö 2003); here with NumPy, on one row of every pair at a time.

The bits of a row start one column after its *origin*: the first column of the row above or, if the band moves on, the
column before the first one of this row. The origin is assumed to be one more than in the row above. Within the band,
this is correct, since only the cell above leads to it; outside, a path through it costs more than one along the
diagonal. To the right of the band, a row is assumed to increase by 1 per column and to match nothing; a path there
costs at least as much as one along the last diagonal of the band. Among equal costs, the alignment considers cells of
the band only.

Legend: P pairs, S moves, i row and j column in the table of a pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posnmt.metrics.ter_pairs import ONE, Bits, Booleans, Integers, Pairs

# How far the band reaches to either side: sacreBLEU's _BEAM_WIDTH.
BAND = 25
# With more reference words per output word, the band moves too far from row to row for 64 bits.
STEEPEST = 40
# Moves per batch, whose rows fit in the CPU's cache.
MOVES_AT_A_TIME = 8192
ALL = ~np.uint64(0)


@dataclass(frozen=True)
class Alignment:
    """The cheapest path through each table; among equally cheap ones, that of sacreBLEU.

    Attributes:
        rows: `[columns]` the row, relative to row 0 of the pair, in which the path enters the column.
        output_wrong: `[rows]` whether the output word is substituted or deleted.
        reference_wrong: `[columns]` whether the reference word is substituted or inserted.
    """

    rows: Integers
    output_wrong: Booleans
    reference_wrong: Booleans


@dataclass(frozen=True)
class Moves:
    """S shifts, each as a swap of two adjacent blocks of an output.

    Attributes:
        pairs: `[S]` index of the pair.
        begins, middles, ends: `[S]` the blocks are words `begin:middle` and `middle:end`.
    """

    pairs: Integers
    begins: Integers
    middles: Integers
    ends: Integers

    def take(self, chosen: Integers) -> Moves:
        """Select shifts by their indices, in the order of the indices."""
        return Moves(self.pairs[chosen], self.begins[chosen], self.middles[chosen], self.ends[chosen])


def came_from(k: Integers | int, first: Integers, second: Integers) -> Integers:
    """The original offset of the k-th word, from 1, after swapping blocks of `first` and `second` words."""
    return np.where(k <= second, first, np.where(k <= first + second, -second, 0))


class Tables:
    """The tables of P pairs.

    Attributes:
        distances: `[P]` the edits of each pair, without shifts.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self._steps = np.arange(len(pairs.output)) - np.repeat(pairs.rows, pairs.heights + 1)
        # The columns of narrow tables are all in the band, from the first row to the last.
        self._narrow = bool((pairs.widths < BAND).all())
        self._one_mask = bool((pairs.widths <= 64).all())
        self._masks_at = pairs.masks_at[pairs.output]
        self._masks = pairs.masks[self._masks_at]
        self._origins, self._drops, self._inside = self._band()
        total = len(pairs.output)
        self._plus, self._minus = np.full(total, ALL), np.zeros(total, np.uint64)
        # The value at the origin; columns that match the word; that take the diagonal; that take it or the cell above.
        self._values = self._steps.copy()
        self._equal, self._diagonal, self._ways = (np.zeros(total, np.uint64) for _ in range(3))
        for i, count in _rows_down(pairs.heights):
            at = pairs.rows[:count] + i
            equal, plus, minus, risen = self._enter(at, at, self._plus[at - 1], self._minus[at - 1])
            self._plus[at], self._minus[at], same, above = _next_row(equal, plus, minus)
            self._values[at] = self._values[at - 1] + 1 + risen
            self._equal[at] = equal
            self._diagonal[at] = equal | ~same if self._narrow else (equal | ~same) & self._inside[at]
            self._ways[at] = self._diagonal[at] | above
        last = pairs.rows + pairs.heights
        self.distances = self._ends(last, pairs.widths, self._plus[last], self._minus[last], self._values[last])

    def _band(self) -> tuple[Integers, Bits, Bits]:
        """For each row: its origin, its distance from the origin above, and the bits of the columns that can match."""
        pairs, i = self.pairs, self._steps
        heights, widths = (np.repeat(side, pairs.heights + 1) for side in (pairs.heights, pairs.widths))
        # The same floating-point operations as in sacreBLEU; row 0 and the last row are complete.
        line = np.floor(i * (widths / heights)).astype(np.int64)
        firsts = np.where(i == 0, 0, np.maximum(0, line - BAND))
        behind = np.where((i == 0) | (i == heights), widths + 1, np.minimum(widths + 1, line + BAND))
        origins = np.where(i == 0, 0, np.maximum(_above(firsts), firsts - 1))
        drops = np.where(i == 0, 0, origins - _above(origins))
        # The columns of the row above, and the one that their last diagonal leads to; always fewer than 63.
        matching = np.where(i == 0, 0, np.minimum(_above(behind) - origins, 63))
        return origins, drops.astype(np.uint64), (ONE << matching.astype(np.uint64)) - ONE

    def _enter(self, at: Integers, words: Integers, plus: Bits, minus: Bits) -> tuple[Bits, Bits, Bits, Integers | int]:
        """Shift the rows above to the origins of the given rows.

        Args:
            at: the rows.
            words: for each row, the row with its output word.
            plus, minus: of the rows above.

        Returns:
            The columns that match the word; plus; minus; and the increase of the row above up to the new origin.
        """
        if self._narrow:
            return self._masks[words], plus, minus, 0
        origins, drops, inside = self._origins[at].astype(np.uint64), self._drops[at], self._inside[at]
        if self._one_mask:
            equal = self._masks[words] >> origins
        else:
            places, skipped = self._masks_at[words] + self._origins[at] // 64, origins % np.uint64(64)
            # Two left shifts, since a shift by 64 is a shift by 0.
            following = self.pairs.masks[places + 1] << ONE << (np.uint64(63) - skipped)
            equal = (self.pairs.masks[places] >> skipped) | following
        passed = (ONE << drops) - ONE
        risen = np.bitwise_count(plus & passed).astype(np.int64) - np.bitwise_count(minus & passed)
        known = inside >> ONE
        return equal & inside, (plus >> drops) | ~known, (minus >> drops) & known, risen

    def _ends(self, last: Integers, widths: Integers, plus: Bits, minus: Bits, values: Integers) -> Integers:
        """The values of the last cells of the last rows."""
        bits = (ONE << (widths - self._origins[last]).astype(np.uint64)) - ONE
        return values + np.bitwise_count(plus & bits) - np.bitwise_count(minus & bits)

    def align(self) -> Alignment:
        """Trace the cheapest path through the table of each pair, from its last cell to its first."""
        pairs = self.pairs
        came, free = np.zeros(len(pairs.output), np.int64), np.zeros(len(pairs.output), bool)
        columns = pairs.widths.copy()
        for i, count in reversed(list(_rows_down(pairs.heights))):
            at = pairs.rows[:count] + i
            came[at] = columns[:count]
            origins = self._origins[at]
            here = (ONE << (columns[:count] - origins).astype(np.uint64)) - ONE
            # The path goes left to the nearest column from which it goes up, at the latest at the origin.
            ways = self._ways[at] & here
            length = np.frexp(ways.astype(np.float64))[1].astype(np.int64)  # in bits, at most 53
            highest = np.maximum(length - 1, 0).astype(np.uint64)
            free[at] = (self._equal[at] & ways) >> highest
            columns[:count] = origins + length - ((self._diagonal[at] & ways) >> highest).astype(np.int64)
        came[pairs.rows] = columns
        left = _above(came)
        left[pairs.rows] = -1
        output_wrong, reference_wrong = ~free, np.ones(len(pairs.reference), bool)
        output_wrong[pairs.rows] = reference_wrong[pairs.columns] = False
        reference_wrong[(np.repeat(pairs.columns, pairs.heights + 1) + left + 1)[free]] = False
        return Alignment(np.repeat(self._steps, came - left), output_wrong, reference_wrong)

    def moved(self, moves: Moves) -> Integers:
        """The edit distances `[S]` after moves."""
        left = self.pairs.heights[moves.pairs] - moves.begins
        order = np.argsort(-left, kind="stable")
        distances = np.empty(len(left), np.int64)
        for first in range(0, len(left), MOVES_AT_A_TIME):
            chosen = order[first : first + MOVES_AT_A_TIME]
            distances[chosen] = self._moved(moves.take(chosen), left[chosen])
        return distances

    def _moved(self, moves: Moves, left: Integers) -> Integers:
        """The same for moves sorted by decreasing `left`, the rows after `begins`; earlier rows are reused."""
        pairs = self.pairs
        start = pairs.rows[moves.pairs] + moves.begins
        first, second = moves.middles - moves.begins, moves.ends - moves.middles
        plus, minus, values = self._plus[start], self._minus[start], self._values[start] + left
        for k, count in _rows_down(left):
            at = start[:count] + k
            words = at + came_from(k, first[:count], second[:count])
            equal, above, below, risen = self._enter(at, words, plus[:count], minus[:count])
            plus[:count], minus[:count] = _next_row(equal, above, below)[:2]
            values[:count] += risen
        return self._ends(start + left, pairs.widths[moves.pairs], plus, minus, values)


def _next_row(equal: Bits, plus: Bits, minus: Bits) -> tuple[Bits, Bits, Bits, Bits]:
    """Compute rows from those above.

    Args:
        equal: the columns that match the rows' words.
        plus, minus: the columns in which the rows above increase or decrease by 1.

    Returns:
        Plus and minus of the rows; the cells that equal the one diagonally above; the cells that are one more than the
        one above.
    """
    same = (((equal & plus) + plus) ^ plus) | equal | minus
    more = minus | ~(same | plus)
    less = same & plus
    shifted = (more << ONE) | ONE  # the origin rises by 1
    return (less << ONE) | ~(same | shifted), same & shifted, same, more


def _above(of_rows: Integers) -> Integers:
    """The values of the rows above; undefined for row 0 of a pair."""
    return np.concatenate([of_rows[:1], of_rows[:-1]])


def _rows_down(heights: Integers) -> Iterator[tuple[int, int]]:
    """The numbers of rows from 1, each with the number of tables, sorted by decreasing height, that have the row."""
    steps = np.arange(1, heights.max(initial=0) + 1)
    yield from zip(steps.tolist(), np.searchsorted(-heights, -steps, side="right").tolist(), strict=True)
