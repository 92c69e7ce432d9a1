"""Offsets between texts that should be aligned: source line i belongs to target line i + k, not to target line i.

One line that is missing or doubled in one file shifts all lines after it. Two things of a line are found again in its
translation, in any pair of languages: its length (Gale and Church 1993), and the numerals and words that both languages
write alike, such as names. The fit of two lines is

    -log(1 + (r / s)²) + w · min(Σ idf(t), c)

where r is the log of the ratio of their lengths in characters, less its median, s is the usual size of r, and t are the
tokens that both lines have. A stretch of lines is at offset k if its source lines fit the target lines at k better than
their own. Let d be the difference of a line's two fits. If lines fit both alike, so that d and -d are equally likely,
then Σd / √Σd² exceeds z with a probability of at most exp(-z²/2) (Hoeffding 1963). z is so large that this happens in
none of the stretches that could be chosen, but for a probability of `ALARM`. The lines of an aligned text fit their own
translations better, so that its rate of false warnings is far lower.

The bound holds for lines that are independent of each other. So lines that say the same are counted once, as in a form
where "Yes" and "No" alternate a hundred times. Numerals that count the lines are not counted: "Floor 2" is "1. Stock"
in German, which would fit the line before.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, product

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from posnmt.config.writing import SPACELESS
from posnmt.data.corpus import TextFile, open_text

FARTHEST = 5
"""The largest offset that is named."""

OFFSETS = tuple(offset for offset in range(-FARTHEST, FARTHEST + 1) if offset)
"""Offsets that are compared with none."""

RIVALS = tuple(offset for offset in range(-2 * FARTHEST, 2 * FARTHEST + 1) if offset)
"""Offsets that are compared with one that was found."""

ALARM = 0.001
"""The largest probability of a false warning, where lines fit their neighbours' translations as well as their own."""

DOUBT = 0.05
"""The largest probability that an offset is named which fits no better than another one."""

SAMPLE, BLOCK = 5_000, 100
"""Lines of a longer text that are compared, in blocks of consecutive lines at equal distances."""

WEIGHT, MOST = 0.5, 6.0
"""w and c of the fit."""

LEAST = 0.05
"""The smallest s."""

ROUNDING = 1e-9
"""A sum of d up to this is taken to be 0."""

ENOUGH, PARTS = 50, 5
"""For `unrelated`: the fewest lines, and the number of parts whose distances are the offsets that are compared."""

LEAST_LIKE, LIKE = 4.0, 0.05
"""The smallest certainty, in total and per line, with which related texts fit better than others. Outputs with nine
words in ten exchanged have at least 0.12 a line; texts in another order have up to 4 in total, or 0.05 a line if
neighbours are alike."""

NAMED = 3
"""The most stretches that warnings name; further ones are counted."""

_TOKEN = re.compile(r"\d+|[a-z\u00df-\u024f]+|[^\W\d_a-z\u00df-\u024f]+")
"""A numeral, a word in Latin letters (also inside Japanese or Chinese), or a word of other letters."""

_SPACELESS = re.compile(f"([{SPACELESS}])")

_OTHER_DIGIT = re.compile(r"[^\D0-9]")

Read = Callable[[Sequence[range]], tuple[list[str], list[str]]]
"""Reads some lines of both texts, numbered from 0."""


class Shift(TypedDict):
    """A stretch of lines, numbered from 1, whose source line i belongs to target line i + `offset`.

    `offset` is None where the lines do not belong together, and no offset fits clearly better than all others.
    `last` is None where the stretch lasts to the end.
    """

    offset: int | None
    first: int
    last: int | None


def shifts(sources: Sequence[str], targets: Sequence[str]) -> list[Shift]:
    """The stretches of two texts that are misaligned, in their order; see `shifts_of`."""

    def read(blocks: Sequence[range]) -> tuple[list[str], list[str]]:
        rows = list(chain.from_iterable(blocks))
        return [sources[row] for row in rows], [targets[row] for row in rows]

    return _shifts(read, len(sources))


def shifts_in(read: Read, count: int) -> list[Shift]:
    """The stretches of a text with a number of lines that are misaligned, in their order; see `shifts_of`."""
    return _shifts(read, count)


