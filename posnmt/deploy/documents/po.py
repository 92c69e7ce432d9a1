"""PO, gettext's catalogues of messages: those without a translation get one; everything else is written as it was read.

New translations are marked as fuzzy, which says that a person has not reviewed them.
"""

from __future__ import annotations

import gettext
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from posnmt.config.writing import is_alike, is_same
from posnmt.deploy.documents.messages import divided, joined
from posnmt.deploy.documents.raw import Text
from posnmt.deploy.documents.segment import Kept, Segment, has_letters
from posnmt.errors import UserError

TOKEN = re.compile(
    r'[^\S\n]*+(?:(?P<comment>#[^\n]*+)|(?P<word>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?|domain)(?=[\s"])'
    r'|"(?P<string>(?:[^"\\\n]|\\[^\n])*+)"|(?P<end>\n|\Z))'
)
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
PLAIN = {ord(sign): f"\\{name}" for name, sign in NAMED.items()} | {ord('"'): '\\"', ord("\\"): "\\\\"}
CHARSET = re.compile(rb'^"Content-Type:[^"\n]*charset=([\w.:-]+)', re.IGNORECASE | re.MULTILINE)
PLURAL = re.compile(r"^Plural-Forms:\s*nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=([^;\n]{1,500})", re.MULTILINE)

OBSOLETE = re.compile(r'^#~[^\S\n]*+msgid[^\S\n]*+("[^\n]*"(?:\s*\n#~[^\S\n]*+"[^\n]*")*)', re.MULTILINE)

WIDTH = 77
"""Characters of a line of a new translation, without quotes, as gettext wraps them."""


class Token(NamedTuple):
    """A piece of a catalogue.

    Attributes:
        kind: `comment`, a keyword, or `string`.
        text: of a comment, or what a string says.
        start, end: where it stands.
    """

    kind: str
    text: str
    start: int
    end: int


@dataclass
class Value:
    """Strings behind a keyword; together they are one text."""

    start: int
    end: int
    text: str = ""


