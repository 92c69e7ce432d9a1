"""HTML: text between tags; everything else, down to the white space inside tags, is written as it was read."""

from __future__ import annotations

import html
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal, NamedTuple

from posnmt.deploy.documents.raw import RawDocument, RawSegment, Text
from posnmt.deploy.documents.segment import Piece, Segment, Tag, has_letters

INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rp rt ruby s small span strike"
        " strong sub sup time tt u",
    )
)
"""Elements inside a sentence."""

ALONE = frozenset(["img", "input", "wbr"])
"""Elements without content inside a sentence."""

KEPT_INLINE = frozenset(["code", "kbd", "samp", "var", "math", "svg"])
KEPT = KEPT_INLINE | frozenset(["script", "style", "pre", "textarea", "template", "object"])
"""Elements whose content is not translated, those inside a sentence first."""

VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
"""Elements without an end tag."""

UNNESTED = frozenset(["p", "option"])
"""Elements that end where another one begins."""

CODE = frozenset(["script", "style"])

NOTE = re.compile(r"<sup\b[^<>]*>((?:<(?!/?sup\b)[^<>]*>|[^\s<]){1,50})</sup\s*>(?![\w/⁄])", re.IGNORECASE)
"""What may be the mark of a note or a power: what is raised, without blanks and at the end of a word."""

SHOWN = ("alt", "title", "placeholder", "aria-label")
"""Attributes that people read."""

CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)


class Token(NamedTuple):
    """A piece of markup.

    Attributes:
        at: where it begins.
        kind: what it is; `empty` is a tag that closes itself, `other` a comment or a declaration.
        name: of the element.
        kept: whether the element says that it is not translated.
    """

    at: int
    kind: Literal["text", "start", "empty", "end", "other"]
    name: str = ""
    kept: bool = False


class Tokens(HTMLParser):
    """The tokens of a page, in order.

    Attributes:
        attributes: how many that people read have letters.
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tokens: list[Token] = []
        self.attributes = 0
        self._text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.feed(text)
        self.close()

    def _at(self) -> int:
        line, column = self.getpos()
        return self._starts[line - 1] + column

    def _add(self, kind: Literal["text", "start", "empty", "end", "other"], name: str = "", kept: bool = False) -> None:
        self.tokens.append(Token(self._at(), kind, name, kept))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]], kind: str = "start") -> None:
        """An element begins."""
        given = {name: value or "" for name, value in attrs}
        self.attributes += sum(has_letters(given.get(name, "")) for name in SHOWN)
        kept = given.get("translate", "").lower() == "no" or "notranslate" in given.get("class", "").split()
        kept = kept or tag in KEPT or (tag == "sup" and is_mark(self._text, self._at()))
        self._add("empty" if kind == "empty" or tag in VOID else "start", tag, kept)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Where a section `<![` ends; one that HTML does not know is a comment up to `>`, as browsers read it."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.parse_bogus_comment(i, report)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag closes itself: elements of HTML do not, those of SVG do."""
        self.handle_starttag(tag, attrs, "empty")

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        """Text."""
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        """A character with a name."""
        self._add("text")

    def handle_charref(self, name: str) -> None:
        """A character with a number."""
        self._add("text")

    def handle_comment(self, data: str) -> None:
        """A comment."""
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        """The document type."""
        self._add("other")

    def handle_pi(self, data: str) -> None:
        """A processing instruction."""
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        """Another declaration."""
        self._add("other")


def is_mark(text: str, at: int) -> bool:
    """Whether the mark of a note, or a power, begins at a place: `NOTE` with one letter at most."""
    match = NOTE.match(text, at)
    content = html.unescape(re.sub("<[^>]*>", "", match[1])) if match else ""
    return match is not None and sum(map(str.isalpha, content)) < 2 and not re.search(r"\s", content)


def read_html(data: bytes, path: Path) -> RawDocument:
    """A page: segments end where an element does that is not inside sentences."""
    charset = CHARSET.search(data[:1024])
    text = Text.decode(data, path, charset[1].decode() if charset else "utf-8")
    parser = Tokens(text.content)
    document = RawDocument(text.encoding, partial(html.escape, quote=False), "xmlcharrefreplace", [text.mark])
    if parser.attributes:
        document.notes.append(f"{parser.attributes:,} attributes with text ({', '.join(SHOWN)}) are left as they are")
    page = _Page(text, document)
    ends = [*(token.at for token in parser.tokens[1:]), len(text.content)]
    page.block(text.content[: parser.tokens[0].at if parser.tokens else None])
    kept: list[str] = []
    first, depth = Token(0, "other"), 0
    for token, end in zip(parser.tokens, ends, strict=False):
        raw = text.content[token.at : end]
        if kept and token.kind == "start" and token.name == first.name in UNNESTED:
            page.keep("".join(kept), first)
            kept = []
        if kept or (token.kept and token.kind == "start"):
            if not kept:
                first, depth = token, 0
            depth += (token.name == first.name) * ((token.kind == "start") - (token.kind == "end"))
            kept.append(raw)
            if not depth:
                page.keep("".join(kept), first)
                kept = []
        elif token.kind == "text":
            page.text(raw, token.at)
        elif token.kind == "other" or token.name in ALONE or (token.kind == "empty" and token.name in INLINE):
            page.inline(raw, token.at)
        elif token.name in INLINE:
            page.inline(raw, token.at, "close" if token.kind == "end" else "open")
        else:
            page.block(raw)
    page.keep("".join(kept), first)
    page.block("")
    if page.kept:
        document.notes.append(
            f"{page.kept:,} elements that are not to be translated (code, pre, …) are left as they are"
        )
    return document


class _Page:
    """Collects the raw parts and the segments of a page."""

    def __init__(self, text: Text, document: RawDocument) -> None:
        self._text, self._document = text, document
        self._raw: list[str] = []
        self._pieces: list[Piece] = []
        self._start = 0
        self._has_words = False
        self.kept = 0

    def text(self, raw: str, at: int) -> None:
        """Text of a segment."""
        self._begin(at)
        self._raw.append(raw)
        text = html.unescape(raw)
        self._pieces.append(text)
        self._has_words = self._has_words or bool(text.strip())

    def inline(self, raw: str, at: int, kind: Literal["open", "close", "alone"] = "alone") -> None:
        """A tag inside a segment."""
        self._begin(at)
        self._raw.append(raw)
        self._pieces.append(Tag(kind, raw))

    def block(self, raw: str) -> None:
        """What is between segments."""
        if self._pieces:
            whole = "".join(self._raw)
            segment = Segment(self._text.line(self._start), self._pieces)
            self._document.parts.append(RawSegment(whole, segment) if segment.has_letters else whole)
            self._raw, self._pieces, self._has_words = [], [], False
        self._document.parts.append(raw)

    def keep(self, raw: str, token: Token) -> None:
        """An element that is not translated."""
        self.kept += token.name not in CODE and has_letters(re.sub("<[^>]*>", "", raw))
        if token.name in INLINE | KEPT_INLINE:
            self.inline(raw, token.at)
        else:
            self.block(raw)

    def _begin(self, at: int) -> None:
        if not self._has_words:
            self._start = at
