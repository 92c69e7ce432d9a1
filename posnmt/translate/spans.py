"""Spans of a line that a translation must have as they are: placeholders, mark-up, addresses, paths and code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html.entities import html5
from pathlib import Path
from typing import NamedTuple

from posnmt.base.errors import UserError, raise_all
from posnmt.config.schema import Decode, pattern_fault
from posnmt.config.writing import ALONE, SPACELESS
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.data.marks import mark_of
from posnmt.translate.words import GAP

_OTHER = rf"\u00a0\u2000-\u200b\u202f\u3000-\u303f\uff00-\uff65{SPACELESS}"
"""What ends an address beside ASCII's blanks: blanks, and signs and letters of scripts without blanks."""
_END = r"(?<![.,;:!?'\"»”’…])"
"""Signs at the end of an address belong to the sentence."""
_SIGN = rf"[^\s<>()\[\]\"`{{}}|\\^{_OTHER}]"
_ROOTS = "bin|boot|dev|etc|home|lib|lib64|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var"
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>=]+)"

KINDS = {
    "percentage": r"\d%(?!%|[sd](?![A-Za-z]))",
    "code": r"(?<![\w`])(?P<ticks>`{1,3})(?![\s`]).{1,400}?(?<![\s`])(?P=ticks)(?![A-Za-z0-9`])",
    "comment": r"<!--.{0,1000}?-->|<\?[A-Za-z][^<>]{0,400}\?>|<!\[CDATA\[|\]\]>|\{%.{1,400}?%\}|\{#.{1,400}?#\}",
    "tag": (
        rf"</?(?P<name>[A-Za-z][\w.:-]{{0,60}})(?:\s+[\w.:@-]{{1,60}}\s*=\s*{_VALUE}){{0,40}}\s*/?>|</?\d{{1,3}}\s*/?>"
        r"|&lt;/?[A-Za-z][^&<>]{0,200}&gt;"
    ),
    "entity": r"&(?:#\d{1,7};|#[xX][0-9A-Fa-f]{1,6};|(?P<entity_name>[A-Za-z][A-Za-z0-9]{1,31};))",
    "address": (
        r"(?:(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,20}://|(?<![\w.-])www\.(?=[\w-]{1,60}\.)|(?<!\w)mailto:)"
        rf"(?:{_SIGN}|\({_SIGN}*\)){{1,2000}}{_END}"
    ),
    "email": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}",
    "windows_path": (
        r"(?<!\w)(?:[A-Za-z]:[\\/](?!/)|\\\\[\w.-]{1,64}\\|%[A-Z_]{2,30}%(?=\\))"
        rf"[^\s\"<>|*?`]{{0,400}}{_END}"
    ),
    "path": (
        r"(?<![\w/.<-])(?:(?:~|\.\.?|\$[A-Z_]{2,30})/[\w$]?[\w.+@%~$-]{0,100}(?:/[\w.+@%~-]{0,100}){0,30}"
        r"|/(?:[\w.+@%~-]{1,100}/){1,30}[\w.+@%~-]{0,100}"
        rf"|/(?:{_ROOTS})\b|(?:[A-Za-z_][\w.-]{{0,100}}/){{1,30}}[\w-]{{1,100}}(?:\.[\w-]{{1,60}}){{0,4}}"
        rf"\.(?:[a-z][a-z0-9]{{1,4}}|[chor])(?![\w.]\w)){_END}"
    ),
    "printf": (
        r"%%|%(?:[({<][\w.-]{1,60}[)}>][-+#0 ]{0,5}\d{0,3}(?:\.\d{1,3})?[a-zA-Z]?"
        r"|\d{1,2}\$[-+#0']{0,5}\d{0,3}(?:\.\d{1,3})?(?:hh?|ll?|[qjzt])?[a-zA-Z@]"
        r"|[-+#0']{0,5}(?:[1-9]\d{0,3}|\*)?(?:\.(?:\d{1,3}|\*))?(?:hh?|ll?|[qjztL]|I64)?"
        r"(?:[sdfu]|[iFeEgGxXocpaAn@bqv](?![A-Za-z]))|(?P<numbered>L?[1-9]\d?(?![\d']|[.,]\d)))"
    ),
    "call": r"\$t\([\w.:-]{1,100}\)",
}
"""Kind of span → pattern; a percentage is none. Words and blanks are ASCII's, as text without blanks may stand beside a
span. Lengths are limited, so that no text takes long. Braces are found by `_braces`, since they may be nested."""

