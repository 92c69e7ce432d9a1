"""The words of a translation, each with its place in the text and its probability."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posnmt.config.segmenters import SEGMENTERS
from posnmt.config.writing import writing
from posnmt.data.subword import BLANK

if TYPE_CHECKING:
    from posnmt.data.text import SideText


@dataclass(frozen=True)
class Word:
    """A word of a translation.

    Attributes:
        text: the word as it stands in the translation, `translation[start:end]`.
        start, end: its first character, and the one behind its last, counted from 0.
        subwords: of which it consists; those of all words, in order, are those of the translation.
        probability: of the word given the source and all words before it: the product of the probabilities of its
            subwords, each given the source and all subwords before it.
    """

    text: str
    start: int
    end: int
    subwords: int
    probability: float


def words(side: SideText, text: str, tokens: Sequence[int], log_probabilities: Sequence[float]) -> list[Word]:
    """The words of a translation, in order.

    Words are those of the text pipeline: what stands between blanks in tokenised text. In text that is written without
    blanks and that no segmenter has cut, each subword is one. Subwords of which the text shows nothing, such as a blank
    alone, belong to the word after them, and at the end to the last one.

    Args:
        side: the text pipeline that made the text.
        text: the translation, detokenised.
        tokens: its subwords.
        log_probabilities: of the subwords; none: there are no words.
    """
    if not log_probabilities:
        return []
    each_alone = side.words.tokeniser not in SEGMENTERS and writing([text]).counts_characters
    groups = _groups([side.subwords.pieces[token] for token in tokens], each_alone)
    shown = side.subwords.decode([tokens[start:end] for start, end in groups])
    in_order: list[Word] = []
    first = 0
    for (_, end), place in zip(groups, _places(shown, text), strict=True):
        if place is not None:
            in_order.append(_word(text, place, log_probabilities[first:end]))
            first = end
    if in_order and first < len(tokens):
        last = in_order.pop()
        in_order.append(_word(text, (last.start, last.end), log_probabilities[first - last.subwords :]))
    return in_order


def _word(text: str, place: tuple[int, int], log_probabilities: Sequence[float]) -> Word:
    start, end = place
    return Word(text[start:end], start, end, len(log_probabilities), math.exp(sum(log_probabilities)))


def _groups(pieces: Sequence[str], each_alone: bool) -> list[tuple[int, int]]:
    """The first subword of each word, and the one behind its last."""
    starts = [place for place, piece in enumerate(pieces) if each_alone or not place or piece.startswith(BLANK)]
    return list(zip(starts, [*starts[1:], len(pieces)], strict=True))


def _places(shown: Iterable[str], text: str) -> list[tuple[int, int] | None]:
    """Where words stand in a text that has their characters in this order, except blanks and case; None: nowhere."""
    letters = [(letter, index) for index, character in enumerate(text) for letter in _folded(character)]
    places: list[tuple[int, int] | None] = []
    at = 0
    for word in shown:
        begun = at
        for letter in _folded(word):
            if at < len(letters) and letters[at][0] == letter:  # else detokenising has removed it
                at += 1
        places.append((letters[begun][1], letters[at - 1][1] + 1) if at > begun else None)
    return places


def _folded(text: str) -> str:
    """A text without blanks and case."""
    return "".join(text.split()).casefold()
