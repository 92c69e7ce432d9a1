"""Downloads into a cache: resumable, verified by checksums, and safe for concurrent processes."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from typing_extensions import TypedDict

from posnmt.base import files
from posnmt.base.errors import UserError, quoted
from posnmt.base.files import load_json
from posnmt.base.output import write_json
from posnmt.base.version import __version__
from posnmt.corpora.partial import Partial

Say = Callable[[str], None]
Show = Callable[[str, float, str], None]
"""Shows progress, like `progress.Display.show`: a description, a fraction from 0 to 1, a short status."""

PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds to wait before each further attempt. After an attempt that received any bytes the sequence starts again."""

TIMEOUT = 30.0
"""Seconds without data after which a connection is considered lost."""

RECORD = "fetched.json"
"""URL → SHA-256, size and time of the first fetch; later fetches must have the same checksum."""

_CHUNK = 1 << 18
_SPARE = 1 << 26
_LONGEST_PAUSE = 60.0
_TEMPORARY = {408, 416, 425, 429, 500, 502, 503, 504}
_NETWORK = (URLError, ConnectionError, TimeoutError, http.client.HTTPException, ssl.SSLError)


@dataclass(frozen=True)
class Checksum:
    """The expected checksum of a file: `sha256` or `md5`, and the digest in hexadecimal."""

    algorithm: str
    digest: str

    def of(self, path: Path) -> Checksum:
        """The checksum of a file by the same algorithm."""
        with path.open("rb") as file:
            return Checksum(self.algorithm, hashlib.file_digest(file, self.algorithm).hexdigest())

    def __str__(self) -> str:
        return f"{self.algorithm} {self.digest}"


class _First(TypedDict):
    """The first fetch of a URL."""

    sha256: str
    bytes: int
    fetched: str


