"""Lines to translate: those that a caller passes, those that arrive on a pipe, and their division into portions.

Lines of a pipe or a terminal are read as they arrive, so that a line is processed before the next one is written.
Portions are small at first, so that the first translations come soon.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import BinaryIO, TypeVar

from posnmt.base.errors import UserError, raise_all
from posnmt.data.corpus import Findings, TextFile, decode_block
from posnmt.data.unpack import LINE, too_long

PAUSE = 0.05
"""Seconds without new text after which the lines that have arrived are yielded."""

FIRST = 250
"""Lines of the first portion. Each portion is larger than the one before, up to `LARGEST`."""

LARGEST = 2_000
"""The most lines that are in memory at a time and sorted by length together; more would fill batches better."""

T = TypeVar("T")


def listed(values: Iterable[T], name: str) -> list[T]:
    """The argument of a caller with a value for each line, as a list.

    Raises:
        UserError: it is one string, or has no elements.
    """
    if isinstance(values, str | bytes):
        raise UserError(f"{name} is one string, not a list of lines", None, f"write [{name}], or {name}.splitlines()")
    if not isinstance(values, Iterable):
        raise UserError(f"{name} is of type {type(values).__name__}, not a list")
    return list(values)


def checked_lines(lines: Iterable[str | None], name: str, optional: bool = False) -> list[str]:
    """Lines without the line ends that they may have.

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


def portion(done: int) -> int:
    """The number of lines of the portion that comes after `done` lines."""
    return min(LARGEST, done + FIRST)


def portions(lines: Iterator[T], done: int = 0) -> Iterator[list[T]]:
    """Lines in portions, in order.

    Args:
        done: lines that came before, so that the rest of a text is divided as in the whole text.
    """
    while group := list(islice(lines, portion(done))):
        yield group
        done += len(group)


def arriving_lines(
    stream: BinaryIO, file: TextFile, findings: Findings, size: Callable[[int], int] = portion
) -> Iterator[list[str]]:
    """Groups of lines that had arrived when the writer paused, decoded as by `decode_lines`.

    Args:
        stream: an open binary stream such as `sys.stdin.buffer`.
        file: names the stream in messages.
        findings: collects faults.
        size: number of lines that came before → the most lines of a group.
    """
    first = 1
    for raws in _groups(stream, file, size):
        yield decode_block(raws, first, file, findings, True)
        first += len(raws)


def _groups(stream: BinaryIO, file: TextFile, size: Callable[[int], int]) -> Iterator[list[bytes]]:
    """Groups of complete lines with their line ends; the last line may lack one."""
    done = 0
    lines: list[bytes] = []
    unfinished: list[bytes] = []  # parts of a line whose end has not arrived
    ended = False
    while not ended:
        chunk = stream.read1(1 << 20)  # type: ignore[attr-defined]
        ended = not chunk
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            lines.append(b"".join([*unfinished, end, b"\n"]))
            unfinished = []
        unfinished.append(rest)
        if sum(map(len, unfinished)) > LINE:
            raise too_long(file.path, done + len(lines) + 1)
        if ended and any(unfinished):
            lines.append(b"".join(unfinished))
        while len(lines) >= size(done) or (lines and (ended or not _more_is_there(stream))):
            group, lines = lines[: size(done)], lines[size(done) :]
            done += len(group)
            yield group


def _more_is_there(stream: BinaryIO) -> bool:
    """Whether text arrives within `PAUSE`, or the stream has ended; True where the system cannot tell."""
    try:
        return bool(select.select([stream.fileno()], [], [], PAUSE)[0])
    except (OSError, ValueError):  # no file descriptor, or one that this system cannot wait for
        return True
