"""HTML: text between tags and in some attributes; everything else, down to the white space inside tags, stays.

What is translated and what is not nests: `translate="yes"` may stand in an element with `translate="no"`. A page is a
stack of regions, each of which is translated or kept.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal, NamedTuple

from posnmt.deploy.documents.raw import Part, RawDocument, RawSegment, Text
from posnmt.deploy.documents.segment import Piece, Segment, Tag, has_letters

INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rb ruby s small span strike strong"
        " nobr sub sup time tt u",
    )
)
"""Elements inside a sentence."""

ALONE = frozenset(["img", "input", "wbr"])
"""Elements without content inside a sentence."""

READINGS = frozenset(["rt", "rp", "rtc"])
"""Elements of `ruby` that say how the text before them is read: they would be in the middle of its words."""

KEPT_INLINE = READINGS | frozenset(["code", "kbd", "samp", "var", "math", "svg"])
CODE = frozenset(["script", "style", "xmp", "iframe", "noembed", "noframes", "plaintext"])
"""Elements whose content has neither tags nor references."""

PLAIN = CODE | frozenset(["textarea", "title"])
"""Elements whose content has no tags."""

KEPT = KEPT_INLINE | CODE | frozenset(["pre", "textarea", "template", "object"])
"""Elements whose content is not translated, those inside a sentence first."""

VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
"""Elements without an end tag."""

HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
"""The begin of one ends another one, and the end tag of one ends any."""

ENDED: dict[str, frozenset[str]] = {
    "p": frozenset(
        re.findall(
            r"\w+",
            "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form"
            " h1 h2 h3 h4 h5 h6 header hgroup hr listing main menu nav ol p plaintext pre search section summary table"
            " ul xmp li dt dd",
        )
    ),
    **{each: frozenset([each]) for each in ("a", "button", "li", "nobr")},
    "option": frozenset(["option", "optgroup"]),
    "optgroup": frozenset(["optgroup"]),
    **dict.fromkeys(["dt", "dd"], frozenset(["dt", "dd"])),
    **dict.fromkeys(["rb", "rt", "rp"], frozenset(["rb", "rt", "rp", "rtc"])),
    **dict.fromkeys(["td", "th"], frozenset(["td", "th", "tr", "tbody", "thead", "tfoot"])),
    "tr": frozenset(["tr", "tbody", "thead", "tfoot"]),
    **dict.fromkeys(["tbody", "thead", "tfoot", "caption", "colgroup"], frozenset(["tbody", "thead", "tfoot"])),
    "head": frozenset(["body"]),
}
"""Elements that need no end tag, and those whose begin ends them."""

ITEMS = frozenset(["li", "dt", "dd"])
LOOSE = INLINE | frozenset(["address", "div", "p"])
"""Elements of lists, and those through which one ends another."""

TABLE = frozenset(["table", "caption", "colgroup", "tbody", "thead", "tfoot", "tr", "td", "th"])
LISTS = frozenset(["ul", "ol", "menu", "dl", "select", "datalist", "ruby"])
CLOSED = frozenset(["table", "template", "object", "svg", "math", "button"])
"""Elements that no tag in them ends, but their own end tag and those of elements around them."""

NOTE = re.compile(r"<sup\b[^<>]*>((?:<(?!/?sup\b)[^<>]*>|[^\s<]){1,50})</sup\s*>(?![\w/⁄])", re.IGNORECASE)
"""What may be the mark of a note or a power: what is raised, without blanks and at the end of a word."""

SHOWN = frozenset(
    ["alt", "title", "placeholder", "aria-label", "aria-description", "aria-placeholder", "aria-roledescription",
     "aria-valuetext"]
)  # fmt: skip
"""Attributes that people read, of any element."""

SHOWN_OF = {
    "label": frozenset(["option", "optgroup", "track"]),
    "abbr": frozenset(["th"]),
    "summary": frozenset(["table"]),
    "value": frozenset(["input"]),
    "content": frozenset(["meta"]),
}
"""Attributes that people read, of some elements; `SHOWN_IF` says of which `input` and `meta`."""

SHOWN_IF = {
    "input": ("type", frozenset(["button", "reset", "submit"])),
    "meta": (
        "name",
        frozenset(
            ["description", "keywords", "og:title", "og:description", "og:image:alt", "twitter:title",
             "twitter:description", "twitter:image:alt"]
        ),
    ),
}  # fmt: skip

NAMES = re.compile(
    r"author|copyright|abstract|subject|title|name|headline|description|keywords|caption|text"
    r"|alternat(e|ive)(name|headline)|application-name|apple-mobile-web-app-title|og:site_name|(article|book|music|video|profile):\w*(section|tag|author|name)"
    r"|articlesection|twitter:(label|data)\d|dc(terms)?\.\w+",
    re.IGNORECASE,
)
"""What `meta` says in its content that people read as a name, or that is not known to be text."""

TYPED = frozenset(["", "text", "search", "email", "tel", "url"])
"""Types of `input` whose value a person may change."""

GOOGLE = '<meta name="google" content="notranslate">'
"""Why a whole page stays that has this element."""

ATTRIBUTE = re.compile(r"""([^\s/>"'=]+)\s*=\s*("[^"]*"|'[^']*'|(?!["'])[^\s>]+)""")
QUOTES = {'"': "&quot;", "'": "&#39;"}

CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)

Kind = Literal["text", "start", "empty", "end", "other"]


class Token(NamedTuple):
    """A piece of markup.

    Attributes:
        at: where it begins.
        kind: what it is; `empty` is a tag that closes itself, `other` a comment or a declaration.
        name: of the element.
        attributes: of the element.
    """

    at: int
    kind: Kind
    name: str = ""
    attributes: dict[str, str] = {}  # noqa: RUF012 (never changed)

    @property
    def own_reason(self) -> str | None:
        """What the element says: why it is not translated, nothing if it is translated; None: it does not say."""
        value = self.attributes.get("translate", "?").lower()
        if value == "no" or "notranslate" in self.attributes.get("class", "").split():
            return 'translate="no"' if value == "no" else 'class="notranslate"'
        return "" if value in ("", "yes") else None

    @property
    def keeps_page(self) -> bool:
        """Whether the element says that its page is not translated."""
        given = self.attributes
        says = given.get("content", given.get("value", "")).lower()
        return self.name == "meta" and given.get("name", "").lower() == "google" and "notranslate" in says

    def shows(self, attribute: str) -> bool:
        """Whether people read an attribute of the element, and it is translated."""
        if attribute in SHOWN:
            return True
        if self.name not in SHOWN_OF.get(attribute, ()):
            return False
        by, values = SHOWN_IF.get(self.name, ("", frozenset([""])))
        given = self.attributes.get(by, "") or self.attributes.get("property", "")
        return given.lower() in values

    def keeps(self, attribute: str, around: Sequence[str]) -> str:
        """Why an attribute stays that people may read; nothing: they do not, or it is translated.

        Args:
            around: the names of the elements around it.
        """
        if attribute.startswith("data-"):
            return "data-*"
        given = self.attributes
        says = given.get("name") or given.get("property") or given.get("itemprop") or ""
        is_kept = {
            "value": (self.name == "option" and "datalist" in around)
            or (self.name == "input" and given.get("type", "").lower() in TYPED),
            "content": self.name == "meta" and bool(NAMES.fullmatch(says)),
            "label": True,
            "srcdoc": True,
        }.get(attribute, attribute.startswith("aria-braille"))
        return f"<{self.name} {attribute}>" if is_kept and not self.shows(attribute) else ""


class Tokens(HTMLParser):
    """The tokens of a page, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tokens: list[Token] = []
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.feed(text)
        self.close()
        if self.rawdata:  # what an element of `PLAIN` has that does not end
            self._add("text")

    def _add(self, kind: Kind, name: str = "", attributes: dict[str, str] | None = None) -> None:
        line, column = self.getpos()
        self.tokens.append(Token(self._starts[line - 1] + column, kind, name, attributes or {}))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]], kind: Kind = "start") -> None:
        """An element begins."""
        given = {name: value or "" for name, value in reversed(attrs)}  # the first of a name holds
        self._add("empty" if tag in VOID else kind, tag, given)
        if tag in PLAIN and kind == "start":
            self.set_cdata_mode(tag)  # Python does it for some of them, and newer versions for more

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
    return bool(content) and sum(map(str.isalpha, content)) < 2 and not re.search(r"\s", content)


