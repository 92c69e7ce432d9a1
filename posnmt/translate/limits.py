"""Lines that are longer than a position table, or than the user allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from posnmt.base.errors import UserError

SHORTEN = "shorten the line, or use a system without a finite table, such as relative"
"""What to do about a line that is too long and cannot be in parts."""


def refuse_too_long(rows: Sequence[Sequence[int]], longest: int, where: Callable[[int], str], todo: str) -> None:
    """Check that lines fit a finite position table.

    Args:
        rows: the subwords of each line, without bos and eos.
        longest: entries of the table.
        where: the place of the line with this index.
        todo: what to do about a line that is too long.

    Raises:
        UserError: a line that does not fit with one more symbol.
    """
    _refuse_above(rows, longest - 1, where, f"this model's position table ends at {longest - 1}", todo)


def refuse_longer(rows: Sequence[Sequence[int]], allowed: int, where: Callable[[int], str]) -> None:
    """Check that no line has more subwords than `decode.max_source` allows; the arguments are as in `refuse_too_long`.

    Raises:
        UserError: a line has more.
    """
    what = f"decode.max_source allows {allowed:,}"
    _refuse_above(rows, allowed, where, what, "split the line, or raise decode.max_source")


def _refuse_above(rows: Sequence[Sequence[int]], most: int, where: Callable[[int], str], what: str, todo: str) -> None:
    over = [index for index, row in enumerate(rows) if len(row) > most]
    if over:
        more = f" (and {len(over) - 1:,} more such lines)" if len(over) > 1 else ""
        raise UserError(f"{len(rows[over[0]])} subwords, but {what}{more}", where(over[0]), todo)
