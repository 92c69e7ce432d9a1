"""A line of text as its sentences and its words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

from posnmt.evaluation.analyse.completeness.words import words
from posnmt.translate.sentences import sentences


@dataclass(frozen=True)
class Line:
    """A line of text.

    Attributes:
        sentences: of which it consists; joined, they are the line. A line without words has none.
        forms: of its words.
        starts: the first character of each word.
        ends: for each sentence, the number of words up to its end.
    """

    sentences: list[str]
    forms: list[str]
    starts: list[int]
    ends: list[int]

    @property
    def parts(self) -> list[slice]:
        """The words of each sentence."""
        return [slice(*ends) for ends in pairwise([0, *self.ends])]


def split(text: str, language: str) -> Line:
    """The sentences and words of a line, by the rules of `posnmt.translate.sentences`.

    What has no words, such as a quotation mark alone, belongs to the sentence before it, at the beginning to the first.
    """
    in_order = words(text)
    starts = [word.start for word in in_order]
    own: list[str] = []
    ends: list[int] = []
    pieces = sentences(text, language) if in_order else []
    for piece, limit in zip(pieces, accumulate(map(len, pieces)), strict=True):
        count = sum(at < limit for at in starts)
        if ends and count in (0, ends[-1]):
            own[-1] += piece
        elif ends and not ends[-1]:
            own[-1], ends[-1] = own[-1] + piece, count
        else:
            own, ends = [*own, piece], [*ends, count]
    return Line(own, [word.form for word in in_order], starts, ends)
