"""Edit distances of many pairs at once inside the band of sacreBLEU's TER, what they align, and what shifts save.

sacreBLEU fills only the cells of a row that lie within 25 columns of the line between two corners of a table.
Neighbours in a row differ by -1, 0 or 1, so a row is two numbers of 64 bits, and the next row a few operations on them
(Myers 1999, in the form of Hyyrö 2003); here NumPy's, on one row of every pair at a time.

The bits of a row begin one column after its *origin*: the first column of the row above or, where the band moves on,
the column before the first of this row. The origin is taken to hold one more than in the row above. In the band that is
true, since only the cell above leads to it; outside, a path through it is dearer than one along the diagonal. Right of
the band a row is taken to rise by 1 a column and to match nothing, and a path there is at least as dear as one along
the band's last diagonal. Where costs are equal, the alignment is found by looking into the band alone.

Legend: P pairs, S moves, i row and j column in the table of a pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from posnmt.metrics.ter_pairs import Bits, Booleans, Integers, Pairs

# How far the band reaches to either side: sacreBLEU's _BEAM_WIDTH.
BAND = 25
# With more reference words than this for each output word the band moves too far from row to row for 64 bits.
STEEPEST = 40
# Moves at a time: few enough for their rows to stay in the processor's cache.
MOVES_AT_A_TIME = 8192
ONE = np.uint64(1)
ALL = ~np.uint64(0)


@dataclass(frozen=True)
class Alignment:
    """The cheapest way through each table, the one that sacreBLEU takes where there are several.

    Attributes:
        rows: `[columns]` the row, counted from row 0 of the pair, in which the way comes to the column.
        output_wrong: `[rows]` whether the output word is substituted or left out.
        reference_wrong: `[columns]` whether the reference word is substituted or put in.
    """

    rows: Integers
    output_wrong: Booleans
    reference_wrong: Booleans


@dataclass(frozen=True)
class Moves:
    """S shifts, each as two neighbouring blocks of an output that change places.

    Attributes:
        pairs: `[S]` of which pair.
        begins, middles, ends: `[S]` the first block is words `begin` to `middle`, the second `middle` to `end`, from 0.
    """

    pairs: Integers
    begins: Integers
    middles: Integers
    ends: Integers

    def take(self, chosen: Integers) -> Moves:
        """Some of the moves."""
        return Moves(self.pairs[chosen], self.begins[chosen], self.middles[chosen], self.ends[chosen])


def came_from(k: Integers | int, first: Integers, second: Integers) -> Integers:
    """How far on the word stood that is the k-th, from 1 on, after blocks of so many words have changed places."""
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
        # What the origin holds; where the word matches; where the diagonal is taken; and where that or the cell above.
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
        """For each row its origin; how far that is from the one above; and the bits of the columns that can match."""
        pairs, i = self.pairs, self._steps
        heights, widths = (np.repeat(side, pairs.heights + 1) for side in (pairs.heights, pairs.widths))
        # The very operations on floats that sacreBLEU makes; row 0 and the last row are whole.
        line = np.floor(i * (widths / heights)).astype(np.int64)
        firsts = np.where(i == 0, 0, np.maximum(0, line - BAND))
        behind = np.where((i == 0) | (i == heights), widths + 1, np.minimum(widths + 1, line + BAND))
        origins = np.where(i == 0, 0, np.maximum(_above(firsts), firsts - 1))
        drops = np.where(i == 0, 0, origins - _above(origins))
        # The columns of the row above and the one that their last diagonal leads to; no band has as many as 63.
        matching = np.where(i == 0, 0, np.minimum(_above(behind) - origins, 63))
        return origins, drops.astype(np.uint64), (ONE << matching.astype(np.uint64)) - ONE

    def _enter(self, at: Integers, words: Integers, plus: Bits, minus: Bits) -> tuple[Bits, Bits, Bits, Integers | int]:
        """What rows see of the rows above them, from their own origins on.

        Args:
            at: the rows.
            words: for each of them the row whose output word stands there.
            plus, minus: the rows above.

        Returns:
            The columns that hold the word; plus; minus; and by how much the row above rises to the new origin.
        """
        if self._narrow:
            return self._masks[words], plus, minus, 0
        origins, drops, inside = self._origins[at].astype(np.uint64), self._drops[at], self._inside[at]
        if self._one_mask:
            equal = self._masks[words] >> origins
        else:
            places, skipped = self._masks_at[words] + self._origins[at] // 64, origins % np.uint64(64)
            # Two shifts to the left, since one by 64 is one by 0.
            following = self.pairs.masks[places + 1] << ONE << (np.uint64(63) - skipped)
            equal = (self.pairs.masks[places] >> skipped) | following
        passed = (ONE << drops) - ONE
        risen = np.bitwise_count(plus & passed).astype(np.int64) - np.bitwise_count(minus & passed)
        known = inside >> ONE
        return equal & inside, (plus >> drops) | ~known, (minus >> drops) & known, risen

    def _ends(self, last: Integers, widths: Integers, plus: Bits, minus: Bits, values: Integers) -> Integers:
        """What the last cells of last rows hold."""
        bits = (ONE << (widths - self._origins[last]).astype(np.uint64)) - ONE
        return values + np.bitwise_count(plus & bits) - np.bitwise_count(minus & bits)

    def align(self) -> Alignment:
        """The alignment of each pair."""
        pairs = self.pairs
        came, free = np.zeros(len(pairs.output), np.int64), np.zeros(len(pairs.output), bool)
        columns = pairs.widths.copy()
        for i, count in reversed(list(_rows_down(pairs.heights))):
            at = pairs.rows[:count] + i
            came[at] = columns[:count]
            origins = self._origins[at]
            here = (ONE << (columns[:count] - origins).astype(np.uint64)) - ONE
            # The way goes to the left as far as to the nearest column from which it goes up, at the least the origin.
            ways = self._ways[at] & here
            length = np.frexp(ways.astype(np.float64))[1].astype(np.int64)  # of the number in bits: it has at most 53
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
        """The edits `[S]` of outputs in which words were moved."""
        left = self.pairs.heights[moves.pairs] - moves.begins
        order = np.argsort(-left, kind="stable")
        distances = np.empty(len(left), np.int64)
        for first in range(0, len(left), MOVES_AT_A_TIME):
            chosen = order[first : first + MOVES_AT_A_TIME]
            distances[chosen] = self._moved(moves.take(chosen), left[chosen])
        return distances

    def _moved(self, moves: Moves, left: Integers) -> Integers:
        """The same of moves with most rows `left` first; rows before a move are those of the table."""
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
    """Rows from those above.

    Args:
        equal: the columns that hold the rows' words.
        plus, minus: where the rows above rise and fall by 1 from a column to the next.

    Returns:
        Plus and minus of the rows; where the cell holds the same as the one above to the left; where it holds one more
        than the one above.
    """
    same = (((equal & plus) + plus) ^ plus) | equal | minus
    more = minus | ~(same | plus)
    less = same & plus
    shifted = (more << ONE) | ONE  # the origin rises by 1
    return (less << ONE) | ~(same | shifted), same & shifted, same, more


def _above(of_rows: Integers) -> Integers:
    """What belongs to the row above of each row; nothing of the kind for a row 0."""
    return np.concatenate([of_rows[:1], of_rows[:-1]])


def _rows_down(heights: Integers) -> Iterator[tuple[int, int]]:
    """The numbers of rows, from 1 on, and how many of the tables, highest first, have that row."""
    steps = np.arange(1, heights.max(initial=0) + 1)
    yield from zip(steps.tolist(), np.searchsorted(-heights, -steps, side="right").tolist(), strict=True)
