"""Lines of text that a caller passes: checked as the lines of files are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from posnmt.base.errors import UserError, raise_all

T = TypeVar("T")


def listed(values: Iterable[T], name: str) -> list[T]:
    """What a caller passes for each of some lines, as a list.

    Raises:
        UserError: one string, or nothing that has elements.
    """
    if isinstance(values, str | bytes):
        raise UserError(f"{name} is one string, not a list of lines", None, f"write [{name}], or {name}.splitlines()")
    if not isinstance(values, Iterable):
        raise UserError(f"{name} is of type {type(values).__name__}, not a list")
    return list(values)


def checked_lines(lines: Iterable[str | None], name: str, optional: bool = False) -> list[str]:
    """Lines without their line ends, which lines of a file may have.

    Args:
        name: of the argument, for messages.
        optional: whether None stands for an empty line.

    Raises:
        UserError: as `listed`; an element that is no string, has a line break inside, a NUL character or half of a
            surrogate pair; all at once.
    """
    checked, faults = [], []
    for index, line in enumerate(listed(lines, name)):
        place = f"{name}[{index}]"
        if line is None and optional:
            line = ""
        if not isinstance(line, str):
            faults.append(UserError(f"a line is a string, and this is of type {type(line).__name__}", place))
            continue
        line = line.removesuffix("\n").removesuffix("\r")
        if "\n" in line:
            faults.append(UserError("a line break inside a line", place, "pass each line by itself"))
        if "\0" in line:
            faults.append(UserError("a NUL character", place, "remove it"))
        if not _is_unicode(line):
            faults.append(UserError("half of a surrogate pair, which is no character", place, "decode it as UTF-8"))
        checked.append(line)
    raise_all(faults)
    return checked


def _is_unicode(line: str) -> bool:
    """Whether a string can be encoded."""
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