_FIXED = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in KINDS.items()), re.ASCII)
_FIRST = re.compile(r"%L?1(?!\d)")
_FIELD = re.compile(r"\s*[\w.\-#@$!\[\]'\"()|/]{0,80}(?:![rsa])?(?::[^\s{}]{0,40})?\s*")
_ICU = re.compile(
    r"\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal|choice|number|date|time|spellout|ordinal|duration)\b"
)
_TEMPLATE = re.compile(r"\{[^{}]{1,200}\}")
_TOKEN = re.compile(r"[\w/\\.:@$%=~{}#-]{1,200}")
_PAIRS = {
    "(": ")",
    "[": "]",
    '"': '"',
    "'": "'",
    "«": "»",
    "“": "”",
    "„": "“”",
    "‘": "’",
    "‚": "‘’",
    "<": ">",
    "‹": "›",
}


class Interval(NamedTuple):
    """A span of a text: `text[start:end]`."""

    start: int
    end: int


def find(text: str, own: Sequence[re.Pattern[str]] = ()) -> list[Interval]:
    """The spans of a text, in order; those that touch or overlap are one.

    A placeholder in a path or an assignment is a span with all of it, as in `$HOME/{name}`.

    Args:
        own: patterns of the user.
    """
    spans = joined(_places(text, own))
    wider = [*spans]
    for token in _TOKEN.finditer(text) if any(text[start] in "{%$#" for start, _ in spans) else ():
        inside = [each for each in spans if each.start >= token.start() and each.end <= token.end()]
        rest = "".join(text[one:other] for one, other in _between(token.start(), token.end(), inside))
        if inside and any(sign in rest for sign in "/\\=$"):
            wider.append(Interval(token.start(), token.start() + len(token.group().rstrip(".,:"))))
    return joined(wider)


def patterns(decode: Decode) -> list[re.Pattern[str]]:
    """The user's patterns of the setting `protect`."""
    return [] if isinstance(decode.protect, str) else list(map(re.compile, decode.protect))


def differing(text: str, translation: str, own: Sequence[re.Pattern[str]] = ()) -> list[str]:
    """The spans that a text has more often than its translation, and the reverse."""
    of_text, written = (Counter(each[a:b] for a, b in _places(each, own)) for each in (text, translation))
    return [*(of_text - written).elements(), *(written - of_text).elements()]


def _places(text: str, own: Sequence[re.Pattern[str]]) -> list[tuple[int, int]]:
    """Where spans stand; they may touch and overlap."""
    fixed = [match.span() for match in _FIXED.finditer(text) if _is_span(match, text)]
    matches = [*fixed, *(match.span() for pattern in own for match in pattern.finditer(text))]
    return [*matches, *(_braces(text) if "{" in text else ())]


def _is_span(match: re.Match[str], text: str) -> bool:
    """Whether a match of `_FIXED` is a span, by what else stands in the text."""
    if match["percentage"] is not None:
        return False
    if match["entity_name"] is not None:
        return match["entity_name"] in html5
    if match["numbered"] is not None:  # without a first one it is a Turkish percentage: %50
        return _FIRST.search(text) is not None
    glued = match["name"] is not None and text[: match.start()][-1:].isalnum() and match.group()[1] != "/"
    if glued and not match.group().endswith("/>") and match["name"].lower() not in ("br", "hr", "wbr", "img"):
        return f"</{match['name']}>" in text  # otherwise a type, as in List<String>
    return True


def joined(places: Iterable[tuple[int, int]]) -> list[Interval]:
    """Places of a text in order; those that touch or overlap are one."""
    done: list[Interval] = []
    for start, end in sorted(places):
        if done and start <= done[-1].end:
            start, end = done[-1].start, max(end, done.pop().end)
        done.append(Interval(start, end))
    return done


def enclosing(text: str, spans: Sequence[Interval]) -> list[Interval]:
    """Spans with the brackets and quotation marks that enclose nothing else."""
    wider = []
    for start, end in spans:
        for gap in (0, 1) * 3:
            apart = text[start - gap : start] == text[end : end + gap] == " " * gap
            if start > gap and apart and text[end + gap : end + gap + 1] in (*_PAIRS.get(text[start - gap - 1], ""),):
                start, end = start - gap - 1, end + gap + 1
        wider.append(Interval(start, end))
    return joined(wider)


def _between(start: int, end: int, spans: Sequence[Interval]) -> Iterator[tuple[int, int]]:
    """The stretches of a text from `start` to `end` that are in no span."""
    for each in spans:
        yield start, each.start
        start = each.end
    yield start, end


def _braces(text: str) -> Iterator[tuple[int, int]]:
    """Fields in braces: `{name}`, `{{name}}`, `${name}`, and ICU's `{n, plural, one {…} other {…}}`."""
    opened: list[int] = []
    closed: dict[int, int] = {}
    for match in re.finditer("[{}]", text):
        if match.group() == "{":
            opened.append(match.start())
        elif opened:
            closed[opened.pop()] = match.end()
    behind = 0
    for start, end in sorted(closed.items()):
        content = text[start + 1 : end - 1]
        if start >= behind and (_FIELD.fullmatch(content) or _ICU.match(content) or _TEMPLATE.fullmatch(content)):
            behind = end
            yield start - (text[:start][-1:] in ("$", "#", "%")), end


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


