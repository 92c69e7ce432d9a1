"""How posnmt writes: one file (`replacing`), files that belong together (`changing`), a new folder (`creating`).

New content is written under a temporary name, synchronised with the disk, and then renamed. So a killed process or a
loss of power leaves the old content or the new one, never a part. If two processes write the same file, the file is
whole, and one of them wins. Temporary names end in `PARTIAL`. A writer locks its temporary file (flock). The next
writer removes temporary files whose lock is free, since their process was killed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked, and what a killed process leaves stays
    fcntl = None  # type: ignore[assignment]

PARTIAL, COMMIT = ".partial", ".commit"
"""Ends of the names of what is being written, and of what is complete and is being moved to its place."""

_JOURNAL = ".journal.json"
"""In a folder of `changing`: whether no file may be replaced, the files to move, with the facts by which they are known
again, and those to remove."""

_DRAFT = re.compile(rf"\..*\.[0-9a-f]{{8}}({re.escape(PARTIAL)}|{re.escape(COMMIT)})", re.DOTALL)


def is_draft(name: str) -> bool:
    """Whether a name is one of those that incomplete files have."""
    return _DRAFT.fullmatch(name) is not None


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """Write a file through a temporary one that replaces it when the block ends without an error.

    It keeps the permissions of the file that it replaces; a new one has those that the umask allows.

    Args:
        durable: whether to synchronise with the disk, so that it survives a loss of power.

    Yields:
        The path of the temporary file, which exists and is empty; the block writes into it.
    """
    with _draft(path) as draft:
        mode = stat.S_IMODE((path if path.is_file() else draft).stat().st_mode)
        yield draft
        draft.chmod(mode)
        if durable:
            sync(draft)
        os.replace(draft, path)
    if durable:
        sync(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, or replace it in one step: no reader finds a part of the content."""
    with replacing(path) as draft:
        draft.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Replace a text file, in UTF-8 and with the line ends of the text."""
    write_bytes(path, text.encode("utf-8"))


def as_json(tree: Any) -> bytes:
    """A tree in the form that `write_json` writes."""
    return f"{json.dumps(tree, indent=1, ensure_ascii=False)}\n".encode()


def write_json(path: Path, tree: Any) -> None:
    """Write a tree as indented JSON in UTF-8, in one step like `write_bytes`."""
    write_bytes(path, as_json(tree))


class Changes:
    """Files of a folder that change together; `changing` makes it.

    Args:
        folder: whose files change.
        draft: the folder that has the new files.
        new: whether none of the files may exist.
    """

    def __init__(self, folder: Path, draft: Path, new: bool) -> None:
        self._folder, self._draft, self._new = folder, draft, new
        self.removed: list[str] = []

    def path(self, name: str) -> Path:
        """Where to write the new content of a file, given by its path in the folder.

        Raises:
            UserError: it exists and must not.
        """
        if self._new:
            _refuse(self._folder / name)
        path = self._draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def remove(self, name: str) -> None:
        """Remove a file, given by its path in the folder, if it exists when the others change."""
        self.removed.append(name)


@contextmanager
def changing(folder: Path, new: bool = False) -> Iterator[Changes]:
    """Write several files of a folder, which appear together when the block ends without an error.

    If the process is killed while they are moved to their places, the next call for this folder moves the rest.

    Args:
        folder: created if it does not exist, and removed after an error if it is then empty.
        new: none of the files may exist. New files that a killed process began to move are then removed instead, so
            that the same command works again.

    Raises:
        UserError: with `new`, one of the files exists. Nothing has changed.
    """
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _locked(folder):
            _settle(folder, undo=new)
        with _draft(folder / "files", is_folder=True) as draft:
            changes = Changes(folder, draft, new)
            yield changes
            _commit(draft, folder, changes.removed, new)
    except BaseException:
        if made:
            with suppress(OSError):
                folder.rmdir()
        raise


def _commit(draft: Path, folder: Path, removed: list[str], new: bool) -> None:
    """Move the files of a complete draft to their places."""
    files = {path.relative_to(draft).as_posix(): _facts(path) for path in sorted(draft.rglob("*")) if path.is_file()}
    (draft / _JOURNAL).write_bytes(as_json({"new": new, "files": files, "removed": removed}))
    _sync_below(draft)
    with _locked(folder):
        _settle(folder, undo=new)  # another process may have been killed meanwhile
        for path in (folder / name for name in files if new):
            _refuse(path)
        places = sorted({(folder / name).parent for name in files})
        made = [place for place in places if not place.exists()]
        ready = draft.with_name(draft.name.removesuffix(PARTIAL) + COMMIT)
        try:
            for place in places:
                place.mkdir(parents=True, exist_ok=True)
            os.replace(draft, ready)
        except BaseException:
            for place in reversed(made):
                with suppress(OSError):
                    place.rmdir()
            raise
        sync(folder)
        _settle(folder)


def _settle(folder: Path, undo: bool = False) -> None:
    """Finish what is complete and not yet in its place.

    Args:
        undo: undo it instead, unless it replaces files: what they were is no longer there.
    """
    for ready in sorted(folder.glob(f".*{COMMIT}")):
        if not is_draft(ready.name):
            continue
        with suppress(FileNotFoundError):  # without a journal, all is in its place
            journal = json.loads((ready / _JOURNAL).read_bytes())
            undone = undo and journal["new"]
            for name, facts in journal["files"].items():
                if not undone and (ready / name).exists():
                    os.replace(ready / name, folder / name)
                elif undone and (folder / name).exists() and _facts(folder / name) == facts:
                    (folder / name).unlink()
            for name in [] if undone else journal["removed"]:
                (folder / name).unlink(missing_ok=True)
            for place in {(folder / name).parent for name in journal["files"]}:
                sync(place)
            (ready / _JOURNAL).unlink()
        shutil.rmtree(ready)


def finish(folder: Path) -> None:
    """Finish what a killed process began to move to its place, before somebody looks at what a folder has."""
    if folder.is_dir():
        with _locked(folder):
            _settle(folder)


def existing(folder: Path, names: Iterable[str]) -> list[UserError]:
    """A fault for each file that exists and may not: to be asked before long work, which `changing` would refuse.

    New files that a killed process began to move to their places are removed first, as by `changing`.
    """
    if folder.is_dir():
        with _locked(folder):
            _settle(folder, undo=True)
    return [_fault(folder / name) for name in names if os.path.lexists(folder / name)]


def _fault(path: Path) -> UserError:
    return UserError("the output exists and is not overwritten", path, "choose another --out")


def _refuse(path: Path) -> None:
    if os.path.lexists(path):
        raise _fault(path)


def _facts(path: Path) -> list[int]:
    """What tells a file from one that somebody else has put in its place."""
    facts = path.stat()
    return [facts.st_ino, facts.st_size, facts.st_mtime_ns]


@contextmanager
def _draft(path: Path, is_folder: bool = False) -> Iterator[Path]:
    """A new file or folder beside `path`, for this block alone; it is removed if it still has its name at the end."""
    _sweep(path)
    while True:
        draft = path.with_name(f"{_start(path)}{secrets.token_hex(4)}{PARTIAL}")
        if is_folder:
            draft.mkdir()
        else:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        held = _hold(draft)
        if held is not None:
            break
    try:
        yield draft
    finally:
        _remove(draft)
        if held >= 0:
            os.close(held)


def _start(path: Path) -> str:
    """How the names of the drafts of a file begin; a name may have 255 bytes."""
    return f".{os.fsdecode(os.fsencode(path.name)[:200])}."


def _sweep(path: Path) -> None:
    """Remove what killed processes have left of a file."""
    if fcntl is None or not path.parent.is_dir():
        return
    start = _start(path)
    with os.scandir(path.parent) as entries:
        found = [entry.name for entry in entries if entry.name.startswith(start) and entry.name.endswith(PARTIAL)]
    for draft in (path.with_name(name) for name in found if is_draft(name)):
        held = _hold(draft)
        if held is not None and held >= 0:
            _remove(draft)
            os.close(held)


def _hold(draft: Path) -> int | None:
    """A file descriptor that holds a lock on a draft; -1: it cannot be locked here; None: it is another's, or gone."""
    if fcntl is None:
        return -1
    try:
        number = os.open(draft, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(number), draft.stat()):
            return number
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:  # a file system without such locks
        os.close(number)
        return -1
    os.close(number)
    return None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder itself, which leaves no file. A draft is its writer's alone, who holds its lock."""
    if fcntl is None or is_draft(folder.name):
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without such locks
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


@contextmanager
def creating(place: Path) -> Iterator[Path]:
    """Write a new folder, which gets its name when the block ends without an error, and all of it is on the disk.

    Yields:
        The folder to write into.

    Raises:
        OSError: `place` exists and is not empty.
    """
    with _draft(place, is_folder=True) as draft:
        yield draft
        _sync_below(draft)
        os.replace(draft, place)
        sync(place.parent)


def _sync_below(folder: Path) -> None:
    """Synchronise a folder and all that is in it."""
    for place, _, names in os.walk(folder):
        for name in names:
            sync(Path(place, name))
        sync(Path(place))


def sync(path: Path) -> None:
    """Synchronise a file, or the entries of a folder, with the disk."""
    if path.is_dir() and os.name == "nt":  # Windows has no such operation on folders
        return
    number = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