class _Redirects(HTTPRedirectHandler):
    """Follows redirects to the web alone, and from https to https alone; Python would follow one to ftp too.

    A request has no credentials, so another host gets none.
    """

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        """The request that follows a redirect.

        Raises:
            HTTPError: it leads to another kind of address.
        """
        kind = urlsplit(newurl).scheme
        if kind != "https" and (kind != "http" or req.type == "https"):
            raise HTTPError(newurl, code, f"with a redirect to {quoted(newurl)}, which is not followed", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Downloads:
    """The files of one cache.

    A file that is already at its `place` is not fetched again, whether it was fetched earlier or put there by hand. It
    is still verified: against the expected checksum, or else against the checksum of its first fetch in fetched.json.

    Args:
        cache: folder of the cache.
        say: called with a line about each stage.
        show: called with the progress of a download; default: a line to `say` every 10 seconds.
        pauses: seconds before each further attempt.
        timeout: seconds without data after which a connection is considered lost.
    """

    def __init__(
        self,
        cache: Path,
        say: Say,
        show: Show | None = None,
        pauses: Sequence[float] = PAUSES,
        timeout: float = TIMEOUT,
    ) -> None:
        self.cache, self.say, self.show = cache, say, show or _as_lines(say)
        self.pauses, self.timeout = pauses, timeout
        self._new: dict[str, tuple[Path, bool]] = {}  # URL → file, whether its checksum was given

    def place(self, url: str) -> Path:
        """The path of the file of a URL in the cache: the host, then the path of the URL."""
        parts = urlsplit(url)
        names = [name for name in parts.path.split("/") if name not in ("", ".", "..")] or ["index"]
        if parts.query:
            names[-1] += "-" + hashlib.sha256(parts.query.encode()).hexdigest()[:8]
        host = str(parts.hostname).strip(".") + (f"_{parts.port}" if parts.port else "")
        return self.cache.joinpath("downloads", host, *names)

    def get(self, url: str, checksum: Checksum | None = None) -> Path:
        """The file of a URL, complete and verified.

        Raises:
            UserError: it cannot be fetched, its checksum differs, or there is too little disk space.
        """
        path = self.place(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path, self.say):
            if not path.exists():
                self._fetch(url, path)
            self._check(url, path, checksum)
        return path

    def _fetch(self, url: str, path: Path) -> None:
        """Fetch a file, with repeated attempts."""
        partial = Partial(path)
        pauses = list(self.pauses)
        while True:
            before, retry_after = partial.size, 0.0
            try:
                self._attempt(url, partial)
                break
            except HTTPError as error:
                reason = f"the server answers {error.code} {error.reason}"
                if error.code not in _TEMPORARY:
                    raise _unreachable(url, path, reason) from None
                if error.code == 416:
                    partial.discard()
                header = error.headers["Retry-After"] or ""  # seconds, or a date, which is ignored
                retry_after = min(float(header), _LONGEST_PAUSE) if header.isdecimal() else 0.0
            except _NETWORK as error:
                cause = getattr(error, "reason", error)
                reason = str(getattr(cause, "strerror", None) or cause or type(error).__name__)
            if partial.size > before:
                pauses = list(self.pauses)
            if not pauses:
                raise _unreachable(url, path, reason)
            pause = max(pauses.pop(0), retry_after)
            self.say(f"{url}: {reason}; trying again in {pause:g} s")
            time.sleep(pause)
        partial.finish()

    def _attempt(self, url: str, partial: Partial) -> None:
        """One request for the missing part; the connection may end before it is complete."""
        if partial.complete:
            return
        fixed = {"User-Agent": f"posnmt/{__version__}", "Accept-Encoding": "identity"}
        request = Request(url, headers={**fixed, **partial.range_headers()})  # noqa: S310  spec.py checks it
        with build_opener(_Redirects).open(request, timeout=self.timeout) as answer:
            had = partial.size
            start = partial.begin(answer.status, answer.headers)
            if had:
                self.say(f"{url}: resuming after {_size(start)}" if start else f"{url}: starting again")
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
        """Compare a file with its expected checksum, or with that of its first fetch."""
        first = self._recorded().get(url)
        if first is None:
            self._new[url] = path, checksum is not None
        if checksum is not None:
            expected, whose, todo = checksum, "expected", "correct the checksum"
        elif first is not None:
            expected, whose = Checksum("sha256", first["sha256"]), f"at its first fetch, {first['fetched']}"
            todo = f"remove the URL from {self.cache / RECORD}"
        else:
            return
        actual = expected.of(path)
        if actual != expected:
            wrong = path.with_name(path.name + ".wrong")
            path.replace(wrong)
            what = f"{url} has another checksum: {actual}; {whose}: {expected}"
            raise UserError(what, f"kept as {wrong}", f"fetch it again; or, if the new file is right, {todo}")

    def record(self) -> None:
        """Record the checksums of files that were fetched for the first time, after they have proved valid."""
        with locked(self.cache / RECORD, self.say):
            entries = {
                url: _First(
                    sha256=files.sha256_of(path),
                    bytes=path.stat().st_size,
                    fetched=datetime.now(UTC).isoformat(timespec="seconds"),
                )
                for url, (path, _) in self._new.items()
            }
            write_json(self.cache / RECORD, entries | self._recorded())
        for url, (_, checked) in self._new.items():
            if not checked:
                self.say(
                    f"{url}: no checksum is known, so this first fetch is trusted; its SHA-256,"
                    f" {entries[url]['sha256']}, is now in {self.cache / RECORD}, and other content will be an error"
                )

    def _recorded(self) -> dict[str, _First]:
        path = self.cache / RECORD
        todo = "correct it, or remove it and the files that it lists"
        return load_json(path, dict[str, _First], RECORD, todo) if path.exists() else {}


def locked(path: Path, say: Say) -> AbstractContextManager[None]:
    """Hold `PATH.lock`, waiting for another process if necessary."""
    return files.locked(
        path.with_name(f"{path.name}.lock"), lambda: say(f"{path}: another process is using it; waiting")
    )


def require_space(folder: Path, needed: int, what: str) -> None:
    """Check that a folder has enough disk space and a reserve, before anything is written.

    Args:
        folder: the folder.
        needed: bytes.
        what: the file that needs the space, for the message.

    Raises:
        UserError: there is too little space.
    """
    free = shutil.disk_usage(folder).free
    if needed + _SPARE > free:
        raise UserError(
            f"{what} needs {_size(needed)}, and only {_size(free)} are free",
            folder,
            "free disk space, or name another cache",
        )


def _unreachable(url: str, path: Path, reason: str) -> UserError:
    return UserError(
        f"{url} cannot be fetched: {reason}", None, f"fetch it by hand, put it at {path}, and repeat this command"
    )


def _as_lines(say: Say, every: float = 10.0) -> Show:
    """Show progress as lines, at most one in `every` seconds."""
    last = time.monotonic()

    def show(description: str, fraction: float, state: str) -> None:
        nonlocal last
        if time.monotonic() - last >= every:
            last = time.monotonic()
            say(f"{description} {fraction:4.0%}  {state}")

    return show


def _size(number: float) -> str:
    """Bytes in readable form: `876 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:,.1f} GB"
