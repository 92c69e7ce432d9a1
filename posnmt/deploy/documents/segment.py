"""Segments of a document: text with inline tags, sentence by sentence, and the tags' places in the translation.

A tag keeps its share of the sentence: one after 3 of 6 words stands after 4 of 8. Opening tags move to the word before
that place and closing ones to the word after it, so that what enclosed a word still does; their order never changes, so
that what was nested is nested.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any, Literal

from posnmt.config.writing import SPACELESS
from posnmt.translate.sentences import ends_spaceless, sentences

UNIT = re.compile(rf"[{SPACELESS}]|[^\W{SPACELESS}]+|[^\w\s]")
"""A word, a sign, or a character of a script without blanks between words."""


@dataclass(frozen=True)
class Tag:
    """What stands in a text and is no text.

    Attributes:
        kind: whether it opens or closes something, or stands alone.
        content: what the document's format needs to write it again.
        separates: whether words before and after it are two, without a blank: a line break.
    """

    kind: Literal["open", "close", "alone"]
    content: Any
    separates: bool = False


Piece = str | Tag


@dataclass
class Segment:
    """A piece of a document that is translated as a whole.

    Attributes:
        line: of the document, from 1.
        pieces: text and tags, in order.
        translated: likewise; None: left as it is.
    """

    line: int
    pieces: list[Piece]
    translated: list[Piece] | None = None

    @property
    def has_letters(self) -> bool:
        """Whether there is anything to translate."""
        return any(has_letters(each) for each in self.pieces if isinstance(each, str))


def has_letters(text: str) -> bool:
    """Whether a text has a letter."""
    return any(map(str.isalpha, text))


@dataclass
class Sentence:
    """A sentence of a segment.

    Attributes:
        text: without white space around it; inside, it is blanks.
        before, after: white space around it, and the tags there.
        tags: with the number of its units (`UNIT`) before each, a part of a unit as a fraction, and whether the tag
            belongs to the unit before.
    """

    text: str
    before: list[Piece] = field(default_factory=list)
    after: list[Piece] = field(default_factory=list)
    tags: list[tuple[Tag, Fraction, bool]] = field(default_factory=list)

    @property
    def units(self) -> int:
        """How many units it has."""
        return len(UNIT.findall(self.text))

    def place(self, translation: str) -> list[Piece]:
        """The translation with the tags of the sentence in it."""
        spans = [match.span() for match in UNIT.finditer(translation)]
        ratio = Fraction(len(spans), max(1, self.units))
        pieces: list[Piece] = []
        last = 0
        for tag, before, ends in self.tags:
            share = before * ratio
            unit = (
                math.floor(share) if tag.kind == "open" else math.ceil(share) if tag.kind == "close" else round(share)
            )
            if ends:
                at = max(last, spans[unit - 1][1] if unit > 0 else 0)
            else:
                unit = max(unit, bisect_left(spans, (last, 0)))
                at = spans[unit][0] if unit < len(spans) else len(translation)
            text = translation[last:at]
            pieces += [_without_blank(text, pieces, tag), tag]
            last = at
        pieces.append(_without_blank(translation[last:], pieces))
        return [each for each in pieces if each != ""]


def _without_blank(text: str, before: Sequence[Piece], after: Tag | None = None) -> str:
    """A text without the blanks beside tags that separate words without one."""
    if before and isinstance(before[-1], Tag) and before[-1].separates:
        text = text.lstrip(" ")
    return text.rstrip(" ") if after is not None and after.separates else text


def divide(segment: Segment, language: str) -> list[Sentence]:
    """The sentences of a segment, by the rules for a language."""
    text, tags = _flat(segment.pieces)
    wholes = sentences(text, language) or [text]
    starts = [0, *accumulate(map(len, wholes))][:-1]
    cores = [whole.strip() for whole in wholes]
    begins = [start + whole.find(core) for start, whole, core in zip(starts, wholes, cores, strict=True)]
    parts = [Sentence(re.sub(r"\s+", " ", core)) for core in cores]
    spans = [match.span() for match in UNIT.finditer(text)]
    outside: list[tuple[list[tuple[Tag, int]], list[tuple[Tag, int]]]] = [([], []) for _ in parts]
    number = 0
    for tag, at, ends in tags:
        here = (bisect_left(starts, at) if ends else bisect_right(starts, at)) - 1
        number = max(number, here)
        begin, end = begins[number], begins[number] + len(cores[number])
        if at < begin or at > end:
            outside[number][at > end].append((tag, at))
        else:
            before = max(Fraction(0), _units(spans, at) - _units(spans, begin))
            parts[number].tags.append((tag, before, ends))
    for part, start, begin, whole, core, (early, late) in zip(
        parts, starts, begins, wholes, cores, outside, strict=True
    ):
        end = begin + len(core)
        part.before = _apart(text, start, begin, early)
        part.after = _apart(text, end, start + len(whole), late)
    return parts


def _apart(text: str, start: int, end: int, tags: Sequence[tuple[Tag, int]]) -> list[Piece]:
    """A part of a text, with the tags in it."""
    pieces: list[Piece] = []
    for tag, at in tags:
        at = max(start, at)
        pieces += [text[start:at], tag]
        start = at
    return [*pieces, text[start:end]]


def _flat(pieces: Sequence[Piece]) -> tuple[str, list[tuple[Tag, int, bool]]]:
    """A segment's text, and its tags with their places in it, and whether each belongs to what is before it."""
    rights = [""]
    for piece in reversed(pieces):
        rights.append(piece[:1] if isinstance(piece, str) and piece else rights[-1])
    texts: list[str] = []
    tags, left, length = [], "", 0
    for piece, right in zip(pieces, reversed(rights[:-1]), strict=True):
        text = piece if isinstance(piece, str) else ""
        if isinstance(piece, Tag):
            ends = piece.kind == "close" or (piece.kind == "alone" and bool(left.strip()) and not right.strip())
            if piece.kind == "alone" and (piece.separates or (left.isalnum() and right.isalnum())):
                piece, ends = replace(piece, separates=True), False
                text = " " if left.strip() and right.strip() else ""
            tags.append((piece, length, ends))
        texts.append(text)
        length += len(text)
        left = text[-1:] or left
    return "".join(texts), tags


def _units(spans: Sequence[tuple[int, int]], at: int) -> Fraction:
    """The number of units before a place in a text, a part of one as a fraction; `spans` are those of all."""
    number = bisect_left(spans, (at, 0))
    if number == 0:
        return Fraction(0)
    start, end = spans[number - 1]
    return number - 1 + Fraction(min(at, end) - start, end - start)


def join(parts: Sequence[Sentence], translations: Sequence[list[Piece]]) -> list[Piece]:
    """The pieces of a segment from those of its sentences, with the white space between them.

    Blanks between sentences are those that the translation's script has.
    """
    pieces: list[Piece] = []
    for number, (sentence, translation) in enumerate(zip(parts, translations, strict=True)):
        after = sentence.after
        if number + 1 < len(parts) and len(after) == 1 and not str(after[0]).strip(" "):
            text = "".join(each for each in translation if isinstance(each, str))
            after = [] if ends_spaceless(text) else [after[0] or " "]
        pieces += [*sentence.before, *translation, *after]
    return [each for each in pieces if each != ""]
