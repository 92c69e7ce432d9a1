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
    "text": (),
    "wrapped": (),
}
"""Format → endings of its files; plain text is read line by line unless one of the last two is asked for."""

PACKED = frozenset([".gz", ".xz"])
"""Endings of compressed files, of which lines alone are read."""


def format_of(asked: str | None, path: Path | None) -> str | None:
    """The format of a document, by name or by the ending of its file; None: lines.

    Args:
        asked: a format, or `lines`.

    Raises:
        UserError: the document is compressed.
    """
    if asked == "lines":
        return None
    path = Path() if path is None else path
    is_packed = path.suffix.lower() in PACKED
    ending = (path.with_suffix("") if is_packed else path).suffix.lower()
    form = asked or next((name for name, endings in ENDINGS.items() if ending in endings), None)
    if form and is_packed:
        raise UserError("a compressed document is not read", path, "unpack it, or add --document lines")
    return form


def read(form: str, data: bytes, path: Path, languages: tuple[str, str]) -> Document:
    """Read a document.

    Args:
        path: of the file, for errors.
        languages: codes of source and target.

    Raises:
        UserError: it is not of the format, or not safe to read.
    """
    from posnmt.deploy.documents import markup, plain, subtitles
    from posnmt.deploy.documents.tmx import TmxDocument
    from posnmt.deploy.documents.xliff import XliffDocument

    if form == "tmx":
        return TmxDocument(data, path, languages)
    if form == "xliff":
        return XliffDocument(data, path, languages)
    readers: dict[str, Callable[[bytes, Path], Document]] = {
        "html": markup.read_html,
        "srt": subtitles.read_srt,
        "vtt": subtitles.read_vtt,
        "text": plain.read_text,
        "wrapped": plain.read_wrapped,
    }
    return readers[form](data, path)
