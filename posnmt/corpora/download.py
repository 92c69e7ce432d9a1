"""Downloads into a cache: they go on where they stopped, are checked, and two processes do not harm each other."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from posnmt import __version__, files
from posnmt.corpora.partial import Partial
from posnmt.errors import UserError
from posnmt.files import write_json

Say = Callable[[str], None]
Show = Callable[[str, float, str], None]
"""Shows how far the work is: what it is, a share from 0 to 1, a few words; as `progress.Display.show`."""

PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further attempt; an attempt that brings the file forward starts them anew."""

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as lost."""

RECORD = "fetched.json"
"""URL → SHA-256, bytes and time of its first fetch; every later fetch must be the same."""

_CHUNK = 1 << 18
_SPARE = 1 << 26
_LONGEST_PAUSE = 60.0
_AGAIN = {408, 416, 425, 429, 500, 502, 503, 504}
_NETWORK = (URLError, ConnectionError, TimeoutError, http.client.HTTPException, ssl.SSLError)


@dataclass(frozen=True)
class Checksum:
    """What a file's bytes must add up to: `sha256` or `md5`, and the digest in hexadecimal."""

    algorithm: str
    digest: str

    def of(self, path: Path) -> Checksum:
        """The checksum that a file has, by the same algorithm."""
        with path.open("rb") as file:
            return Checksum(self.algorithm, hashlib.file_digest(file, self.algorithm).hexdigest())

    def __str__(self) -> str:
        return f"{self.algorithm} {self.digest}"


class Downloads:
    """The files of one cache.

    A file that lies at its `place` already, put there by hand or by an earlier fetch, is not fetched again. It is
    checked all the same: against the checksum asked for, else against what its first fetch recorded in fetched.json.

    Args:
        cache: folder of the cache.
        say: takes a line about what goes on.
        show: takes how far a download is; default: a line to `say` every 10 seconds.
        pauses: seconds before each further attempt.
        timeout: seconds without a byte after which a connection counts as lost.
    """

    def __init__(
        self,
        cache: Path,
        say: Say,
        show: Show | None = None,
        pauses: Sequence[float] = PAUSES,
        timeout: float = TIMEOUT,
    ) -> None:
        self.cache, self.say, self.show = cache, say, show or _spoken(say)
        self.pauses, self.timeout = pauses, timeout
        self._new: dict[str, Path] = {}

    def place(self, url: str) -> Path:
        """Where the file of a URL lies in the cache: the host, then the path."""
        parts = urlsplit(url)
        names = [name for name in parts.path.split("/") if name not in ("", ".", "..")] or ["index"]
        if parts.query:
            names[-1] += "-" + hashlib.sha256(parts.query.encode()).hexdigest()[:8]
        host = str(parts.hostname).strip(".") + (f"_{parts.port}" if parts.port else "")
        return self.cache.joinpath("downloads", host, *names)

    def get(self, url: str, checksum: Checksum | None = None) -> Path:
        """The file of a URL, complete and checked.

        Raises:
            UserError: it cannot be fetched, its checksum is another one, or there is no space for it.
        """
        path = self.place(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path, self.say):
            if not path.exists():
                self._fetch(url, path)
            self._check(url, path, checksum)
        return path

    def _fetch(self, url: str, path: Path) -> None:
        """Fetch a file, in as many attempts as it takes."""
        partial = Partial(path)
        pauses = list(self.pauses)
        while True:
            before, wish = partial.size, 0.0
            try:
                self._attempt(url, partial)
                break
            except HTTPError as error:
                reason = f"the server answers {error.code} {error.reason}"
                if error.code not in _AGAIN:
                    raise _unreachable(url, path, reason) from None
                if error.code == 416:
                    partial.discard()
                wish = _wish(error.headers)
            except _NETWORK as error:
                cause = getattr(error, "reason", error)
                reason = str(getattr(cause, "strerror", None) or cause or type(error).__name__)
            if partial.size > before:
                pauses = list(self.pauses)
            if not pauses:
                raise _unreachable(url, path, reason)
            pause = max(pauses.pop(0), wish)
            self.say(f"{url}: {reason}; once more in {pause:g} s")
            time.sleep(pause)
        partial.finish()

    def _attempt(self, url: str, partial: Partial) -> None:
        """One request for what is missing; the connection may end before all of it is there."""
        if partial.complete:
            return
        fixed = {"User-Agent": f"posnmt/{__version__}", "Accept-Encoding": "identity"}
        with urlopen(Request(url, headers={**fixed, **partial.wanted()}), timeout=self.timeout) as answer:
            begun = partial.size
            start = partial.begin(answer.status, answer.headers)
            if begun:
                self.say(f"{url}: goes on after {_size(start)}" if start else f"{url}: begins anew")
            length, since = partial.length, time.monotonic()
            if length is not None:
                require_space(partial.path.parent, length - start, url)
            with partial.path.open("ab") as file:
                while chunk := answer.read1(_CHUNK):
                    file.write(chunk)
                    position = file.tell()
                    speed = (position - start) / max(time.monotonic() - since, 1e-3)
                    total = _size(length) if length else "an unknown length"
                    self.show(partial.name, position / length if length else 0.0, f"of {total}, {_size(speed)}/s")
        if length is not None and not partial.complete:
            raise ConnectionError(f"the connection ended after {_size(partial.size)} of {_size(length)}")

    def _check(self, url: str, path: Path, checksum: Checksum | None) -> None:
        """Compare a file with the checksum that it must have, or had when it was first fetched."""
        first = self._recorded().get(url)
        if first is None:
            self._new[url] = path
        if checksum is not None:
            expected, whose, todo = checksum, "expected", "correct the checksum"
        elif first is not None:
            expected, whose = Checksum("sha256", first["sha256"]), f"at its first fetch, {first['fetched']}"
            todo = f"take the URL out of {self.cache / RECORD}"
        else:
            return
        actual = expected.of(path)
        if actual != expected:
            aside = path.with_name(path.name + ".wrong")
            path.replace(aside)
            what = f"{url} has another checksum: {actual}; {whose}: {expected}"
            raise UserError(what, f"kept as {aside}", f"fetch it once more; or, if the new file is right, {todo}")

    def record(self) -> None:
        """Write down the checksums of files that were got for the first time, once they have proved good."""
        with locked(self.cache / RECORD, self.say):
            entries = {
                url: {
                    "sha256": Checksum("sha256", "").of(path).digest,
                    "bytes": path.stat().st_size,
                    "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
                }
                for url, path in self._new.items()
            }
            write_json(self.cache / RECORD, entries | self._recorded())

    def _recorded(self) -> dict[str, dict[str, Any]]:
        path = self.cache / RECORD
        try:
            record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except ValueError:
            raise UserError(f"{RECORD} is not valid JSON", path, "correct it, or remove it and what it lists") from None
        return dict(record)


