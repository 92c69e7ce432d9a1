"""Limits for files from others: what a compressed file unpacks to, the length of a line, and a number of objects.

A few kilobytes can unpack to terabytes, to one line that exceeds any memory, or to millions of empty lines, each an
object of Python. Text does not: compression makes it 3 to 10 times smaller.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self

from posnmt.base.errors import UserError

RATIO = 200
"""The most bytes that a byte of a compressed file may become, if the whole is larger than `FREE`."""

FREE = 1 << 28
"""The bytes that any compressed file may become."""

OBJECT = 64
"""The bytes that a line takes in memory beside its own."""

NAME = 1 << 16
"""Bytes of the longest name, and of the longest extended header, in a tar archive."""

LINE = 1 << 24
"""Bytes of the longest line."""

STREAMS, SHORTEST = 10_000, 1 << 10
"""The most streams in a compressed file, unless they have so many bytes on average. Each needs a decompressor."""

KINDS: dict[str, tuple[bytes, Callable[..., Any]]] = {
    ".gz": (b"\x1f\x8b\x08", gzip.open), ".xz": (b"\xfd7zXZ\0", lzma.open), ".bz2": (b"BZh", bz2.open),
}  # fmt: skip
"""Suffix -> the first bytes of each stream of a compressed file, and the function that opens it."""


class Streams(io.FileIO):
    """A compressed file, read with a count of the streams that begin in it.

    Args:
        path: of the file.
        magic: the first bytes of a stream.
    """

    def __init__(self, path: Path, magic: bytes) -> None:
        super().__init__(path)
        self._path, self._magic, self._read, self._count = path, magic, 0, 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to so many bytes.

        Raises:
            UserError: they are of too many short streams.
        """
        chunk: bytes = super().read(size) or b""
        self._read, self._count = self._read + len(chunk), self._count + chunk.count(self._magic)
        if self._count > STREAMS and self._read < SHORTEST * self._count:
            what = f"it has more than {STREAMS:,} compressed streams of less than {SHORTEST:,} bytes"
            raise UserError(what, self._path, "unpack it yourself, and name the unpacked file")
        return chunk


class Unpacking(io.RawIOBase):
    """A compressed file, decompressed, which raises an error when it is far larger than text can be.

    Args:
        path: of the compressed file.
        suffix: one of `KINDS`.
        free: the bytes that it may become whatever its size.
    """

    def __init__(self, path: Path, suffix: str, free: int | None = None) -> None:
        magic, opens = KINDS[suffix]
        self._path, self._size, self._file = path, 0, Streams(path, magic)
        self._stream: BinaryIO = opens(self._file, "rb")
        self._free = FREE if free is None else free

    def readable(self) -> bool:
        """Return True: the stream is always open for reading."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer; the number of bytes.

        Raises:
            UserError: too many, or too little memory.
        """
        with reported_memory(self._path):
            chunk = self._stream.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self._size += len(chunk) + OBJECT * chunk.count(b"\n")
        refuse_bomb(self._size, self._path, self._free)
        return len(chunk)

    def close(self) -> None:
        """Close the stream and the compressed file below it."""
        self._stream.close()
        self._file.close()
        super().close()


def unpacking(path: Path, suffix: str, free: int | None = None) -> BinaryIO:
    """A compressed file, decompressed, buffered and limited: see `Unpacking`."""
    return io.BufferedReader(Unpacking(path, suffix, free), 1 << 17)


class Declared(tarfile.TarError):
    """A tar archive declares a size that no archive of text has."""


class Member(tarfile.TarInfo):
    """A file of a tar archive. Its header declares no long name, and no long table of a sparse file.

    Python would read them before anybody sees the file: names of gigabytes, which compress to nearly nothing.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """The file that a header describes.

        Raises:
            Declared: its name, or its extended header, is longer than `NAME`.
        """
        made = super().frombuf(buf, encoding, errors)
        if made.type in _EXTENDED and made.size > NAME:
            raise Declared(f"a name or an extended header of a file has more than {NAME:,} bytes")
        return made

    def _proc_gnusparse_10(self, *_: object) -> None:
        """A table of any length, in the content of the file."""
        raise Declared("it has a sparse file, which archives of text do not have")


_EXTENDED = {
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
}
"""Types of headers whose content Python reads as a whole."""


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


def refuse_bomb(size: int, path: Path, free: int | None = None) -> None:
    """Check the size of what has come out of a compressed file.

    Args:
        size: bytes, with `OBJECT` for each line.
        path: of the compressed file.
        free: the bytes that it may become whatever its size; default: `FREE`.

    Raises:
        UserError: it is more than `free`, and more than `RATIO` times the file.
    """
    free = FREE if free is None else free
    if size > free and size > RATIO * path.stat().st_size:
        raise UserError(
            f"it unpacks to more than {free:,} bytes and {RATIO} times its size, which text does not",
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
