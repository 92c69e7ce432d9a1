"""Corpora of distributions that need a licence, read from a licensee's folder: ASPEC's tables, NIST's XML.

The formats are those that other toolkits' preparation scripts read (see docs/corpora.md); nothing here was run on the
true corpora.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from posnmt.base.errors import UserError
from posnmt.corpora.download import Say
from posnmt.corpora.spec import Columns, MtEval
from posnmt.corpora.text import one_word, write_rows
from posnmt.data.tmx import malformed, one_line, refuse_entities
from posnmt.data.unpack import limited_lines

WHOLE = "name its folder as it was unpacked"

Licensed = Columns | MtEval


def write_licensed(corpus: Licensed, name: str, origin: Path, folder: Path, say: Say) -> dict[str, Path]:
    """Write the texts of a corpus from the folder of its distribution.

    Args:
        corpus: from the catalogue.
        name: its name there.
        origin: the folder; its files may be anywhere below it.
        folder: of the new files.
        say: called with a line about what is irregular.

    Returns:
        `source`, `target`, possibly `documents`, and `target-2` and so on for further references → file.

    Raises:
        UserError: a file is missing or there several times, or its content is not as expected.
    """
    if not origin.is_dir():
        raise UserError("there is no such folder", origin, WHOLE)
    if isinstance(corpus, Columns):
        return _write_columns(corpus, origin, folder, say)
    return _write_evaluation(corpus, name, origin, folder, say)


def _write_columns(corpus: Columns, origin: Path, folder: Path, say: Say) -> dict[str, Path]:
    """No line is dropped: the texts of one with another number of columns are left blank, and it is reported."""
    files = [_only(origin, name) for name in corpus.tables]
    wanted = [*corpus.columns, *([] if corpus.documents is None else [corpus.documents])]
    odd: list[str] = []

    def rows() -> Iterator[list[bytes]]:
        for file in files:
            with file.open("rb") as stream:
                for number, line in enumerate(limited_lines(stream, file), 1):
                    fields = line.removesuffix(b"\n").split(corpus.separator.encode())
                    if len(fields) != corpus.fields:
                        odd.append(f"{file}:{number}")
                        fields = [b""] * corpus.fields
                    texts, ids = wanted[:2], wanted[2:]
                    yield [*(fields[column] for column in texts), *(one_word(fields[column]) for column in ids)]

    names = ["source", "target", *([] if corpus.documents is None else ["documents"])]
    made = {name: folder / f"made-{name}" for name in names}
    lines = write_rows(rows(), list(made.values()))
    if odd:
        what = f"{len(odd):,} of {lines:,} lines have another number of columns than {corpus.fields}"
        say(f"{what}, and are left empty; the first is {odd[0]}")
    return made


def _only(origin: Path, name: str) -> Path:
    """The file with a path that ends so, anywhere in a folder.

    Raises:
        UserError: there is none, or there are several.
    """
    found = sorted(path for path in origin.rglob(name) if path.is_file())
    if not found:
        raise UserError(f"it has no {name}", origin, WHOLE)
    if len(found) > 1:
        raise UserError(
            f"it has several files {name}: {', '.join(map(str, found[:3]))}", origin, "name the folder that has one"
        )
    return found[0]


class _Set(NamedTuple):
    """The segments of one text of a test set: (document, number in it) in order, and the texts."""

    file: Path
    places: list[tuple[str, int]]
    texts: list[str]


def _write_evaluation(corpus: MtEval, name: str, origin: Path, folder: Path, say: Say) -> dict[str, Path]:
    """The segments in the order of the source, each with that of every reference."""
    sources, references = _sets(origin, corpus)
    if len(sources) != 1 or not references:
        files = f"{len(sources)} sources and {len(references)} references"
        raise UserError(f"the files {corpus.mteval} in it have {files}", origin, WHOLE + ", and of one version alone")
    [source] = sources
    texts = {"source": source.texts, "documents": [document for document, _ in source.places]}
    for number, reference in enumerate(references, 1):
        of_place = dict(zip(reference.places, reference.texts, strict=True))
        missing = [place for place in source.places if place not in of_place]
        if missing or len(of_place) != len(source.places):
            document, segment = (missing or [place for place in of_place if place not in {*source.places}])[0]
            what = f"segment {segment + 1} of document {document} is in one of {source.file.name} and this file alone"
            raise UserError(what, reference.file, "give a source and references of one version")
        texts["target" if number == 1 else f"target-{number}"] = [of_place[place] for place in source.places]
    if len(references) > 1:
        say(f"{name}: the target is the first of {len(references)} references; the others are beside it")
    made = {part: folder / f"made-{part}" for part in texts}
    write_rows(zip(*([line.encode() for line in lines] for lines in texts.values()), strict=True), [*made.values()])
    return made


def _sets(origin: Path, corpus: MtEval) -> tuple[list[_Set], list[_Set]]:
    """The sources and the references in the files of a test set, in the order of their names."""
    sources, references = [], []
    for file in sorted(path for path in origin.rglob(corpus.mteval) if path.is_file()):
        with file.open("rb") as stream:
            refuse_entities(stream, file, WHOLE)
        try:
            root = ElementTree.parse(file).getroot()  # noqa: S314  entities are refused
        except (ElementTree.ParseError, LookupError, ValueError) as error:
            raise malformed(error, file, WHOLE) from None
        sources += [_segments(file, each) for each in root.iter("srcset")]
        references += [_segments(file, each) for each in root.iter("refset")]
    return sources, references


def _segments(file: Path, element: ElementTree.Element) -> _Set:
    """The segments of a `srcset` or `refset`, headlines and paragraphs alike."""
    places, texts = [], []
    for document in element.iter("doc"):
        name = "_".join(document.attrib.get("docid", "").split())
        for number, segment in enumerate(document.iter("seg")):
            places.append((name, number))
            texts.append(one_line("".join(segment.itertext())))
    if len({*places}) != len(places):
        raise UserError("two of its documents have one docid", file, WHOLE)
    return _Set(file, places, texts)