def shifts_of(files: Mapping[str, TextFile], count: int) -> list[Shift]:
    """The stretches of a corpus that are misaligned, in their order.

    Of more than `SAMPLE` lines a sample is compared; where it shows a shift, the ends are then searched in all lines.

    Args:
        files: of the corpus, as `corpus_files` gives them; `prepare` has checked them.
        count: the number of their lines.

    Raises:
        UserError: a file cannot be opened.
    """
    return _shifts(partial(_read, files), count)


def unrelated(sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Whether the lines of two texts in one language fit each other no better than lines that are far away.

    Letters of scripts without blanks count as words. The answer is no for fewer than `ENOUGH` lines, and for targets of
    which most are the same, as those of a system that has learned nothing.
    """
    if len(sources) < ENOUGH or len(set(targets)) < len(targets) / 2:
        return False

    def read(blocks: Sequence[range]) -> tuple[list[str], list[str]]:
        rows = list(chain.from_iterable(blocks))
        return [_apart(sources[row]) for row in rows], [_apart(targets[row]) for row in rows]

    part = min(len(sources), SAMPLE) // PARTS
    gains = _gains(read, range(len(sources)), [sign * part * k for sign in (-1, 1) for k in range(1, PARTS)])[1]
    losses = -np.sum(list(gains.values()), axis=0)
    return _certainty(losses) < max(LEAST_LIKE, LIKE * int(np.count_nonzero(losses)))


def sentences(stretches: Sequence[Shift], text: str, other: str) -> list[str]:
    """Sentences for people about the shifts of a text against another one, such as a target against a source."""
    result = []
    for shift in stretches[:NAMED]:
        offset, first, last = shift["offset"], shift["first"], shift["last"]
        if last is not None:
            where, todo = f"from about line {first:,} to {last:,}", "around these two lines"
        elif first > 1:
            where, todo = f"from about line {first:,} on", "around that line"
        else:
            where, todo = "in the whole text", "among the first lines"
        if offset is None:
            result.append(
                f"{where}, the lines of the {text} and of the {other} do not belong together, and no offset from"
                f" -{FARTHEST} to +{FARTHEST} fits clearly better than the others; look in both files whether lines are"
                f" in another order, or many are missing, {todo}"
            )
            continue
        far = "one line" if abs(offset) == 1 else f"{abs(offset)} lines"
        result.append(
            f"{where}, the {text} seems to be {far} {'late' if offset > 0 else 'early'} (offset {offset:+}): line n of"
            f" the {other} fits line n {'+' if offset > 0 else '-'} {abs(offset)} of the {text}; look in both files for"
            f" a line that is missing or doubled {todo}"
        )
    if len(stretches) > NAMED:
        result.append(f"{len(stretches) - NAMED:,} more stretches of the {text} seem to be shifted against the {other}")
    return result


def _shifts(read: Read, count: int) -> list[Shift]:
    """The misaligned stretches of a text with a number of lines."""
    numbers, gains = _gains(read, range(count), OFFSETS)
    stretches = []
    shifted = _stretches({0: np.zeros(len(numbers)), **gains}, 0, 0, len(numbers))
    rivals = _gains(read, range(count), RIVALS)[1] if shifted else {}
    for offset, first, last in _joined(shifted, gains):
        begin, end = numbers[first], count if last == len(numbers) else numbers[last]
        if len(numbers) < count:  # the sample has gaps
            around = [
                range(numbers[max(0, row - BLOCK)], numbers[min(len(numbers) - 1, row + BLOCK)] + 1)
                for row in (first, last)
            ]
            begin = _edge(read, around[0], offset, 1) if first > 0 else 0
            end = _edge(read, around[1], offset, -1) if last < len(numbers) else count
        better = (rivals[offset] - rivals[other] for other in RIVALS if other != offset)
        is_clear = all(_certainty(each[first:last]) > math.log(len(RIVALS) / DOUBT) for each in better)
        named = offset if is_clear else None
        stretches.append(Shift(offset=named, first=int(begin) + 1, last=None if end == count else int(end)))
    return stretches


def _edge(read: Read, lines: range, offset: int, sign: int) -> int:
    """The line at which a stretch begins (sign 1), or the line after its end (sign -1)."""
    numbers, gains = _gains(read, lines, OFFSETS)
    row = int(np.argmin(np.concatenate([[0.0], np.cumsum(sign * gains[offset])])))
    if len(numbers) == len(lines):
        return lines.start + row
    around = range(numbers[max(0, row - BLOCK)], numbers[min(len(numbers) - 1, row + BLOCK)] + 1)
    return _edge(read, around, offset, sign)


def _gains(
    read: Read, lines: range, offsets: Sequence[int]
) -> tuple[NDArray[np.int64], dict[int, NDArray[np.float64]]]:
    """How much better source lines fit the target lines at each offset than their own.

    Returns:
        The numbers of a sample of the lines [N]; offset -> d [N], which is 0 if it is not known, as at a blank line, or
        if an earlier line has the same texts. The last lines of a block are compared with the first ones of the next
        block, which they do not fit.
    """
    blocks = [lines]
    if len(lines) > SAMPLE:
        starts = np.linspace(lines.start, lines.stop - BLOCK, SAMPLE // BLOCK).astype(int).tolist()
        blocks = [range(start, start + BLOCK) for start in starts]
    numbers = np.concatenate([np.arange(block.start, block.stop) for block in blocks])
    texts = _Texts(*read(blocks))
    if not len(texts.rows(0)):
        return numbers, {offset: np.zeros(len(numbers)) for offset in offsets}
    known = {offset: texts.rows(offset) for offset in (0, *offsets)}
    residuals = {offset: texts.residuals(rows, offset) for offset, rows in known.items()}
    scale = max(LEAST, min(float(np.median(abs(each))) for each in residuals.values() if len(each)))
    fits = {offset: np.zeros(len(numbers)) for offset in known}
    for offset, rows in known.items():
        fits[offset][rows] = WEIGHT * texts.copies(rows, offset) - np.log1p((residuals[offset] / scale) ** 2)
    gains = {offset: np.zeros(len(numbers)) for offset in offsets}
    for offset in offsets:
        rows = texts.first(known[offset], offset)
        gains[offset][rows] = fits[offset][rows] - fits[0][rows]
    return numbers, gains


class _Texts:
    """Some lines of a source and a target [N], and how well they fit.

    Methods have rows: numbers of source lines [M], each of which is compared with the target line at an offset.
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self._sides = [[line.strip() for line in side] for side in (sources, targets)]
        pairs = zip(*self._sides, strict=True)
        self._blank = np.array([not source or not target for source, target in pairs], dtype=bool)
        self._lengths = [np.log1p([len(line) for line in side]) for side in self._sides]
        tokens = [_without_counters([_tokens(line) for line in side]) for side in self._sides]
        source, target = (Counter(token for each in side for token in each) for side in tokens)
        both = source.keys() & target.keys()
        self._idf = {token: math.log(len(sources) / max(source[token], target[token])) for token in both}
        self._tokens = [[each & both for each in side] for side in tokens]

    def rows(self, offset: int) -> NDArray[np.int64]:
        """The lines that are compared at an offset: neither their own pair nor the line at the offset is blank."""
        rows = np.arange(max(0, -offset), len(self._blank) - max(0, offset))
        return rows[~self._blank[rows] & ~self._blank[rows + offset]]

    def residuals(self, rows: NDArray[np.int64], offset: int) -> NDArray[np.float64]:
        """Return r [M]: how far each target's length is from what its source suggests."""
        source, target = self._lengths
        return target[rows + offset] - source[rows] - np.median((target - source)[~self._blank])

    def copies(self, rows: NDArray[np.int64], offset: int) -> NDArray[np.float64]:
        """Return min(Σ idf(t), c) [M], t the tokens that source and target share."""
        source, target = self._tokens
        shared = (source[row] & target[row + offset] for row in rows.tolist())
        return np.array([min(MOST, sum(self._idf[token] for token in each)) if each else 0.0 for each in shared])

    def first(self, rows: NDArray[np.int64], offset: int) -> NDArray[np.int64]:
        """The first row of all rows with the same three texts."""
        source, target = self._sides
        texts = {(source[row], target[row], target[row + offset]): row for row in rows.tolist()[::-1]}
        return np.array(list(texts.values()), int)


def _without_counters(tokens: Sequence[set[str]]) -> list[set[str]]:
    """The tokens of lines without the numerals that count them, which grow evenly from line to line.

    Lines at any of the `OFFSETS` count as neighbours, since other lines may be between counted ones.
    """
    numbers = [{int(token) for token in each if token.isdecimal() and len(token) < 19} for each in tokens]
    kept = []
    for row, each in enumerate(tokens):
        counters = set[int]()
        for far in range(1, min(FARTHEST, row, len(tokens) - 1 - row) + 1) if numbers[row] else ():
            before, after = numbers[row - far], numbers[row + far]
            counters |= {own for own in numbers[row] if any(own + own - one in after for one in before - {own})}
        kept.append(
            {token for token in each if not (token.isdecimal() and int(token[:19]) in counters)} if counters else each
        )
    return kept


def _stretches(
    gains: Mapping[int, NDArray[np.float64]], usual: int, first: int, last: int
) -> list[tuple[int, int, int]]:
    """The offset, the first row and the row after the last one of each misaligned stretch between two rows, in order.

    The stretch that most certainly has another offset than the usual one is chosen first. Then those before it and
    after it are looked for, and in it those that have yet another offset.
    """
    others = (_best(offset, (each - gains[usual])[first:last]) for offset, each in gains.items() if offset != usual)
    best = max(filter(None, others), default=None)
    if best is None:
        return [(usual, first, last)] if usual and first < last else []
    _, offset, begin, end = best
    begin, end = first + begin, first + end
    parts = [(usual, first, begin), (offset, begin, end), (usual, end, last)]
    return [stretch for part in parts for stretch in _stretches(gains, *part)]


def _joined(
    stretches: Sequence[tuple[int, int, int]], gains: Mapping[int, NDArray[np.float64]]
) -> list[tuple[int, int, int]]:
    """The stretches; neighbours of the same offset are joined, and others meet at the row that fits both best."""
    joined: list[tuple[int, int, int]] = []
    for offset, first, last in stretches:
        if joined and joined[-1][2] == first:
            before, start, _ = joined.pop()
            if before == offset:
                first = start
            else:
                better = np.cumsum(gains[before][start:last] - gains[offset][start:last])
                first = start + int(np.argmax(better)) + 1
                joined.append((before, start, first))
        joined.append((offset, first, last))
    return joined


def _best(offset: int, gains: NDArray[np.float64]) -> tuple[float, int, int, int] | None:
    """The stretch with the largest sum of d, or the same lengthened to an end of the text: its certainty and place."""
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    last = int(np.argmax(sums - np.minimum.accumulate(sums)))
    first = int(np.argmin(sums[: last + 1]))
    stretches = []
    for begin, end in product({0, first}, {last, len(gains)}):
        inner = (begin > 0) + (end < len(gains))  # there are 1, 2 N or N² / 2 stretches with so many inner ends
        choices = (1, 2 * len(gains), len(gains) ** 2 / 2)[inner]
        certain = _certainty(gains[begin:end]) - math.log(3 * len(OFFSETS) * choices / ALARM)
        stretches.append((certain, offset, begin, end))
    return max((each for each in stretches if each[0] > 0), default=None)


def _certainty(gains: NDArray[np.float64]) -> float:
    """The negative logarithm of the largest probability of so large a sum of d; 0 where it is not positive."""
    total = float(gains.sum())
    return total**2 / float((gains**2).sum()) / 2 if total > ROUNDING else 0.0


def _tokens(line: str) -> set[str]:
    """The numerals and words of a line in any script: in lower case, and with ASCII digits."""
    line = unicodedata.normalize("NFKC", line).casefold()
    if not line.isascii():
        line = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), line)
    return set(_TOKEN.findall(line))


def _apart(line: str) -> str:
    """A line with blanks between the letters of scripts that have none between words."""
    return _SPACELESS.sub(r" \1 ", line)


def _read(files: Mapping[str, TextFile], blocks: Sequence[range]) -> tuple[list[str], list[str]]:
    """Read the lines of some blocks of a corpus, source and target."""
    if "tsv" in files:
        rows = [(*line.split("\t"), "")[:2] for line in _picked(files["tsv"], blocks)]  # a blank line has one column
        return [row[0] for row in rows], [row[1] for row in rows]
    return list(_picked(files["source"], blocks)), list(_picked(files["target"], blocks))


def _picked(file: TextFile, blocks: Sequence[range]) -> Iterator[str]:
    """Some lines of a file; the others are skipped as bytes, which is fast."""
    place = 0
    with open_text(file) as stream:
        for block in blocks:
            for raw in islice(stream, block.start - place, block.stop - place):
                yield raw.decode(errors="replace")
            place = block.stop
