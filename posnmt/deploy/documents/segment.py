"""Segments of a document: text with inline tags. They are translated sentence by sentence, and get their tags back.

A tag keeps its relative place in the sentence: after 3 of 6 words, it is put after 4 of 8. Opening tags move back to a
word boundary and closing tags forward, so a pair that enclosed a word still does. The order of tags never changes, so
nested pairs stay nested. A tag inside a word stays inside it if the translation has the same word.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, Literal

from posnmt.config.writing import SPACELESS
from posnmt.translate.sentences import ends_spaceless, sentences

UNIT = re.compile(rf"[{SPACELESS}]|[^\W{SPACELESS}]+|[^\w\s]")
"""A word, a punctuation mark, or a character of a script without blanks between words."""
WORD = re.compile(rf"[^\W{SPACELESS}]")
"""A character of a word in a script with blanks between words."""
SOFT = "\xad"
"""The soft hyphen: a place where a word may be divided at the end of a line."""
DIVIDED = re.compile(rf"(?<!\w)\w+(?:{SOFT}+\w+)+")
"""A word with soft hyphens in it."""
FIXED = re.compile(r"[^\S \t\n\r\f\v]+")
"""White space other than a plain blank, such as a no-break space."""


@dataclass(frozen=True)
class Tag:
    """Something in a text that is not text, such as markup.

    Attributes:
        kind: whether it opens or closes an element, or stands alone.
        content: whatever the format needs to write it again. In a sentence, the content of a tag that stands alone is a
            list of tags, which keep together.
        separates: whether it separates words although there is no blank, as a line break does.
        joins: whether letters before and after it are one word, as around a place where a word may break.
    """

    kind: Literal["open", "close", "alone"]
    content: Any
    separates: bool = False
    joins: bool = False


Piece = str | Tag


@dataclass(frozen=True)
class Kept:
    """A text with letters that is not translated.

    Attributes:
        line: its line in the document, from 1.
        text: the text as people read it.
        reason: why it is not translated, in a few words that follow a number: `comments`.
    """

    line: int
    text: str
    reason: str


@dataclass
class Segment:
    """A piece of a document that is translated as a whole.

    Attributes:
        line: its line in the document, from 1.
        pieces: text and tags, in order.
        translated: text and tags of the translation; None: the segment stays as it is.
        passes: whether all its letters are in addresses and placeholders, so it needs no translation.
    """

    line: int
    pieces: list[Piece]
    translated: list[Piece] | None = None
    passes: bool = False

    @property
    def has_letters(self) -> bool:
        """Whether there is anything to translate."""
        return not self.passes and any(has_letters(each) for each in self.pieces if isinstance(each, str))


@dataclass(frozen=True)
class TagRules:
    """What the caller of a reader wants to have done with some elements, by their names.

    Attributes:
        ignored: their content is kept as it is.
        splitting: they always end a segment.
        joining: they occur inside a sentence.
        detects: whether other elements are judged by their kind or place; if not, they occur inside a sentence.
        lines: whether the end of a line ends a segment.
    """

    ignored: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    joining: frozenset[str] = frozenset()
    detects: bool = True
    lines: bool = False

    def is_inside(self, name: str, usually: bool) -> bool:
        """Whether an element occurs inside a sentence.

        Args:
            usually: whether it does where the caller has no wish.
        """
        return name not in self.splitting and (name in self.joining or not self.detects or usually)


def has_letters(text: str) -> bool:
    """Whether a text has a letter."""
    return any(map(str.isalpha, text))


@dataclass(frozen=True)
class Place:
    """A tag's place in a sentence.

    Attributes:
        tag: the tag.
        before: the number of units (`UNIT`) before it; a fraction inside a unit.
        ends: whether the tag belongs to the unit before it.
        beside: the characters of text before and after it; a line break after it counts as a blank.
    """

    tag: Tag
    before: Fraction
    ends: bool
    beside: tuple[str, str]

    @property
    def unit(self) -> int:
        """The number of the unit that the tag belongs to."""
        return math.ceil(self.before) - 1 if self.ends else math.floor(self.before)

    def blanks(self, translation: str, at: int) -> tuple[bool, bool]:
        """Whether to add a blank before and a blank after the tag at a place in a translation.

        A tag that stands alone must not touch a word on a side where it touched none in the source. If it had blanks on
        both sides and now has one, it gets the other.
        """
        here = translation[max(0, at - 1) : at], translation[at : at + 1]
        is_gap = not all(map(str.strip, here))
        before, after = (
            bool(new.strip()) and not WORD.match(old) and bool(WORD.match(new) or (is_gap and old.isspace()))
            for old, new in zip(self.beside, here, strict=True)
        )
        stands = self.tag.kind == "alone" and not self.tag.separates
        return stands and before and not self.ends, stands and after


@dataclass
class Sentence:
    """A sentence of a segment.

    Attributes:
        text: the text, stripped, with a plain blank for any white space.
        before, after: white space around it, with the tags there.
        tags: the tags inside it.
        fixed: (unit before, unit after) → white space between them other than a plain blank.
        divided: word → the word with the soft hyphens that it has in the segment; `text` has none.
    """

    text: str
    before: list[Piece] = field(default_factory=list)
    after: list[Piece] = field(default_factory=list)
    tags: list[Place] = field(default_factory=list)
    fixed: dict[tuple[str, str], str] = field(default_factory=dict)
    divided: dict[str, str] = field(default_factory=dict)

    def place(self, translation: str) -> list[Piece]:
        """Put the tags of the sentence into its translation.

        If a word has tags inside, they go to the nearest equal word of the translation. A no-break space is kept where
        the translation has the same words beside it, and soft hyphens where it has the same word.
        """
        translation = self._spaced(translation)
        spans = [match.span() for match in UNIT.finditer(translation)]
        units = UNIT.findall(self.text)
        ratio = Fraction(len(spans), max(1, len(units)))
        split = {math.floor(each.before) for each in self.tags if each.before.denominator > 1}
        same: dict[str, list[int]] = {}
        for number, (start, end) in enumerate(spans):
            same.setdefault(translation[start:end], []).append(number)
        pieces: list[Piece] = []
        last = 0
        for each in self.tags:
            tag, share = each.tag, each.before * ratio
            unit = (
                math.floor(share) if tag.kind == "open" else math.ceil(share) if tag.kind == "close" else round(share)
            )
            word = units[each.unit] if each.unit in split else ""
            if numbers := same.get(word):
                _, nearest = min((abs(number * len(units) - each.unit * len(spans)), number) for number in numbers)
                at = max(last, spans[nearest][0] + int((each.before - each.unit) * len(word)))
            elif each.ends:
                at = max(last, spans[unit - 1][1] if unit > 0 else 0)
            else:
                unit = max(unit, bisect_left(spans, (last, 0)))
                at = spans[unit][0] if unit < len(spans) else len(translation)
            before, after = each.blanks(translation, at)
            pieces += [translation[last:at], " " * before, tag, " " * after]
            last = at
        done = _tidy([each for each in [*pieces, translation[last:]] if each != ""])
        return [self._with_soft_hyphens(each) if isinstance(each, str) else each for each in done]

    def _with_soft_hyphens(self, text: str) -> str:
        """Put soft hyphens into the words that have them in the segment."""
        return re.sub(r"\w+", lambda word: self.divided.get(word[0], word[0]), text) if self.divided else text

    def _spaced(self, translation: str) -> str:
        """Put no-break and other spaces between units that are neighbours both in the source and in the translation."""
        if not self.fixed:
            return translation
        done, last = [], 0
        for one, other in pairwise(UNIT.finditer(translation)):
            space = self.fixed.get((one.group(), other.group()))
            if space and translation[one.end() : other.start()] == " ":
                done += [translation[last : one.end()], space]
                last = other.start()
        return "".join([*done, translation[last:]])


def _tidy(pieces: Sequence[Piece]) -> list[Piece]:
    """Move blanks before opening tags and after closing ones, and remove blanks beside tags that separate words."""
    done: list[Piece] = []
    opens = 0
    for piece in pieces:
        at = len(done) - opens
        before = done[at - 1] if at else ""
        if isinstance(piece, str):
            text = piece.lstrip(" ") if isinstance(before, Tag) and before.separates else piece
            done.insert(at if text == " " else len(done), text)
            opens = opens if text == " " else 0
        else:
            if piece.separates and at and isinstance(before, str):
                done[at - 1] = before.rstrip(" ")
            done.insert(len(done) - (piece.kind == "close" and done[-1:] == [" "]), piece)
            opens = opens + 1 if piece.kind == "open" else 0
    return [each for each in done if each != ""]


def divide(segment: Segment, language: str, as_one: bool = False) -> list[Sentence]:
    """The sentences of a segment, by the rules for a language; `as_one`: it is one sentence."""
    whole = "".join(each for each in segment.pieces if isinstance(each, str))
    divided = {each.replace(SOFT, ""): each for each in DIVIDED.findall(whole)}
    text, tags = _flat([each.replace(SOFT, "") if isinstance(each, str) else each for each in segment.pieces])
    wholes = [text] if as_one else sentences(text, language) or [text]
    starts = [0, *accumulate(map(len, wholes))][:-1]
    cores = [whole.strip() for whole in wholes]
    begins = [start + whole.find(core) for start, whole, core in zip(starts, wholes, cores, strict=True)]
    parts = [Sentence(re.sub(r"\s+", " ", core), fixed=_fixed(core), divided=divided) for core in cores]
    spans = [match.span() for match in UNIT.finditer(text)]
    outside: list[tuple[list[tuple[Tag, int]], list[tuple[Tag, int]]]] = [([], []) for _ in parts]
    number = 0
    for tag, at, ends, beside in tags:
        here = (bisect_left(starts, at) if ends else bisect_right(starts, at)) - 1
        number = max(number, here)
        begin, end = begins[number], begins[number] + len(cores[number])
        if at < begin or at > end:
            outside[number][at > end].append((tag, at))
        else:
            before = max(Fraction(0), _units(spans, at) - _units(spans, begin))
            parts[number].tags.append(Place(tag, before, ends, beside))
    for part, start, begin, whole, core, (early, late) in zip(
        parts, starts, begins, wholes, cores, outside, strict=True
    ):
        end = begin + len(core)
        part.before = _apart(text, start, begin, early)
        part.after = _apart(text, end, start + len(whole), late)
    return parts


def _fixed(text: str) -> dict[tuple[str, str], str]:
    """(Unit before, unit after) → white space between them other than a plain blank."""
    if not FIXED.search(text):
        return {}
    units = pairwise(UNIT.finditer(text))
    gaps = (((one.group(), other.group()), text[one.end() : other.start()]) for one, other in units)
    return {beside: gap for beside, gap in gaps if FIXED.fullmatch(gap)}


def _apart(text: str, start: int, end: int, tags: Sequence[tuple[Tag, int]]) -> list[Piece]:
    """The text from `start` to `end` with the tags in it."""
    pieces: list[Piece] = []
    for tag, at in tags:
        at = max(start, at)
        pieces += [text[start:at], tag]
        start = at
    return [*pieces, text[start:end]]


def _flat(pieces: Sequence[Piece]) -> tuple[str, list[tuple[Tag, int, bool, tuple[str, str]]]]:
    """A segment's text, and its tags, each with its place in the text, `ends` and `beside` (see `Place`)."""
    pieces = _together(pieces)
    rights = [""]
    for piece in reversed(pieces):
        is_break = isinstance(piece, Tag) and piece.separates
        rights.append(" " if is_break else (piece[:1] if isinstance(piece, str) else "") or rights[-1])
    texts: list[str] = []
    tags, left, length = [], "", 0
    for piece, right, follower in zip(pieces, reversed(rights[:-1]), [*pieces[1:], ""], strict=True):
        text = piece if isinstance(piece, str) else ""
        left = text[-1:] or left
        if isinstance(piece, Tag):
            separates = _separates(piece, left, right, follower)
            is_at_end = piece.kind == "alone" and not separates and bool(left.strip()) and not right.strip()
            ends = piece.kind == "close" or is_at_end
            tags.append((replace(piece, separates=separates), length, ends, (left, right)))
            text = " " if separates and left.strip() and right.strip() else ""
        texts.append(text)
        length += len(text)
    return "".join(texts), tags


