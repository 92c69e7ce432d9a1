"""Markdown: text of paragraphs, headings, list items and tables; everything else is written as it was read.

markdown-it-py reads CommonMark with the tables and the strikethrough of GitHub. It says which lines a block has, and
the rules of its inline parser are watched, so that each construct knows its characters. A translated block is read
again before it is written: where its text would be markup, it is escaped, and where emphasis would not be read as such
(`*` between signs and letters), it becomes HTML's `<em>`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from posnmt.deploy.documents.markup import KEPT_INLINE, SHOWN, VOID
from posnmt.deploy.documents.raw import Text
from posnmt.deploy.documents.segment import Kept, Piece, Segment, Tag, has_letters
from posnmt.errors import UserError

LINE_END = re.compile(r"\r\n|\r|\n")
FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[^\S\r\n]*[\r\n]+(?=[\"'#\w][^\r\n]*[:=]).*?[\r\n](?:\1|\.\.\.)[^\S\r\n]*(?=[\r\n]|\Z)", re.DOTALL
)
MARKS = re.compile(
    r"\A\[[ xX]\](?=\s)|\A\[![A-Za-z]+\]"  # a task, a note as GitHub has it
    r"|\[\^[^\]\s]+\]:?"  # a footnote, or its place
    r"|\{\{[^{}]*\}\}|\{%[^{}]*%\}|\{:?\s?[#.][^{}]*\}"  # what templates and attribute lists have
    r"|(?P<address>(?:https?://|www\.)[^\s<>]*[\w/#=&])"
)
"""What is no text in the text of a block, though CommonMark says so."""

DIRECTIVE = re.compile(r":::|(?:!!!|\?\?\?\+?|===)\s+[\w\"]")
HTML_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
ATTRIBUTE = re.compile(rf"\b(?:{'|'.join(SHOWN)})\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)

SPECIAL = re.compile(r"[\\`*_\[\]~#]|<(?=[A-Za-z/!?])|&(?=#?\w+;)")
"""What may be markup anywhere."""

STARTING = re.compile(r"\s*(?:[+\-=>:|]|\d+[.)])")
"""What may be markup at the beginning of a line."""

EMPHASIS = {"em": "em", "strong": "strong", "s": "del"}
"""markdown-it's names → HTML's."""

Shape = str | tuple[str, ...]
"""A text or another token, as the parser reads it."""


class Mark(NamedTuple):
    """What a tag stands for.

    Attributes:
        raw: how it is written; a `Block` is the text of a picture.
        plain: likewise, without what is around lines of its block, such as `>`.
        shapes: how it is read.
        html: how HTML writes it.
        label: of the end of a link whose text names its target: that text.
    """

    raw: list[str | Block]
    plain: str
    shapes: list[Shape]
    html: str = ""
    label: str = ""


@dataclass
class Block:
    """Text that is translated as a whole.

    Attributes:
        kind: a paragraph (or a heading with a line below it), a heading of one line, a cell of a table, or the text of
            a picture.
        raw: how the document writes it.
        has_failed: whether its translation cannot be written.
    """

    kind: Literal["paragraph", "heading", "cell", "picture"]
    segment: Segment
    references: dict[str, Any]
    raw: list[str | Block] = field(default_factory=list)
    has_failed: bool = False

    @property
    def all(self) -> list[Block]:
        """This one, and those of pictures in it."""
        return [self, *(each for part in self.raw if isinstance(part, Block) for each in part.all)]

    def written(self) -> str:
        """Its characters in the new document."""
        self.has_failed = False
        if self.segment.translated is not None:
            for style in ("plain", "escaped", "html"):
                written, plain, shapes = self._styled(self.segment.translated, style)
                if self._shapes(plain) == _simple(shapes):
                    return written
            self.has_failed = True
        return _whole(self.raw)

    def _styled(self, pieces: Sequence[Piece], style: str) -> tuple[str, str, list[Shape]]:
        """A translation as the document and as the parser have it, and what is to be read."""
        written, plain, shapes, link = "", "", list[Shape](), 0
        for piece in pieces:
            if isinstance(piece, str):
                text = piece if style == "plain" else _escaped(piece, starts=plain.rstrip(" ")[-1:] in ("", "\n"))
                written += text.replace("|", "\\|") if self.kind == "cell" else text
                plain += text
                shapes.append(piece)
            elif style == "html" and piece.content.html:
                written += piece.content.html
                plain += piece.content.html
                shapes.append(("html_inline", piece.content.html))
            else:
                end: str = piece.content.plain
                if piece.content.label and plain[link:] != piece.content.label:
                    end = f"][{' '.join(piece.content.label.split())}]"
                    written += end.replace("|", "\\|") if self.kind == "cell" else end
                else:
                    written += _whole(piece.content.raw)
                plain += end
                shapes += piece.content.shapes
                link = len(plain) if piece.kind == "open" else link
        return written, plain, shapes

    def _shapes(self, plain: str) -> list[Shape] | None:
        """What the parser reads; None: more than one block, or another one."""
        environment = {"references": self.references}
        if self.kind == "cell":
            [inline] = parser().parseInline(plain, environment)
        elif self.kind == "picture":
            [whole] = parser().parseInline(f"![{plain}](a)", environment)
            [inline, *others] = whole.children or [whole]
            if inline.type != "image" or others:
                return None
        else:
            tokens = parser().parse(f"# {plain}" if self.kind == "heading" else plain, environment)
            if [each.type for each in tokens] != [f"{self.kind}_open", "inline", f"{self.kind}_close"]:
                return None
            inline = tokens[1]
        return _simple([shape for each in inline.children or [] for shape in _shape(each)])


class MarkdownDocument:
    """A Markdown document.

    Attributes:
        kept: texts with letters that are left as they are.

    Raises:
        UserError: it is not in its encoding, or has a NUL character.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self._text = Text.decode(data, path)
        content = self._text.content
        if "\0" in content:
            raise UserError("a NUL character", f"{path}:{self._text.line(content.index(chr(0)))}", "remove it")
        self.kept: list[Kept] = []
        self.parts: list[str | Block] = [self._text.mark]
        front = FRONT_MATTER.match(content)
        begin = front.end() if front else 0
        if front:
            self._keep(0, front.group(), "front matter")
        ends = [*LINE_END.finditer(content, begin)]
        self._starts = [begin, *(each.end() for each in ends)]
        self._ends = [*(each.start() for each in ends), len(content)]
        self._known: set[int] = set()
        environment: dict[str, Any] = {}
        tokens = parser().parse(content[begin:], environment)
        self._references = environment.get("references", {})
        for each in [*self._references.values(), *environment.get("duplicate_refs", [])]:
            self._known.update(range(*each["map"]))
            self._keep(self._starts[each["map"][0]], each["title"], "titles of links")
        last = begin
        self.parts.append(content[:begin])
        for block, start, end in self._blocks(tokens):
            self._keep_unread(last, start)
            self.parts += [content[last:start], block]
            last = end
        self._keep_unread(last, len(content))
        self.parts.append(content[last:])
        self.kept.sort(key=lambda each: each.line)
        self.notes: list[str] = []

    @property
    def segments(self) -> list[Segment]:
        """See `Document`."""
        return [block.segment for part in self.parts if isinstance(part, Block) for block in part.all]

    def content(self) -> bytes:
        """See `Document`; notes how many translations cannot be written."""
        written = _whole(self.parts)
        failed = sum(block.has_failed for part in self.parts if isinstance(part, Block) for block in part.all)
        if failed:
            self.notes.append(f"{failed:,} blocks are left as they are, since their markup would not be read as such")
        return written.encode(self._text.encoding)

    def _keep(self, at: int, text: str, reason: str) -> None:
        """Count a text that is not translated, if it has letters."""
        if has_letters(text):
            self.kept.append(Kept(self._text.line(at), text, reason))

    def _keep_title(self, at: int, plain: str, token: Token) -> None:
        """Count the title of a link or a picture that ends in a text; that of a reference is counted where it is."""
        if plain.endswith(")"):
            self._keep(at, str(token.attrGet("title") or ""), "titles of links")

    def _keep_attributes(self, at: int, tags: str) -> None:
        """Count the attributes of HTML that people read."""
        for match in ATTRIBUTE.finditer(tags):
            self._keep(at, match[1] or match[2] or "", "attributes of HTML")

    def _keep_unread(self, start: int, end: int) -> None:
        """Count what is between blocks and neither their markup nor of a known kind."""
        first = bisect_right(self._starts, start) - 1
        for number in range(first, bisect_right(self._starts, max(start, end - 1))):
            if number not in self._known:
                here = slice(max(start, self._starts[number]), min(end, self._ends[number]))
                self._keep(here.start, self._text.content[here], "lines that are not read as text")

    def _blocks(self, tokens: Sequence[Token]) -> Iterator[tuple[Block, int, int]]:
        """The blocks with text, and where each begins and ends."""
        cells: dict[int, int] = {}
        before = ""
        for token in tokens:
            lines = token.map or [0, 0]
            if token.type in ("fence", "code_block", "html_block", "directive"):
                self._known.update(range(*lines))
                is_html = token.type == "html_block"
                reason = (
                    "blocks of HTML" if is_html else "directives" if token.type == "directive" else "pieces of code"
                )
                self._keep(self._starts[lines[0]], _without_tags(token.content) if is_html else token.content, reason)
                if is_html:
                    self._keep_attributes(self._starts[lines[0]], token.content)
            elif token.type == "inline" and token.content.strip():
                is_cell, is_heading = before in ("th", "td"), before == "#"
                places = self._places(token.content, lines[0], is_heading, cells if is_cell else None)
                if places:
                    kind: Any = "cell" if is_cell else "heading" if is_heading else "paragraph"
                    source = _Source(token.content, places, is_cell)
                    start, end = source.at(0), source.at(len(token.content.rstrip()))
                    yield self._block(kind, token.children or [], source, 0, len(token.content.rstrip())), start, end
            before = token.tag if token.tag in ("th", "td") else token.markup[:1]

    def _block(self, kind: Any, tokens: Sequence[Token], source: _Source, first: int, last: int) -> Block:
        """The block of inline tokens, which begins and ends at places in the content of the source."""
        whole, at = self._text.content, source.at(first)
        block = Block(kind, Segment(self._text.line(at), []), self._references)
        pieces, here = block.segment.pieces, at
        left = deque(tokens)
        while left:
            token = left.popleft()
            start, end = (first + each for each in token.meta.get("span", (0, 0)))
            if token.type.endswith("break") and source.content[start] == "\n":
                start = len(source.content[:start].rstrip(" "))
            here = source.at(end) if token.meta else here
            raw, plain = whole[source.at(start) : source.at(end)], source.content[start:end]
            mark = Mark([raw], plain, [*_shape(token)])
            if token.type == "text":
                pieces += self._marked(token.content, here)
            elif token.type.endswith("break"):
                pieces.append(Tag("alone", mark, separates=True))
            elif token.type == "code_inline":
                self._keep(source.at(start), token.content, "pieces of code")
                pieces.append(Tag("alone", mark))
            elif token.type == "html_inline":
                pieces.append(self._html(token, mark, left, source, first))
            elif token.type == "image":
                self._keep_title(source.at(start), plain, token)
                text, behind = start + 2, start + 2 + len(token.content)
                if source.content[behind:end] in ("]", "][]"):
                    self._keep(source.at(start), token.content, "texts of pictures that name their references")
                else:
                    picture = self._block("picture", token.children or [], source, text, behind)
                    block.raw += [whole[at : source.at(text)], picture]
                    at = source.at(behind)
                    mark.raw[:] = [whole[source.at(start) : source.at(text)], picture, whole[at : source.at(end)]]
                pieces.append(Tag("alone", mark))
            elif token.type == "link_open" and token.info == "auto":
                self._keep(source.at(start), raw, "addresses")
                mark.shapes.extend(shape for _ in range(2) for shape in _shape(left.popleft()))
                pieces.append(Tag("alone", mark))
            elif token.type == "link_open":
                opening = token
                pieces.append(Tag("open", mark))
            elif token.type == "link_close":
                self._keep_title(source.at(start), plain, opening)
                if label := token.meta.get("label"):
                    mark = mark._replace(label=label)
                pieces.append(Tag("close", mark))
            else:
                name, kind_of = token.type.split("_")
                tag = f"<{'/' * (kind_of == 'close')}{EMPHASIS[name]}>"
                is_open = kind_of == "open"
                pieces.append(Tag("open" if is_open else "close", Mark([token.markup], token.markup, mark.shapes, tag)))
        block.raw.append(whole[at : source.at(last)])
        return block

    def _marked(self, text: str, at: int) -> Iterator[Piece]:
        """A text with tags for what is none."""
        last = 0
        for match in MARKS.finditer(text):
            if match["address"]:
                self._keep(at, match.group(), "addresses")
            yield text[last : match.start()]
            yield Tag("alone", Mark([match.group()], match.group(), [match.group()]))
            last = match.end()
        yield text[last:]

    def _html(self, token: Token, mark: Mark, left: deque[Token], source: _Source, first: int) -> Tag:
        """The tag of one of HTML; that of code is one with all up to its end."""
        match = HTML_TAG.match(token.content)
        name = match[2].lower() if match else ""
        start = first + token.meta["span"][0]
        self._keep_attributes(source.at(start), token.content)
        if match is None or name in VOID or token.content.endswith("/>"):
            return Tag("alone", mark, separates=name == "br")
        if match[1]:
            return Tag("close", mark)
        ends = (
            at
            for at, each in enumerate(left)
            if each.type == "html_inline" and each.content.lower().startswith(f"</{name}")
        )
        last = next(ends, None) if name in KEPT_INLINE else None
        if last is None:
            return Tag("open", mark)
        inside = [left.popleft() for _ in range(last + 1)]
        mark.shapes.extend(shape for each in inside for shape in _shape(each))
        end = first + inside[-1].meta["span"][1]
        raw, plain = self._text.content[source.at(start) : source.at(end)], source.content[start:end]
        self._keep(source.at(start), _without_tags(raw), "pieces of code")
        return Tag("alone", Mark([raw], plain, mark.shapes))

    def _places(self, content: str, first: int, is_heading: bool, cells: dict[int, int] | None) -> list[int]:
        """Where the lines of a block begin, without white space; nothing if they are not found.

        Args:
            first: the number of the first line.
            is_heading: whether signs may follow the text.
            cells: where the text of the last cell of each line ended, if it is a cell.
        """
        places = []
        for number, line in enumerate(content.split("\n"), first):
            start, raw = self._starts[number], self._text.content[self._starts[number] : self._ends[number]]
            line = line.strip()
            if cells is not None:
                line = line.replace("|", "\\|")
                at = raw.find(line, cells.get(number, 0))
                cells[number] = at + len(line)
            else:
                raw = re.sub(r"[ \t]#+\s*\Z", "", raw) if is_heading and not raw.rstrip().endswith(line) else raw
                at = len(raw.rstrip()) - len(line) if raw.rstrip().endswith(line) else -1
            if at < 0:
                return []
            places.append(start + at)
        return places