def locked(path: Path, say: Say) -> AbstractContextManager[None]:
    """Hold `PATH.lock`, which another process may hold first."""
    return files.locked(path.with_name(f"{path.name}.lock"), lambda: say(f"{path}: another process is at it; waiting"))


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raise, before anything is written, if there is no space for so many bytes and some more.

    Args:
        folder: where they will be.
        needed: bytes.
        what: for the message: what needs them.
    """
    free = shutil.disk_usage(folder).free
    if needed + _SPARE > free:
        raise UserError(
            f"{what} needs {_size(needed)}, and only {_size(free)} are free",
            folder,
            "make space, or name another cache",
        )


def _unreachable(url: str, path: Path, reason: str) -> UserError:
    return UserError(
        f"{url} cannot be fetched: {reason}", None, f"fetch it by hand, put it at {path}, and do this once more"
    )


def _wish(headers: Message) -> float:
    """The seconds of a Retry-After, at most a minute; its other form, a date, is not followed."""
    value = headers["Retry-After"] or ""
    return min(float(value), _LONGEST_PAUSE) if value.isdecimal() else 0.0


def _spoken(say: Say, every: float = 10.0) -> Show:
    """Progress as lines, not more often than every so many seconds."""
    last = time.monotonic()

    def show(description: str, fraction: float, state: str) -> None:
        nonlocal last
        if time.monotonic() - last >= every:
            last = time.monotonic()
            say(f"{description} {fraction:4.0%}  {state}")

    return show


def _size(number: float) -> str:
    """Bytes as people say them: `876 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:,.1f} GB"
