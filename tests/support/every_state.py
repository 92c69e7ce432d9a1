"""Copies of every state that a folder passes through: what a kill at that moment leaves."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "shutil.copyfile"}
"""Audit events that come before a change of files. Safetensors writes its files itself: their folders are seen before
and after, since each file is opened to be synchronised.
"""


class Recorder:
    """Copies of a folder, one for each distinct state that it passes through."""

    def __init__(self, folder: Path, copies: Path) -> None:
        self.folder, self.copies = folder, copies
        self.seen: dict[str, Path] = {}
        self.active = False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.active and event in OPERATIONS and any(self._is_inside(each) for each in arguments[:2]):
            self.active = False
            self.keep()
            self.active = True

    def _is_inside(self, path: object) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(str(self.folder))

    def keep(self) -> None:
        """Copy the folder as it is now, unless it was so before."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            if "tensorboard" not in path.parts:
                digest.update(str(path.relative_to(self.folder)).encode() + b"\0")
                digest.update(path.read_bytes() + b"\0" if path.is_file() else b"")
        if digest.hexdigest() not in self.seen:
            copy = self.copies / f"{len(self.seen):03}"
            if self.folder.exists():
                shutil.copytree(self.folder, copy)
            self.seen[digest.hexdigest()] = copy


RECORDERS: list[Recorder] = []
sys.addaudithook(lambda event, arguments: [recorder(event, arguments) for recorder in RECORDERS] and None)


@contextmanager
def recorded(folder: Path, copies: Path) -> Iterator[Recorder]:
    """Copy every state of a folder while the block runs, and the last one."""
    recorder = Recorder(folder, copies)
    RECORDERS.append(recorder)
    recorder.active = True
    try:
        yield recorder
    finally:
        recorder.active = False
        RECORDERS.remove(recorder)
        recorder.keep()
