"""Subtitles: SRT and WebVTT, whose cues are lines after one with times.

Cue by cue: a line break and a tag inside a cue keep their places, and a line that begins with a dash, as those of a
second speaker do, is a segment of its own.
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
"""Elements, whose tags have no text."""

BLOCKS = {"WEBVTT": "the header", "NOTE": "comments", "STYLE": "styles and regions", "REGION": "styles and regions"}
"""The first word of a WebVTT block that is no cue, and what its text is."""

OUTSIDE = "text outside cues"


def read_srt(data: bytes, path: Path) -> RawDocument:
    """A document in SubRip's format; blank lines do not end a cue's text."""
    return _read(Text.decode(data, path), is_vtt=False)


def read_vtt(data: bytes, path: Path) -> RawDocument:
    """A WebVTT document, whose comments, styles and regions stay; a blank line ends a cue."""
    return _read(Text.decode(data, path), is_vtt=True)


def _read(text: Text, is_vtt: bool) -> RawDocument:
    document = RawDocument(text.encoding, partial(html.escape, quote=False) if is_vtt else str, parts=[text.mark])
    lines = re.findall(r"[^\n]*\n|[^\n]+", text.content)
    inside, first, block = False, 0, ""
    cue: list[str] = []

    def end_cue() -> None:
        for raw, number in _speakers(cue, first):
            _keep_tags(document, raw, number)
            dash = match.group() if (match := DASH.match(raw)) else ""
            body = raw[len(dash) :].rstrip("\r\n")
            pieces = list(_pieces(body, is_vtt))
            segment = RawSegment(body, Segment(number, pieces), _without_empty_lines)
            document.parts += [dash, segment, raw[len(dash) + len(body) :]]
        cue.clear()

    for number, line in enumerate(lines, 1):
        is_next = number < len(lines) and _is_times(lines[number])
        if _is_times(line):
            inside, block = True, ""
        elif not line.strip():
            inside, block = inside and not is_vtt, ""
        elif inside and not (ARROW in line if is_vtt else is_next and line.strip().isdigit()):
            first = first if cue else number
            cue.append(line)
            continue
        elif is_vtt or not inside:
            inside = False
            word = line.split(maxsplit=1)[0] if is_vtt and not block else ""
            is_name = is_vtt and is_next and ARROW not in line
            block = block or BLOCKS.get(word, "names of cues" if is_name else OUTSIDE)
            words = TAG.sub("", line.replace(word, "", 1) if word in BLOCKS else line)
            document.keep(number, html.unescape(words) if is_vtt else words, block)
            _keep_tags(document, line, number)
        end_cue()
        document.parts.append(line)
    end_cue()
    return document


def _is_times(line: str) -> bool:
    """Whether a line has the times of a cue; a text may have an arrow too."""
    return bool(TIMES.match(line)) or (ARROW in line and not has_letters(line))


def _keep_tags(document: RawDocument, text: str, line: int) -> None:
    """Record the text in the tags of a cue that begins in a line."""
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
    """The lines of a cue, those of one speaker together, with the number of their first line."""
    start = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or DASH.match(lines[at]):
            if text := "".join(lines[start:at]):
                yield text, first + start
            start = at


def _without_empty_lines(text: str) -> str:
    """A cue's text where a translation is shorter than the lines: an empty line would end the cue."""
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