def _separates(tag: Tag, left: str, right: str, follower: Piece) -> bool:
    """Whether a tag separates two words: it stands alone between them, or it ends an element and another one begins.

    Args:
        tag: the tag.
        left, right: the nearest characters of text.
        follower: the piece after the tag.
    """
    if tag.kind == "alone":
        return tag.separates or bool(not tag.joins and WORD.match(left) and WORD.match(right))
    begins = isinstance(follower, Tag) and follower.kind == "open"
    return tag.kind == "close" and begins and left.isalnum() and right.isalnum()


def _together(pieces: Sequence[Piece]) -> list[Piece]:
    """Make one tag of an element without text, and of neighbouring tags that stand alone."""
    done: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Tag) and piece.kind == "alone":
            piece = replace(piece, content=[piece])
        done.append(piece)
        match done[-3:]:
            case [*_, Tag("open") as first, Tag("close") as last]:
                done[-2:] = [Tag("alone", [first, last])]
            case [Tag("open") as first, Tag("alone", inner, False, joins), Tag("close") as last]:
                done[-3:] = [Tag("alone", [first, *inner, last], joins=joins)]
        match done[-2:]:
            case [Tag("alone", one, before, left), Tag("alone", other, after, right)] if before == after:
                done[-2:] = [Tag("alone", [*one, *other], before, left and right)]
    return done


def _units(spans: Sequence[tuple[int, int]], at: int) -> Fraction:
    """The number of units before a place in a text, a fraction inside a unit; `spans` has the places of all units."""
    number = bisect_left(spans, (at, 0))
    if number == 0:
        return Fraction(0)
    start, end = spans[number - 1]
    return number - 1 + Fraction(min(at, end) - start, end - start)


def join(parts: Sequence[Sentence], translations: Sequence[list[Piece]]) -> list[Piece]:
    """Join the pieces of a segment's sentences.

    There is a blank between two sentences if the script of the translation has blanks.
    """
    pieces: list[Piece] = []
    for number, (sentence, translation) in enumerate(zip(parts, translations, strict=True)):
        after = sentence.after
        if number + 1 < len(parts) and len(after) == 1 and not str(after[0]).strip(" "):
            text = "".join(each for each in translation if isinstance(each, str))
            is_apart = bool(translation) and isinstance(translation[-1], Tag) and translation[-1].separates
            after = [] if is_apart or ends_spaceless(text) else [after[0] or " "]
        pieces += [*sentence.before, *translation, *after]
    singles = [each.content if isinstance(each, Tag) and each.kind == "alone" else [each] for each in pieces]
    return [each for group in singles for each in group if each != ""]
