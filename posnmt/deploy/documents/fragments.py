"""Texts of other programs: a part of an XML document, or plain text in which a line end need not end a sentence.

Everything outside translated text is written as it was read. An XML text need not have one outermost element, need not
declare the prefixes of its names, and may have references to characters by HTML's names. References that HTML does not
know are kept as tags.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from html.entities import html5
from pathlib import Path
from typing import Literal
from xml.parsers.expat import ErrorString, ExpatError, ParserCreate

from posnmt.base.errors import UserError
from posnmt.deploy.documents.markup import MOST_LEVELS
from posnmt.deploy.documents.raw import Part, RawDocument, RawSegment
from posnmt.deploy.documents.segment import Piece, Segment, Tag, TagRules, has_letters

TOKEN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|</[^>]*>|<(?:[^'\">]|'[^']*'|\"[^\"]*\")*>|&[^;]*;|[^<&]+", re.DOTALL
)
"""A tag, a comment, a section, a reference or a text of well-formed XML."""

NAME = re.compile(r"</?([^\s/>]+)")
DECLARATION = re.compile(r"\s*<\?xml\s.*?\?>", re.DOTALL)
REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)[^\W\d][\w.-]*;")
"""A reference that XML itself does not declare."""

TAGS: dict[str, Literal["open", "close"]] = {"start": "open", "end": "close"}

LINE_END = re.compile(r"(?<!\s)(\s*\n\s*)")
"""The end of a line with the white space around it."""


@dataclass
class _Element:
    """An open element; the first one is the text as a whole.

    Attributes:
        name: its name.
        is_inside: whether its tags stand inside a sentence.
        has_text: whether it has text of its own that is not white space.
    """

    name: str
    is_inside: bool
    has_text: bool

    @property
    def has_sentences(self) -> bool:
        """Whether what stands in it stands inside a sentence."""
        return self.is_inside or self.has_text


def parse_text(text: str, lines: bool) -> RawDocument:
    """Read plain text. If not `lines`, it is one segment, in which line ends keep their relative place."""
    reader = _Reader(RawDocument("utf-8"), lines)
    reader.add_text(text, text)
    reader.finish()
    return reader.document


def parse_xml(text: str, path: Path, rules: TagRules) -> RawDocument:
    """Read a part of an XML document.

    If an element has text of its own, beside white space, the elements in it stand inside its sentences. Other elements
    end a segment. This is what DeepL calls outline detection.

    Args:
        text: the part.
        path: its name, for errors.
        rules: what the caller wants to have done with some elements.

    Raises:
        UserError: it is not well-formed, or elements are nested too deeply.
    """
    _refuse_malformed(text, path)
    tokens = TOKEN.findall(text)
    have_text = iter(_have_text(tokens, path))
    elements = [_Element("", False, next(have_text))]
    reader = _Reader(RawDocument("utf-8", partial(html.escape, quote=False)), rules.lines)
    ignored: list[str] = []  # the tokens of an element that is kept
    depth = 0  # the number of open elements where it began
    for token in tokens:
        kind = _kind(token)
        if kind in ("start", "empty"):
            name = NAME.findall(token)[0]
            is_inside = rules.is_inside(name, usually=elements[-1].has_sentences)
            elements.append(_Element(name, is_inside, next(have_text)))
            if not depth and name in rules.ignored:
                depth = len(elements)
        element = elements[-1]
        if depth:
            ignored.append(token)
        elif kind == "text":
            reader.add_text(token, _content(token))
        elif element.has_sentences if kind == "other" else element.is_inside:
            reader.add(token, Tag(TAGS.get(kind, "alone"), [token]))
        else:
            reader.end_with(token)
        if kind in ("end", "empty"):
            if depth == len(elements):
                whole, ignored, depth = "".join(ignored), [], 0
                if element.is_inside:
                    reader.add(whole, Tag("alone", [whole]))
                else:
                    reader.end_with(whole)
            elements.pop()
    reader.finish()
    return reader.document


@dataclass
class _Reader:
    """Collects the segments of a text.

    Attributes:
        document: what has been read.
        lines: whether the end of a line ends a segment.
        raw, pieces: the segment that is being read, as characters and as pieces.
    """

    document: RawDocument
    lines: bool
    raw: list[Part] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)

    def add_text(self, raw: str, text: str | None) -> None:
        """Add a text with the characters that stand for it; None: a reference to something unknown."""
        if text is None:
            self.add(raw, Tag("alone", [raw]))
        elif self.lines and raw == text:
            for number, each in enumerate(LINE_END.split(text)):
                if number % 2:
                    self.end_with(each)
                elif each:
                    self.add(each, each)
        else:
            self.raw.append(raw)
            for number, each in enumerate(LINE_END.split(text)):
                self.pieces.append(Tag("alone", [each], separates=True) if number % 2 else each)

    def add(self, raw: str, piece: Piece) -> None:
        """Add a piece to the segment."""
        self.raw.append(raw)
        self.pieces.append(piece)

    def end_with(self, raw: str) -> None:
        """Finish the segment, and add characters that belong to none."""
        self.finish()
        self.document.parts.append(raw)

    def finish(self) -> None:
        if any(isinstance(each, str) and has_letters(each) for each in self.pieces):
            self.document.parts.append(RawSegment(self.raw, Segment(1, self.pieces)))
        else:
            self.document.parts += self.raw
        self.raw, self.pieces = [], []


def _refuse_malformed(text: str, path: Path) -> None:
    """Check that a text is well-formed within an element.

    Raises:
        UserError: it is not.
    """
    head = DECLARATION.match(text)
    body = " " * head.end() + text[head.end() :] if head else text
    parser = ParserCreate()
    try:
        parser.Parse("<_>")
        parser.Parse(REFERENCE.sub(lambda match: "_" * len(match[0]), body))
        parser.Parse("</_>", True)
    except (ExpatError, UnicodeEncodeError) as error:
        reason = ErrorString(error.code) if isinstance(error, ExpatError) else "half of a surrogate pair"
        line = error.lineno if isinstance(error, ExpatError) else 1
        what = f"not well-formed XML: {reason}"
        raise UserError(what, f"{path}:{line}", "close each tag, and write & and < as &amp; and &lt;") from None


def _kind(token: str) -> str:
    """The kind of a token: `text`, `start`, `end`, `empty`, or `other` for comments and instructions."""
    if not token.startswith("<") or token.startswith("<![CDATA["):
        return "text"
    if token.startswith(("<!", "<?")):
        return "other"
    return "end" if token.startswith("</") else "empty" if token.endswith("/>") else "start"


def _content(token: str) -> str | None:
    """The text that a token of kind `text` stands for; None: a reference to something unknown."""
    if token.startswith("<![CDATA["):
        return token[9:-3]
    if not token.startswith("&"):
        return token
    name = token[1:]
    if name.startswith("#"):
        return chr(int(name[2:-1], 16) if name[1] == "x" else int(name[1:-1]))
    return html5.get(name)


def _have_text(tokens: Sequence[str], path: Path) -> Iterator[bool]:
    """Whether the text as a whole, and then each element in order, has text of its own that is not white space.

    Raises:
        UserError: an end tag has no start tag, or elements are nested too deeply.
    """
    found, opened = [False], [0]
    for token in tokens:
        kind = _kind(token)
        if kind == "text" and token.strip():
            found[opened[-1]] = True
        elif kind in ("start", "empty"):
            opened.append(len(found))
            found.append(False)
        if len(opened) > MOST_LEVELS:
            raise UserError(f"more than {MOST_LEVELS} elements are nested", path, "send a part of it at a time")
        if kind in ("end", "empty"):
            opened.pop()
            if not opened:
                raise UserError("not well-formed XML: an end tag without its start tag", path, "remove it")
    return iter(found)
