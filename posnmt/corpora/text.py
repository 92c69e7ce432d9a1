"""Conversion of fetched files, text, TSV or TMX, to two files of aligned lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree
from xml.parsers import expat

from posnmt.corpora.archive import unpacked
from posnmt.corpora.download import Say
from posnmt.data.unpack import limited_lines
from posnmt.errors import UserError

_MARKUP = ("bpt", "ept", "it", "ph", "ut")
"""Elements inside a segment with another format's markup, which is no text."""

_LANGUAGE = ("{http://www.w3.org/XML/1998/namespace}lang", "lang")


def write_text(files: Sequence[Path], out: Sequence[Path]) -> int:
    """Write two aligned text files, decompressed; return the number of lines.

    Bytes are not changed, except that a missing line end is added to the last line.

    Raises:
        UserError: they have different numbers of lines.
    """
    counts = []
    for file, written in zip(files, out, strict=True):
        with unpacked(file) as stream:
            counts.append(_write_rows(([line.removesuffix(b"\n")] for line in limited_lines(stream, file)), [written]))
    if counts[0] != counts[1]:
        counted = ", ".join(f"{file.name} has {count:,}" for file, count in zip(files, counts, strict=True))
        raise UserError(
            f"different line counts: {counted}", files[0], "line n of one must belong to line n of the other"
        )
    return counts[0]


def write_tsv(file: Path, columns: Sequence[int], out: Sequence[Path], say: Say) -> int:
    """Write columns of tab-separated lines, each to a file; return the number of lines.

    No line is dropped: missing columns are left blank, and such lines are counted and reported.

    Args:
        file: the table, which may be compressed.
        columns: from 0; as many as `out`.
        out: the files to write.
        say: called with a line about irregularities.
    """
    short = 0
    with unpacked(file) as stream:

        def rows() -> Iterator[list[bytes]]:
            nonlocal short
            for line in limited_lines(stream, file):
                fields = line.removesuffix(b"\n").split(b"\t")
                short += len(fields) <= max(columns)
                yield [fields[column] if column < len(fields) else b"" for column in columns]

        lines = _write_rows(rows(), out)
    if short:
        say(f"{file.name}: {short:,} of {lines:,} lines have too few columns; the missing ones are left blank")
    return lines


def write_tmx(file: Path, languages: Sequence[str], out: Sequence[Path], say: Say) -> int:
    """Write the translation units of a TMX file that have both languages; return the number of lines.

    Units that lack one of the languages are skipped, counted and reported. Line breaks and tabs inside a segment become
    blanks, and another format's markup is left out. TMX 1.4b; a regional code such as `de-DE` is treated as `de`.

    Raises:
        UserError: not well-formed, entities that it declares itself, or no unit has both languages.
    """
    units = 0
    with unpacked(file) as stream:
        refuse_entities(stream, file)
    with unpacked(file) as stream:

        def rows() -> Iterator[list[bytes]]:
            nonlocal units
            for unit in _units(stream, file):
                units += 1
                texts = {_language(part): _segment(part) for part in reversed(unit.findall("tuv"))}
                if all(texts.get(language) for language in languages):
                    yield [texts[language].encode() for language in languages]

        lines = _write_rows(rows(), out)
    if not lines:
        raise UserError(f"none of {units:,} units has both {' and '.join(languages)}", file, "check its languages")
    if lines < units:
        say(f"{file.name}: {units - lines:,} of {units:,} units lack text in one of the languages and are skipped")
    return lines


def refuse_entities(stream: BinaryIO, file: Path) -> None:
    """Refuse declared entities, which can name other files or grow without end; TMX needs none.

    They stand before the first element, where this reading ends.
    """
    parser = expat.ParserCreate()
    begun = False

    def element(*_: Any) -> None:
        nonlocal begun
        begun = True

    def entity(name: str, *_: Any) -> None:
        if not begun:
            raise UserError(f"it declares an entity, {name}, which is not safe to read", file, "remove the declaration")

    parser.StartElementHandler, parser.EntityDeclHandler = element, entity
    try:
        while not begun and (chunk := stream.read(1 << 16)):
            parser.Parse(chunk)
    except (expat.ExpatError, LookupError, ValueError) as error:  # encodings too
        raise _malformed(error, file) from None


def _malformed(error: Exception, file: Path) -> UserError:
    return UserError(f"not well-formed XML: {error}", file, "remove it, and fetch it again")


def _units(stream: BinaryIO, file: Path) -> Iterator[ElementTree.Element]:
    """The translation units as a stream; units that have been read are freed."""
    try:
        root = None
        for event, element in ElementTree.iterparse(stream, events=("start", "end")):  # noqa: S314  entities are refused
            root = element if root is None else root
            if event == "end" and element.tag == "tu":
                yield element
                root.clear()
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise _malformed(error, file) from None


def _language(part: ElementTree.Element) -> str:
    code = next((part.attrib[name] for name in _LANGUAGE if name in part.attrib), "")
    return re.split("[-_]", code.lower())[0]


def _segment(part: ElementTree.Element) -> str:
    segment = part.find("seg")
    return "" if segment is None else re.sub(r"[\r\n\t]+", " ", "".join(_text(segment))).strip()


def _text(element: ElementTree.Element) -> Iterator[str]:
    """The text of a segment, without the markup in it."""
    yield element.text or ""
    for child in element:
        if child.tag not in _MARKUP:
            yield from _text(child)
        yield child.tail or ""


def _write_rows(rows: Iterable[Sequence[bytes]], out: Sequence[Path]) -> int:
    """Write aligned files, one line of each row to each file; return the number of rows."""
    count = 0
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in out]
        for row in rows:
            count += 1
            for file, line in zip(files, row, strict=True):
                file.write(line + b"\n")
    return count
