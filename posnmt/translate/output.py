"""Where translations go: standard output, a pipe, or a file that is complete when it appears under its name.

While `NAME` is written, the folder `NAME.partial` has

output             the translations of the first lines
record.json        of how many lines, the settings, and the digest of `output`

Both are on the disk before the next portion is translated, so that `--resume` goes on from there.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from pydantic import BaseModel, NonNegativeInt, ValidationError

from posnmt.base.errors import UserError
from posnmt.base.lock import Lock
from posnmt.base.output import PARTIAL, is_draft, sync, write_bytes, write_json
from posnmt.data.corpus import TextFile

OUTPUT, RECORD, LOCK = "output", "record.json", ".lock"

SHOWN = 10
"""Line numbers that a warning lists."""

AGAIN = "begin again with --force"


class Lines(BaseModel):
    """How many lines have a property, and the numbers of the first of them."""

    count: NonNegativeInt = 0
    first: list[int] = []

    def add(self, number: int) -> None:
        """Count a line, and keep its number if it is one of the first."""
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(number)

    def __str__(self) -> str:
        more = f" and {self.count - len(self.first):,} more" if self.count > len(self.first) else ""
        return ", ".join(map(str, self.first)) + more


class Record(BaseModel):
    """How much of a translation is complete.

    Attributes:
        settings: what the translation depends on.
        lines: of the input.
        bytes, sha256: of their translations.
        remarks: name in `posnmt.translate.translations.REMARKS` → the lines that it holds for.
    """

    settings: dict[str, Any] = {}
    lines: NonNegativeInt = 0
    bytes: NonNegativeInt = 0
    sha256: str = hashlib.sha256().hexdigest()
    remarks: dict[str, Lines] = {}

    def remark(self, number: int, names: Iterable[str]) -> None:
        """Count what holds for a line."""
        for name in names:
            self.remarks.setdefault(name, Lines()).add(number)


class Output:
    """Standard output, a pipe or a device: each portion is written when it is complete."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.record = stream, Record()

    def add(self, text: str, lines: int) -> None:
        """Write the translations of the next input lines."""
        self.stream.write(text)
        self.stream.flush()
        self.record.lines += lines


class PartialOutput(Output):
    """A file in a folder, with a record of what is complete.

    Args:
        folder: of the file.
        record: what is complete; the rest of the file is removed.

    Raises:
        UserError: the file is not what the record says.
    """

    def __init__(self, folder: Path, record: Record) -> None:
        self.folder, self.record = folder, record
        self._file: BinaryIO = (folder / OUTPUT).open("r+b" if record.lines else "wb", buffering=0)  # type: ignore[assignment]
        self._digest = hashlib.sha256()
        for start in range(0, record.bytes, 1 << 20):
            self._digest.update(self._file.read(min(1 << 20, record.bytes - start)))
        if self._digest.hexdigest() != record.sha256:
            self._file.close()
            what = f"the translation that was begun is damaged: its first {record.lines:,} lines are not those recorded"
            raise UserError(what, folder / OUTPUT, AGAIN)
        self._file.truncate(record.bytes)

    def add(self, text: str, lines: int) -> None:
        """Write the translations of the next input lines, and record them when they are on the disk."""
        content = memoryview(text.encode())
        self._digest.update(content)
        self.record.bytes += len(content)
        while content:
            content = content[self._file.write(content) :]
        os.fsync(self._file.fileno())
        self.record.lines += lines
        self.record.sha256 = self._digest.hexdigest()
        write_json(self.folder / RECORD, self.record.model_dump())

    def close(self) -> None:
        """Close the output file; its record stays for a later run."""
        self._file.close()


def refuse_output(output: Path | None, inputs: Sequence[Path | None], force: bool, resume: bool = False) -> None:
    """Refuse to write over a file.

    Args:
        output: where translations go; a pipe or a device is written to.
        inputs: files that are read, None: standard input; `output` is none of them, with `force` either.
        force: whether another file may be replaced, and a translation that was begun be forgotten.
        resume: whether to go on with a translation that was begun.

    Raises:
        UserError: the output exists or has the ending of a compressed file, or there is nothing that could be resumed.
    """
    if resume:
        _refuse_streams(output, inputs)
    if output is None or is_stream(output):
        return
    if ending := TextFile("output", output).compression:
        what = f"translations are not compressed, and {ending} is the ending of a compressed file"
        raise UserError(what, output, "choose another --output, and compress that file afterwards")
    folder = partial_folder(output)
    if any(_same(output, each) or (each is not None and each.resolve().is_relative_to(folder)) for each in inputs):
        raise UserError("the output would replace the input", output, "choose another --output")
    if output.is_file() and not force:
        clear(output)
        raise UserError("the output exists and is not overwritten", output, "choose another --output, or add --force")
    if folder.exists() and not _is_ours(folder):
        raise UserError("translations are collected there, and it exists", folder, "choose another --output")
    if resume:
        _read(folder)  # which refuses a damaged record
    elif not force and (begun := _read(folder)) is not None:
        what = f"a translation was begun: {begun.lines:,} lines are kept"
        raise UserError(what, folder, "add --resume to go on, or --force to begin again")


