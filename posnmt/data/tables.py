"""Files that have both sides of a corpus: columns of TSV, objects of JSON Lines, columns of Parquet, units of TMX.

No line of a file is passed over: each gives a pair or a fault, except a unit of a translation memory that lacks one of
the languages, which is counted. Line breaks and tabs inside a text become blanks.
"""

from __future__ import annotations

import itertools
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from posnmt.base.errors import UserError, quoted
from posnmt.data.corpus import CHUNK, NOT_BOTH, Chunk, Findings, Pair, TextFile, chunk_of, open_text, read_blocks
from posnmt.data.tmx import Memory, one_line, refuse_entities, units
from posnmt.data.unpack import LINE, refuse_bomb

SHOWN = 12
"""The most names of fields in a message."""

_ROWS = {"parquet": "row", "tmx": "unit"}
"""Format of a file that has no lines -> what it has."""


@dataclass(frozen=True)
class Table(TextFile):
    """A file with both sides, and its role.

    Attributes:
        format: `tsv`, `jsonl`, `parquet` or `tmx`.
        source, target, document: the fields with the texts, and with the document id if there is one: numbers of
            columns from 1, names of fields, or language codes.
    """

    format: str
    source: str | int
    target: str | int
    document: str | int | None = None

    @property
    def texts(self) -> tuple[str | int, str | int]:
        """The names or numbers of the fields that hold the source and the target."""
        return self.source, self.target

    def place(self, line: int) -> str:
        """A line, a row or a unit of the file, for messages."""
        counted = _ROWS.get(self.format)
        return super().place(line) if counted is None else f"{self.path}, {counted} {line}"


def read_table(table: Table, findings: Findings) -> Iterator[Chunk]:
    """The pairs of a file in order, up to `CHUNK` at a time, pairs with a blank side included.

    Args:
        findings: collects faults.
    """
    readers = {"tsv": _columns, "jsonl": _objects, "parquet": _rows, "tmx": _units}
    pairs = readers[table.format](table, findings)
    while block := list(itertools.islice(pairs, CHUNK)):
        yield chunk_of(block)


def _lines(table: Table, findings: Findings) -> Iterator[tuple[int, str]]:
    """The lines of a text file, numbered from 1."""
    blocks = read_blocks(table, findings, blank_is_fault=False)
    return enumerate(itertools.chain.from_iterable(blocks), start=1)


def _columns(table: Table, findings: Findings) -> Iterator[Pair]:
    """The pairs in columns of tab-separated values."""
    for number, line in _lines(table, findings):
        columns = line.split("\t")
        lacking = [name for name in (*table.texts, table.document) if isinstance(name, int) and name > len(columns)]
        if not line.strip():
            yield _pair(table, findings, number, "", "", None)
        elif lacking:
            detail = f"column {min(lacking)} of {table.role.rpartition('.')[0]}.fields; the line has {len(columns)}"
            findings.add("column", table, number, detail)
        else:
            source, target = (columns[int(name) - 1] for name in table.texts)
            document = None if table.document is None else columns[int(table.document) - 1]
            yield _pair(table, findings, number, source, target, document)


def _objects(table: Table, findings: Findings) -> Iterator[Pair]:
    """The pairs in objects of JSON, one a line."""
    for number, line in _lines(table, findings):
        if not line.strip():
            yield _pair(table, findings, number, "", "", None)
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:  # also a number of thousands of digits
            reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
            findings.add("json", table, number, quoted(reason))
            continue
        if not isinstance(record, dict):
            findings.add("json", table, number, f"it is of type {_kind(record)}")
            continue
        pair = _of_record(table, findings, number, record)
        if pair is not None:
            yield pair


def _of_record(table: Table, findings: Findings, number: int, record: dict[str, Any]) -> Pair | None:
    """The pair in an object of JSON; None if a field is missing or no text. Null counts as an empty text."""
    texts = []
    for name in map(str, table.texts):
        try:
            value = _field(record, name)
        except KeyError:
            findings.add("field", table, number, f"{quoted(name)}; the object has {_listed(_names(record))}")
            return None
        if value is not None and not isinstance(value, str):
            findings.add("type", table, number, f"{quoted(name)} is of type {_kind(value)}")
            return None
        texts.append(value or "")
    document = None
    if table.document is not None:
        try:
            document = _field(record, str(table.document))
        except KeyError:
            detail = f"{quoted(str(table.document))}; the object has {_listed(_names(record))}"
            findings.add("field", table, number, detail)
            return None
    return _pair(table, findings, number, texts[0], texts[1], None if document is None else str(document))


def _field(record: dict[str, Any], name: str) -> Any:
    """The value of a field, whose name may have dots, or of one in other objects: `translation.en`.

    Raises:
        KeyError: there is none.
    """
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, dict):
            raise KeyError(name)
        value = value[part]
    return value


def _names(record: dict[str, Any], before: str = "") -> Iterator[str]:
    """The names of the fields of an object, and of the objects in it."""
    for name, value in record.items():
        if isinstance(value, dict) and not before:
            yield from _names(value, f"{name}.")
        else:
            yield f"{before}{name}"


def _listed(names: Iterable[str]) -> str:
    first = [quoted(name) for name in itertools.islice(names, SHOWN + 1)]
    return ", ".join(first[:SHOWN]) + ", …" * (len(first) > SHOWN) or "none"


