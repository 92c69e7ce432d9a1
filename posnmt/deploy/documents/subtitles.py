"""Subtitles in SRT and WebVTT. A cue is the lines of text after a line with times.

A cue is a segment, in which line breaks and tags keep their places. A line that begins with a dash is of another
speaker, and begins a segment of its own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from posnmt.deploy.documents.raw import RawDocument, RawSegment, Text
from posnmt.deploy.documents.segment import Piece, Segment, Tag, has_letters

ARROW = "-->"
TIMES = re.compile(rf"\s*-?\d[\d\s]*[:.,][\d:.,\s]*{ARROW}\s*-?\d[\d\s]*[:.,]")
READING = r"<rt(?:\.[^<>]*)?>[^<]*(?:</rt>)?"
TAG = re.compile(rf"{READING}|<[A-Za-z0-9/][^<>]*>|\{{\\[^{{}}]*\}}")
DASH = re.compile(r"\s*(?:<[^<>]*>|\{\\[^{}]*\})*[-–—]\s*")

KNOWN = frozenset(["b", "i", "u", "s", "font", "c", "lang", "ruby"])
"""Elements whose tags hold no text."""

BLOCKS = {"WEBVTT": "the header", "NOTE": "comments", "STYLE": "styles and regions", "REGION": "styles and regions"}
"""First word of a WebVTT block that is not a cue → reason to keep its text."""

OUTSIDE = "text outside cues"


def read_srt(data: bytes, path: Path) -> RawDocument:
    """Read SubRip's format. Blank lines do not end a cue."""
    return _read(Text.decode(data, path), is_vtt=False)


def read_vtt(data: bytes, path: Path) -> RawDocument:
    """Read WebVTT. A blank line ends a cue; comments, styles and regions are kept."""
    return _read(Text.decode(data, path), is_vtt=True)


def _read(text: Text, is_vtt: bool) -> RawDocument:
    cues = _Cues(text, is_vtt)
    lines = re.findall(r"[^\n]*\n|[^\n]+", text.content)
    for number, line in enumerate(lines, 1):
        cues.add(number, line, is_next=number < len(lines) and _is_times(lines[number]))
    cues.end()
    return cues.document


class _Cues:
    """Builds a document from lines that are added one after the other."""

    def __init__(self, text: Text, is_vtt: bool) -> None:
        escape = partial(html.escape, quote=False) if is_vtt else str
        self.document, self._is_vtt = RawDocument(text.encoding, escape, parts=[text.mark]), is_vtt
        self._is_inside = False  # whether the next line may belong to a cue
        self._cue: list[str] = []  # the lines of the cue that is being read
        self._first = 0  # the number of its first line
        self._block = ""  # outside cues: the reason to keep this block

    def add(self, number: int, line: str, is_next: bool) -> None:
        """Read the next line; `is_next`: whether a line with times follows."""
        if _is_times(line):
            self._is_inside, self._block = True, ""
        elif not line.strip():
            self._is_inside, self._block = self._is_inside and not self._is_vtt, ""
        elif self._is_inside and not (ARROW in line if self._is_vtt else is_next and line.strip().isdigit()):
            self._first = self._first if self._cue else number
            self._cue.append(line)
            return
        elif self._is_vtt or not self._is_inside:
            self._is_inside = False
            self._keep(number, line, is_next)
        self.end()
        self.document.parts.append(line)

    def end(self) -> None:
        """Finish the cue that is being read, if there is one."""
        for raw, number in _speakers(self._cue, self._first):
            _keep_tags(self.document, raw, number)
            dash = match.group() if (match := DASH.match(raw)) else ""
            body = raw[len(dash) :].rstrip("\r\n")
            pieces = list(_pieces(body, self._is_vtt))
            segment = RawSegment(body, Segment(number, pieces), _without_empty_lines)
            self.document.parts += [dash, segment, raw[len(dash) + len(body) :]]
        self._cue = []

    def _keep(self, number: int, line: str, is_next: bool) -> None:
        word = line.split(maxsplit=1)[0] if self._is_vtt and not self._block else ""
        is_name = self._is_vtt and is_next and ARROW not in line
        self._block = self._block or BLOCKS.get(word, "names of cues" if is_name else OUTSIDE)
        words = TAG.sub("", line.replace(word, "", 1) if word in BLOCKS else line)
        self.document.keep(number, html.unescape(words) if self._is_vtt else words, self._block)
        _keep_tags(self.document, line, number)


def _is_times(line: str) -> bool:
    """Whether a line has the times of a cue. An arrow alone may also stand in text."""
    return bool(TIMES.match(line)) or (ARROW in line and not has_letters(line))


def _keep_tags(document: RawDocument, text: str, line: int) -> None:
    """Record the text in the tags of a cue; `line` is the number of its first line."""
    for match in TAG.finditer(text):
        tag, at = match.group(), line + text.count("\n", 0, match.start())
        content, name = tag.strip("<>/"), _name(tag)
        if tag[0] == "{" or name in KNOWN:
            continue
        if name == "rt":
            document.keep(at, re.sub("<[^<>]*>", "", tag), "readings of <ruby>")
        elif name == "v":
            document.keep(at, re.sub(r"\S+", "", content, count=1), "names of speakers")
        else:
            document.keep(at, content, "unknown tags")


def _name(tag: str) -> str:
    """The name of the element that a tag begins or ends."""
    return re.split(r"\W", tag.strip("<>/"), maxsplit=1)[0].lower()


def _speakers(lines: list[str], first: int) -> Iterator[tuple[str, int]]:
    """The text of each speaker in a cue, with the number of its first line."""
    start = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or DASH.match(lines[at]):
            if text := "".join(lines[start:at]):
                yield text, first + start
            start = at


def _without_empty_lines(text: str) -> str:
    """Remove empty lines, which would end the cue; they occur where a translation has fewer words than lines."""
    return re.sub(r"(\r?\n)\s+", r"\1", text).strip("\r\n")


def _pieces(text: str, is_vtt: bool) -> Iterator[Piece]:
    """The text, tags and line breaks of a cue."""
    for part in re.split(rf"(\r?\n|{TAG.pattern})", text):
        if part.endswith("\n"):
            yield Tag("alone", part, separates=True)
        elif TAG.fullmatch(part):
            is_element = part[0] == "<" and _name(part) in KNOWN | {"v"}
            yield Tag("alone" if not is_element else "close" if part[1] == "/" else "open", part)
        elif part:
            yield html.unescape(part) if is_vtt else part
