"""TER for many lines at once, with the edits and reference lengths of sacreBLEU 2.6 in its default settings.

Words of the output that occur elsewhere in the reference are shifted greedily, as long as that saves edits; each shift
is one edit (Snover et al. 2006). The shifts that are tried, and the one that is chosen, are those of sacreBLEU,
including its limits and its order among ties; tests/metrics/test_ter.py compares the two. sacreBLEU processes lines and
shifts one by one; here, the next shift of all pairs of an output and a reference is searched for at once.

Legend: N lines, P pairs, C candidates for a shift. A shift is of `length` words from `start` to before word `target`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from posnmt.metrics.ter_pairs import Booleans, Integers, Pairs, pairs_of, spans
from posnmt.metrics.ter_tables import BAND, STEEPEST, Moves, Tables, came_from

Line = tuple[str, str]
Words = list[int]

# sacreBLEU's _MAX_SHIFT_SIZE, _MAX_SHIFT_DIST and _MAX_SHIFT_CANDIDATES.
SHIFT_SIZE = 10
SHIFT_DISTANCE = 50
SHIFT_CANDIDATES = 1000
# Words of outputs and references per batch; garbled lines have tens of candidates per word.
WORDS_AT_A_TIME = 100_000


def ter_statistics(outputs: Sequence[str], references: Sequence[str]) -> Integers:
    """sacreBLEU's statistics of TER for N lines: `[N, 2]`, edits and reference length. Equal lines are counted once."""
    numbers: dict[str, int] = {}
    words = {
        line: [numbers.setdefault(word, len(numbers)) for word in line.rstrip().lower().split()]
        for line in (*dict.fromkeys(outputs), *dict.fromkeys(references))
    }
    lines = list(zip(outputs, references, strict=True))
    edits = {(one, other): _edits_at_once(words[one], words[other]) for one, other in lines}
    todo = [(pair, words[pair[0]], words[pair[1]]) for pair, known in edits.items() if known is None]
    for part in _parts(todo):
        pairs, *sides = zip(*part, strict=True)
        edits.update(zip(pairs, _edits(pairs_of(*sides)).tolist(), strict=True))
    return np.array([(edits[pair], len(words[pair[1]])) for pair in lines], np.int64).reshape(-1, 2)


def _edits_at_once(output: Words, reference: Words) -> int | None:
    """The edits of pairs that need no search, or whose tables do not fit into 64 bits; None for all others."""
    if output == reference:
        return 0
    if not (output and reference):
        return len(output) + len(reference)
    if len(reference) <= STEEPEST * len(output):
        return None
    from sacrebleu.metrics.lib_ter import translation_edit_rate

    return translation_edit_rate([*map(str, output)], [*map(str, reference)])[0]