def _refuse_streams(output: Path | None, inputs: Sequence[Path | None]) -> None:
    if output is None or is_stream(output):
        raise UserError("--resume goes on with a file", "--output", "name the file that was begun")
    if any(each is None or is_stream(each) for each in inputs):
        raise UserError("--resume needs the whole input again, and a pipe has been read", "--input", "name a file")


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def refuse_unwritable(output: Path) -> None:
    """Check that an output is in a folder that exists, and is none itself.

    Raises:
        UserError: it is otherwise.
    """
    if output.is_dir() or not output.parent.is_dir():
        what = "the output cannot be written: not a file in an existing folder"
        raise UserError(what, output, "choose another --output")


def write_whole(output: Path | None, content: bytes) -> None:
    """Write an output that is known as a whole: to standard output (None), into a pipe or a device, or as a file.

    A file is complete when it appears under its name, or under that which a link leads to.
    """
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    elif is_stream(output):
        output.write_bytes(content)
    else:
        write_bytes(output.resolve(), content)


def partial_folder(output: Path) -> Path:
    """The folder in which an output is collected; beside the file that a link leads to."""
    output = output.resolve()
    return output.with_name(output.name + PARTIAL)


@contextmanager
def opened(path: Path | None, settings: Callable[[], dict[str, Any]], resume: bool = False) -> Iterator[Output]:
    """Open standard output (None), a pipe, a device, or a file.

    A file appears under its name when the block ends without an error. Otherwise its complete portions are kept for
    `resume`.

    Args:
        settings: what the translation depends on, as JSON has it; called for files.
        resume: go on with what was kept, if anything was.

    Yields:
        The output, whose record says how many lines are complete.

    Raises:
        UserError: it cannot be written, another process is writing it, what was kept is damaged, or it was begun with
            other settings.
    """
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield Output(sys.stdout)
        return
    refuse_unwritable(path)
    if is_stream(path):
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            yield Output(stream)
        return
    folder = partial_folder(path)
    with _held(folder):
        try:
            with closing(_begin(folder, settings(), resume)) as output:
                yield output
            sync(folder / OUTPUT)
            os.replace(folder / OUTPUT, path.resolve())
            sync(folder.parent)
            (folder / RECORD).unlink(missing_ok=True)
        finally:
            if not (folder / RECORD).exists():
                (folder / OUTPUT).unlink(missing_ok=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Make a folder in which an output is collected, and lock it; it is removed at the end if nothing is left in it.

    Raises:
        UserError: another process has locked it.
    """
    folder.mkdir(exist_ok=True)
    try:
        sync(folder.parent)
        try:
            lock = Lock(folder / LOCK)
        except BlockingIOError:
            raise UserError("another process is writing this output", folder, "wait for its end") from None
        with lock:
            yield
    finally:
        with suppress(OSError):
            folder.rmdir()


def clear(output: Path) -> None:
    """Remove what a process has left beside an output that was killed when the output was in its place."""
    folder = partial_folder(output)
    if not (folder.is_dir() and _is_ours(folder)):
        return
    with suppress(UserError, OSError), _held(folder):
        # a file system that moves a file in two steps can lose power between them, and then it has both names
        if not (folder / OUTPUT).exists() or (folder / OUTPUT).samefile(output):
            for path in folder.iterdir():
                if path.name in (RECORD, OUTPUT) or is_draft(path.name):
                    path.unlink()


def _begin(folder: Path, settings: dict[str, Any], resume: bool) -> PartialOutput:
    """The output in a folder, at its beginning or after what is kept."""
    record = _read(folder) if resume else None
    if record is None:
        for name in (RECORD, OUTPUT):  # the output may be an earlier one, which `--force` replaces in the end: `clear`
            (folder / name).unlink(missing_ok=True)
        return PartialOutput(folder, Record(settings=settings))
    differing = [key for key in sorted({*settings, *record.settings}) if settings.get(key) != record.settings.get(key)]
    if differing:
        changes = ", ".join(f"{key} was {record.settings.get(key)}, is {settings.get(key)}" for key in differing)
        raise UserError(f"the translation was begun otherwise: {changes}", folder, f"go on as it was begun, or {AGAIN}")
    return PartialOutput(folder, record)


def _read(folder: Path) -> Record | None:
    """The record in a folder; None without one, or where the output of a killed process was moved to its place."""
    path = folder / RECORD
    if not (path.exists() and (folder / OUTPUT).exists()):
        return None
    try:
        return Record.model_validate_json(path.read_bytes())
    except ValidationError:
        raise UserError("the record of a translation that was begun is damaged", path, AGAIN) from None


def _is_ours(folder: Path) -> bool:
    """Whether a folder was made for an output: it has a record, or nothing that was not written before one."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    return RECORD in names or all(name.startswith((LOCK, RECORD, OUTPUT)) or is_draft(name) for name in names)


def _same(output: Path, source: Path | None) -> bool:
    """Whether an output is the same file as an input, by this or by another name."""
    if not output.exists():
        return False
    try:
        return os.path.samestat(output.stat(), os.fstat(sys.stdin.fileno()) if source is None else source.stat())
    except (OSError, ValueError):  # no such input; a standard input that is no file
        return False
