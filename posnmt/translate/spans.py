"""Spans of a line that a translation must have as they are: placeholders, mark-up, addresses, paths and code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from posnmt.config.schema import pattern_fault
from posnmt.config.writing import SPACELESS
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.data.marks import mark_of
from posnmt.errors import UserError, raise_all

_END = r"(?<![.,;:!?'\"»”’)\]}…])"
"""Signs at the end of an address belong to the sentence."""

_OTHER = rf"\u00a0\u2000-\u200b\u202f\u3000-\u303f\uff00-\uff65{SPACELESS}"
"""What ends an address beside ASCII's blanks: blanks, and signs and letters of scripts without blanks."""

_ROOTS = "bin|boot|dev|etc|home|lib|lib64|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var"

KINDS = {
    "percentage": r"\d%",
    "code": r"(?<![\w`])(?P<ticks>`+)(?![\s`]).+?(?<![\s`])(?P=ticks)(?![\w`])",
    "comment": r"<!--.*?-->",
    "tag": r"</?[A-Za-z][\w.:-]*(?:\s[^<>]*)?/?>",
    "entity": r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",
    "address": rf"(?:\b[A-Za-z][A-Za-z0-9+.-]*://|\bwww\.(?=[\w-]+\.)|\bmailto:)[^\s<>\"`{{}}|\\^{_OTHER}]+{_END}",
    "email": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "windows_path": rf"(?<!\w)(?:[A-Za-z]:\\|\\\\[\w.-]+\\)[^\s\"<>|*?`]*{_END}",
    "path": (
        rf"(?<![\w/.<])(?:(?:~|\.\.?)/[\w.+@%~-]*(?:/[\w.+@%~-]*)*|/(?:[\w.+@%~-]+/)+[\w.+@%~-]*"
        rf"|/(?:{_ROOTS})\b|(?:[\w.-]+/)+[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{{0,4}}\b){_END}"
    ),
    "printf": (
        r"%%|%(?:\([\w.-]+\)[-+#0 ]*\d*(?:\.\d+)?[a-zA-Z]|\{[\w.-]+\}"
        r"|\d+\$[-+#0']*\d*(?:\.\d+)?(?:hh?|ll?|[qjzt])?[a-zA-Z@]|L?\d{1,2}(?!\d)"
        r"|[-+#0']*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[qjzt])?[sdiufFeEgGxXocpaAn@](?![A-Za-z]))"
    ),
}
"""Kind of span → pattern; a percentage is none. Words and blanks are ASCII's, as text without blanks may stand beside a
span. Braces are found by `_braces`, since they may be nested."""

_FIXED = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in KINDS.items()), re.ASCII)
_OPENING = re.compile(r"[$#%]?\{")
_FIELD = re.compile(r"\s*[\w.\-:#@$!\[\]'\"()|/]*\s*")
_ICU = re.compile(
    r"\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal|choice|number|date|time|spellout|ordinal|duration)\b"
)


class Interval(NamedTuple):
    """A span of a text: `text[start:end]`."""

    start: int
    end: int


def find(text: str, own: Sequence[re.Pattern[str]] = ()) -> list[Interval]:
    """The spans of a text, in order; those that touch or overlap are one.

    Args:
        own: patterns of the user.
    """
    return joined(_places(text, own))


def differing(text: str, translation: str, own: Sequence[re.Pattern[str]] = ()) -> list[str]:
    """The spans that a text has more often than its translation, and the reverse."""
    of_text, written = (Counter(each[a:b] for a, b in _places(each, own)) for each in (text, translation))
    return [*(of_text - written).elements(), *(written - of_text).elements()]


def _places(text: str, own: Sequence[re.Pattern[str]]) -> list[tuple[int, int]]:
    """Where spans stand; they may touch and overlap."""
    fixed = [match.span() for match in _FIXED.finditer(text) if match["percentage"] is None]
    matches = [*fixed, *(match.span() for pattern in own for match in pattern.finditer(text))]
    return [*matches, *_braces(text)]


def joined(places: Iterable[tuple[int, int]]) -> list[Interval]:
    """Places of a text in order; those that touch or overlap are one."""
    done: list[Interval] = []
    for start, end in sorted(places):
        if done and start <= done[-1].end:
            start, end = done[-1].start, max(end, done.pop().end)
        done.append(Interval(start, end))
    return done


def _braces(text: str) -> Iterator[tuple[int, int]]:
    """Fields in braces: `{name}`, `{{name}}`, `${name}`, and ICU's `{n, plural, one {…} other {…}}`."""
    at = 0
    while match := _OPENING.search(text, at):
        end = _closing(text, match.end() - 1)
        content = text[match.end() : end - 1] if end else ""
        is_field = end and (_FIELD.fullmatch(content) or _ICU.match(content) or _FIELD.fullmatch(content.strip("{}")))
        if is_field:
            yield match.start(), end
        at = end if is_field else match.end()


