"""Lines in parts: a line of several sentences, or one that is far longer than a model's training sentences.

A line is cut where that hurts least: into sentences; one that is still too long is cut in two near its middle, behind a
clause mark if there is one there, else at a blank, else between two characters, until each part is as short as training
sentences are. The parts, joined, are the line. Time and memory are then those of so many sentences, and do not grow
with the square.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, TypeVar

from posnmt.config.schema import Decode
from posnmt.config.writing import writing
from posnmt.data.subword import BREAKS
from posnmt.translate.alignments import joined as joined_links
from posnmt.translate.requests import Part, Request
from posnmt.translate.search import Hypothesis
from posnmt.translate.sentences import ends_spaceless, sentences
from posnmt.translate.several import as_trained, most_together
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
class Line:
    """A line in parts; most lines are a single part.

    Attributes:
        request: the line.
        ids: the subwords of the whole line.
        parts: joined, their texts are the line.
        too_long: whether the line is in parts because of its length, and not because it has several sentences.
    """

    request: Request
    ids: list[int]
    parts: list[Part]
    too_long: bool = False


def in_parts(
    requests: Sequence[Request],
    encoded: Sequence[list[int]],
    side: SideText,
    decode: Decode,
    trained: int | None,
    several: Sequence[float] | None,
) -> list[Line]:
    """Lines, in the parts that `decode.split` asks for.

    Args:
        encoded: the subwords of each line.
        side: the text pipeline of the lines.
        trained: subwords of the longest training sentence; None: not known.
        several: the shares of training sources with at least 1, 2, … sentences; None: not known.
    """
    return [
        _in_parts(request, ids, side, decode, trained or UNRECORDED, most_together(decode, several))
        for request, ids in zip(requests, encoded, strict=True)
    ]


def _in_parts(request: Request, ids: list[int], side: SideText, decode: Decode, trained: int, together: int) -> Line:
    """A line in parts; `together` is the number of consecutive sentences in a part, where sentences are parts."""
    line, split, language = request.line, as_trained(decode).split, side.words.language
    texts, rows = [line], [ids]
    longest = max(1, trained)
    above = longest if split == "auto" else max(HUGE, MULTIPLE * longest)
    stays_whole = decode.split == "as-trained" and request.prefix  # its parts could not have the prefix
    too_long = split != "off" and len(ids) > above
    if too_long:
        texts = cut(line, language, lambda texts: list(map(len, side.encode(texts))), longest)
    elif split == "sentences" and not stays_whole:
        found = sentences(line, language)
        texts = ["".join(found[first : first + together]) for first in range(0, len(found), together)]
    if len(texts) > 1 and decode.protect != "off":
        texts = unbroken(texts, find(line, patterns(decode)))
    if len(texts) > 1:
        rows = side.encode(texts)
    else:
        texts = [line]
    pairs = enumerate(zip(texts, rows, strict=True))
    parts = [Part(row, request, place, BREAKS.sub(" ", text)) for place, (text, row) in pairs]
    return Line(request, ids, parts, too_long and len(parts) > 1)


def unbroken(parts: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[str]:
    """Parts of a line, joined where a span would be cut; `spans` are places in the line."""
    done, end = list[str](), 0
    for part in parts:
        inside = any(start < end < stop for start, stop in spans)
        done[-1:] = [done[-1] + part] if inside else [*done[-1:], part]
        end += len(part)
    return done


def cut(line: str, language: str, lengths: Callable[[list[str]], list[int]], most: int) -> list[str]:
    """The parts of a line, each of at most `most` subwords; joined, they are the line.

    Args:
        language: code, for the ends of sentences.
        lengths: gives the numbers of subwords of some texts.
        most: the most subwords of a part. A part of a single character may have more.
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
    """The two halves of a text of at least two characters, cut behind the clause mark or blank nearest to its middle.

    The mark or blank must be within a quarter of the text from the middle. If there is none, the text is cut between
    two characters.
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


def joined(lines: Iterable[Line], translations: Iterable[Translation], decode: Decode) -> list[Translation]:
    """The translation of each line, from the translations of all parts in order."""
    remaining = iter(translations)
    return [
        _joined(line, [next(remaining) for _ in line.parts], decode) if len(line.parts) > 1 else next(remaining)
        for line in lines
    ]


def _joined(line: Line, parts: list[Translation], decode: Decode) -> Translation:
    """The translation of a line: its first hypothesis consists of the first one of each part, and so on.

    Where a part has fewer hypotheses, its last one is repeated. Different translations of parts may join to one text:
    then the first rank has it.
    """
    texts = [part.text for part in line.parts]
    ranks = range(max(len(part.texts) for part in parts))
    in_order = [_joined_text(texts, [_at(part.texts, rank) for part in parts]) for rank in ranks]
    kept = first_ranks(in_order) if is_ranked(decode) else ranks
    links = [part.aligned for part in parts if part.aligned is not None]
    return Translation(
        line.request,
        [in_order[rank] for rank in kept],
        [
            _joined_hypothesis([_at(part.hypotheses, rank) for part in parts if part.hypotheses], decode.length_penalty)
            for rank in kept
        ],
        line.ids if any(part.source for part in parts) else [],
        parts=len(texts),
        aligned=joined_links(links, texts).only(kept) if links else None,
        too_long=line.too_long,
        longest_part=max(len(part.source) for part in parts),
        protected=list(chain.from_iterable(part.protected for part in parts)),
        unknown=list(chain.from_iterable(part.unknown for part in parts)),
        differing=list(chain.from_iterable(part.differing for part in parts)),
        omitted=_omitted(texts, parts),
    )


def _omitted(texts: list[str], parts: list[Translation]) -> list[Interval]:
    """Where the omitted sentences of parts stand in the line."""
    begins = accumulate(map(len, texts), initial=0)
    return [
        Interval(begin + start, begin + end)
        for begin, part in zip(begins, parts, strict=False)
        for start, end in part.omitted
    ]


def _at(items: Sequence[T], rank: int) -> T:
    """The item of a rank, or the last one."""
    return items[min(rank, len(items) - 1)]


def _joined_hypothesis(parts: list[Hypothesis], length_penalty: float) -> Hypothesis:
    """The hypothesis of a line, put together from one hypothesis of each part."""
    tokens = [token for each in parts for token in each.tokens]
    log_probability = sum(each.log_probability for each in parts)
    coverage, added = sum(each.coverage for each in parts), sum(each.added for each in parts)
    score = (log_probability + added) / (len(tokens) + len(parts)) ** length_penalty + coverage if parts else 0.0
    ended = all(each.ended for each in parts)
    log_probabilities = [value for each in parts for value in each.log_probabilities]
    return Hypothesis(tokens, log_probability, score, ended, log_probabilities, coverage, added)


def _joined_text(sources: list[str], translations: list[str]) -> str:
    """The translations of parts one after the other, with blanks where the language has them.

    In a line with blanks between words, a cut without a blank is within a word, and the translations are joined without
    one. The exception is a sentence in a script without blanks that ends or begins there: such a line may have few
    characters of that script.
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
    if before[-1:].isspace() or after[:1].isspace():
        return False
    return not (ends_spaceless(before) or ends_spaceless(after[:1]) or before.endswith(("…", "”")))
