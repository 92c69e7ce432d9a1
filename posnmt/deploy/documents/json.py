"""JSON: strings that are values in objects and lists are translated; everything else is written as it was read."""

from __future__ import annotations

import json
import re
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.deploy.documents.messages import divided, joined
from posnmt.deploy.documents.raw import Text
from posnmt.deploy.documents.segment import Kept, Segment, has_letters

STRING = re.compile(r'("(?:[^"\\]|\\.)*+")(\s*+:)?')
"""A string, and the colon after it if it is a key."""

ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://|mailto:|www\.)\S+|[^\s@]+@[^\s@]+", re.IGNORECASE)
"""A text that consists of an address alone."""


class JsonDocument:
    """A JSON document.

    Attributes:
        kept: texts with letters that are left as they are.

    Raises:
        UserError: the file is not JSON.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self._text = Text.decode(data, path)
        content = self._text.content
        _check(content, path)
        self._is_ascii = content.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", content) is not None
        self._has_slashes = r"\/" in content
        self.kept: list[Kept] = []
        self._values: list[tuple[int, int, list[str | Segment]]] = []
        for match in STRING.finditer(content):
            line, value = self._text.line(match.start()), str(json.loads(match[1]))
            if reason := _reason(value, is_key=bool(match[2])):
                self.kept += [Kept(line, value, reason)] * has_letters(value)
            else:
                self._values.append((*match.span(1), divided(value, line)))
        self.notes: list[str] = []

    @property
    def segments(self) -> list[Segment]:
        """Return the segments of all translated values, in the order of the file."""
        return [part for _, _, parts in self._values for part in parts if isinstance(part, Segment)]

    def content(self) -> bytes:
        """See `Document`. A value stays as it is if one of its segments has no translation."""
        text = self._text
        written, last = [text.mark], 0
        for start, end, parts in self._values:
            segments = [each for each in parts if isinstance(each, Segment) and each.has_letters]
            if segments and all(each.translated is not None for each in segments):
                written += [text.content[last:start], self._quoted(joined(parts))]
                last = end
            else:
                for each in segments:
                    each.translated = None
        return "".join([*written, text.content[last:]]).encode(text.encoding)

    def _quoted(self, value: str) -> str:
        """A string with the escapes that the document uses."""
        quoted = json.dumps(value, ensure_ascii=self._is_ascii)
        return quoted.replace("/", r"\/") if self._has_slashes else quoted


def _check(content: str, path: Path) -> None:
    """Check that a text is JSON.

    Raises:
        UserError: the text is not JSON.
    """
    try:
        json.loads(content, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        what = f"not valid JSON: {error.msg} at column {error.colno}"
        todo = "correct it" if content.strip() else "name a file with text"
        raise UserError(what, f"{path}:{error.lineno}", todo) from None
    except RecursionError:
        raise UserError("objects or lists are nested too deeply", path, "save the file with fewer levels") from None


def _reason(value: str, is_key: bool) -> str | None:
    """The reason not to translate a string; None: it is translated."""
    if is_key:
        return "keys"
    if ADDRESS.fullmatch(value.strip()):
        return "addresses"
    return "texts with half of a surrogate pair" if re.search("[\ud800-\udfff]", value) else None