def _closing(text: str, opening: int) -> int:
    """The end of what the brace at a place encloses; 0 where it is not closed."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at + 1
    return 0


def read_patterns(path: Path) -> list[str]:
    """Patterns of a file, a regular expression a line; lines that are empty or begin with `#` are none.

    Raises:
        UserError: a line that is no regular expression, or one that matches the empty text; all at once.
    """
    patterns, faults = [], []
    for number, line in enumerate(read_lines(TextFile("patterns", path), Findings(("empty", "crlf"), stop=True)), 1):
        if line.strip() and not line.startswith("#"):
            patterns.append(line)
            if fault := pattern_fault(line):
                faults.append(UserError(fault, f"{path}:{number}", "write a regular expression of Python"))
    raise_all(faults)
    return patterns


_WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")
"""A word or a sign, by which places in a text are counted."""

_OPENS = re.compile(r"<[A-Za-z][^<>]*[^/<>]>|<[A-Za-z]>")
_JOINS_LEFT = frozenset(".,;:!?)]}»”’…%、。，！？）」』")
"""Signs that no blank stands before, in most languages."""

Link = tuple[tuple[int, int], tuple[int, int]]
"""Characters of a source and of its translation that belong together: both from a first one to behind the last."""


class Removed(NamedTuple):
    """A text without its spans.

    Attributes:
        text: what is translated.
        spans: in order, of the whole text.
        whole: the text with its spans.
        begin: where the text begins, behind the mark of a target language.
    """

    text: str
    spans: list[Interval]
    whole: str
    begin: int = 0

    @property
    def has_words(self) -> bool:
        """Whether there is anything to translate."""
        return any(map(str.isalpha, self.text[self.begin :]))


def remove(whole: str, spans: Sequence[Interval]) -> Removed:
    """Take spans out of a text, each with the blank that is then one too many."""
    mark = mark_of(whole)
    begin = 0 if mark is None else whole.index(mark) + len(mark)
    spans = [each for each in spans if each.start >= begin]
    text = ""
    last = 0
    for start, end in spans:
        text += whole[last:start]
        last = end
        if text.endswith(" ") or not text:
            if whole[end : end + 1] == " ":
                last += 1
            elif whole[end : end + 1] in _JOINS_LEFT:
                text = text.rstrip(" ")
    return Removed((text + whole[last:]).strip(" "), spans, whole, begin)


def blanked(text: str, contents: Iterable[str]) -> str:
    """A text with blanks in place of some spans that it has, of the same length."""
    done = text
    for content in contents:
        at = done.find(content)
        if at >= 0:
            done = done[:at] + " " * len(content) + done[at + len(content) :]
    return done


def put_back(removed: Removed, translation: str, links: Sequence[Link] | None = None) -> str:
    """A translation of the text without spans, with the spans in it.

    A span stands beside what the words beside it were translated to, by `links`; without, after the same share of
    words. Spans keep their order where they would stand at the same place, and tags always do.

    Args:
        links: characters of `removed.whole` and of the translation that belong together.
    """
    links = _by_share(removed, translation) if links is None else links
    places: list[int] = []
    last_tag = 0
    for start, end in removed.spans:
        content = removed.whole[start:end]
        place = _place(removed, start, end, translation, links)
        if content.startswith("<"):
            place = last_tag = max(place, last_tag)
        places.append(place)
    result = ""
    last = -1
    for place, (start, end) in sorted(zip(places, removed.spans, strict=True), key=lambda pair: pair[0]):
        between = translation[max(0, last) : place] or " " * (place == last and not result.endswith(" "))
        result = _beside(result + between, removed.whole, start, end, translation[place:])
        last = place
    tail = translation[max(0, last) :]
    return result + (tail.lstrip(" ") if result.endswith(" ") else tail)


def _place(removed: Removed, start: int, end: int, translation: str, links: Sequence[Link]) -> int:
    """The place in a translation of the span of a text from `start` to `end`."""
    whole = removed.whole
    before = [(source[1], target[1]) for source, target in links if removed.begin <= source[0] and source[1] <= start]
    behind = [(source[0], target[0]) for source, target in links if source[0] >= end]
    if not before:
        return min(behind)[1] if behind and whole[removed.begin : start].strip() else 0
    if not behind and not whole.startswith("</", start):
        return _end_of(whole[end:], translation)
    return min(behind)[1] if _OPENS.fullmatch(whole[start:end]) else max(before)[1]


def _beside(text: str, whole: str, start: int, end: int, following: str) -> str:
    """A text with a span behind it: it touches no word that it does not touch in the source."""
    before, behind = whole[:start][-1:], whole[end:][:1]
    last, first = text[-1:], following[:1]
    if before.strip() and not before.isalnum() and text.endswith(f"{before} "):
        text = text[:-1]  # a sign, such as a bracket, that it does touch
    elif last.strip() and (before == " " or (last.isalnum() and not before.isalnum())):
        text += " "
    touches = not first.strip() or first in _JOINS_LEFT or (behind.strip() and not first.isalnum()) or behind.isalnum()
    return text + whole[start:end] + " " * (not touches)


def _end_of(rest: str, translation: str) -> int:
    """The end of a translation, or before the signs there if the source has signs behind the span."""
    signs = len(translation) - len(translation.rstrip("".join(_JOINS_LEFT))) if rest.strip() else 0
    return len(translation) - signs


def _by_share(removed: Removed, translation: str) -> list[Link]:
    """Links of words by their share of the texts."""
    taken = {at for start, end in [(0, removed.begin), *removed.spans] for at in range(start, end)}
    sources = [match.span() for match in _WORD.finditer(removed.whole) if match.start() not in taken]
    targets = [match.span() for match in _WORD.finditer(translation)]
    if not targets:
        return []
    ratio = len(targets) / max(1, len(sources))
    return [(span, targets[min(len(targets) - 1, int((number + 0.5) * ratio))]) for number, span in enumerate(sources)]
