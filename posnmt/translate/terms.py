"""Terms of a glossary: what a translation must say for words of its source.

Texts are compared by units: a run of letters, marks and digits is one, and any other sign; so is each character of a
script without blanks between words. Blanks and invisible characters do not count, so that tokenised and detokenised
text are the same.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from posnmt.base.errors import UserError, raise_all
from posnmt.config.segmenters import SEGMENTERS
from posnmt.config.writing import ALONE, writing
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.data.lines import checked_lines
from posnmt.data.subword import BLANK, BYTE, SPECIALS, UNK
from posnmt.data.tokenise import Words

if TYPE_CHECKING:
    from posnmt.data.text import SideText

Units = tuple[str, ...]

LONGEST = 1024
"""Characters of the longest term: every place of a text is compared with terms, and time grows with their lengths."""


class Terms:
    """Source terms with what translations say for them.

    Args:
        pairs: source term and target term.
        places: of the pairs, for errors.

    Raises:
        UserError: a term that is empty or longer than `LONGEST`, or a source term that stands twice; all at once.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], places: Sequence[str]) -> None:
        self.pairs = list(pairs)
        self._targets: dict[Units, str] = {}
        faults = []
        for (source, target), place in zip(pairs, places, strict=True):
            if max(len(source), len(target)) > LONGEST:
                faults.append(UserError(f"a term has more than {LONGEST:,} characters", place, "write shorter terms"))
                continue
            key = units(source)
            if not key or not units(target):
                faults.append(UserError("an empty term", place, "write source term <tab> target term"))
            elif key in self._targets:
                faults.append(UserError(f"the source term {source!r} stands twice", place, "remove one of them"))
            self._targets.setdefault(key, target)
        raise_all(faults)
        self._widths = sorted({len(key) for key in self._targets}, reverse=True)

    @classmethod
    def read(cls, path: Path) -> Terms:
        """The terms of a file: source term <tab> target term, one pair a line.

        Raises:
            UserError: a fault in the text, or a line that has no such pair.
        """
        lines = list(read_lines(TextFile("terms", path), Findings(accept=("empty", "crlf"), stop=True)))
        places = [f"{path}:{number}" for number in range(1, len(lines) + 1)]
        pairs, faults = [], []
        for line, place in zip(lines, places, strict=True):
            columns = line.split("\t")
            if len(columns) == 2:
                pairs.append((columns[0], columns[1]))
            else:
                number = f"{len(columns)} column{'s' * (len(columns) > 1)} in place of 2"
                what = number if line.strip() else "an empty line"
                faults.append(UserError(what, place, "write source term <tab> target term"))
        raise_all(faults)
        return cls(pairs, places)

    @classmethod
    def of_mapping(cls, terms: Mapping[str, str]) -> Terms:
        """Terms from source to target.

        Raises:
            UserError: no mapping, an element that is no text, or an empty term.
        """
        if not isinstance(terms, Mapping):
            raise UserError("terms are a mapping from source to target", "terms", 'for example {"house": "Haus"}')
        sources, targets = checked_lines(terms.keys(), "terms"), checked_lines(terms.values(), "terms")
        return cls(list(zip(sources, targets, strict=True)), [f"terms[{source!r}]" for source in sources])

    @property
    def digest(self) -> str:
        """A hash over all terms, by which output is recognised on resumption."""
        return hashlib.sha256(repr(self.pairs).encode()).hexdigest()

    def required(self, line: str) -> list[str]:
        """The target terms that the translation of a line must have, each once.

        Of source terms that overlap, the one that begins first counts, and of those the longest. A source term in lower
        case also matches where its first letter is in upper case. A target term that another one contains is left out.
        """
        text, targets, at = units(line), dict[Units, str](), 0
        while at < len(text):
            for width in self._widths:
                here = text[at : at + width]
                target = self._targets.get(here) or self._targets.get(_small(here))
                if target is not None:
                    targets[units(target)] = target
                    at += width - 1
                    break
            at += 1
        found = list(targets.values())
        return [each for each in found if not any(each != other and contains(other, each) for other in found)]

    def missing(self, line: str, translation: str) -> list[str]:
        """The target terms that the translation of a line must have, and does not have."""
        return [target for target in self.required(line) if not contains(translation, target)]


def contains(text: str, term: str) -> bool:
    """Whether a text contains a whole term; the first letter of the term may be in either case."""
    within, sought = units(text), _small(units(term))
    return any(_small(within[at : at + len(sought)]) == sought for at in range(len(within) - len(sought) + 1))


def ends_with(text: str, term: str) -> bool:
    """Whether a text ends with a whole term; the first letter of the term may be in either case."""
    last, sought = units(text)[-len(units(term)) :], _small(units(term))
    return bool(last) and _small(last) == sought


@lru_cache(1024)
def units(text: str) -> Units:
    """The units of a text; compatible characters are the same, as for subwords."""
    split: list[str] = []
    visible = (sign for sign in unicodedata.normalize("NFKC", text) if unicodedata.category(sign) != "Cf")
    for kind, signs in groupby(visible, _kind):
        if kind == "word":
            split.append("".join(signs))
        elif kind == "sign":
            split += signs
    return tuple(split)


def _kind(character: str) -> str:
    if character.isspace():
        return "blank"
    is_word = unicodedata.category(character)[0] in "LMN" and not ALONE.match(character)
    return "word" if is_word else "sign"


def _small(term: Units) -> Units:
    """A term with its first letter in lower case."""
    return (term[0][:1].lower() + term[0][1:], *term[1:])


def subwords_of(targets: Iterable[str], side: SideText) -> dict[str, list[int]]:
    """The subwords of each target term, except terms with characters that the vocabulary lacks.

    Terms are not truecased, since they begin no sentence.
    """
    side = replace(side, words=Words(side.words.language, side.words.tokeniser, rules=side.words.rules))
    of_target, named = {}, list(targets)
    entries = {piece: number for number, piece in enumerate(side.subwords.pieces) if number >= SPECIALS}
    for target, ids in zip(named, side.encode(named), strict=True):
        spaced = side.words.tokeniser in SEGMENTERS or not writing([target]).counts_characters
        subwords = ids if spaced else _without_blank(ids, side.subwords.pieces, entries)
        if subwords and UNK not in subwords:
            of_target[target] = subwords
    return of_target


def _without_blank(ids: list[int], pieces: Sequence[str], entries: Mapping[str, int]) -> list[int]:
    """Subwords without the blank before them, as in a script without blanks; as they are if there are no others."""
    first = pieces[ids[0]] if ids else ""
    if not first.startswith(BLANK):
        return ids
    bare = first.removeprefix(BLANK)
    whole = [entries[bare]] if bare in entries else [entries.get(character, UNK) for character in bare]
    return ids if UNK in whole else [*whole, *ids[1:]]


def continuing(side: SideText) -> list[int]:
    """The subwords that continue the word before them: their first character is a letter, a mark or a digit.

    Bytes of characters beyond ASCII count as letters, most of which they spell.
    """
    return [
        number
        for number, piece in enumerate(side.subwords.pieces)
        if number >= SPECIALS
        and (int(byte[1], 16) > 127 if (byte := BYTE.fullmatch(piece)) else _kind(piece[:1]) == "word")
    ]