def _kind(value: Any) -> str:
    """The type of a value of JSON, in its words."""
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _rows(table: Table, findings: Findings) -> Iterator[Pair]:
    """The pairs in columns of Parquet."""
    parquet: Any = _parquet(table)
    import pyarrow as pa

    number = size = 0
    try:
        with parquet.ParquetFile(table.path) as file:
            columns = _chosen(table, file.schema_arrow)
            for batch in file.iter_batches(CHUNK, columns=[path for path in columns if path is not None]):
                batch.validate()
                sides = [None if path is None else _values(_column(batch, path)) for path in columns]
                for row in range(len(batch)):
                    number += 1
                    values = ["" if side is None else side(row) for side in sides]
                    size += sum(map(len, map(str, values)))
                    refuse_bomb(size, table.path)
                    source, target, document = values
                    yield _pair(table, findings, number, source or "", target or "", document or None)
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} of a text is 0x{error.object[error.start]:02X}"
        findings.add("utf-8", table, number, detail)
    except UserError as fault:
        findings.unreadable(table, fault)
    except (OSError, pa.ArrowException) as error:
        what = f"{table.role} cannot be read as Parquet: {quoted(str(error))}"
        findings.unreadable(table, UserError(what, table.place(number + 1), "get the file again"))
    else:
        if number == 0:
            what = f"{table.role} has no rows"
            findings.unreadable(table, UserError(what, table.path, "give a file with at least one row"))
    findings.lines[table] = number


def _parquet(table: Table) -> Any:
    """The module that reads Parquet.

    Raises:
        UserError: it is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        what = "reading Parquet needs pyarrow, which is not installed"
        raise UserError(what, table.path, 'pip install "posnmt[train]"') from None
    return pyarrow.parquet


def _chosen(table: Table, schema: Any) -> list[str | None]:
    """The paths of the columns with source, target and document.

    Raises:
        UserError: the file lacks one of them, or it has no text.
    """
    import pyarrow as pa

    paths: dict[str, Any] = {}
    for field in schema:
        inner = list(field.type) if pa.types.is_struct(field.type) else []
        paths |= {f"{field.name}.{each.name}": each.type for each in inner} or {field.name: field.type}
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    where, fields = table.path, f"{table.role.rpartition('.')[0]}.fields"
    for name in table.texts:
        if name not in paths:
            what = f"no column {quoted(str(name))}; the file has {_listed(paths)}"
            raise UserError(what, where, f"name two of them: {fields}: {{source: ..., target: ...}}")
        kind = paths[str(name)]
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not any(is_text(kind) for is_text in text):
            what = f"the column {quoted(str(name))} is no text: its type is {kind}"
            raise UserError(what, where, f"name two columns of text: {fields}: {{source: ..., target: ...}}")
    if table.document is not None and table.document not in paths:
        what = f"no column {quoted(str(table.document))}; the file has {_listed(paths)}"
        raise UserError(what, where, f"name one of them, or leave document out of {fields}")
    return [str(table.source), str(table.target), None if table.document is None else str(table.document)]


def _column(batch: Any, path: str) -> Any:
    """A column of a record batch, or of the structs in one."""
    if path in batch.schema.names:
        return batch.column(path)
    name = next(each for each in batch.schema.names if path.startswith(f"{each}."))
    import pyarrow.compute as pc

    return pc.struct_field(batch.column(name), path[len(name) + 1 :])


def _values(column: Any) -> Any:
    """A function from a row to its value as text; None where it has none.

    It raises UnicodeDecodeError where a text is not UTF-8.
    """

    def value(row: int) -> str | None:
        found = column[row].as_py()
        return None if found is None else str(found)

    return value


def _units(table: Table, findings: Findings) -> Iterator[Pair]:
    """The pairs in units of a translation memory."""
    naming = (
        f"name two of them as {table.role.rpartition('.')[0]}.fields: {{source: ..., target: ...}}, or as "
        "data.source_language and data.target_language; before a region stands an underscore, as in pt_BR"
    )
    memory = Memory(table.path, [str(name) for name in table.texts], naming)
    pairs = 0
    try:
        with open_text(table) as stream:
            refuse_entities(stream, table.path)
        with open_text(table) as stream:
            for source, target in memory.texts(units(stream, table.path)):
                pairs += 1
                yield _pair(table, findings, memory.units, source, target, None)
        memory.refuse(pairs)
        memory.report(pairs, findings.notes.append)
    except UserError as fault:
        findings.unreadable(table, fault)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        kind = f"is a damaged {table.compression} file" if table.compression else "cannot be read"
        where = table.place(memory.units + 1)
        findings.unreadable(table, UserError(f"{table.role} {kind}: {error}", where, "get the file again"))
    findings.lines[table] = memory.units
    for _ in range(memory.units - pairs):
        findings.add(NOT_BOTH, table, memory.units)


def _pair(table: Table, findings: Findings, number: int, source: str, target: str, document: str | None) -> Pair:
    """A pair, checked, each text on one line."""
    for name, text in zip(table.texts, (source, target), strict=True):
        if "\0" in text:
            findings.add("nul", table, number, f"in {quoted(str(name))}")
        if len(text) > LINE:
            fault = UserError(f"a text has more than {LINE:,} characters", table.place(number), "give sentences")
            findings.unreadable(table, fault)
        try:
            text.encode()
        except UnicodeEncodeError:
            findings.add("surrogate", table, number, f"in {quoted(str(name))}")
    pair = Pair(number, one_line(source), one_line(target), (document or "").strip() or None)
    if pair.blank:
        findings.add("empty", table, number)
    return pair
