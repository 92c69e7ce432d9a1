"""Documents of characters, of which everything but the translated segments is written as it was read."""

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
"""Its bytes, by encoding."""


class Document(Protocol):
    """A document that was read.

    Attributes:
        segments: what may be translated; `translated` of each is filled from outside, and `content` takes it away where
            it does not write it.
        kept: all other texts with letters that people read.
        notes: what else the user is to know.
    """

    kept: list[Kept]
    notes: list[str]

    @property
    def segments(self) -> list[Segment]:
        """See above."""
        ...

    def content(self) -> bytes:
        """The document with the translated segments in the places of their sources."""
        ...


@dataclass
class Text:
    """A file's text, decoded.

    Attributes:
        mark: the byte order mark before `content`, or nothing.

    Raises:
        UserError: it is not in its encoding, or Python knows none of this name.
    """

    content: str
    encoding: str
    mark: str = ""

    def __post_init__(self) -> None:
        self._ends = [at for at, each in enumerate(self.content) if each == "\n"]

    @classmethod
    def decode(cls, data: bytes, path: Path, encoding: str = "utf-8") -> Text:
        """The text of a file by its byte order mark, else in `encoding`."""
        encoding = next((each for mark, each in MARKS.items() if data.startswith(mark)), encoding)
        todo = "save the document as UTF-8"
        try:
            whole = data.decode(encoding)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            what = f"not valid {encoding}: byte 0x{data[error.start]:02X}"
            raise UserError(what, f"{path}:{line}", todo) from None
        except LookupError:
            raise UserError(f"it names an unknown encoding, {encoding!r}", path, todo) from None
        content = whole.removeprefix(MARK)
        return cls(content, encoding, whole[: len(whole) - len(content)])

    def line(self, at: int) -> int:
        """The number of the line, from 1, of a character."""
        return bisect_right(self._ends, at - 1) + 1


@dataclass
class RawSegment:
    """A segment with the characters that it was read from.

    Attributes:
        raw: the characters; a list has the segments in its tags too, such as that of an attribute.
        finish: makes the characters of the document of the translated ones.
    """

    raw: str | list[Part]
    segment: Segment
    finish: Callable[[str], str] = str


Part = str | RawSegment
"""Characters, or a segment."""


@dataclass
class RawDocument:
    """Characters, and segments. The content of a tag may have segments too.

    Args:
        encoding, errors: as of `str.encode`.
        escape: how the format writes a translated text.
    """

    encoding: str
    escape: Callable[[str], str] = str
    errors: str = "strict"
    parts: list[Part] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def segments(self) -> list[Segment]:
        """See `Document`."""
        return list(_segments(self.parts))

    def keep(self, line: int, text: str, reason: str) -> None:
        """Record a text that is not translated, if it has letters."""
        if has_letters(text):
            self.kept.append(Kept(line, text.strip(), reason))

    def content(self) -> bytes:
        """See `Document`."""
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
    """The segments of parts, each before those in its tags."""
    for part in parts:
        if isinstance(part, RawSegment):
            yield part.segment
            if not isinstance(part.raw, str):
                yield from _segments(part.raw)