def read_html(data: bytes, path: Path) -> RawDocument:
    """A page: segments end where an element does that is not inside sentences."""
    charset = CHARSET.search(data[:1024])
    text = Text.decode(data, path, charset[1].decode() if charset else "utf-8")
    tokens = Tokens(text.content).tokens
    document = RawDocument(text.encoding, partial(html.escape, quote=False), "xmlcharrefreplace", [text.mark])
    page = _Page(text, document, GOOGLE if any(token.keeps_page for token in tokens) else "")
    ends = [*(token.at for token in tokens[1:]), len(text.content)]
    document.parts.append(text.content[: tokens[0].at if tokens else None])
    for token, end in zip(tokens, ends, strict=False):
        page.add(token, text.content[token.at : end])
    page.close()
    return document


@dataclass
class _Region:
    """A part of a page that is translated, or for one reason not.

    Attributes:
        name, at: of the element that begins it, and where.
        depth: the number of open elements, with that one.
        reason: why it is not translated; nothing: it is.
        parts: those that are done.
        raw, pieces: of the text that is not done.
        start, has_words: where it begins, and whether there is more than white space in it.
    """

    name: str
    at: int
    depth: int
    reason: str
    parts: list[Part]
    raw: list[Part] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    start: int = 0
    has_words: bool = False

    def add(self, raw: list[Part], at: int, piece: Piece) -> None:
        """A piece of the text."""
        words = piece.lstrip() if isinstance(piece, str) else ""
        if not self.has_words:
            self.start = at + (len(piece) - len(words) if isinstance(piece, str) else 0)
        self.has_words = self.has_words or bool(words)
        self.raw += raw
        self.pieces.append(piece)


