"""Lines of text that a caller passes: checked as the lines of files are."""

from __future__ import annotations

from collections.abc import Iterable

from posnmt.errors import UserError, raise_all


def checked_lines(lines: Iterable[str], name: str) -> list[str]:
    """Lines without their line ends, which lines of a file may have.

    Args:
        name: of the argument, for messages.

    Raises:
        UserError: one string in place of several; an element that is no string, has a line break inside, a NUL
            character or half of a surrogate pair; all at once.
    """
    if isinstance(lines, str | bytes):
        raise UserError(f"{name} is one string, not a list of lines", None, f"write [{name}], or {name}.splitlines()")
    checked, faults = [], []
    for index, line in enumerate(lines):
        place = f"{name}[{index}]"
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
