"""The part of a download that has come so far, and how to ask for the rest.

It is kept as NAME.partial, beside it NAME.partial.json with what the server says identifies the file (ETag,
Last-Modified, length). A later attempt asks for the rest with If-Range (RFC 9110, section 13.1.5), so that a file that
has changed on the server in between is fetched from its beginning. Bytes of two versions are never put together.
"""

from __future__ import annotations

import json
import re
from email.message import Message
from pathlib import Path
from typing import Any

from posnmt.files import write_json


class Partial:
    """The part of a file that has come so far, and which file it is a part of."""

    def __init__(self, path: Path) -> None:
        self.name, self.final = path.name, path
        self.path = path.with_name(path.name + ".partial")
        self._state = path.with_name(path.name + ".partial.json")
        try:
            self._is: dict[str, Any] = json.loads(self._state.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            self._is = {}
        if not self._validator or (self.length is not None and self.size > self.length):
            self.discard()

    @property
    def size(self) -> int:
        """Bytes that are there."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def length(self) -> int | None:
        """Bytes of the whole file, if the server says."""
        return self._is.get("length")

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.length is not None and self.size == self.length

    @property
    def _validator(self) -> str | None:
        """What If-Range may hold: a strong ETag, else the time of the last change."""
        tag = self._is.get("etag")
        return tag if tag and not tag.startswith("W/") else self._is.get("last_modified")

    def wanted(self) -> dict[str, str]:
        """The headers that ask for what is missing."""
        if not self.size or self._validator is None:
            return {}
        return {"Range": f"bytes={self.size}-", "If-Range": self._validator}

    def begin(self, status: int, headers: Message) -> int:
        """Make ready for an answer's bytes; where in the file they start.

        Raises:
            ConnectionError: they belong to another place or to another file; the next attempt starts anew.
        """
        announced = {"etag": headers["ETag"], "last_modified": headers["Last-Modified"]}
        if status == 206:
            match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers["Content-Range"] or "")
            announced["length"] = None if match is None or match[2] == "*" else int(match[2])
            changed = any(value is not None and value != self._is.get(key) for key, value in announced.items())
            if match is None or int(match[1]) != self.size or changed:
                self.discard()
                raise ConnectionError("the file has changed on the server")
            return self.size
        self.discard()
        self._is = announced | {"length": int(headers["Content-Length"]) if headers["Content-Length"] else None}
        write_json(self._state, self._is)
        return 0

    def discard(self) -> None:
        """Begin anew."""
        self._is = {}
        for path in (self.path, self._state):
            path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Give the complete file its name."""
        self.path.replace(self.final)
        self._state.unlink(missing_ok=True)
