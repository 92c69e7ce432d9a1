"""HTML: text between tags and in some attributes is translated; everything else, down to white space in tags, stays.

Elements that are translated and elements that are kept can be nested: `translate="yes"` is allowed in an element with
`translate="no"`. So a page is read as a stack of regions, each of which is either translated or kept.
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

from posnmt.base.errors import UserError
from posnmt.deploy.documents.raw import Part, RawDocument, RawSegment, Text
from posnmt.deploy.documents.segment import Piece, Segment, Tag, TagRules, has_letters

INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rb ruby s small span strike strong"
        " nobr sub sup time tt u",
    )
)
"""Elements that occur inside a sentence."""

ALONE = frozenset(["img", "input", "wbr"])
"""Elements without content that occur inside a sentence."""

READINGS = frozenset(["rt", "rp", "rtc"])
"""Elements of `ruby` with the pronunciation of the text before them, which would be in the middle of its words."""

KEPT_INLINE = READINGS | frozenset(["code", "kbd", "samp", "var", "math", "svg"])
CODE = frozenset(["script", "style", "xmp", "iframe", "noembed", "noframes", "plaintext"])
"""Elements whose content has neither tags nor references."""

PLAIN = CODE | frozenset(["textarea", "title"])
"""Elements whose content has no tags."""

KEPT = KEPT_INLINE | CODE | frozenset(["pre", "textarea", "template", "object"])
"""Elements whose content is not translated."""

VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
"""Elements without an end tag."""

HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
"""A start tag of one ends another that is open, and an end tag of one ends any."""

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
"""Element that needs no end tag → elements whose start tag ends it."""

ITEMS = frozenset(["li", "dt", "dd"])
LOOSE = INLINE | frozenset(["address", "div", "p"])
"""Items of lists, and the elements that may be open between two items when the second ends the first."""

TABLE = frozenset(["table", "caption", "colgroup", "tbody", "thead", "tfoot", "tr", "td", "th"])
LISTS = frozenset(["ul", "ol", "menu", "dl", "select", "datalist", "ruby"])
CLOSED = frozenset(["table", "template", "object", "svg", "math", "button"])
"""Elements that only their own end tag and end tags of outer elements end."""

MOST_LEVELS = 512
"""The deepest nesting: browsers build no deeper tree, and the time to find what a tag ends grows with the depth."""

NOTE = re.compile(r"<sup\b[^<>]*>((?:<(?!/?sup\b)[^<>]*>|[^\s<]){1,50})</sup\s*>(?![\w/⁄])", re.IGNORECASE)
"""A superscript that may be the mark of a note or a power: without blanks, and at the end of a word."""

SHOWN = frozenset(
    ["alt", "title", "placeholder", "aria-label", "aria-description", "aria-placeholder", "aria-roledescription",
     "aria-valuetext"]
)  # fmt: skip
"""Attributes of any element that people read."""

SHOWN_OF = {
    "label": frozenset(["option", "optgroup", "track"]),
    "abbr": frozenset(["th"]),
    "summary": frozenset(["table"]),
    "value": frozenset(["input"]),
    "content": frozenset(["meta"]),
}
"""Attribute that people read → the elements for which they do. `SHOWN_IF` limits `input` and `meta` further."""

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
"""Names of `meta` whose content people may read, but which is a name or not known to be text."""

TYPED = frozenset(["", "text", "search", "email", "tel", "url"])
"""Types of `input` whose value the reader of a page can change."""

IGNORED = "ignored element"
"""The reason to keep an element that the caller wants to have kept."""

GOOGLE = '<meta name="google" content="notranslate">'
"""The element that keeps a whole page, which is also the reason that is reported."""

ATTRIBUTE = re.compile(r"""(?<![^\s/>"'=])([^\s/>"'=]+)\s*=\s*("[^"]*"|'[^']*'|(?!["'])[^\s>]+)""")
QUOTES = {'"': "&quot;", "'": "&#39;"}

CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)

Kind = Literal["text", "start", "empty", "end", "other"]


class Token(NamedTuple):
    """A piece of markup.

    Attributes:
        at: the place of its first character.
        kind: its kind; `empty` is an element without content, `other` a comment or a declaration.
        name: the element's name, if it is a tag.
        attributes: the element's attributes.
    """

    at: int
    kind: Kind
    name: str = ""
    attributes: dict[str, str] = {}  # noqa: RUF012 (never changed)

    @property
    def own_reason(self) -> str | None:
        """The reason why the element is not translated; empty if it says that it is; None if it does not say."""
        value = self.attributes.get("translate", "?").lower()
        if value == "no" or "notranslate" in self.attributes.get("class", "").split():
            return 'translate="no"' if value == "no" else 'class="notranslate"'
        return "" if value in ("", "yes") else None

    @property
    def keeps_page(self) -> bool:
        """Whether the element says that its page is not translated."""
        attributes = self.attributes
        value = attributes.get("content", attributes.get("value", "")).lower()
        return self.name == "meta" and attributes.get("name", "").lower() == "google" and "notranslate" in value

    def shows(self, attribute: str) -> bool:
        """Whether an attribute of the element is translated, because people read it."""
        if attribute in SHOWN:
            return True
        if self.name not in SHOWN_OF.get(attribute, ()):
            return False
        by, values = SHOWN_IF.get(self.name, ("", frozenset([""])))
        value = self.attributes.get(by, "") or self.attributes.get("property", "")
        return value.lower() in values

    def keeps(self, attribute: str, around: Sequence[str]) -> str:
        """The reason to keep an attribute that people may read; empty if nobody reads it or it is translated.

        Args:
            attribute: its name.
            around: the names of the open elements.
        """
        if attribute.startswith("data-"):
            return "data-*"
        attributes = self.attributes
        meaning = attributes.get("name") or attributes.get("property") or attributes.get("itemprop") or ""
        is_kept = {
            "value": (self.name == "option" and "datalist" in around)
            or (self.name == "input" and attributes.get("type", "").lower() in TYPED),
            "content": self.name == "meta" and bool(NAMES.fullmatch(meaning)),
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
        end = text.rfind(">") + 1  # no tag begins after it: the parser would look for an end from each `<` there
        self.feed(text[:end])
        self.close()
        if self.rawdata or text[end:]:  # also the content of an element of `PLAIN` without an end tag
            self._add("text")

    def _add(self, kind: Kind, name: str = "", attributes: dict[str, str] | None = None) -> None:
        line, column = self.getpos()
        self.tokens.append(Token(self._starts[line - 1] + column, kind, name, attributes or {}))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]], kind: Kind = "start") -> None:
        """Add a token for a start tag; of two attributes with one name, the first counts."""
        attributes = {name: value or "" for name, value in reversed(attrs)}  # of two with one name, the first counts
        self._add("empty" if tag in VOID else kind, tag, attributes)
        if tag in PLAIN and kind == "start":
            self.set_cdata_mode(tag)  # Python's parser does this for some of them, depending on its version

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """The end of a section `<![`. A section that HTML does not know is a comment up to `>`, as in browsers."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.parse_bogus_comment(i, report)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself, as in SVG."""
        self.handle_starttag(tag, attrs, "empty")

    def handle_endtag(self, tag: str) -> None:
        """Add a token for an end tag."""
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        """Add a token for characters between tags."""
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        """A reference to a character by name."""
        self._add("text")

    def handle_charref(self, name: str) -> None:
        """A reference to a character by number."""
        self._add("text")

    def handle_comment(self, data: str) -> None:
        """Add a token for a comment."""
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        """Add a token for the document type."""
        self._add("other")

    def handle_pi(self, data: str) -> None:
        """Add a token for a processing instruction."""
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        """Add a token for a declaration that HTML does not know."""
        self._add("other")


def is_mark(text: str, at: int) -> bool:
    """Whether the mark of a note or a power begins at a place: a `NOTE` with at most one letter."""
    match = NOTE.match(text, at)
    content = html.unescape(re.sub("<[^>]*>", "", match[1])) if match else ""
    return bool(content) and sum(map(str.isalpha, content)) < 2 and not re.search(r"\s", content)


def read_html(data: bytes, path: Path) -> RawDocument:
    """Read a page. A segment ends at the tags of elements that do not occur inside sentences."""
    charset = CHARSET.search(data[:1024])
    return parse_html(Text.decode(data, path, charset[1].decode() if charset else "utf-8"), path)


def parse_html(text: Text, path: Path, rules: TagRules | None = None) -> RawDocument:
    """Like `read_html`, for a page or a part of one as text, with the wishes of a caller about some tags."""
    tokens = Tokens(text.content).tokens
    document = RawDocument(text.encoding, partial(html.escape, quote=False), "xmlcharrefreplace", [text.mark])
    reason = GOOGLE if any(token.keeps_page for token in tokens) else ""
    page = _Page(text, path, document, reason, rules or TagRules())
    ends = [*(token.at for token in tokens[1:]), len(text.content)]
    document.parts.append(text.content[: tokens[0].at if tokens else None])
    for token, end in zip(tokens, ends, strict=False):
        page.add(token, text.content[token.at : end])
    page.close()
    return document


@dataclass
class _Region:
    """A part of a page that is translated, or is kept for one reason.

    Attributes:
        name, at: the element that begins it, and its place.
        depth: the number of open elements, including this one.
        reason: the reason to keep it; empty: it is translated.
        parts: its finished parts.
        raw, pieces: the text that is being read, as characters and as pieces.
        start, has_words: the place where that text begins, and whether it has more than white space.
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
        """Add a piece to the text."""
        words = piece.lstrip() if isinstance(piece, str) else ""
        if not self.has_words:
            self.start = at + (len(piece) - len(words) if isinstance(piece, str) else 0)
        self.has_words = self.has_words or bool(words)
        self.raw += raw
        self.pieces.append(piece)


class _Page:
    """Collects the parts of a page."""

    def __init__(self, text: Text, path: Path, document: RawDocument, reason: str, rules: TagRules) -> None:
        self._text, self._path, self._document, self._rules = text, path, document, rules
        self._open: list[str] = []
        self._regions = [_Region("", 0, 0, reason, document.parts)]

    def add(self, token: Token, raw: str) -> None:
        """Read the next token; `raw` has its characters."""
        inner = self._open[-1] if self._open else ""
        ends = token.kind == "end" and token.name == inner != "plaintext"  # plaintext never ends
        if token.kind == "text" or (inner in PLAIN and not ends):
            self._add_text(token.at, raw, is_code=inner in CODE)
        elif token.kind == "other":
            self._regions[-1].add([raw], token.at, Tag("alone", raw))
        elif token.kind == "end":
            self._end(token, raw)
        else:
            self._begin(token, raw)

    def close(self) -> None:
        while self._open:
            self._pop()
        self._finish(self._regions[-1])

    def _add_text(self, at: int, raw: str, is_code: bool) -> None:
        """Add characters to the innermost region; where lines are segments, a segment ends with each line."""
        region = self._regions[-1]
        lines = re.split(r"(\r?\n)", raw) if self._rules.lines and not region.reason else [raw]
        for number, each in enumerate(lines):
            if number % 2:
                self._finish(region)
                region.parts.append(each)
            elif each:
                region.add([each], at, each if is_code else html.unescape(each))
            at += len(each)

    def _is_inside(self, name: str) -> bool:
        """Whether an element occurs inside a sentence."""
        return self._rules.is_inside(name, usually=name in INLINE | KEPT_INLINE)

    def _begin(self, token: Token, raw: str) -> None:
        self._end_before(token.name)
        region, own = self._regions[-1], token.own_reason
        around = region.reason if own is None else own
        if not self._rules.ignored.isdisjoint([token.name, *self._open]):
            around = IGNORED
        parts = self._tag(token, raw, around)
        if token.kind == "empty":
            self._add_tag(token, parts)
            return
        self._open.append(token.name)
        if len(self._open) > MOST_LEVELS:
            what = f"more than {MOST_LEVELS} elements are nested"
            raise UserError(what, f"{self._path}:{self._text.line(token.at)}", "close elements that are left open")
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

    def _end_before(self, new: str) -> None:
        """Close the elements that the start tag of a new one ends."""
        for at in range(len(self._open) - 1, -1, -1):
            name = self._open[at]
            is_bound = name in CLOSED | LISTS or (name in TABLE and new not in TABLE)
            if new in ENDED.get(name, ()):
                self._pop_to(at)
            elif is_bound or (new in ITEMS and name not in LOOSE):
                break
        if new in HEADINGS and self._open and self._open[-1] in HEADINGS:
            self._pop()

    def _end(self, token: Token, raw: str) -> None:
        if token.name in ("body", "html"):  # browsers read what follows as part of the body
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
        """Close the innermost element. Return whether its end tag has been written, as it is for a kept region."""
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
        if self._is_inside(region.name):
            outer.add(region.parts, region.at, Tag("alone", region.parts))
        else:
            self._finish(outer)
            outer.parts += region.parts
        return True

    def _add_tag(self, token: Token, parts: list[Part]) -> None:
        """Add a tag to the innermost region."""
        region, is_inside = self._regions[-1], self._is_inside(token.name)
        if (token.name in ALONE and token.name not in self._rules.splitting) or (is_inside and token.kind == "empty"):
            region.add(parts, token.at, Tag("alone", parts, joins=token.name == "wbr"))
        elif is_inside:
            region.add(parts, token.at, Tag("close" if token.kind == "end" else "open", parts))
        else:
            self._finish(region)
            region.parts += parts

    def _finish(self, region: _Region) -> None:
        """End the text that is being read in a region: what follows does not belong to its sentence."""
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
        """A tag with segments for its translated attributes. Attributes that are kept are recorded."""
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
    """The value of an attribute, escaped for its quotes; quotes are added if it has none."""
    return text.replace(quote, QUOTES[quote]) if quote else '"' + text.replace('"', QUOTES['"']) + '"'
