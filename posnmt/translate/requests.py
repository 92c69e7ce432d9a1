"""The values that go through a translation: a line to translate, what is asked of all lines, and a part for search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode

if TYPE_CHECKING:
    from posnmt.translate.spans import Removed
    from posnmt.translate.terms import Terms

ONE_DOCUMENT = ""
"""The document of all lines where nobody names documents."""


@dataclass(frozen=True)
class Request:
    """A line to translate.

    Attributes:
        line: its text.
        number: its place in the text, counted from 1; with the seed it determines its samples.
        where: its place, for error messages.
        prefix: the beginning of its translation; empty: the translation is free.
        document: the id of its document, whose borders `decode.join` does not cross; None: it belongs to none and is
            translated alone.
    """

    line: str
    number: int = 1
    where: str = "input:1"
    prefix: str = ""
    document: str | None = ONE_DOCUMENT


def numbered(
    lines: Sequence[str],
    name: str = "input",
    first: int = 1,
    prefixes: Sequence[str] = (),
    documents: Sequence[str | None] = (),
) -> list[Request]:
    """The requests of consecutive lines.

    Args:
        name: the name of the text, for error messages.
        first: the number of the first line.
        prefixes, documents: one for each line; empty: none is given.
    """
    return [
        Request(
            line,
            first + place,
            f"{name}:{first + place}",
            prefixes[place] if prefixes else "",
            documents[place] if documents else ONE_DOCUMENT,
        )
        for place, line in enumerate(lines)
    ]


@dataclass(frozen=True)
class Search:
    """What is asked of the translations of some lines.

    Attributes:
        decode: the settings of search.
        nbest: how many translations of each line; at most the beam or `decode.mbr`, but any number of samples.
        scored: whether to compute the probability of each subword.
        aligned: whether to link the words of each translation to the words of its line.
        terms: a glossary; None: there is none.
    """

    decode: Decode = field(hash=False)  # a list of patterns has no hash
    nbest: int = 1
    scored: bool = True
    aligned: bool = False
    terms: Terms | None = None

    @property
    def candidates(self) -> int:
        """The translations of each line that are needed before the best `nbest` are chosen."""
        return max(self.nbest, self.decode.mbr)

    def refuse_too_many(self) -> None:
        """Check that search keeps as many translations as are asked for.

        Raises:
            UserError: it does not.
        """
        decode, count = self.decode, self.candidates
        if decode.sampling is None and count > decode.beam:
            what = f"{count} translations of a line are wanted, and the beam keeps {decode.beam}"
            raise UserError(what, None if self.nbest == count else "decode.mbr", "raise decode.beam, or sample")
        if decode.mbr and self.nbest > decode.mbr:
            what = f"{self.nbest} translations are wanted of {decode.mbr} candidates"
            raise UserError(what, "decode.mbr", "raise decode.mbr")


@dataclass(frozen=True)
class Part:
    """What is searched as one: a line, a part of a line, or several lines together.

    Attributes:
        ids: the subwords that the model reads, without eos; empty: there is nothing to translate.
        request: the line that it belongs to.
        place: its number among the parts of the line, counted from 0.
        text: its text, with blanks in place of tabs and other breaks.
        prefix: the subwords with which its translation begins.
        closed: whether the prefix ends with a term, whose last word must not go on.
        terms: the subwords of each term that its translation must have.
        breaks: the symbols between two sentences that its translation must have.
        passed: what passes on as it is, of a part without words; None: it goes through the model.
        removed: the part without its protected spans; None: it has none.
        unknown: the characters that the vocabulary lacks.
    """

    ids: Sequence[int]
    request: Request = Request("")
    place: int = 0
    text: str = ""
    prefix: Sequence[int] = ()
    closed: bool = False
    terms: Sequence[Sequence[int]] = ()
    breaks: int = 0
    passed: str | None = None
    removed: Removed | None = None
    unknown: Sequence[str] = ()

    @property
    def number(self) -> int:
        """The number that determines its samples: that of its line, and another one for each further part."""
        return self.request.number + (self.place << 40)

    @property
    def model_text(self) -> str:
        """The text with blanks in place of what does not go through the model; empty for a part that passes on."""
        if self.passed is not None:
            return ""
        return self.text if self.removed is None else self.removed.blanked
