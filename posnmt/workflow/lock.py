"""Lock files: a file that names a process and is locked as long as that process lives.

POSIX record locks end with their process, however it ends, so that no stale file has to be removed and a reused process
id does no harm. Child processes do not inherit them. A process must not open a file that it has locked: closing it
would release the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from posnmt.files import read_json

# Seconds to wait for a lock: `holder` locks a file for a moment to test it.
LOCK_TIMEOUT = 2.0


class Lock:
    """A lock that this process holds.

    Args:
        path: the file, which is created, and removed by `release`.
        about: written into it, with `host`, `process` (its id) and `started`.

    Raises:
        BlockingIOError: another process holds the lock.
    """

    def __init__(self, path: Path, about: dict[str, Any] | None = None) -> None:
        self._path = path
        owner = {"host": socket.gethostname(), "process": os.getpid(), "started": now()}
        self._file: TextIO = _locked(path)
        self._file.truncate(0)
        self._file.write(json.dumps({**owner, **(about or {})}) + "\n")
        self._file.flush()

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock and remove its file."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def _locked(path: Path) -> TextIO:
    """The file, open and locked."""
    until = time.monotonic() + LOCK_TIMEOUT
    while True:
        file = path.open("a", encoding="utf-8")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            if time.monotonic() > until:
                raise BlockingIOError(f"{path} is another's") from None
            time.sleep(0.05)
            continue
        # The previous holder may have removed the file that was opened here.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def holder(path: Path) -> dict[str, Any] | None:
    """The content of a lock file: `host`, `process`, `started` and further keys; None if the lock is free.

    The process that holds the lock must not call it.
    """
    try:
        with path.open(encoding="utf-8") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return read_json(path) or {}
            return None
    except OSError:
        return None


def now() -> str:
    """The current time in UTC, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
