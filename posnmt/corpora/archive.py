"""Single files out of archives, and through compression: what comes out is written where the caller says.

No name in an archive ever becomes the name of a file, so that none can point outside a folder, and links are refused.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, BinaryIO

from posnmt.corpora.download import require_space
from posnmt.errors import UserError, nearest

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile)
_MAGIC: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ": lzma.open, b"BZh": bz2.open}
_DOUBTFUL = "does the archive hold what the recipe says?"


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or a tar archive, compressed or not."""
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def extract(archive: Path, members: Mapping[str, Path], optional: bool = False) -> set[str]:
    """Write members of an archive (.zip, .tar, .tar.gz, .tgz, .tar.xz, .tar.bz2) to files, in one pass.

    Args:
        archive: the file; what it is shows in its bytes, not in its name.
        members: name in the archive, or pattern (`*.de`) that fits exactly one → file to write.
        optional: whether members may be missing.

    Returns:
        Which were there.

    Raises:
        UserError: no or a damaged archive, no such member, several, a link, or no space.
    """
    extracted: dict[str, str] = {}
    names: list[str] = []
    with _reported_damage(archive):
        for name, size, opener in _entries(archive):
            names.append(name)
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
    """Name, bytes and opener of every file in an archive; a link, or another thing that is no file, has no opener."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as box:
            for info in box.infolist():
                if not info.is_dir():
                    yield info.filename, info.file_size, _opener(box.open, info)
    elif tarfile.is_tarfile(archive):
        # As a stream: going back in a compressed archive means to unpack it from its beginning.
        with tarfile.open(archive, "r|*") as tar:
            for item in tar:
                if not item.isdir():
                    yield (
                        item.name.removeprefix("./"),
                        item.size,
                        _opener(tar.extractfile, item) if item.isreg() else None,
                    )
    else:
        raise UserError("this is no zip and no tar archive", archive, "look into it, remove it, and fetch it once more")


def _opener(opens: Callable[..., Any], item: object) -> Callable[[], IO[bytes]]:
    return lambda: opens(item)


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """A file opened for reading, through .gz, .xz or .bz2 if its first bytes say that it is such a file.

    Raises:
        UserError: it is damaged.
    """
    with path.open("rb") as file:
        start = file.read(5)
    opens = next((opens for magic, opens in _MAGIC.items() if start.startswith(magic)), open)
    with _reported_damage(path), opens(path, "rb") as stream:
        yield stream


@contextmanager
def _reported_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise UserError(f"the file is damaged: {error}", path, "remove it, and fetch it once more") from None
