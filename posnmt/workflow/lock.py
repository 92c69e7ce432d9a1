"""Who is at work: a file that names a process and is locked as long as that process lives.

The lock is the system's (POSIX record locks), so it ends with its process, however that ends; no file has to be cleaned
up, and no process number is ever mistaken for another's. The children of the process do not hold it. A process must
not open a file that it has locked: closing it would end the lock.
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

# Whoever asks whether a file is locked locks it for a moment; a claim outlasts that.
LOCK_TIMEOUT = 2.0


class Lock:
    """The claim of this process to a piece of work.

    Args:
        path: the file; it is there afterwards, and goes with `release`.
        about: written into it, with `host`, `process` (its id) and `started`.

    Raises:
        BlockingIOError: another process has it.
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
        """Let others have it."""
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
        # Whoever released it may have removed the file that was opened here.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def holder(path: Path) -> dict[str, Any] | None:
    """Who holds a lock: `host`, `process`, `started` and what else it wrote; None if nobody does.

    Not to be asked by the process that holds it.
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
    """The time of day, in UTC, as ISO 8601 has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
