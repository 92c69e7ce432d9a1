"""Documents as characters: all characters outside translated segments are written as they were read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from posnmt.base.errors import UserError
from posnmt.deploy.documents.segment import Kept, Piece, Segment, has_letters

MARK = "\ufeff"
"""The byte order mark."""

MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""Bytes of the byte order mark → encoding."""


class Document(Protocol):
    """A document that was read. A reader of a format returns it.

    Attributes:
        segments: texts that may be translated. The caller sets `translated` of each and then calls `content`, which
            sets `translated` back to None where it cannot write the translation.
        kept: all other texts with letters that people read, for the ledger.
        notes: other sentences for the user.
    """

    kept: list[Kept]
    notes: list[str]

    @property
    def segments(self) -> list[Segment]:
        """Return the texts that may be translated, in the order of the document."""
        ...

    def content(self) -> bytes:
        """The bytes of the document, with translations in place of the segments that have one."""
        ...


@dataclass
class Text:
    """A file's text, decoded.

    Attributes:
        content: the text, without a byte order mark.
        encoding: the encoding of the file.
        mark: the byte order mark; empty if there is none.
    """

    content: str
    encoding: str
    mark: str = ""

    def __post_init__(self) -> None:
        self._ends = [at for at, each in enumerate(self.content) if each == "\n"]

    @classmethod
    def decode(cls, data: bytes, path: Path, encoding: str = "utf-8") -> Text:
        """Decode a file by its byte order mark, or in `encoding` if it has none.

        Raises:
            UserError: the file is not in its encoding, or Python does not know the encoding.
        """
        encoding = next((each for mark, each in MARKS.items() if data.startswith(mark)), encoding)
        todo = "save the document as UTF-8"
        try:
            whole = data.decode(encoding)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            what = f"not valid {encoding}: byte 0x{data[error.start]:02X}"
            raise UserError(what, f"{path}:{line}", todo) from None
        except LookupError:
            raise UserError(f"the document names an unknown encoding, {encoding!r}", path, todo) from None
        content = whole.removeprefix(MARK)
        return cls(content, encoding, whole[: len(whole) - len(content)])

    def line(self, at: int) -> int:
        """The number of the line, from 1, that has the character at a place."""
        return bisect_right(self._ends, at - 1) + 1


@dataclass
class RawSegment:
    """A segment with the characters that it was read from.

    Attributes:
        raw: the characters; a list if tags in the segment have segments of their own, such as attributes.
        segment: the segment.
        finish: makes the characters to write from those of the translation.
    """

    raw: str | list[Part]
    segment: Segment
    finish: Callable[[str], str] = str


Part = str | RawSegment
"""Characters, or a segment."""


@dataclass
class RawDocument:
    """A document as a list of characters and segments, which is written in that order.

    A reader appends to `parts`. The content of a tag may have segments too.

    Args:
        encoding, errors: as in `str.encode`.
        escape: turns translated text into characters of the format.
        parts: the characters and segments.
        kept, notes: see `Document`.
    """

    encoding: str
    escape: Callable[[str], str] = str
    errors: str = "strict"
    parts: list[Part] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def segments(self) -> list[Segment]:
        """Return the segments among the parts, in their order."""
        return list(_segments(self.parts))

    def keep(self, line: int, text: str, reason: str) -> None:
        """Record a text with letters that is not translated."""
        if has_letters(text):
            self.kept.append(Kept(line, text.strip(), reason))

    def content(self) -> bytes:
        """Join the parts, with translations in place of their segments, in the encoding of the file."""
        return "".join(map(self._written, self.parts)).encode(self.encoding, self.errors)

    def _written(self, part: Part) -> str:
        if isinstance(part, str):
            return part
        if part.segment.translated is None:
            return "".join(map(self._written, part.raw))
        return part.finish("".join(map(self._piece, part.segment.translated)))

    def _piece(self, piece: Piece) -> str:
        return self.escape(piece) if isinstance(piece, str) else "".join(map(self._written, piece.content))


def _segments(parts: Iterable[Part]) -> Iterator[Segment]:
    """The segments of parts; each comes before the segments in its tags."""
    for part in parts:
        if isinstance(part, RawSegment):
            yield part.segment
            if not isinstance(part.raw, str):
                yield from _segments(part.raw)
