"""Marks of target languages: the first word of a source line, such as `<2de>` or `>>de<<`, of models for several."""

from __future__ import annotations

import re
from collections.abc import Iterable

from posnmt.errors import UserError, refuse_unknown

_MARK = re.compile(r"\s*((?:<2|>>)([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*)(?:>|<<))\s+\S")


def mark_of(line: str) -> str | None:
    """The mark at the beginning of a line; None: it has none."""
    match = _MARK.match(line)
    return None if match is None else match[1]


def mark_for(language: str, marks: Iterable[str]) -> str:
    """The mark of a language.

    Args:
        language: its code.
        marks: of the training text.

    Raises:
        UserError: there is none for it.
    """
    codes = {match[2].lower(): mark for mark in marks if (match := _MARK.match(f"{mark} x"))}
    if not codes:
        what = "no marks of target languages are recorded of this run's training text"
        raise UserError(what, "--to", "leave it out, and write the marks before the lines as in training")
    refuse_unknown(language.lower(), codes, "target language of this run")
    return codes[language.lower()]
