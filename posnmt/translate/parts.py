"""Lines in parts: a line of several sentences, or one that is far longer than a model's training sentences.

A line is cut where that hurts least: into sentences; one that is still too long is cut in two near its middle, behind a
clause mark if there is one there, else at a blank, else between two characters, until each part is as short as training
sentences are. The parts, joined, are the line. Time and memory are then those of so many sentences, and do not grow
with the square.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, TypeVar

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.config.writing import writing
from posnmt.translate.alignments import joined
from posnmt.translate.search import Hypothesis
from posnmt.translate.sentences import ends_spaceless, sentences
from posnmt.translate.spans import Interval, find, patterns
from posnmt.translate.translations import Translation, first_ranks, is_ranked

if TYPE_CHECKING:
    from posnmt.data.text import SideText

T = TypeVar("T")

HUGE = 4096
"""Subwords above which `decode.split: huge` has lines in parts, if they are also `MULTIPLE` times as long as training
sentences."""

MULTIPLE = 8

UNRECORDED = 512
"""Subwords of the longest part where a run has no record of its training sentences."""

_CLAUSE = re.compile(r"(?:[,;:!?.…)\]}]|[—–-])+(?=\s)\s+|[、，；：。！？」』）؛،؟।။]+\s*")
_BLANK = re.compile(r"\s+")

MARKS = 8
"""Combining marks that stay with their letter, at most: a line may consist of them."""


@dataclass(frozen=True)
class Parts:
    """Lines in parts.

    Attributes:
        whole: subwords of each line.
        texts: the parts of each line, which are the line when joined.
        encoded: the subwords of each part.
        too_long: places of the lines that are in parts because of their length.
    """

    whole: list[list[int]]
    texts: list[list[str]]
    encoded: list[list[list[int]]]
    too_long: set[int] = field(default_factory=set)

    @property
    def flat(self) -> list[list[int]]:
        """The subwords of the parts of all lines."""
        return [ids for parts in self.encoded for ids in parts]

    @property
    def longest(self) -> list[list[int]]:
        """The subwords of the longest part of each line."""
        return [max(parts, key=len) for parts in self.encoded]

    def with_subwords(self, others: Mapping[int, list[int]]) -> Parts:
        """The same parts, some of them with other subwords, by their place among all parts."""
        flat = iter([others.get(place, ids) for place, ids in enumerate(self.flat)])
        return replace(self, encoded=[[next(flat) for _ in parts] for parts in self.encoded])

    def numbers(self, lines: Iterable[int]) -> list[int]:
        """A number for each part, which determines its samples; `lines` are those of the lines."""
        of_parts = zip(lines, self.texts, strict=True)
        return [line + (place << 40) for line, parts in of_parts for place in range(len(parts))]

    def prefixes(self, beginnings: Sequence[list[int]], first_line: int, name: str) -> list[list[int]]:
        """For each part the subwords with which its translation begins, of those of each line.

        Raises:
            UserError: a line in parts has a given beginning.
        """
        for line, (parts, beginning) in enumerate(zip(self.texts, beginnings, strict=False), first_line):
            if beginning and len(parts) > 1:
                what = f"a line in {len(parts):,} parts cannot have a given beginning"
                raise UserError(what, f"{name}:{line}", "leave its prefix empty, or translate it with decode.split=off")
        return [
            beginning
            for parts, beginning in zip(self.texts, beginnings, strict=False)
            for beginning in [beginning] * len(parts)
        ]

    def joined(self, translations: Iterable[Translation], decode: Decode) -> list[Translation]:
        """The translations of each line, of those of its parts: the first has the best of each, and so on."""
        each = iter(translations)
        return [
            replace(_join(texts, [next(each) for _ in texts], whole, decode), too_long=place in self.too_long)
            if len(texts) > 1
            else next(each)
            for place, (texts, whole) in enumerate(zip(self.texts, self.whole, strict=True))
        ]


def in_parts(
    lines: Sequence[str],
    encoded: Sequence[list[int]],
    side: SideText,
    decode: Decode,
    trained: int | None,
    together: int = 1,
    kept: Collection[int] = (),
) -> Parts:
    """Lines, those in parts that `decode.split` says.

    Args:
        encoded: the subwords of each line.
        side: the text pipeline of the lines.
        decode: its `split` is not `as-trained`; see `posnmt.translate.several.as_trained`.
        trained: subwords of the longest training sentence; None: not known.
        together: consecutive sentences of a line that are one part, where its sentences are parts.
        kept: places of lines that stay whole though they have several sentences.
    """
    most = max(1, trained or UNRECORDED)
    above = most if decode.split == "auto" else max(HUGE, MULTIPLE * most)
    parts = Parts(list(encoded), [[line] for line in lines], [[ids] for ids in encoded])
    if decode.split == "off":
        return parts
    for number, (line, ids) in enumerate(zip(lines, encoded, strict=True)):
        texts = [line]
        if len(ids) > above:
            texts = cut(line, side.words.language, lambda texts: list(map(len, side.encode(texts))), most)
        elif decode.split == "sentences" and number not in kept:
            each = sentences(line, side.words.language)
            texts = ["".join(each[first : first + together]) for first in range(0, len(each), together)]
        if len(texts) > 1 and decode.protect != "off":
            texts = unbroken(texts, find(line, patterns(decode)))
        if len(texts) > 1:
            parts.texts[number], parts.encoded[number] = texts, side.encode(texts)
            if len(ids) > above:
                parts.too_long.add(number)
    return parts


def prefixed(prefixes: Sequence[str]) -> set[int]:
    """The places of the lines whose translation has a given beginning."""
    return {place for place, prefix in enumerate(prefixes) if prefix}


def unbroken(parts: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[str]:
    """Parts of a line, those that a span reaches over as one; `spans` are places in the line."""
    done, end = list[str](), 0
    for part in parts:
        inside = any(start < end < stop for start, stop in spans)
        done[-1:] = [done[-1] + part] if inside else [*done[-1:], part]
        end += len(part)
    return done


def cut(line: str, language: str, lengths: Callable[[list[str]], list[int]], most: int) -> list[str]:
    """The parts of a line, each of at most so many subwords; joined, they are the line.

    Args:
        language: code, for the ends of sentences.
        lengths: the subwords of some texts.
        most: subwords of a part. A part that is one character may have more.
    """
    parts = [(part, False) for part in sentences(line, language)]
    while pending := [part for part, is_short in parts if not is_short]:
        measured = iter(lengths(pending))
        cut_once: list[tuple[str, bool]] = []
        for part, is_short in parts:
            if is_short or next(measured) <= most or len(part) == 1:
                cut_once.append((part, True))
            else:
                cut_once += [(half, False) for half in halves(part)]
        parts = cut_once
    return [part for part, _ in parts]


def halves(text: str) -> list[str]:
    """A text of two characters or more in two, cut behind the clause mark or blank nearest to its middle.

    In the quarter before the middle and the quarter behind it; without any there, between two characters.
    """
    middle, quarter = len(text) // 2, len(text) // 4
    for mark in (_CLAUSE, _BLANK):
        ends = [match.end() for match in mark.finditer(text, middle - quarter, middle + quarter)]
        if ends:
            at = min(ends, key=lambda end: abs(end - middle))
            if 0 < at < len(text):
                return [text[:at], text[at:]]
    at = middle
    while at < min(middle + MARKS, len(text) - 1) and _continues(text[at]):
        at += 1
    return [text[:at], text[at:]]


def _continues(character: str) -> bool:
    """Whether a character belongs to the one before it."""
    return unicodedata.category(character).startswith("M") or character == "\N{ZERO WIDTH JOINER}"


def _join(texts: list[str], parts: list[Translation], whole: list[int], decode: Decode) -> Translation:
    """The translations of a line, of those of its parts; of a part that has fewer, the last stands for others.

    Different translations of parts may join to one text: then the first rank has it.
    """
    ranks = range(max(len(part.texts) for part in parts))
    in_order = [_joined_text(texts, [_at(part.texts, rank) for part in parts]) for rank in ranks]
    kept = first_ranks(in_order) if is_ranked(decode) else ranks
    links = [part.aligned for part in parts if part.aligned is not None]
    placed = list(zip(accumulate(map(len, texts), initial=0), parts, strict=False))
    return Translation(
        [in_order[rank] for rank in kept],
        [
            _joined_hypothesis([_at(part.hypotheses, rank) for part in parts if part.hypotheses], decode.length_penalty)
            for rank in kept
        ],
        whole if any(part.source for part in parts) else [],
        len(texts),
        joined(links, texts).only(kept) if links else None,
        longest_part=max(len(part.source) for part in parts),
        protected=list(chain.from_iterable(part.protected for part in parts)),
        unknown=list(chain.from_iterable(part.unknown for part in parts)),
        differing=list(chain.from_iterable(part.differing for part in parts)),
        omitted=[Interval(begin + start, begin + end) for begin, part in placed for start, end in part.omitted],
    )


def _at(items: Sequence[T], rank: int) -> T:
    """The item of a rank, or the last one."""
    return items[min(rank, len(items) - 1)]


def _joined_hypothesis(parts: list[Hypothesis], length_penalty: float) -> Hypothesis:
    """The hypothesis of a line, of one of each part."""
    tokens = [token for each in parts for token in each.tokens]
    log_probability = sum(each.log_probability for each in parts)
    coverage, added = sum(each.coverage for each in parts), sum(each.added for each in parts)
    score = (log_probability + added) / (len(tokens) + len(parts)) ** length_penalty + coverage if parts else 0.0
    ended = all(each.ended for each in parts)
    log_probabilities = [value for each in parts for value in each.log_probabilities]
    return Hypothesis(tokens, log_probability, score, ended, log_probabilities, coverage, added)


def _joined_text(sources: list[str], translations: list[str]) -> str:
    """The translations of parts one after the other, with blanks where the language has them.

    A line whose words have blanks between them was cut within a word where there is none, unless a sentence of a
    script without blanks ends or begins there: such a line may have few characters of its script.
    """
    if writing(translations).counts_characters:
        return "".join(translations)
    spaced = not writing(sources).counts_characters
    text = ""
    for before, after, translation in zip(["", *sources], sources, translations, strict=False):
        within = spaced and _is_within_a_word(before, after)
        text += ("" if within or not text or not translation or ends_spaceless(text) else " ") + translation
    return text


def _is_within_a_word(before: str, after: str) -> bool:
    """Whether nothing separates two parts."""
    if before[-1:].isspace() or after[:1].isspace():
        return False
    return not (ends_spaceless(before) or ends_spaceless(after[:1]) or before.endswith(("…", "”")))
