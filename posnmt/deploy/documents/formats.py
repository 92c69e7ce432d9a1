"""Formats of documents, by name and by the ending of a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from posnmt.deploy.documents.raw import Document
from posnmt.errors import UserError

ENDINGS = {
    "tmx": (".tmx",),
    "xliff": (".xlf", ".xliff"),
    "html": (".html", ".htm", ".xhtml"),
    "srt": (".srt",),
    "vtt": (".vtt",),
    "markdown": (".md", ".markdown"),
    "po": (".po", ".pot"),
    "json": (".json",),
    "text": (),
    "wrapped": (),
}
"""Format → endings of its files; plain text is read line by line unless one of the last two is asked for."""

WHOLE = frozenset(["tmx", "xliff", "po", "json"])
"""Formats of which a segment is translated whole or not at all: memories, and messages that programs show."""

PACKED = frozenset([".gz", ".xz"])
"""Endings of compressed files, of which lines alone are read."""

BINARY = {
    "a Word document": ".doc .docx .docm .dotx",
    "a PDF": ".pdf",
    "an OpenDocument text": ".odt .ott",
    "a spreadsheet": ".xls .xlsx .xlsm .ods",
    "a presentation": ".ppt .pptx .odp",
    "an e-book": ".epub .mobi .azw3",
    "an RTF document": ".rtf",
    "an InDesign document": ".idml .indd",
    "a Pages document": ".pages",
    "a compiled catalogue of messages": ".gmo",
}
"""Documents that are not read and have no lines: what they are → endings."""

STRUCTURED = {
    "a CSV table": ".csv",
    "a table with tabs": ".tsv",
    "a YAML file": ".yaml .yml",
    "a TOML file": ".toml",
    "an INI file": ".ini .cfg",
    "a LaTeX document": ".tex .latex .ltx .bib",
    "an XML document": ".xml .dita .ditamap .dbk .docbook .fb2 .resx .stringsdict .sdlxliff .mqxliff .ttml .dfxp .svg",
    "an SGML document": ".sgm .sgml",
    "a notebook": ".ipynb",
    "a file of lines of JSON": ".jsonl .ndjson",
    "a JSON file of messages": ".arb .xcstrings",
    "a file of messages": ".properties .strings .ftl",
    "a reStructuredText document": ".rst",
    "an AsciiDoc document": ".adoc .asciidoc",
    "a file of subtitles": ".ass .ssa .sbv",
    "MDX": ".mdx",
}
"""Documents that are not read and consist of lines: what they are → endings."""


def format_of(asked: str | None, path: Path | None) -> str | None:
    """The format of a document, by name or by the ending of its file; None: lines.

    Args:
        asked: a format, or `lines`.

    Raises:
        UserError: the document is compressed, or of a format that is not read.
    """
    if asked == "lines":
        return None
    path = Path() if path is None else path
    is_packed = path.suffix.lower() in PACKED
    form = asked or _named_by(path)
    if form and is_packed:
        raise UserError("a compressed document is not read", path, "unpack it, or add --document lines")
    if not form:
        _refuse_unread(path)
    return form


def refuse_output_format(asked: str | None, form: str | None, path: Path | None) -> None:
    """Check that the name of an output is not that of another format than the one that is written.

    Args:
        asked: a format, or `lines`, that the user named; the name may then be that of another format.
        form: the format that is written; None: lines.

    Raises:
        UserError: it is, or it is that of a format that is never written.
    """
    if path is None:
        return
    written = form or "lines"
    if what := _what(path, BINARY):
        raise UserError(f"the output is {written}, not {what}", path, "choose a name with another ending")
    named = _named_by(path)
    if asked is None and named not in (None, form):
        todo = "choose a name with another ending, or name the format of the input by --document"
        raise UserError(f"the output is {written}, not {named}", path, todo)


def _ending(path: Path) -> str:
    """The ending of a file's name, without that of a compression."""
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()


def _named_by(path: Path) -> str | None:
    """The format that a file's name says."""
    ending = _ending(path)
    return next((name for name, endings in ENDINGS.items() if ending in endings), None)


def _what(path: Path, kinds: dict[str, str]) -> str | None:
    """What a file is by its ending, among formats that are not read."""
    ending = _ending(path)
    return next((what for what, endings in kinds.items() if ending in endings.split()), None)


def _refuse_unread(path: Path) -> None:
    """Check that a file is not of a format that would be read as lines by mistake.

    Raises:
        UserError: it is.
    """
    if what := _what(path, BINARY):
        raise UserError(f"{what} is not read", path, "save it as .html or .txt")
    if what := _what(path, STRUCTURED) or ("a file with markup" if _is_markup(path) else None):
        todo = "add --document lines to translate each line as a sentence, or --document text as a paragraph"
        raise UserError(f"{what} is not read", path, todo)


def _is_markup(path: Path) -> bool:
    """Whether a file that ends in .ts is one of Qt Linguist: text in Tsonga ends so too."""
    if _ending(path) != ".ts" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(16).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")


def read(form: str, data: bytes, path: Path, languages: tuple[str, str]) -> Document:
    """Read a document.

    Args:
        path: of the file, for errors.
        languages: codes of source and target.

    Raises:
        UserError: it is not of the format, or not safe to read.
    """
    from posnmt.deploy.documents import markup, plain, subtitles
    from posnmt.deploy.documents.json import JsonDocument
    from posnmt.deploy.documents.markdown import MarkdownDocument
    from posnmt.deploy.documents.po import PoDocument
    from posnmt.deploy.documents.tmx import TmxDocument
    from posnmt.deploy.documents.xliff import XliffDocument

    if form == "tmx":
        return TmxDocument(data, path, languages)
    if form == "xliff":
        return XliffDocument(data, path, languages)
    if form == "po":
        return PoDocument(data, path, languages)
    readers: dict[str, Callable[[bytes, Path], Document]] = {
        "html": markup.read_html,
        "srt": subtitles.read_srt,
        "vtt": subtitles.read_vtt,
        "json": JsonDocument,
        "markdown": MarkdownDocument,
        "text": plain.read_text,
        "wrapped": plain.read_wrapped,
    }
    return readers[form](data, path)
