"""Extraction of single files from archives and compressed files.

Members are written to paths of the caller's choice, never to names from the archive, and links are refused, so that no
member is written outside its folder.
"""

from __future__ import annotations

import bz2
import errno
import gzip
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

from posnmt.base.errors import UserError, nearest
from posnmt.corpora.download import require_space
from posnmt.data.unpack import refuse_bomb, reported_memory, unpacking

_DAMAGE = (zlib.error, lzma.LZMAError, EOFError)
"""What compressed streams raise where they are damaged, beside an OSError without a number."""
_DAMAGED_ARCHIVE = (tarfile.TarError, zipfile.BadZipFile, struct.error, ValueError, OverflowError)
"""What archives raise as well: their tables have impossible numbers and names."""
_MAGIC: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ": lzma.open, b"BZh": bz2.open}
_DOUBTFUL = "check that the archive has what the recipe names"


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or a tar archive, compressed or not.

    Raises:
        UserError: it is damaged.
    """
    with _reported_damage(path):
        return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def extract(archive: Path, members: Mapping[str, Path], optional: bool = False) -> set[str]:
    """Write members of an archive (.zip, .tar, .tar.gz, .tgz, .tar.xz, .tar.bz2) to files, in one pass.

    Args:
        archive: the file, whose format is determined by its content.
        members: name in the archive, or pattern (`*.de`) that matches exactly one → file to write.
        optional: whether members may be missing.

    Returns:
        The members that were extracted.

    Raises:
        UserError: no archive or a damaged one, a missing member, several matches, a link, members that are
            far larger than text in an archive of this size, or too little disk space.
    """
    extracted: dict[str, str] = {}
    names: list[str] = []
    total = 0
    with _reported_damage(archive, *_DAMAGED_ARCHIVE):
        for name, size, opener in _entries(archive):
            names.append(name)
            total += size
            refuse_bomb(total, archive)
            for wanted in (pattern for pattern in members if name == pattern or fnmatchcase(name, pattern)):
                if wanted in extracted:
                    raise UserError(f"{wanted} is both {extracted[wanted]} and {name}", archive, "name one of them")
                if opener is None:
                    raise UserError(f"{name} is a link, and links in archives are not followed", archive, _DOUBTFUL)
                require_space(members[wanted].parent, size, name)
                with opener() as stream, members[wanted].open("wb") as out:
                    shutil.copyfileobj(stream, out)
                extracted[wanted] = name
    missing = [pattern for pattern in members if pattern not in extracted]
    if missing and not optional:
        near = nearest(missing[0], names)
        hint = f"did you mean {near!r}?" if near else f"it has {', '.join(names[:8])}{' …' * (len(names) > 8)}"
        raise UserError(f"the archive has no {' and no '.join(missing)}", archive, hint)
    return set(extracted)


def _entries(archive: Path) -> Iterator[tuple[str, int, Callable[[], IO[bytes]] | None]]:
    """Name, size and opener of every file in an archive; links and other special files have no opener."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as box:
            for info in box.infolist():
                if not info.is_dir():
                    yield info.filename, info.file_size, _opener(box.open, info)
    elif tarfile.is_tarfile(archive):
        # As a stream: seeking back in a compressed archive would decompress it again from its beginning.
        with tarfile.open(archive, "r|*") as tar:
            for item in tar:
                if not item.isdir():
                    yield (
                        item.name.removeprefix("./"),
                        item.size,
                        _opener(tar.extractfile, item) if item.isreg() else None,
                    )
    else:
        raise UserError("this is not a zip or tar archive", archive, "inspect it, remove it, and fetch it again")


def _opener(opens: Callable[..., Any], item: object) -> Callable[[], IO[bytes]]:
    return lambda: opens(item)


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """A file opened for reading, decompressed if its first bytes are those of .gz, .xz or .bz2.

    Raises:
        UserError: it is damaged, or unpacks to far more than text does.
    """
    with path.open("rb") as file:
        start = file.read(5)
    opens = next((opens for magic, opens in _MAGIC.items() if start.startswith(magic)), None)
    with _reported_damage(path), unpacking(opens(path, "rb"), path) if opens else path.open("rb") as stream:
        yield stream


@contextmanager
def _reported_damage(path: Path, *more: type[Exception]) -> Iterator[None]:
    """Report what is raised in the block for a damaged file, `more` included, and for one that is locked."""
    kinds: tuple[type[Exception], ...] = (*_DAMAGE, *more, OSError)
    try:
        with reported_memory(path):
            yield
    except RuntimeError as error:  # of zipfile: a password, an unknown compression
        if more:
            raise UserError(f"the archive cannot be unpacked: {error}", path, "unpack it by hand") from None
        raise
    except kinds as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # of the disk, not of the file; EINVAL: a place before the beginning of the file
        raise UserError(f"the file is damaged: {error}", path, "remove it, and fetch it again") from None
