"""Convert fetched text files and tables to two files of aligned lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.corpora.archive import unpacked
from posnmt.corpora.download import Say
from posnmt.data.unpack import limited_lines


def write_text(files: Sequence[Path], out: Sequence[Path]) -> int:
    """Decompress two aligned text files; return the number of lines.

    Bytes are not changed, except that the last line gets a line end if it has none.

    Raises:
        UserError: the files have different numbers of lines.
    """
    counts = []
    for file, written in zip(files, out, strict=True):
        with unpacked(file) as stream:
            counts.append(write_rows(([line.removesuffix(b"\n")] for line in limited_lines(stream, file)), [written]))
    if counts[0] != counts[1]:
        counted = ", ".join(f"{file.name} has {count:,}" for file, count in zip(files, counts, strict=True))
        raise UserError(
            f"different line counts: {counted}", files[0], "line n of one must belong to line n of the other"
        )
    return counts[0]


def write_tsv(file: Path, columns: Sequence[int], documents: int | None, out: Sequence[Path], say: Say) -> int:
    """Write each column of tab-separated lines to a file; return the number of lines.

    No line is dropped: missing columns are left blank, and such lines are counted and reported. Blanks in document ids
    become underscores, because an id ends at the first blank of its line.

    Args:
        file: the table, which may be compressed.
        columns: the columns of text, counted from 0.
        documents: the column of document ids; None: there is none.
        out: a file to write for each column; the file of document ids is the last.
        say: called with a line about irregularities.
    """
    short, requested = 0, [*columns, *([] if documents is None else [documents])]
    with unpacked(file) as stream:

        def rows() -> Iterator[list[bytes]]:
            nonlocal short
            for line in limited_lines(stream, file):
                fields = line.removesuffix(b"\n").split(b"\t")
                short += len(fields) <= max(requested)
                row = [fields[column] if column < len(fields) else b"" for column in requested]
                yield row if documents is None else [*row[:-1], one_word(row[-1])]

        lines = write_rows(rows(), out)
    if short:
        say(f"{file.name}: {short:,} of {lines:,} lines have too few columns; the missing ones are left empty")
    return lines


def one_word(identifier: bytes) -> bytes:
    """A document id with underscores in place of all Unicode blanks."""
    return "_".join(identifier.decode(errors="surrogateescape").split()).encode(errors="surrogateescape")


def write_rows(rows: Iterable[Sequence[bytes]], out: Sequence[Path]) -> int:
    """Write aligned files, one line of each row to each file; return the number of rows."""
    count = 0
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in out]
        for row in rows:
            count += 1
            for file, line in zip(files, row, strict=True):
                file.write(line + b"\n")
    return count
