"""PO, the format of gettext: messages without a translation get one; everything else is written as it was read.

New translations are marked as fuzzy: no person has reviewed them. Libraries for PO wrap all lines anew; here only the
characters of new translations and their flags change.
"""

from __future__ import annotations

import gettext
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from posnmt.base.errors import UserError
from posnmt.config.writing import is_alike, is_same
from posnmt.deploy.documents.messages import divided, joined
from posnmt.deploy.documents.raw import Text
from posnmt.deploy.documents.segment import Kept, Segment, has_letters

STRING = r'"(?:[^"\\\n]|\\[^\n])*+"'
ITEM = re.compile(
    r"(?P<comment>#[^\n]*+)|(?P<word>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?|domain)"
    rf"\s*+(?P<strings>{STRING}(?:\s*+{STRING})*+)|(?P<other>\S[^\n]{{0,59}})|\Z"
)
WORDS = re.compile(r"(msgctxt )?msgid (msgstr|msgid_plural(?=.* msgstr\[0\])( msgstr\[\d+\])+)")
"""The keywords of a message."""
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
PLAIN = {ord(sign): f"\\{name}" for name, sign in NAMED.items()} | {ord('"'): '\\"', ord("\\"): "\\\\"}
CHARSET = re.compile(rb'^"Content-Type:[^"\n]*charset=([\w.:-]+)', re.IGNORECASE | re.MULTILINE)
PLURAL = re.compile(r"^Plural-Forms:\s*nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=([^;\n]{1,500})", re.MULTILINE)

OBSOLETE = re.compile(r'^#~[^\S\n]*+msgid[^\S\n]*+("[^\n]*"(?:\s*\n#~[^\S\n]*+"[^\n]*")*)', re.MULTILINE)

WIDTH = 77
"""Most characters of a line of a new translation, without quotes: the width at which gettext wraps."""


class Value(NamedTuple):
    """The strings of a keyword: where they begin and end, and their text."""

    start: int
    end: int
    text: str


@dataclass
class Message:
    """A message.

    Attributes:
        start: the place of its first keyword.
        comments: the comments before it, each with its place.
        values: keyword → its strings.
        parts: keyword of a translation that is missing → the parts of the text to translate.
    """

    start: int = 0
    comments: list[tuple[int, str]] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    parts: dict[str, list[str | Segment]] = field(default_factory=dict)

    @property
    def is_fuzzy(self) -> bool:
        """Whether the message is marked for review by a person."""
        return any("fuzzy" in re.split(r"[\s,]+", text) for _, text in self.comments if text.startswith("#,"))

    @property
    def segments(self) -> list[Segment]:
        """The segments of the missing translations."""
        return [part for parts in self.parts.values() for part in parts if isinstance(part, Segment)]