_WORD = re.compile(rf"[{SPACELESS}]|[^\W{SPACELESS}]+(?:[-'’][^\W{SPACELESS}]+)*|[^\w\s]")
"""A word, a sign, or a character of a script without blanks, by which places in a text are counted."""

_OPENS = re.compile(r"<[A-Za-z][^<>]*[^/<>]>|<[A-Za-z0-9]>")
_INLINE = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|big|cite|code|del|dfn|em|font|i|ins|kbd|mark|q|s|small|span|strong|sub|sup|tt|u|\d+)\b"
)
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

    @property
    def contents(self) -> list[str]:
        """The texts of the removed spans, in order."""
        return [self.whole[start:end] for start, end in self.spans]

    @property
    def blanked(self) -> str:
        """The whole text with gaps in place of the spans."""
        return blanked_at(self.whole, self.spans, GAP)


def remove(whole: str, spans: Sequence[Interval]) -> Removed:
    """Take spans out of a text, each with the blank that is then one too many.

    Words that a span parts stay two, but for tags of HTML that may stand inside a word.
    """
    mark = mark_of(whole)
    begin = 0 if mark is None else whole.index(mark) + len(mark)
    spans = [each for each in spans if each.start >= begin]
    text = ""
    last = 0
    for start, end in spans:
        text += whole[last:start]
        last = end
        following = whole[end : end + 1]
        if text.endswith(" ") or not text:
            if following == " ":
                last += 1
            elif following in _JOINS_LEFT:
                text = text.rstrip(" ")
        elif text[-1].isalnum() and following.isalnum() and not _INLINE.match(whole[start:end]):
            text += " "
    return Removed((text + whole[last:]).strip(" "), spans, whole, begin)


def blanked_at(text: str, spans: Iterable[tuple[int, int]], by: str = " ") -> str:
    """A text with blanks in place of some spans."""
    for start, end in spans:
        text = text[:start] + by * (end - start) + text[end:]
    return text


def blanked(text: str, contents: Iterable[str], by: str = " ") -> str:
    """A text with blanks in place of some spans that it has, of the same length."""
    for content in contents:
        at = text.find(content)
        if at >= 0:
            text = blanked_at(text, [(at, at + len(content))], by)
    return text


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
        place = _place(removed, start, end, translation, links)
        if removed.whole.startswith("<", start):
            place = last_tag = max(place, last_tag)
        places.append(place)
    result = ""
    last = -1
    for place, (start, end) in sorted(zip(places, removed.spans, strict=True), key=lambda pair: pair[0]):
        between = translation[max(0, last) : place] or " " * (place == last and not result.endswith(" "))
        behind = removed.whole[end : end + 1]
        is_apart = bool(behind.strip()) and translation.startswith(f" {behind}", place)  # and was not
        place += is_apart
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
        has_signs = bool(whole[end:].strip())  # behind the span, and then also behind its place
        return len(translation.rstrip("".join(_JOINS_LEFT))) if has_signs else len(translation)
    return min(behind)[1] if behind and _OPENS.fullmatch(whole[start:end]) else max(before)[1]


def _beside(text: str, whole: str, start: int, end: int, following: str) -> str:
    """A text with a span behind it: it touches no word that it does not touch in the source."""
    before, behind = whole[:start][-1:], whole[end:][:1]
    last, first = text[-1:], following[:1]
    if before.strip() and not before.isalnum() and text.endswith(f"{before} "):
        text = text[:-1]  # a sign, such as a bracket, that it does touch
    elif last.strip() and (before == " " or (_is_word(last) and not _is_word(before))):
        text += " "
    touches = (
        not first.strip() or first in _JOINS_LEFT or _is_word(behind) or not (_is_word(first) or behind in ("", " "))
    )
    return text + whole[start:end] + " " * (not touches)


def _is_word(sign: str) -> bool:
    """Whether a character belongs to a word that blanks separate from others."""
    return sign.isalnum() and not ALONE.match(sign)


def _by_share(removed: Removed, translation: str) -> list[Link]:
    """Links of words by their share of the texts."""
    outside = blanked_at(removed.whole, [(0, removed.begin), *removed.spans])
    sources = [match.span() for match in _WORD.finditer(outside)]
    targets = [match.span() for match in _WORD.finditer(translation)]
    if not targets:
        return []
    ratio = len(targets) / max(1, len(sources))
    return [(span, targets[min(len(targets) - 1, int((number + 0.5) * ratio))]) for number, span in enumerate(sources)]
