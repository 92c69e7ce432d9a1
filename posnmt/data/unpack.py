"""Limits for files from others: the size of what a compressed file unpacks to, and the length of a line.

A few kilobytes can unpack to terabytes, or to one line that exceeds any memory. Text does not: compression makes it 3
to 10 times smaller.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from posnmt.base.errors import UserError

RATIO = 200
"""The most bytes that a byte of a compressed file may become, if the whole is larger than `FREE`."""

FREE = 1 << 30
"""The bytes that any compressed file may become."""

LINE = 1 << 24
"""Bytes of the longest line."""


class Unpacking(io.RawIOBase):
    """A decompressed stream that raises an error when it is far larger than text can be.

    Args:
        stream: decompresses.
        path: of the compressed file.
    """

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path, self._size = stream, path, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer; the number of bytes.

        Raises:
            UserError: too many, or too little memory.
        """
        with reported_memory(self._path):
            chunk = self._stream.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self._size += len(chunk)
        refuse_bomb(self._size, self._path)
        return len(chunk)

    def close(self) -> None:
        """Close the stream too."""
        self._stream.close()
        super().close()


def unpacking(stream: BinaryIO, path: Path) -> BinaryIO:
    """A decompressed stream, buffered and limited."""
    return io.BufferedReader(Unpacking(stream, path), 1 << 17)


@contextmanager
def reported_memory(path: Path) -> Iterator[None]:
    """Report a lack of memory in the block: the header of an LZMA file may demand up to 4 GB.

    Raises:
        UserError: there is too little.
    """
    try:
        yield
    except MemoryError:
        what = "unpacking the file takes more memory than there is"
        raise UserError(what, path, "it may be damaged: remove it, and fetch it again, or unpack it by hand") from None


def refuse_bomb(size: int, path: Path) -> None:
    """Check the size of what has come out of a compressed file.

    Raises:
        UserError: it is more than `FREE`, and more than `RATIO` times the file.
    """
    if size > FREE and size > RATIO * path.stat().st_size:
        raise UserError(
            f"it unpacks to more than {FREE:,} bytes and {RATIO} times its size, which text does not",
            path,
            "if you trust it, unpack it yourself and name the unpacked file",
        )


def limited_lines(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    """The lines of an open file, with their ends.

    Raises:
        UserError: a line has more than `LINE` bytes.
    """
    for number, line in enumerate(iter(partial(stream.readline, LINE + 1), b""), start=1):
        if len(line) > LINE:
            raise too_long(path, number)
        yield line


def too_long(path: Path, number: int) -> UserError:
    """The error about a line of more than `LINE` bytes."""
    return UserError(f"a line has more than {LINE:,} bytes", f"{path}:{number}", "give text with one sentence a line")