def _parts(todo: list[tuple[Line, Words, Words]]) -> Iterator[list[tuple[Line, Words, Words]]]:
    """Split lines into batches, the longest output first; wide tables, which need more work per row, are separate."""
    for wide in (False, True):
        lines = sorted((line for line in todo if (len(line[2]) >= BAND) == wide), key=lambda line: -len(line[1]))
        sizes = np.cumsum([len(output) + len(reference) for _, output, reference in lines])
        for _, part in groupby(zip(sizes // WORDS_AT_A_TIME, lines, strict=True), key=itemgetter(0)):
            yield [line for _, line in part]


def _edits(pairs: Pairs) -> Integers:
    """The edits `[P]` of pairs, including shifts."""
    edits = np.zeros(len(pairs.rows), np.int64)
    left = np.arange(len(edits))  # pairs that were shifted in every round so far
    tried = np.zeros(len(edits), np.int64)
    shifts = 0
    while len(left):
        tables = Tables(pairs)
        edits[left] = tables.distances + shifts
        candidates, tried = _candidates(tables, tried)
        moves = _best(candidates, tables).moves(pairs)
        _shift(pairs, moves)
        left, tried, pairs = left[moves.pairs], tried[moves.pairs], pairs.take(moves.pairs)
        shifts += 1
    return edits


@dataclass(frozen=True)
class Candidates:
    """C candidates for a shift.

    Attributes:
        pairs: `[C]` index of the pair.
        starts, lengths, targets: `[C]` the shifted words, and the word that they are inserted before.
    """

    pairs: Integers
    starts: Integers
    lengths: Integers
    targets: Integers

    def take(self, chosen: Integers | Booleans) -> Candidates:
        """Select candidates by a mask `[C]` or by their indices."""
        return Candidates(self.pairs[chosen], self.starts[chosen], self.lengths[chosen], self.targets[chosen])

    def moves(self, pairs: Pairs) -> Moves:
        """The candidates as swaps of adjacent blocks.

        sacreBLEU interprets a target within the shifted words as counted from their end, without them.
        """
        behind = self.starts + self.lengths
        back = self.targets < self.starts
        ends = np.where(self.targets > behind, self.targets, self.targets + self.lengths)
        return Moves(
            self.pairs,
            np.where(back, self.targets, self.starts),
            np.where(back, self.starts, behind),
            np.where(back, behind, np.minimum(ends, pairs.heights[self.pairs])),
        )


def _candidates(tables: Tables, tried: Integers) -> tuple[Candidates, Integers]:
    """The shifts that sacreBLEU tries next, and the number that it has then tried for each pair.

    Words may be shifted to equal words of the reference if both contain an edit, and if they are not aligned to each
    other. Pairs in which no shift can save an edit have no candidates, and neither have pairs that reach the limit, for
    which sacreBLEU discards the shifts.
    """
    pairs = tables.pairs
    alignment = tables.align()
    rows, columns, runs = _same_words(pairs, tables.distances > pairs.least)
    pair = pairs.of_row[rows]
    aligned = alignment.rows[columns] + pairs.rows[pair]
    wrong_rows, wrong_columns = (
        np.concatenate([[0], np.cumsum(wrong)]) for wrong in (alignment.output_wrong, alignment.reference_wrong)
    )
    by_length = []
    live = np.arange(len(rows))
    for length in range(1, SHIFT_SIZE + 1):
        live = live[runs[live] >= length]
        row, column, to = rows[live], columns[live], aligned[live]
        by_length.append(
            live[
                (wrong_rows[row + length] > wrong_rows[row])
                & (wrong_columns[column + length] > wrong_columns[column])
                & ((to < row) | (to >= row + length))
            ]
        )
    which, lengths = (
        np.concatenate(by_length),
        np.repeat(np.arange(1, SHIFT_SIZE + 1), [len(each) for each in by_length]),
    )
    # Each is tried at one or more targets.
    few = (tried + np.bincount(pair[which], minlength=len(tried)))[pair[which]] < SHIFT_CANDIDATES
    which, lengths = which[few], lengths[few]
    # The words are inserted after the word aligned to the preceding reference word, or to any of the equal ones.
    targets = alignment.rows[spans(columns[which] - 1, lengths + 1)]
    number = np.repeat(np.arange(len(which)), lengths + 1)
    new = np.ones(len(targets), bool)
    new[1:] = (number[1:] != number[:-1]) | (targets[1:] != targets[:-1])
    which, lengths, targets = which[number[new]], lengths[number[new]], targets[new]
    candidates = Candidates(pair[which], (rows - pairs.rows[pair] - 1)[which], lengths, targets)
    tried = tried + np.bincount(candidates.pairs, minlength=len(tried))
    return candidates.take(tried[candidates.pairs] < SHIFT_CANDIDATES), tried


def _same_words(pairs: Pairs, hopeful: Booleans) -> tuple[Integers, Integers, Integers]:
    """Positions at which an output and its reference have the same word, within the maximum distance of a shift.

    Args:
        pairs: P pairs.
        hopeful: `[P]` mask of the pairs to search.

    Returns:
        Rows and columns; and the number of equal words from there on, up to the maximum size of a shift.
    """
    by_word = np.argsort(pairs.reference, kind="stable")
    times = np.bincount(pairs.reference, minlength=len(pairs.masks_at))
    firsts = (np.cumsum(times) - times)[pairs.output]
    counts = np.where((pairs.output > 0) & hopeful[pairs.of_row], times[pairs.output], 0)
    long = np.flatnonzero((np.maximum(pairs.heights, pairs.widths) > SHIFT_DISTANCE + 1)[pairs.of_row] & (counts > 0))
    if len(long):
        # Restrict the search to columns near the row: a line that repeats one word would have too many matches.
        of_pair = pairs.of_row[long]
        near = pairs.columns[of_pair] + long - pairs.rows[of_pair]
        size = len(pairs.reference) + 1
        places = pairs.reference[by_word] * size + by_word
        lowest, highest = (
            pairs.output[long] * size + np.clip(near + reach, 0, size - 1)
            for reach in (-SHIFT_DISTANCE, SHIFT_DISTANCE)
        )
        firsts[long] = np.searchsorted(places, lowest)
        counts[long] = np.searchsorted(places, highest, side="right") - firsts[long]
    rows = np.repeat(np.arange(len(counts)), counts)
    columns = by_word[spans(firsts, counts)]
    # Sorted by diagonal, successive words are adjacent. (Row 0 separates the pairs.)
    size = len(pairs.output) + 1
    keys = np.sort((columns - rows + size) * size + rows)
    rows = keys % size
    last = np.flatnonzero(np.diff(keys, append=-1) != 1)
    runs = np.repeat(last, np.diff(last, prepend=-1)) - np.arange(len(keys)) + 1
    return rows, keys // size - size + rows, np.minimum(runs, SHIFT_SIZE)


def _best(candidates: Candidates, tables: Tables) -> Candidates:
    """The best candidate of each pair, in the order of the pairs, without pairs in which none saves an edit.

    The best one saves most edits; ties are broken by the greatest length, then the earliest start, then the earliest
    target.
    """
    moves = candidates.moves(tables.pairs)
    some = np.flatnonzero(moves.ends > moves.middles)  # without shifts that change nothing
    saved = tables.distances[moves.pairs[some]] - tables.moved(moves.take(some))
    best, saved = candidates.take(some[saved > 0]), saved[saved > 0]
    order = np.lexsort((-best.targets, -best.starts, best.lengths, saved, best.pairs))
    return best.take(order[np.diff(best.pairs[order], append=-1) != 0])


def _shift(pairs: Pairs, moves: Moves) -> None:
    """Apply one move to each of some pairs, in place."""
    firsts, seconds = moves.middles - moves.begins, moves.ends - moves.middles
    sizes = firsts + seconds
    rows = spans(pairs.rows[moves.pairs] + moves.begins + 1, sizes)
    k = spans(np.ones_like(sizes), sizes)
    pairs.output[rows] = pairs.output[rows + came_from(k, np.repeat(firsts, sizes), np.repeat(seconds, sizes))]
