"""Markdown: paragraphs, headings, list items and tables are translated; everything else is written as it was read.

markdown-it-py reads CommonMark, with the tables and the strikethrough of GitHub. The text of a block becomes a segment.
Emphasis, links, code and the like become tags in it.

A translated block is parsed before it is written. It must have the same tags, and no other text than the translation.
If it does not, remedies are tried in turn. First, characters that may be markup are escaped. Second, emphasis is
written as HTML as well, since `*` between punctuation and a letter may not be read as emphasis. Otherwise the block
stays as it was, and is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.token import Token

from posnmt.base.errors import UserError
from posnmt.deploy.documents.markup import KEPT_INLINE, SHOWN, VOID
from posnmt.deploy.documents.raw import Text
from posnmt.deploy.documents.segment import Kept, Segment, Tag, has_letters

LINE_END = re.compile(r"\r\n|\r|\n")
FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[^\S\r\n]*[\r\n]+(?=[\"'#\w][^\r\n]*[:=]).*?[\r\n](?:\1|\.\.\.)[^\S\r\n]*(?=[\r\n]|\Z)", re.DOTALL
)
DIRECTIVE = re.compile(r"^[ \t]*(?::::|(?:!!!|\?\?\?\+?|===)\s+[\w\"])", re.MULTILINE)
VERBATIM = re.compile(
    r"(?P<code>`+)(?!`).+?(?<!`)(?P=code)(?!`)"
    rf"|(?i:<(?P<element>{'|'.join(sorted(KEPT_INLINE))})\b[^<>]*>(?:(?!<(?P=element)\b).)*?</(?P=element)\s*>)"
    r"|<[\w.+-]+[:@][^\s<>]*>"  # an address
    r"|\A\[[ xX]\](?=\s)|\A\[![A-Za-z]+\]"  # the box of a task, the head of a note on GitHub
    r"|\[\^[^\[\]\s]+\](?![\[(]):?"  # a footnote, or a reference to one
    r"|\{\{[^{}]*\}\}|\{%[^{}]*%\}|\{:?\s?[#.][^{}]*\}",  # fields of templates, lists of attributes
    re.DOTALL,
)
"""Parts of a text that are not translated, such as code and addresses."""
STAYS = re.compile(
    r"<(?=script\b|style\b|textarea\b|[^<>]*\btranslate\s*=\s*[\"']?no\b|[^<>]*\bclass\s*=[^<>=]*\bnotranslate\b)([a-z][\w-]*)",
    re.IGNORECASE,
)
"""The beginning of an element of HTML that is not translated."""
NOT_TRANSLATED = "HTML that is not translated"

HTML_SHOWN = re.compile(rf"\b(?:{'|'.join(SHOWN)})\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
LINK_TITLE = re.compile(r"\s[\"'(](.*)[\"')]\s*\)\Z", re.DOTALL)

SPECIAL = re.compile(r"[\\`*\[\]]|(?<![^\W_])_|_(?![^\W_])|~(?=~)|(?<=~)~|(?<!\S)#|<(?=[A-Za-z/!?])|&(?=#?\w+;)")
"""Characters that may be markup anywhere in a line. Few of them occur inside addresses."""
STARTING = re.compile(r"\A(\s*\d*)([+\-=>:|.)])")
"""Characters that may be markup at the beginning of a line."""
AROUND = {"paragraph": ("", ""), "heading": ("# ", ""), "cell": ("|", "|\n|-|")}
"""Kind of block → the text before and after it in the smallest document that has one."""


class Mark(NamedTuple):
    """The content of a tag.

    Attributes:
        parts: its Markdown; a segment in it is the text of a picture.
        reading: the result of `_reading` for it.
        html: for emphasis: HTML with the same meaning.
    """

    parts: Sequence[str | Segment]
    reading: str
    html: str = ""


class Block(NamedTuple):
    """Text that is translated as a whole.

    Attributes:
        kind: a key of `AROUND`; a heading that is underlined counts as a paragraph.
        places: start and end of each of its lines in the document, without markup before the line such as `>`.
        segments: its own segment, and those of the pictures in it.
    """

    kind: str
    places: list[tuple[int, int]]
    segments: list[Segment]


class MarkdownDocument:
    """A Markdown document.

    Attributes:
        kept: texts with letters that are left as they are.

    Raises:
        UserError: the file is not in its encoding, or has a NUL character.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self._text = Text.decode(data, path)
        content = self._text.content
        if "\0" in content:
            number = self._text.line(content.index("\0"))
            raise UserError("the document has a NUL character", f"{path}:{number}", "remove it")
        self.segments: list[Segment] = []
        self.kept: list[Kept] = []
        self.notes: list[str] = []
        self._blocks: list[Block] = []
        front = FRONT_MATTER.match(content)
        begin = front.end() if front else 0
        self._keep(0, content[:begin], "front matter")
        bounds = [begin, *(at for each in LINE_END.finditer(content, begin) for at in each.span()), len(content)]
        self._lines = [*zip(bounds[::2], bounds[1::2], strict=True)]
        self._covered = [(0, begin)]
        environment: dict[str, Any] = {}
        tokens = _parser().parse(content[begin:], environment)
        self._references = environment.get("references", {})
        self._read(tokens)
        for each in [*self._references.values(), *environment.get("duplicate_refs", [])]:
            self._cover(each["map"], each["title"], "titles of links")
        last = 0
        for start, end in [*sorted(self._covered), (len(content), len(content))]:
            for found in re.compile(r"[^\r\n]+").finditer(content, last, start):
                self._keep(found.start(), found.group(), "lines that are not read as text")
            last = max(last, end)
        self.kept.sort(key=lambda each: each.line)

    def _read(self, tokens: Sequence[Token]) -> None:
        """Read the blocks of the document."""
        closing = ""  # the end tag of an element over several blocks that is not translated
        for before, token in pairwise([Token("", "", 0), *tokens]):
            if closing and token.content:
                self._cover(token.map, token.content, NOT_TRANSLATED)
                closing = "" if closing in token.content.lower() else closing
            elif any(each.type == "html_inline" and STAYS.match(each.content) for each in token.children or ()):
                self._cover(token.map, token.content, NOT_TRANSLATED)
            elif token.type in ("fence", "code_block"):
                self._cover(token.map, token.content, "pieces of code")
            elif token.type == "html_block":
                self._cover(token.map, _shown(token.content), "HTML")
                opened = STAYS.search(token.content)
                closing = f"</{opened[1].lower()}" if opened else ""
                closing = "" if opened and closing in token.content[opened.end() :].lower() else closing
            elif before.type == "paragraph_open" and DIRECTIVE.search(token.content):
                self._cover(token.map, token.content, "directives")
            elif token.type == "inline" and token.content:
                self._add(before, token)

    def content(self) -> bytes:
        """See `Document`. Adds a note with the number of translations that cannot be written."""
        content, written, last = self._text.content, [self._text.mark], 0
        failed = sum(each.translated is not None for each in self.segments)
        for block in self._blocks:
            if (new := self._written(block)) is not None:
                for (start, end), line in zip(block.places, re.split(r"\n[ \t]*", new), strict=True):
                    written += [content[last:start], line]
                    last = end
        failed -= sum(each.translated is not None for each in self.segments)
        if failed:
            self.notes.append(f"{failed:,} texts are left as they are, because their markup would be lost")
        return "".join([*written, content[last:]]).encode(self._text.encoding)

    def _written(self, block: Block) -> str | None:
        """The new Markdown of a block; None if there is none. A translation that cannot be written is deleted."""
        if all(each.translated is None for each in block.segments):
            return None
        before, after = AROUND[block.kind]
        frame = _reading(_parser().parse(f"{before}§{after}"))
        for style in ("plain", "escaped", "html"):
            new, reading = _styled(block.segments[0], style)
            new = new.replace("|", "\\|") if block.kind == "cell" else new
            tokens = _parser().parse(before + new + after, {"references": dict(self._references)})
            if _reading(tokens) == frame.replace("§", reading):
                return new
        for each in block.segments:
            each.translated = None
        return None

    def _keep(self, at: int, text: str, reason: str) -> None:
        """Record a text with letters that is not translated; `at` is the place of its first character."""
        if has_letters(text):
            self.kept.append(Kept(self._text.line(at), text.strip(), reason))

    def _cover(self, lines: Sequence[int] | None, text: str, reason: str) -> None:
        """Record a text that is not translated, and mark its lines (first, end) as read."""
        first, end = lines or (0, 1)
        self._covered.append((self._lines[first][0], self._lines[end - 1][1]))
        self._keep(self._lines[first][0], text, reason)

    def _add(self, before: Token, token: Token) -> None:
        """Add the block of an inline token, if its lines are found in the document; `before` is the token before."""
        is_line = before.type == "heading_open" and before.markup.startswith("#")
        kind = "cell" if before.tag in ("th", "td") else "heading" if is_line else "paragraph"
        places = []
        for (start, end), line in zip(self._lines[(token.map or [0])[0] :], token.content.split("\n"), strict=False):
            line = line.lstrip(" \t")
            if kind == "cell":
                line = line.replace("|", "\\|")
                at = self._text.content.find(line, max(start, self._covered[-1][1]), end)
            else:
                at = self._text.content.rfind(line, start, end)
            if at < 0:
                return
            places.append((at, at + len(line)))
        count = len(self.segments)
        self._segment(token.children or [], places)
        self._covered += places
        self._blocks.append(Block(kind, places, self.segments[count:]))

    def _segment(self, tokens: Sequence[Token], places: Sequence[tuple[int, int]]) -> Segment:
        """Add the segment of inline tokens; `places` has the start and end of their lines in the document."""
        segment = Segment(self._text.line(places[0][0]), [])
        self.segments.append(segment)
        row = 0
        for token in tokens:
            here = places[row:]
            at, end = here[0]
            kind: Any = {0: "alone", 1: "open", -1: "close"}[token.nesting]
            raw = str(token.meta.get("raw") or token.markup or token.content)
            parts: list[str | Segment] = [raw]
            html = name = ""
            if token.type == "verbatim":
                self._keep(at, raw, "code, addresses and marks")
            elif token.type in ("softbreak", "hardbreak"):
                is_soft = token.type == "softbreak"
                parts = ["\n" if is_soft else "\\\n" if self._text.content[end - 1] == "\\" else "  \n"]
            elif token.type == "html_inline":
                self._keep(at, _shown(raw), "HTML")
                name = "".join(re.findall(r"\A</?(\w+)", raw)).lower()
                if name and name not in VOID and not raw.endswith("/>"):
                    kind = "close" if raw[1] == "/" else "open"
            elif token.type == "link_open":
                parts = ["["]
            elif token.type in ("image", "link_close"):
                self._keep(at, "".join(LINK_TITLE.findall(raw)), "titles of links")
                if token.type == "image":
                    parts = ["![", self._segment(token.children or [], here), raw]
            elif token.type != "text":
                html = f"<{'/' * (kind == 'close')}{token.tag}>"
            is_break = "br" in (name, token.tag)
            tag = Tag(kind, Mark(parts, _head(token), html), is_break)
            segment.pieces.append(token.content if token.type == "text" else tag)
            row += (token.content + str(token.meta.get("raw", ""))).count("\n") + (token.tag == "br")
        return segment


