"""Extraction of single files from archives and compressed files.

Members are written to paths of the caller's choice, never to names from the archive, and links are refused, so that no
member is written outside its folder.
"""

from __future__ import annotations

import errno
import lzma
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, BinaryIO

from posnmt.base.errors import LONGEST_SHOWN, UserError, nearest, quoted
from posnmt.corpora.download import require_space
from posnmt.data.unpack import KINDS, Declared, Member, refuse_bomb, reported_memory, unpacking

_DAMAGE = (zlib.error, lzma.LZMAError, EOFError)
"""Exceptions of damaged compressed streams. An OSError without a number is one as well."""
_DAMAGED_ARCHIVE = (tarfile.TarError, zipfile.BadZipFile, struct.error, ValueError, OverflowError)
"""More exceptions of damaged archives, whose tables have impossible numbers or names."""
MOST_MEMBERS = 100_000
"""The most files of an archive: headers compress to nearly nothing, and each takes a kilobyte of memory."""

_CHECK_MEMBERS = "check the names of the members in the recipe"


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or a tar archive, compressed or not.

    Raises:
        UserError: the file is damaged.
    """
    with _reported_damage(path, Declared):
        return zipfile.is_zipfile(path) or _is_tar(path)


def extract(archive: Path, members: Mapping[str, Path], optional: bool = False) -> set[str]:
    """Write members of an archive (.zip, .tar, .tar.gz, .tgz, .tar.xz, .tar.bz2) to files, in one pass.

    Args:
        archive: the file, whose format is determined by its content.
        members: name in the archive, or pattern (`*.de`) that matches exactly one → file to write.
        optional: whether members may be missing.

    Returns:
        The members that were extracted.

    Raises:
        UserError: the file is not an archive or is damaged; a member is missing, matches several files, is a link, or
        is
            far too large for text in an archive of this size; or there is too little disk space.
    """
    extracted: dict[str, str] = {}
    names: list[str] = []
    total = 0
    with _reported_damage(archive, *_DAMAGED_ARCHIVE):
        for name, size, opener in _entries(archive):
            names.append(name)
            if len(names) > MOST_MEMBERS:
                what = f"the archive has more than {MOST_MEMBERS:,} files"
                raise UserError(what, archive, "unpack it by hand and name the unpacked files")
            total += size
            refuse_bomb(total, archive)
            for pattern in (each for each in members if name == each or fnmatchcase(name, each)):
                if pattern in extracted:
                    what = f"{pattern} matches both {_shown(extracted[pattern])} and {_shown(name)}"
                    raise UserError(what, archive, "name one of them")
                if opener is None:
                    raise UserError(
                        f"{_shown(name)} is a link, and links in archives are not followed", archive, _CHECK_MEMBERS
                    )
                require_space(members[pattern].parent, size, name)
                with opener() as stream, members[pattern].open("wb") as out:
                    shutil.copyfileobj(stream, out)
                extracted[pattern] = name
    missing = [pattern for pattern in members if pattern not in extracted]
    if missing and not optional:
        near = nearest(missing[0], names)
        hint = (
            f"did you mean {near!r}?"
            if near
            else f"it has {', '.join(map(_shown, names[:8]))}{' …' * (len(names) > 8)}"
        )
        raise UserError(f"the archive has no {' and no '.join(missing)}", archive, hint)
    return set(extracted)


def _is_tar(path: Path) -> bool:
    """Whether a file is a tar archive. Python's `is_tarfile` would read a name of any length."""
    try:
        with tarfile.open(path, tarinfo=Member):
            return True
    except tarfile.ReadError:
        return False


def _entries(archive: Path) -> Iterator[tuple[str, int, Callable[[], IO[bytes]] | None]]:
    """Name, size and opener of every file in an archive; links and other special files have no opener."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as box:
            for info in box.infolist():
                if not info.is_dir():
                    yield info.filename, info.file_size, _opener(box.open, info)
    elif _is_tar(archive):
        # As a stream: seeking back in a compressed archive would decompress it again from its beginning.
        with tarfile.open(archive, "r|*", tarinfo=Member) as tar:
            for item in tar:
                if not item.isdir():
                    yield (
                        item.name.removeprefix("./"),
                        item.size,
                        _opener(tar.extractfile, item) if item.isreg() else None,
                    )
    else:
        raise UserError("this is not a zip or tar archive", archive, "inspect it, remove it, and fetch it again")


def _shown(name: str) -> str:
    """The name of a member in messages, cut if it is very long."""
    return name if len(name) <= LONGEST_SHOWN else quoted(name)


def _opener(opens: Callable[..., Any], item: object) -> Callable[[], IO[bytes]]:
    return lambda: opens(item)


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """A file opened for reading, decompressed if its first bytes are those of .gz, .xz or .bz2.

    Raises:
        UserError: the file is damaged, or is far larger when decompressed than text is.
    """
    with path.open("rb") as file:
        start = file.read(6)
    suffix = next((suffix for suffix, (magic, _) in KINDS.items() if start.startswith(magic)), None)
    with _reported_damage(path), unpacking(path, suffix) if suffix else path.open("rb") as stream:
        yield stream


@contextmanager
def _reported_damage(path: Path, *more: type[Exception]) -> Iterator[None]:
    """Turn exceptions of damaged files, those of `more` and those of encrypted archives into user errors."""
    kinds: tuple[type[Exception], ...] = (*_DAMAGE, *more, OSError)
    try:
        with reported_memory(path):
            yield
    except RuntimeError as error:  # from zipfile: a password, or an unknown compression
        if more:
            raise UserError(f"the archive cannot be unpacked: {error}", path, "unpack it by hand") from None
        raise
    except kinds as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # the disk failed, not the file; EINVAL comes from a damaged file: a place before its beginning
        raise UserError(f"the file is damaged: {error}", path, "remove it, and fetch it again") from None
