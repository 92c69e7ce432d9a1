"""Marks: the first word of a source line, such as `<2de>` or `>>de<<` for a language, or `<news>` for a corpus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np

from posnmt.base.errors import UserError, refuse_unknown
from posnmt.config.writing import is_alike
from posnmt.data.subword import BLANK, Subwords

if TYPE_CHECKING:
    from posnmt.data.batch import Pairs

LINES = 20_000
"""The most lines that are searched for marks."""

LONGEST = 24
"""The most subwords of a mark and the word after it."""

_MARK = re.compile(r"\s*((?:<2|>>)([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*)(?:>|<<))\s+\S")


def mark_of(line: str) -> str | None:
    """The mark at the beginning of a line; None if it has none."""
    match = _MARK.match(line)
    return None if match is None else match[1]


def lacks_mark(line: str, marks: Collection[str]) -> bool:
    """Whether a line needs a mark and has none: a model without marks needs none, and neither does an empty line."""
    return bool(marks) and bool(line.strip()) and mark_of(line) not in marks


def marks_in(pairs: Pairs, subwords: Subwords) -> dict[str, int]:
    """How many of up to `LINES` sources, evenly spaced, have each mark.

    Args:
        pairs: the training text.
        subwords: of its sources.
    """
    total = len(pairs.source_lengths)
    chosen = np.linspace(0, total - 1, min(LINES, total)).round().astype(int)
    sources = (pairs.pair(int(number))[0][:LONGEST] for number in chosen)
    may_begin = np.array([piece.lstrip(BLANK)[:1] in "<>" for piece in subwords.pieces])  # or is a blank alone
    beginnings = subwords.decode([ids.tolist() for ids in sources if len(ids) and may_begin[ids[0]]])
    return dict(sorted(Counter(filter(None, map(mark_of, beginnings))).items()))


def mark_for(language: str, marks: Iterable[str], option: str = "--to") -> str:
    """The mark of a language or of a corpus.

    Args:
        language: its code; also a shorter or longer code if only one mark is of that language: `de` for `>>deu<<`. Of a
            corpus, the mark itself or the word in it: `news` for `<news>`.
        marks: of the training text.
        option: that names the language, for errors.

    Raises:
        UserError: the language has no mark.
    """
    codes = {}
    for mark in marks:
        if mark == language:
            return mark
        match = _MARK.match(f"{mark} x")
        codes[re.sub(r"^\W+|\W+$", "", mark).lower() if match is None else match[2].lower()] = mark
    if not codes:
        what = "this run's record names no language tags of its training text"
        raise UserError(what, option, "leave it out, and write the language tags before the lines as in training")
    code, alike = language.lower(), [each for each in codes if is_alike(each, language)]
    if code not in codes and len(alike) == 1:
        code = alike[0]
    called = "target language" if all(map(_MARK.match, (f"{mark} x" for mark in codes.values()))) else "mark"
    refuse_unknown(code, codes, f"{called} of this run", option)
    return codes[code]
