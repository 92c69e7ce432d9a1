"""Files that are read: JSON, digests, locks, and folders that have names. `output.py` writes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from filelock import FileLock, Timeout

from posnmt.base.errors import UserError, existing_file

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Content = TypeVar("Content")


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if the file is missing or has other content."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


@cache
def validator(kind: Any) -> TypeAdapter[Any]:
    """A checker of values of a type; it is cached, since making one takes as long as checking hundreds of values."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def load_json(path: Path, kind: type[Content], role: str, todo: str) -> Content:
    """The content of a JSON file that posnmt wrote, checked to be of a type.

    Args:
        kind: any type that pydantic knows, such as a TypedDict.
        role: name of the file in messages.
        todo: what to do where it is damaged.

    Raises:
        UserError: it does not exist, is not JSON, or has other content.
    """
    return parse_json(existing_file(path, role).read_bytes(), kind, role, path, todo)


MOST_VALUES, MOST_FAULTS = 1_000_000, 1000
"""The most values of a file that is checked, and the most faults that are read: each fault takes a kilobyte."""


def parse_json(content: bytes, kind: type[Content], role: str, path: Path, todo: str) -> Content:
    """Like `load_json`, for content that was read from `path`.

    Raises:
        UserError: it is not JSON, or has other content.
    """
    from pydantic import ValidationError

    if content.count(b",") > MOST_VALUES:
        raise UserError(f"{role} is damaged: it has more than {MOST_VALUES:,} values", path, todo)
    try:
        return cast(Content, validator(kind).validate_json(content))  # type: ignore[arg-type]
    except ValidationError as error:
        if error.error_count() > MOST_FAULTS:
            raise UserError(f"{role} is damaged: {error.error_count():,} values are wrong", path, todo) from None
        problem = error.errors()[0]
        place = ".".join(str(key)[:40] for key in problem["loc"])
        raise UserError(f"{role} is damaged: {place}{': ' * bool(place)}{problem['msg']}", path, todo) from None


def cache_folder() -> Path:
    """The folder of prepared stores, fetched corpora and neural metrics: $POSNMT_CACHE, else in the user's cache.

    The user's cache is $XDG_CACHE_HOME if that is an absolute path, as its specification demands, else ~/.cache.
    """
    if own := os.environ.get("POSNMT_CACHE"):
        return Path(own)
    users = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(users) if os.path.isabs(users) else Path.home() / ".cache") / "posnmt"


def is_file(path: Path) -> bool:
    """Whether a file exists; False for a name that no file can have, where pathlib raises an exception."""
    return os.path.isfile(path)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of all files in a folder and below, by their paths in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}


class Digests:
    """SHA-256 of files, computed once in this process for as long as a file's facts are the same.

    The facts are path, size, modification time and inode. A file that was modified in the last `RECENT` seconds is
    hashed each time, since a file system may record the same time for two changes in quick succession.
    """

    RECENT = 2.0

    def __init__(self) -> None:
        self._known: dict[tuple[Path, int, int, int], str] = {}

    def __contains__(self, path: Path) -> bool:
        """Whether the digest of a file is known and the file has not changed since."""
        try:
            return self._facts(path) in self._known
        except OSError:
            return False

    def __getitem__(self, path: Path) -> str:
        """The digest of a file's content, in hexadecimal.

        Raises:
            OSError: it cannot be read.
        """
        before = self._facts(path)
        if before in self._known:
            return self._known[before]
        digest = sha256_of(path)
        modified = before[2] / 1e9
        if self._facts(path) == before and modified < time.time() - self.RECENT:
            self._known[before] = digest
        return digest

    @staticmethod
    def _facts(path: Path) -> tuple[Path, int, int, int]:
        stat = path.stat()
        return path.resolve(), stat.st_size, stat.st_mtime_ns, stat.st_ino


@contextmanager
def locked(path: Path, busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file `path`, which the system releases when the process ends for any reason.

    Args:
        busy: called before waiting if another process holds the lock; it may raise an error instead.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        busy()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def named_folders(arguments: Sequence[str], what: str) -> dict[str, Path]:
    """Name -> folder, from arguments `FOLDER` or `NAME=FOLDER`; without a name, that of the folder counts.

    Args:
        arguments: of a command.
        what: their name in messages, such as `models`.

    Raises:
        UserError: two folders have the same name.
    """
    named: dict[str, Path] = {}
    for each in arguments:
        name, _, folder = ("", "", each) if "=" not in each or Path(each).exists() else each.partition("=")
        path = Path(folder)
        name = name or path.resolve().name
        if name in named:
            raise UserError(f"two {what} are called {name!r}", each, "name them: NAME=FOLDER")
        named[name] = path
    return named
