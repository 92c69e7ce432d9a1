"""The error of a wrong name, option, stack or length: what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

LONGEST_SHOWN = 200
"""Characters of a value that a message shows."""


class PositionError(ValueError):
    """A mistake in the use of a scheme, described in one line.

    Args:
        what: what is wrong, with the rule and the value.
        where: the setting that it depends on; None: no single one.
        todo: what to do about it.
    """

    def __init__(self, what: str, where: str | None = None, todo: str | None = None) -> None:
        self.what, self.where, self.todo = what, where, todo
        super().__init__(f"{what}{f' ({where})' if where else ''}{f'; {todo}' if todo else ''}")


def quoted(value: Any) -> str:
    """A value as Python writes it, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The most similar word, for "did you mean"; None if none is similar."""
    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)), None)
