"""A partial download, and the request for the rest.

The data is in NAME.partial, and NAME.partial.json identifies the version of the file (ETag, Last-Modified, length). A
later attempt requests the rest with If-Range (RFC 9110, section 13.1.5), so that a file that has changed on the server
is fetched from its beginning. Bytes of two versions are never combined.
"""

from __future__ import annotations

import re
from email.message import Message
from pathlib import Path
from typing import Any

from posnmt.base.files import read_json
from posnmt.base.output import sync, write_json


class Partial:
    """The part of a file that has been received, and the identity of the file."""

    def __init__(self, path: Path) -> None:
        self.name, self.final = path.name, path
        self.path = path.with_name(path.name + ".partial")
        self._state = path.with_name(path.name + ".partial.json")
        self._is: dict[str, Any] = read_json(self._state) or {}
        kinds = {"etag": str, "last_modified": str, "length": int}
        if any(not isinstance(self._is.get(key), kind | None) for key, kind in kinds.items()):
            self._is = {}
        if not self._validator or (self.length is not None and self.size > self.length):
            self.discard()

    @property
    def size(self) -> int:
        """The number of bytes received so far, 0 before the first."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def length(self) -> int | None:
        """Bytes of the complete file; None if the server does not state it."""
        return self._is.get("length")

    @property
    def complete(self) -> bool:
        """Whether every byte has arrived; False if the length is not known."""
        return self.length is not None and self.size == self.length

    @property
    def _validator(self) -> str | None:
        """The value of If-Range: a strong ETag, else the time of the last change."""
        tag = self._is.get("etag")
        return tag if tag and not tag.startswith("W/") else self._is.get("last_modified")

    def range_headers(self) -> dict[str, str]:
        """The headers of a request for the missing part."""
        if not self.size or self._validator is None:
            return {}
        return {"Range": f"bytes={self.size}-", "If-Range": self._validator}

    def begin(self, status: int, headers: Message) -> int:
        """Prepare for the body of a response; return its start in the file.

        Raises:
            ConnectionError: the body is another part or another version of the file. The next attempt starts again.
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
        """Remove the partial file with its record, so that the download begins anew."""
        self._is = {}
        for path in (self.path, self._state):
            path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Rename the complete file to its final name, when it is on the disk."""
        sync(self.path)
        self.path.replace(self.final)
        sync(self.final.parent)
        self._state.unlink(missing_ok=True)