def _styled(segment: Segment, style: str) -> tuple[str, str]:
    """The new Markdown of a segment, and the `_reading` that it must have."""
    markdown = reading = ""
    for piece in segment.pieces if segment.translated is None else segment.translated:
        if isinstance(piece, str):
            markdown += piece if style == "plain" else _escaped(piece, markdown.rstrip(" ")[-1:] in ("", "\n"))
            reading += "".join(piece.split())
        elif style == "html" and piece.content.html:
            markdown += piece.content.html
            reading += _head(Token("html_inline", "", 0, content=piece.content.html))
        else:
            reading += piece.content.reading
            for part in piece.content.parts:
                inside = (part, "") if isinstance(part, str) else _styled(part, style)
                markdown, reading = markdown + inside[0], reading + inside[1]
    return markdown, reading


def _head(token: Token) -> str:
    """One token as text that can be compared, without white space and without the tokens in it."""
    if token.type == "text":
        return "".join(token.content.split())
    return f"\0{token.type}{token.attrs}{'' if token.children else token.content}"


def _reading(tokens: Sequence[Token]) -> str:
    """Tokens and the tokens in them as text. Documents with the same structure and text have the same reading."""
    return "".join(_head(each) + _reading(each.children or []) for each in tokens)


def _escaped(text: str, starts: bool) -> str:
    """Escape a text so that nothing in it is read as markup; `starts`: it begins a line."""
    escaped = SPECIAL.sub(r"\\\g<0>", text)
    return STARTING.sub(r"\1\\\2", escaped) if starts else escaped