@dataclass
class _Source:
    """The content of a block, as the parser has it.

    Args:
        places: where its lines begin in the document, without white space.
        is_cell: whether a backslash in the document is before each `|`.
    """

    content: str
    places: list[int]
    is_cell: bool

    def __post_init__(self) -> None:
        self._starts = [0, *(each.end() for each in re.finditer("\n", self.content))]
        lines = self.content.split("\n")
        self._begins = [at + len(line) - len(line.lstrip()) for at, line in zip(self._starts, lines, strict=True)]

    def at(self, offset: int) -> int:
        """The place in the document of one in the content."""
        number = bisect_right(self._starts, offset) - 1
        begin = self._begins[number]
        escapes = self.content.count("|", begin, offset) if self.is_cell else 0
        return self.places[number] + max(0, offset - begin) + escapes


@cache
def parser() -> MarkdownIt:
    """The parser; each inline token has its `span` in the content of its block."""
    markdown = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])
    rules = markdown.inline.ruler
    for name, rule in zip(rules.get_active_rules(), rules.getRules(""), strict=True):
        rules.at(name, _watched(rule))
    markdown.block.ruler.at("reference", _reference)
    markdown.block.ruler.before(
        "fence", "directive", _directive, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    return markdown


def _watched(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """A rule of the inline parser that tells the tokens it makes where they are."""

    def watched(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        new = [each for each in state.tokens[count:] if each.type != "text" and "span" not in each.meta]
        if not silent and new:
            new[0].meta["span"] = (start, state.pos)
            if new[0].type == "link_open" and new[0].info != "auto":
                end = state.pos
                close = state.md.helpers.parseLinkLabel(state, start, True)
                new[0].meta["span"] = (start, start + 1)
                new[-1].meta["span"] = (close, end)
                if state.src[close:end] in ("]", "][]"):
                    new[-1].meta["label"] = state.src[start + 1 : close]
        return True

    return watched


def _reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The rule of references, without footnotes: they are paragraphs."""
    at = state.bMarks[start] + state.tShift[start]
    return not state.src.startswith("[^", at) and reference(state, start, end, silent)


def _directive(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A line that begins with `:::`, or with `!!!` and a name: many tools put blocks between such lines."""
    line = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    if state.is_code_block(start) or not DIRECTIVE.match(line):
        return False
    if not silent:
        token = state.push("directive", "", 0)
        token.map, token.content = [start, start + 1], line
        state.line = start + 1
    return True


def _shape(token: Token) -> Iterator[Shape]:
    """How a token is read."""
    if token.type == "text":
        yield token.content
    elif token.type == "image":
        yield token.type, str(token.attrGet("src")), str(token.attrGet("title"))
    elif token.type == "link_open":
        yield token.type, str(token.attrGet("href")), str(token.attrGet("title"))
    else:
        yield token.type, token.content


def _simple(shapes: Sequence[Shape]) -> list[Shape]:
    """Shapes where texts side by side are one, and white space is nothing."""
    done: list[Shape] = []
    for each in shapes:
        if isinstance(each, str) and done and isinstance(done[-1], str):
            done[-1] += each
        else:
            done.append(each)
    simple = ["".join(each.split()) if isinstance(each, str) else each for each in done]
    return [each for each in simple if each]


def _escaped(text: str, starts: bool) -> str:
    """A text of which nothing is read as markup; `starts`: at the beginning of a line."""
    first = STARTING.match(text) if starts else None
    at = first.end() if first else 0
    sign = f"{text[: at - 1]}\\{text[at - 1]}" if first else ""
    return sign + SPECIAL.sub(r"\\\g<0>", text[at:])


def _whole(parts: Sequence[str | Block]) -> str:
    """What parts are in the new document."""
    return "".join(part if isinstance(part, str) else part.written() for part in parts)


def _without_tags(text: str) -> str:
    """HTML without its tags and comments."""
    return re.sub("<[^>]*>", "", re.sub("<!--.*?-->", "", text, flags=re.DOTALL))
