"""Compressed files of a published study; the translations of a test text stand together in one of them.

Line n of every translation is in row n of a CSV file, with a column for each output. So lines that are much alike are
near each other, and the file is half as large as the outputs compressed one by one.
"""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, cast

from posnmt.base.errors import UserError
from posnmt.data.unpack import unpacking


def pack(content: bytes, packed: Path) -> None:
    """Write content compressed, unless the file has it."""
    if not packed.exists() or lzma.decompress(packed.read_bytes()) != content:
        packed.parent.mkdir(parents=True, exist_ok=True)
        packed.write_bytes(lzma.compress(content, preset=9))


def unpack(packed: Path) -> bytes:
    """The content of a packed file.

    Raises:
        UserError: it is missing or damaged, or far larger than text can be.
    """
    try:
        with lzma.open(packed) as stream:
            return unpacking(cast(BinaryIO, stream), packed).read()
    except (OSError, lzma.LZMAError, EOFError):
        raise _damaged(packed) from None


def pack_outputs(outputs: Mapping[str, bytes], packed: Path) -> None:
    """Write outputs of the same number of lines, each with its name, as columns."""
    columns = [content.decode("utf-8").split("\n")[:-1] for content in outputs.values()]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(outputs)
    writer.writerows(zip(*columns, strict=True))
    pack(text.getvalue().encode("utf-8"), packed)


def unpack_outputs(packed: Path) -> dict[str, bytes]:
    """Name -> the output, as `pack_outputs` was given it.

    Raises:
        UserError: as `unpack`.
    """
    content = unpack(packed)
    limit = csv.field_size_limit(max(len(content), 1))
    try:
        text = io.StringIO(content.decode("utf-8"), newline="")
        names, *rows = csv.reader(text, strict=True)
        columns = [*zip(*rows, strict=True)] or [()] * len(names)
        return {
            name: "".join(f"{line}\n" for line in column).encode("utf-8")
            for name, column in zip(names, columns, strict=True)
        }
    except (csv.Error, ValueError):  # ValueError: no UTF-8, no names, or rows of other lengths
        raise _damaged(packed) from None
    finally:
        csv.field_size_limit(limit)


def _damaged(packed: Path) -> UserError:
    """The error for a file that cannot be read."""
    return UserError("a file of the copy is missing or damaged", packed, "publish the study again")
