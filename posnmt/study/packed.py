"""Packed files of a published study: a folder as .tar.xz, and the translations of a test text as one CSV file.

Row n of that file has line n of every translation, with a column for each output. Similar lines are thus near each
other, which halves the compressed size.
"""

from __future__ import annotations

import csv
import io
import lzma
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.data.unpack import Member, unpacking

FREE = 1 << 26
"""The bytes that any packed folder may become: it is read as a whole."""

MOST_FILES, MOST_COLUMNS = 100_000, 10_000
"""The most files of a packed folder, and translations of a test text."""

_DAMAGE = (OSError, EOFError, lzma.LZMAError, tarfile.TarError, ValueError, OverflowError)
"""What damaged files raise; an archive's table has impossible numbers and names."""


def compressed(content: bytes, earlier: Path) -> bytes:
    """Content as .xz; an earlier file of the same content as it is, since versions of xz compress differently."""
    with suppress(OSError, EOFError, lzma.LZMAError):  # no earlier file, or a damaged one
        packed = earlier.read_bytes()
        if lzma.decompress(packed) == content:
            return packed
    return lzma.compress(content, preset=9)


def archived(files: Mapping[str, bytes]) -> bytes:
    """Files by their paths as .tar, in this order and without times and owners."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return archive.getvalue()


def unpack(packed: Path) -> dict[str, bytes]:
    """The files of a packed folder by their paths; nothing is written.

    Raises:
        UserError: it is missing or damaged, or far larger than text can be.
    """
    try:
        with unpacking(packed, ".xz", FREE) as stream:
            content = stream.read()
        files: dict[str, bytes] = {}
        # As a stream, in which no damaged size leads back; a sparse file would be larger than the archive.
        with tarfile.open(fileobj=io.BytesIO(content), mode="r|", tarinfo=Member) as tar:
            for about in tar:
                if len(files) >= MOST_FILES:
                    raise damaged(packed)
                opened = tar.extractfile(about) if about.isreg() and about.sparse is None else None
                if opened is None:
                    raise damaged(packed)
                files[about.name] = opened.read()
        return files
    except _DAMAGE:
        raise damaged(packed) from None


def joined(outputs: Mapping[str, bytes]) -> bytes:
    """Outputs of the same number of lines, each with its name, as columns of a CSV file."""
    columns = [content.decode("utf-8").split("\n")[:-1] for content in outputs.values()]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(outputs)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode("utf-8")


def separated(content: bytes, packed: Path) -> dict[str, bytes]:
    """Name -> the output, as `joined` was given it.

    Args:
        content: of the CSV file.
        packed: where it comes from.

    Raises:
        UserError: it is damaged.
    """
    limit = csv.field_size_limit(max(len(content), 1))
    try:
        text = io.StringIO(content.decode("utf-8"), newline="")
        rows = csv.reader(text, strict=True)
        names = next(rows, None)
        if not names or len(names) > MOST_COLUMNS or len({*names}) < len(names):
            raise damaged(packed)
        columns = [bytearray() for _ in names]
        for row in rows:  # a row at a time: as objects of Python, the cells would take 98 times the memory
            for column, line in zip(columns, row, strict=True):
                column += f"{line}\n".encode()
        return {name: bytes(column) for name, column in zip(names, columns, strict=True)}
    except (csv.Error, ValueError):  # ValueError: no UTF-8, or a row of another length
        raise damaged(packed) from None
    finally:
        csv.field_size_limit(limit)


def damaged(packed: Path) -> UserError:
    """The error for a file that cannot be read."""
    return UserError("a file of the copy is missing or damaged", packed, "publish the study again")
