"""The words of a text, each with its place; those of a translation with their probabilities."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from posnmt.config.segmenters import SEGMENTERS
from posnmt.config.writing import writing
from posnmt.data.subword import BLANK, BYTE

if TYPE_CHECKING:
    from posnmt.data.text import SideText

GAP = "\x1f"
"""A blank that no text has. It stands in a text in place of characters that belong to none of its subwords."""

ALIKE, NEAR, FAR = 3, 16, 500
"""How far to look where a text and the letters of its subwords differ. If detokenising removed letters of the subwords,
one equal letter is enough to go on, at most `NEAR` letters further. If the text has unknown characters, `ALIKE` letters
must be equal, at most `FAR` letters further in the text."""


@dataclass(frozen=True)
class Span:
    """A word of a text.

    Attributes:
        text: the word as it stands in the text, `text[start:end]`.
        start, end: its first character, and the one behind its last, counted from 0.
        subwords: of which it consists; those of all words, in order, are those of the text.
    """

    text: str
    start: int
    end: int
    subwords: int


@dataclass(frozen=True)
class Word(Span):
    """A word of a translation.

    Attributes:
        probability: of the word given the source and all words before it: the product of the probabilities of its
            subwords, each given the source and all subwords before it.
    """

    probability: float


def words(side: SideText, text: str, tokens: Sequence[int], log_probabilities: Sequence[float]) -> list[Word]:
    """The words of a translation, in order, as `spans` has them.

    Args:
        log_probabilities: of the subwords; none: there are no words.
    """
    if not log_probabilities:
        return []
    in_order = []
    first = 0
    for span in spans(side, text, tokens):
        end = first + span.subwords
        in_order.append(Word(**vars(span), probability=math.exp(sum(log_probabilities[first:end]))))
        first = end
    return in_order


def spans(side: SideText, text: str, tokens: Sequence[int]) -> list[Span]:
    """The words of a text, in order.

    Words are those of the text pipeline, which blanks separate in tokenised text. In text that is written without
    blanks and that no segmenter has cut, each subword is a word. Subwords that do not show in the text, such as a blank
    alone, belong to the next word, and at the end to the last word.

    Args:
        side: the text pipeline that made the text, or that reads it.
        text: detokenised.
        tokens: its subwords.
    """
    each_alone = side.words.tokeniser not in SEGMENTERS and writing([text]).counts_characters
    groups = _groups([side.subwords.pieces[token] for token in tokens], each_alone)
    shown = side.subwords.decode([tokens[start:end] for start, end in groups])
    in_order: list[Span] = []
    first = 0
    for (_, end), place in zip(groups, _places(shown, text), strict=True):
        if place is None:
            continue
        if in_order and place[0] < in_order[-1].end:  # both are of one character, as `f` and `i` of the ligature `ﬁ`
            last = in_order.pop()
            place, first = (last.start, max(last.end, place[1])), first - last.subwords
        word = text[slice(*place)].split(GAP)[0]  # the rest is behind what is none of the subwords
        in_order.append(Span(word, place[0], place[0] + len(word), end - first))
        first = end
    if in_order and first < len(tokens):
        in_order[-1] = replace(in_order[-1], subwords=in_order[-1].subwords + len(tokens) - first)
    return in_order


def _groups(pieces: Sequence[str], each_alone: bool) -> list[tuple[int, int]]:
    """The first subword of each word, and the one behind its last; bytes that follow each other are of one word."""
    starts = [
        place
        for place, piece in enumerate(pieces)
        if not place
        or piece.startswith(BLANK)
        or (each_alone and not (BYTE.fullmatch(piece) and BYTE.fullmatch(pieces[place - 1])))
    ]
    return list(pairwise([*starts, len(pieces)]))


def _places(shown: Sequence[str], text: str) -> list[tuple[int, int] | None]:
    """Where words stand in a text that has most of their letters in this order, in either case; None: nowhere."""
    letters = [(letter, index) for index, character in enumerate(text) for letter in _folded(character)]
    folded = [_folded(word) for word in shown]
    in_text = iter(_matched("".join(folded), "".join(letter for letter, _ in letters)))
    places: list[tuple[int, int] | None] = []
    for word in folded:
        at = [letters[place][1] for place in islice(in_text, len(word)) if place is not None]
        places.append((at[0], at[-1] + 1) if at else None)
    return places


def _matched(shown: str, text: str) -> list[int | None]:
    """For each letter the place of the same one in a text that has most of them in this order; None: nowhere."""
    places: list[int | None] = [None] * len(shown)
    number = at = 0
    while number < len(shown) and at < len(text):
        if shown[number] != text[at]:
            near = _nearest(shown, number, text, at)
            if near is None:
                number += 1
                continue
            number, at = near
        places[number] = at
        number, at = number + 1, at + 1
    return places


def _nearest(shown: str, number: int, text: str, at: int) -> tuple[int, int] | None:
    """The next places in both at which they go on alike, with the fewest letters skipped; None: not near."""
    together = []
    for first in range(number, min(number + NEAR, len(shown))):
        same = shown[first] == text[at]
        place = at if same else text.find(shown[first : first + ALIKE], at, at + FAR)
        if place >= 0:
            together.append((first - number + place - at, first, place))
    return min(together)[1:] if together else None


def _folded(text: str) -> str:
    """A text without blanks, case, and forms of one character that Unicode calls compatible."""
    return unicodedata.normalize("NFKD", "".join(text.split()).casefold())
