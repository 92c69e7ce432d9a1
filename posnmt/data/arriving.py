"""Lines of a pipe or a terminal as they arrive, so that a line is processed before the next one is written."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from typing import BinaryIO

from posnmt.data.corpus import Findings, TextFile, decode_block
from posnmt.data.portions import portion

PAUSE = 0.05
"""Seconds without new text after which the lines that have arrived are given."""


def arriving_lines(
    stream: BinaryIO, file: TextFile, findings: Findings, size: Callable[[int], int] = portion
) -> Iterator[list[str]]:
    """Groups of lines, as `decode_lines` gives them: what had arrived when the writer paused.

    Args:
        stream: an open binary stream such as `sys.stdin.buffer`.
        file: names the stream in messages.
        findings: collects faults.
        size: the most lines of a group, by the number of lines that came before.
    """
    first = 1
    for raws in _groups(stream, size):
        yield decode_block(raws, first, file, findings, True)
        first += len(raws)


def _groups(stream: BinaryIO, size: Callable[[int], int]) -> Iterator[list[bytes]]:
    """Groups of complete lines with their line ends; the last line may lack one."""
    done = 0
    lines: list[bytes] = []
    begun: list[bytes] = []  # parts of a line whose end has not arrived
    ended = False
    while not ended:
        chunk = stream.read1(1 << 20)  # type: ignore[attr-defined]
        ended = not chunk
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            lines.append(b"".join([*begun, end, b"\n"]))
            begun = []
        begun.append(rest)
        if ended and any(begun):
            lines.append(b"".join(begun))
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