class _Page:
    """Collects the parts of a page."""

    def __init__(self, text: Text, document: RawDocument, reason: str) -> None:
        self._text, self._document = text, document
        self._open: list[str] = []
        self._regions = [_Region("", 0, 0, reason, document.parts)]

    def add(self, token: Token, raw: str) -> None:
        """The next token and its characters."""
        inner = self._open[-1] if self._open else ""
        ends = token.kind == "end" and token.name == inner != "plaintext"  # which never ends
        if token.kind == "text" or (inner in PLAIN and not ends):
            text = raw if inner in CODE else html.unescape(raw)
            self._regions[-1].add([raw], token.at, text)
        elif token.kind == "other":
            self._regions[-1].add([raw], token.at, Tag("alone", raw))
        elif token.kind == "end":
            self._end(token, raw)
        else:
            self._begin(token, raw)

    def close(self) -> None:
        """The page ends."""
        while self._open:
            self._pop()
        self._finish(self._regions[-1])

    def _begin(self, token: Token, raw: str) -> None:
        self._end_before(token.name)
        region, own = self._regions[-1], token.own_reason
        around = region.reason if own is None else own
        parts = self._tag(token, raw, around)
        if token.kind == "empty":
            self._add_tag(token, parts)
            return
        self._open.append(token.name)
        reason = around
        if token.name in KEPT and (own is None or token.name in PLAIN):
            reason = around or f"<{token.name}>"
        elif token.name == "sup" and is_mark(self._text.content, token.at):
            reason = around or "marks of notes"
        if reason and not region.reason:
            self._regions.append(_Region(token.name, token.at, len(self._open), reason, parts))
            return
        self._add_tag(token, parts)
        if region.reason and not reason:
            self._finish(region)
            self._regions.append(_Region(token.name, token.at, len(self._open), "", region.parts))

    def _end_before(self, begun: str) -> None:
        """Close the elements that the begin of another one ends."""
        for at in range(len(self._open) - 1, -1, -1):
            name = self._open[at]
            is_bound = name in CLOSED | LISTS or (name in TABLE and begun not in TABLE)
            if begun in ENDED.get(name, ()):
                self._pop_to(at)
            elif is_bound or (begun in ITEMS and name not in LOOSE):
                break
        if begun in HEADINGS and self._open and self._open[-1] in HEADINGS:
            self._pop()

    def _end(self, token: Token, raw: str) -> None:
        if token.name in ("body", "html"):  # what follows is in the body too
            self._add_tag(token, [raw])
            return
        for at in range(len(self._open) - 1, -1, -1):
            name = self._open[at]
            if name == token.name or {name, token.name} <= HEADINGS:
                self._pop_to(at + 1)
                if not self._pop(raw):
                    self._add_tag(token, [raw])
                return
            if (name in CLOSED and token.name not in TABLE) or (
                token.name in INLINE and name not in INLINE | KEPT_INLINE
            ):
                break
        self._add_tag(token, [raw])

    def _pop_to(self, depth: int) -> None:
        while len(self._open) > depth:
            self._pop()

    def _pop(self, end: str = "") -> bool:
        """Close the innermost element; returns whether its end tag is written, as that of a kept region is."""
        region = self._regions[-1]
        is_region = region.depth == len(self._open)
        self._open.pop()
        if not is_region:
            return False
        self._finish(region)
        self._regions.pop()
        if not region.reason:
            return False
        region.parts.append(end)
        outer = self._regions[-1]
        if region.name in INLINE | KEPT_INLINE:
            outer.add(region.parts, region.at, Tag("alone", region.parts))
        else:
            self._finish(outer)
            outer.parts += region.parts
        return True

    def _add_tag(self, token: Token, parts: list[Part]) -> None:
        """A tag in the innermost region."""
        region, is_inside = self._regions[-1], token.name in INLINE | KEPT_INLINE
        if token.name in ALONE or (is_inside and token.kind == "empty"):
            region.add(parts, token.at, Tag("alone", parts, joins=token.name == "wbr"))
        elif is_inside:
            region.add(parts, token.at, Tag("close" if token.kind == "end" else "open", parts))
        else:
            self._finish(region)
            region.parts += parts

    def _finish(self, region: _Region) -> None:
        """Write the text of a region that is not done: what stands next is no part of its sentence."""
        segment = Segment(self._text.line(region.start), region.pieces)
        if region.reason:
            text = "".join(each for each in region.pieces if isinstance(each, str))
            self._document.keep(segment.line, text, region.reason)
            region.parts += region.raw
        elif segment.has_letters:
            region.parts.append(RawSegment(region.raw, segment))
        else:
            region.parts += region.raw
        region.raw, region.pieces, region.has_words = [], [], False

    def _tag(self, token: Token, raw: str, reason: str) -> list[Part]:
        """A tag with its attributes that are translated; those that are not for a reason are recorded."""
        parts: list[Part] = []
        last = 0
        seen: set[str] = set()
        for match in ATTRIBUTE.finditer(raw, len(token.name) + 1):
            name, value = match[1].lower(), match[2]
            quote = value[0] if value[0] in QUOTES else ""
            text = html.unescape(value.strip(quote) if quote else value)
            is_first = name not in seen
            seen.add(name)
            if not is_first or not has_letters(text):
                continue
            line = self._text.line(token.at + match.start(2))
            if kept := token.keeps(name, self._open):
                self._document.keep(line, text, reason or kept)
            elif token.shows(name) and reason:
                self._document.keep(line, text, reason)
            elif token.shows(name):
                start, end = match.start(2) + len(quote), match.end(2) - len(quote)
                segment = RawSegment(raw[start:end], Segment(line, [text]), partial(_quoted, quote=quote))
                parts += [raw[last:start], segment]
                last = end
        return [*parts, raw[last:]]


def _quoted(text: str, quote: str) -> str:
    """The value of an attribute inside a kind of quotes; those that it had not are added."""
    return text.replace(quote, QUOTES[quote]) if quote else '"' + text.replace('"', QUOTES['"']) + '"'