def _shown(html: str) -> str:
    """The text of HTML that people read, including that of attributes."""
    text = re.sub(r"<!--.*?-->|<[^>]*>", "", html, flags=re.DOTALL)
    return " ".join([text, *("".join(each) for each in HTML_SHOWN.findall(html))])


@cache
def _parser() -> MarkdownIt:
    """The parser, with rules of this module."""
    markdown = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"]).disable("autolink")
    markdown.block.ruler.at("reference", _reference)
    markdown.inline.ruler.before("backticks", "verbatim", _verbatim)
    markdown.inline.ruler.at("link", _watched(link, 1))
    markdown.inline.ruler.at("image", _watched(image, 2))
    return markdown


def _reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The rule for definitions of links. Footnotes look the same but are paragraphs."""
    at = state.bMarks[start] + state.tShift[start]
    return not state.src.startswith("[^", at) and reference(state, start, end, silent)


def _verbatim(state: StateInline, silent: bool) -> bool:
    """Parse a span of `VERBATIM` as a token of its own: a rule of markdown-it."""
    match = VERBATIM.match(state.src, state.pos, state.posMax)
    if match and not silent:
        state.push("verbatim", "", 0).content = match.group()
    state.pos = match.end() if match else state.pos
    return match is not None


def _watched(rule: Callable[[StateInline, bool], bool], opening: int) -> Callable[[StateInline, bool], bool]:
    """The rule for links or pictures, extended so that the last token has the Markdown of their end: `](target)`.

    If the text itself was the name of a definition, the end is `][text]`, because the text may be translated.
    """

    def watched(state: StateInline, silent: bool) -> bool:
        start = state.pos + opening
        if not rule(state, silent):
            return False
        if not silent:
            close = state.md.helpers.parseLinkLabel(state, start - 1, opening == 1)
            end, label = state.src[close : state.pos], " ".join(state.src[start:close].split())
            state.tokens[-1].meta["raw"] = f"][{label}]" if end in ("]", "][]") else end
        return True

    return watched