class PoDocument:
    """A catalogue.

    Attributes:
        kept: texts with letters that are left as they are.

    Args:
        data: the bytes of the file.
        path: its path.
        languages: codes of source and target.

    Raises:
        UserError: the file is not a catalogue, or not in its encoding.
    """

    def __init__(self, data: bytes, path: Path, languages: tuple[str, str]) -> None:
        charset = CHARSET.search(data)
        encoding = charset[1].decode() if charset and charset[1] != b"CHARSET" else "utf-8"
        try:
            self._text = Text.decode(data, path, encoding)
        except UnicodeError:
            raise UserError(f"its encoding, {encoding!r}, is not one of texts", path, "save it as UTF-8") from None
        self._path, self._end = path, "\r\n" if "\r\n" in self._text.content else "\n"
        self._messages: list[Message] = []
        self.kept: list[Kept] = []
        messages = list(self._read())
        values = (each.values for each in messages if not each.values["msgid"].text and "msgctxt" not in each.values)
        header = next((each["msgstr"].text for each in values if "msgstr" in each), "")
        for message in messages:
            if reason := self._choose(message, header):
                self.kept.append(Kept(self._text.line(message.start), message.values["msgid"].text, reason))
        for old in OBSOLETE.finditer(self._text.content):
            text = "".join(re.findall('"(.*)"', old[1]))
            self.kept += [Kept(self._text.line(old.start()), text, "obsolete messages")] * has_letters(text)
        self.notes: list[str] = []
        language = re.search(r"^Language:[^\S\n]*(\S+)", header, re.MULTILINE)
        if language and not (is_same(language[1], languages[1]) or is_alike(language[1], languages[1])):
            self.notes.append(f"the document's language is {language[1]}, but the model's is {languages[1]}")

    @property
    def segments(self) -> list[Segment]:
        """Return the segments of all messages that are translated, in the order of the file."""
        return [segment for message in self._messages for segment in message.segments]

    def content(self) -> bytes:
        """See `Document`. Adds notes on messages that are not written."""
        text, last = self._text, 0
        edits: list[tuple[int, int, str]] = []
        left: Counter[str] = Counter()
        for message in self._messages:
            done = [each.translated is not None for each in message.segments if each.has_letters]
            changes = [*self._changes(message)] if done and all(done) else []
            try:
                "".join(new for _, _, new in changes).encode(text.encoding)
                edits += changes
                why = "" if changes else "not all their sentences are translated"
            except UnicodeEncodeError:
                why = f"{text.encoding} lacks characters of their translations: convert it by msgconv --to-code=UTF-8"
            if why and any(done):
                left[why] += 1
                for each in message.segments:
                    each.translated = None
        self.notes += [f"{number:,} messages are left as they are, because {why}" for why, number in left.items()]
        written = [text.mark]
        for start, end, new in sorted(edits, key=lambda each: each[0]):
            written += [text.content[last:start], new]
            last = end
        return "".join([*written, text.content[last:]]).encode(text.encoding)

    def _choose(self, message: Message, header: str) -> str | None:
        """Prepare a message for translation, or return the reason to keep it; None also for texts without letters."""
        source, plural = message.values["msgid"].text, message.values.get("msgid_plural")
        line = self._text.line(message.start)
        if not source or not (has_letters(source) or (plural and has_letters(plural.text))):
            return None
        if all(value.text for word, value in message.values.items() if word.startswith("msgstr")):
            return "fuzzy messages, which await a review" if message.is_fuzzy else "translated messages"
        if plural is None:
            message.parts["msgstr"] = divided(source, line)
        else:
            if not (forms := _forms(header)):
                return "messages with plural forms, because Plural-Forms in the header is missing or not valid"
            for number, is_one in enumerate(forms):
                word = f"msgstr[{number}]"
                if word not in message.values or not message.values[word].text:
                    message.parts[word] = divided(source if is_one else plural.text, line)
        self._messages.append(message)
        return None

    def _changes(self, message: Message) -> Iterator[tuple[int, int, str]]:
        """The changes that write the translations of a message: start, end and new text of each."""
        if not message.is_fuzzy:
            flags = [at for at, text in message.comments if text.startswith("#,")]
            previous = [at for at, text in message.comments if text.startswith("#|")]
            at = previous[0] if previous else message.start
            yield (flags[0] + 2, flags[0] + 2, " fuzzy,") if flags else (at, at, f"#, fuzzy{self._end}")
        last = max(value.end for value in message.values.values())
        for word, parts in message.parts.items():
            written = self._quoted(joined(parts))
            if word in message.values:
                yield message.values[word].start, message.values[word].end, written
            else:
                yield last, last, f"{self._end}{word} {written}"

    def _quoted(self, text: str) -> str:
        """A text as quoted strings, wrapped like those of gettext."""
        wrapper = textwrap.TextWrapper(
            WIDTH, expand_tabs=False, replace_whitespace=False, drop_whitespace=False,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        lines = [part for line in text.splitlines(keepends=True) for part in wrapper.wrap(line.translate(PLAIN))]
        return self._end.join(f'"{each}"' for each in (["", *lines] if len(lines) > 1 else lines or [""]))

    def _read(self) -> Iterator[Message]:
        """The messages in order, without obsolete ones.

        Raises:
            UserError: the file has something that is not part of a catalogue.
        """
        message = Message()
        for match in ITEM.finditer(self._text.content):
            word, comment, words = match["word"], match["comment"], " ".join(message.values)
            if match["other"]:
                what = f"neither a comment nor a keyword with text in quotes: {match['other']!r}"
                raise self._fault(what, match.start())
            if words and (word in (None, "msgctxt", "domain") or word in message.values):
                if not WORDS.fullmatch(words):
                    what = f"a message of {words}; it needs msgid and msgstr, or msgid, msgid_plural and msgstr[0]"
                    raise self._fault(what, message.start)
                yield message
                message = Message()
            if comment and comment.startswith("#~"):
                message.comments.clear()  # those before an obsolete message belong to it
            elif comment:
                message.comments.append((match.start(), comment))
            elif word and word != "domain":
                message.start = message.start if message.values else match.start()
                text = "".join(ESCAPE.sub(_unescaped, each[1:-1]) for each in re.findall(STRING, match["strings"]))
                message.values[word] = Value(*match.span("strings"), text)

    def _fault(self, what: str, at: int) -> UserError:
        return UserError(what, f"{self._path}:{self._text.line(at)}", "correct it; msgfmt --check lists what is wrong")


def _forms(header: str) -> list[bool]:
    """For each plural form, whether it is the form for one thing; empty if the header does not say."""
    match = PLURAL.search(header)
    with suppress(ValueError, ZeroDivisionError):
        number, one = (int(match[1]), gettext.c2py(match[2].strip())(1)) if match else (0, 0)
        if one in range(number):
            return [number > 1 and form == one for form in range(number)]
    return []


def _unescaped(match: re.Match[str]) -> str:
    """The character of an escape sequence."""
    octal, hexadecimal, sign = match.groups()
    return NAMED.get(sign, sign) if sign else chr(int(octal, 8) if octal else int(hexadecimal, 16))