@dataclass
class Message:
    """A message.

    Attributes:
        start: where its keywords begin.
        comments: those before it.
        values: by keyword.
        parts: of each new translation, by keyword.
    """

    start: int
    comments: list[Token]
    values: dict[str, Value] = field(default_factory=dict)
    parts: dict[str, list[str | Segment]] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The text."""
        return self.values["msgid"].text

    @property
    def is_fuzzy(self) -> bool:
        """Whether a person is to review its translation."""
        return any("fuzzy" in re.split(r"[\s,]+", each.text) for each in self.comments if each.text.startswith("#,"))

    @property
    def segments(self) -> list[Segment]:
        """Of the new translations."""
        return [part for parts in self.parts.values() for part in parts if isinstance(part, Segment)]

    @property
    def is_done(self) -> bool:
        """Whether all that has letters is translated."""
        wanted = [each for each in self.segments if each.has_letters]
        return bool(wanted) and all(each.translated is not None for each in wanted)


class PoDocument:
    """A catalogue.

    Attributes:
        kept: texts with letters that are left as they are.

    Args:
        languages: codes of source and target.

    Raises:
        UserError: it is not one, or not in its encoding.
    """

    def __init__(self, data: bytes, path: Path, languages: tuple[str, str]) -> None:
        charset = CHARSET.search(data)
        encoding = charset[1].decode() if charset and charset[1] != b"CHARSET" else "utf-8"
        try:
            self._text = Text.decode(data, path, encoding)
        except UnicodeError:
            raise UserError(f"its encoding, {encoding!r}, decodes nothing", path, "save it as UTF-8") from None
        self._path, self._end = path, "\r\n" if "\r\n" in self._text.content else "\n"
        self._messages: list[Message] = []
        self.kept: list[Kept] = []
        messages = list(self._read())
        header = next((_target(each) for each in messages if not each.source and "msgctxt" not in each.values), "")
        for message in messages:
            if reason := self._choose(message, header):
                self.kept.append(Kept(self._text.line(message.start), message.source, reason))
        for old in OBSOLETE.finditer(self._text.content):
            text = "".join(re.findall('"(.*)"', old[1]))
            self.kept += [Kept(self._text.line(old.start()), text, "obsolete messages")] * has_letters(text)
        self.notes: list[str] = []
        language = re.search(r"^Language:[^\S\n]*(\S+)", header, re.MULTILINE)
        if language and not (is_same(language[1], languages[1]) or is_alike(language[1], languages[1])):
            self.notes.append(f"its language is {language[1]}, that of the model {languages[1]}")

    @property
    def segments(self) -> list[Segment]:
        """See `Document`."""
        return [segment for message in self._messages for segment in message.segments]

    def content(self) -> bytes:
        """See `Document`; notes messages that are not written: parts are untranslated, or characters cannot be."""
        text = self._text
        edits: list[tuple[int, int, str]] = []
        partly = foreign = 0
        for message in self._messages:
            if message.is_done:
                changes = list(self._changes(message))
                try:
                    "".join(new for _, _, new in changes).encode(text.encoding)
                except UnicodeEncodeError:
                    foreign += 1
                else:
                    edits += changes
            else:
                partly += any(each.translated is not None for each in message.segments)
        if partly:
            self.notes.append(f"{partly:,} messages are left as they are, since not all their sentences are translated")
        if foreign:
            self.notes.append(
                f"{foreign:,} messages are left as they are, since {text.encoding} lacks characters of their"
                " translations: convert the catalogue by msgconv --to-code=UTF-8"
            )
        written, last = [text.mark], 0
        for start, end, new in sorted(edits, key=lambda each: each[0]):
            written += [text.content[last:start], new]
            last = end
        return "".join([*written, text.content[last:]]).encode(text.encoding)

    def _choose(self, message: Message, header: str) -> str | None:
        """Prepare a message for translation, or say why it stays; the header, and what has no letters, is nothing."""
        source, plural = message.source, message.values.get("msgid_plural")
        line = self._text.line(message.start)
        if not source or not (has_letters(source) or (plural and has_letters(plural.text))):
            return None
        if all(value.text for word, value in message.values.items() if word.startswith("msgstr")):
            return "fuzzy messages, whose translation is to be reviewed" if message.is_fuzzy else "translated messages"
        if plural is None:
            message.parts["msgstr"] = divided(source, line)
        else:
            try:
                singular, number = _forms(header)
            except ValueError:
                return "messages with plural forms, since Plural-Forms in the header is missing or not valid"
            for each in range(number):
                word = f"msgstr[{each}]"
                if word not in message.values or not message.values[word].text:
                    message.parts[word] = divided(source if each == singular else plural.text, line)
        self._messages.append(message)
        return None

    def _changes(self, message: Message) -> Iterator[tuple[int, int, str]]:
        """The changes that write the translations of a message: from where to where, and what."""
        if not message.is_fuzzy:
            flags = [each for each in message.comments if each.text.startswith("#,")]
            previous = [each for each in message.comments if each.text.startswith("#|")]
            at = previous[0].start if previous else message.start
            yield (flags[0].start + 2, flags[0].start + 2, " fuzzy,") if flags else (at, at, f"#, fuzzy{self._end}")
        last = max(value.end for value in message.values.values())
        for word, parts in message.parts.items():
            written = self._quoted(joined(parts))
            if word in message.values:
                yield message.values[word].start, message.values[word].end, written
            else:
                yield last, last, f"{self._end}{word} {written}"

    def _quoted(self, text: str) -> str:
        """A text as strings, wrapped as gettext does."""
        lines = [
            part
            for line in text.splitlines(keepends=True)
            for part in textwrap.wrap(
                line.translate(PLAIN),
                WIDTH,
                expand_tabs=False,
                replace_whitespace=False,
                drop_whitespace=False,
                break_long_words=False,
                break_on_hyphens=False,
            )
        ]
        return self._end.join(f'"{each}"' for each in (["", *lines] if len(lines) > 1 else lines or [""]))

    def _tokens(self) -> Iterator[Token]:
        """The pieces of the catalogue.

        Raises:
            UserError: something else is in it.
        """
        content, at = self._text.content, 0
        while at < len(content):
            match = TOKEN.match(content, at)
            if not match:
                rest = content[at:].split("\n", 1)[0].strip()
                raise self._fault(f"neither a keyword, nor a string in quotes, nor a comment: {rest[:60]!r}", at)
            kind = str(match.lastgroup)
            text, at = match[kind], match.end()
            if kind == "string":
                yield Token(kind, ESCAPE.sub(_unescaped, text), match.start(kind) - 1, at)
            elif kind != "end":
                yield Token(kind if kind == "comment" else text, text, match.start(kind), at)

    def _read(self) -> Iterator[Message]:
        """The messages in order; obsolete ones are kept.

        Raises:
            UserError: a keyword, or a string, is where none may be.
        """
        comments: list[Token] = []
        message: Message | None = None
        value: Value | None = None
        for token in self._tokens():
            words = set(message.values) if message else set()
            is_new = token.kind == "msgctxt" or (token.kind == "msgid" and words != {"msgctxt"})
            if message and (is_new or token.kind in ("comment", "domain")):
                yield self._complete(message)
                message, value, words = None, None, set()
            if token.kind == "comment":
                # Those before an obsolete message belong to it.
                comments = [] if token.text.startswith("#~") else [*comments, token]
            elif token.kind == "string":
                if value is None:
                    raise self._fault("a string without a keyword before it", token.start)
                value.start, value.end = (token.start if value.start < 0 else value.start), token.end
                value.text += token.text
            elif token.kind == "domain":
                value = Value(-1, -1)
            else:
                message = message or Message(token.start, comments)
                comments = []
                wanted = {"msgid": not words - {"msgctxt"}, "msgctxt": not words}
                is_expected = wanted.get(token.kind, "msgid" in words and token.kind not in words)
                if not is_expected or (value is not None and value.start < 0):
                    raise self._fault(f"{token.kind} is not expected here", token.start)
                value = message.values[token.kind] = Value(-1, token.end)
        if message:
            yield self._complete(message)

    def _complete(self, message: Message) -> Message:
        """A message, checked.

        Raises:
            UserError: it lacks a part.
        """
        words = set(message.values)
        first = "msgstr[0]" if "msgid_plural" in words else "msgstr"
        lacking = [each for each in ("msgid", first) if each not in words]
        lacking += [f"a string behind {word}" for word, value in message.values.items() if value.start < 0]
        if lacking:
            raise self._fault(f"the message lacks {lacking[0]}", message.start)
        return message

    def _fault(self, what: str, at: int) -> UserError:
        return UserError(what, f"{self._path}:{self._text.line(at)}", "correct it; msgfmt --check lists what is wrong")


def _target(message: Message) -> str:
    """The translation of a message without plural forms."""
    return message.values["msgstr"].text if "msgstr" in message.values else ""


def _forms(header: str) -> tuple[int, int]:
    """The plural form of one thing, and the number of forms; of a language with one form, it is for many things.

    Raises:
        ValueError: the header does not have them.
    """
    if not (match := PLURAL.search(header)):
        raise ValueError
    number = int(match[1])
    try:
        singular = gettext.c2py(match[2].strip())(1)
    except ZeroDivisionError as error:
        raise ValueError from error
    if not 0 <= singular < number:
        raise ValueError
    return (singular if number > 1 else -1), number


def _unescaped(match: re.Match[str]) -> str:
    """What an escape sequence says."""
    octal, hexadecimal, sign = match.groups()
    if sign:
        return NAMED.get(sign, sign)
    return chr(int(octal, 8) if octal else int(hexadecimal, 16))
