"""Lock files: a file that names a process and is locked as long as that process lives.

A lock ends with its process, however that ends, so that no stale file has to be removed and a reused process id does no
harm. POSIX record locks are such locks (`_RecordLock`): child processes do not inherit them, and a process that may
only read the file can test it. A process must not open a file that it has locked: closing it would release the lock.

Where Python has no `fcntl`, as on Windows, filelock locks a second file, with `.lock` at the end of its name
(`_FileLock`). It is not used elsewhere: testing its locks needs write permission, and on POSIX a forked child keeps
those of filelock 3.12, though not those of 4.2.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from filelock import BaseFileLock, FileLock, Timeout

from posnmt.base.files import read_json

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

# Seconds to wait for a lock: `holder` locks a file for a moment to test it.
LOCK_TIMEOUT = 2.0


class Lock:
    """A lock that this process holds.

    Args:
        path: the file, which is created, and removed by `release`.
        about: further entries of the file, beside `host`, `process` (its id) and `started`.

    Raises:
        BlockingIOError: another process holds the lock.
    """

    def __init__(self, path: Path, about: dict[str, Any] | None = None) -> None:
        owner = {"host": socket.gethostname(), "process": os.getpid(), "started": now()}
        self._held = _System(path)
        try:
            self._held.write(json.dumps({**owner, **(about or {})}) + "\n")
        except OSError:
            with suppress(OSError):  # the same error again
                self.release()
            raise

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock and remove its file."""
        self._held.release()


def holder(path: Path) -> dict[str, Any] | None:
    """The content of a lock file: `host`, `process`, `started` and further entries; None if the lock is free.

    The process that holds the lock must not call it.
    """
    try:
        return (read_json(path) or {}) if _System.is_held(path) else None
    except OSError:
        return None


class _RecordLock:
    """A POSIX record lock on the file itself, taken by this process.

    Raises:
        BlockingIOError: another process holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, self._locked(path)

    @staticmethod
    def _locked(path: Path) -> TextIO:
        """Open and lock the file; wait up to `LOCK_TIMEOUT` seconds for another process, then raise a UserError."""
        until = time.monotonic() + LOCK_TIMEOUT
        while True:
            file = path.open("a", encoding="utf-8")
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                if time.monotonic() > until:
                    raise _taken(path) from None
                time.sleep(0.05)
                continue
            # The previous holder may have removed the file that was opened here.
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
            file.close()

    def write(self, content: str) -> None:
        """Replace the content of the file."""
        self._file.truncate(0)
        self._file.write(content)
        self._file.flush()

    def release(self) -> None:
        """Release the lock and remove its file."""
        self._path.unlink(missing_ok=True)
        self._file.close()

    @staticmethod
    def is_held(path: Path) -> bool:
        """Whether another process holds the lock; OSError without the file."""
        with path.open(encoding="utf-8") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False


class _FileLock:
    """A lock of filelock on a second file, since a file that Windows has locked cannot be read.

    Raises:
        BlockingIOError: another process holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, self._beside(path)
        try:
            self._lock.acquire(timeout=LOCK_TIMEOUT)
        except Timeout:
            raise _taken(path) from None

    @staticmethod
    def _beside(path: Path) -> BaseFileLock:
        return FileLock(path.with_name(path.name + ".lock"))

    def write(self, content: str) -> None:
        """Replace the content of the file."""
        self._path.write_text(content, encoding="utf-8")

    def release(self) -> None:
        """Remove the file and release the lock."""
        self._path.unlink(missing_ok=True)
        self._lock.release()

    @classmethod
    def is_held(cls, path: Path) -> bool:
        """Whether a process holds the lock."""
        if not path.exists():  # filelock would create its file, and `plan` and `status` do not write
            return False
        lock = cls._beside(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False


_System: type[_RecordLock] | type[_FileLock] = _FileLock if fcntl is None else _RecordLock


def _taken(path: Path) -> BlockingIOError:
    """The error of a lock that another process holds."""
    return BlockingIOError(f"{path} is another's")


def now() -> str:
    """The current time in UTC, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
