"""Plain text: each line is a paragraph (`text`), or blank lines separate wrapped paragraphs (`wrapped`)."""

from __future__ import annotations

import re
import textwrap
from functools import partial
from pathlib import Path

from posnmt.deploy.documents.raw import RawDocument, RawSegment, Text
from posnmt.deploy.documents.segment import Segment
from posnmt.translate.sentences import ends_spaceless

LINE = re.compile(r"[^\r\n]+")
WRAPPED = re.compile(r"\S[^\r\n]*(?:\r?\n(?![^\S\r\n]*(?:\r?\n|\Z))[^\r\n]*)*")


def read_text(data: bytes, path: Path) -> RawDocument:
    """Read a text in which each line is a paragraph."""
    return _paragraphs(Text.decode(data, path), LINE, wrapped=False)


def read_wrapped(data: bytes, path: Path) -> RawDocument:
    """Read a text with blank lines between paragraphs. They are wrapped again at the width of their longest line."""
    return _paragraphs(Text.decode(data, path), WRAPPED, wrapped=True)


def _paragraphs(text: Text, pattern: re.Pattern[str], wrapped: bool) -> RawDocument:
    document = RawDocument(text.encoding, parts=[text.mark])
    last = 0
    for match in pattern.finditer(text.content):
        raw = match.group()
        part = RawSegment(raw, Segment(text.line(match.start()), [raw]))
        if wrapped:
            lines = raw.splitlines()
            part.finish = partial(_wrap, width=max(map(len, lines)), end="\r\n" if "\r\n" in raw else "\n")
            part.segment.pieces = ["".join(line if ends_spaceless(line) else f"{line} " for line in lines).rstrip()]
        document.parts += [text.content[last : match.start()], part]
        last = match.end()
    document.parts.append(text.content[last:])
    return document


def _wrap(text: str, width: int, end: str) -> str:
    """Wrap a paragraph; only a longer word makes a line wider than `width`."""
    return end.join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))
