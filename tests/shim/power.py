"""The state of a folder after a loss of power: what was not synchronised is lost.

The shim's journal says what every file and folder had at its last fsync. `Before` says what they had at the start,
which counts as synchronised.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

Names = dict[str, tuple[int, bool]]
"""Name → inode, and whether it is a folder."""


@dataclass(frozen=True)
class Before:
    """What was on the disk at the start.

    Attributes:
        data: inode of a file → its content.
        names: inode of a folder → its entries.
    """

    data: dict[int, bytes]
    names: dict[int, Names]

    @classmethod
    def of(cls, folder: Path) -> Before:
        """The content of a folder now."""
        data, names = {}, {}
        for place, _, _ in os.walk(folder):
            names[os.stat(place).st_ino] = _entries(Path(place))
            for name, (inode, is_folder) in names[os.stat(place).st_ino].items():
                if not is_folder:
                    data[inode] = Path(place, name).read_bytes()
        return cls(data, names)


def lose(folder: Path, journal: Path, before: Before, names: bool) -> None:
    """Change a folder to what a loss of power at this moment leaves of it. Files keep their inodes and times.

    Args:
        journal: of the shim.
        names: whether names are lost too, where their folder was not synchronised. Data that was not is lost always.
    """
    places = {inode: path for path, inode in _files(folder)}
    places |= {int(path.name.partition(".")[2]): path for path in journal.glob("kept.*")}
    for path in places.values():
        _lose_data(path, journal, before)
    if names:
        ready = folder.with_name(f"{folder.name}.after")
        ready.mkdir()
        _fill(ready, os.stat(folder).st_ino, journal, before, places)
        shutil.rmtree(folder)
        ready.rename(folder)


def _entries(folder: Path) -> Names:
    return {each.name: (each.inode(), each.is_dir(follow_symlinks=False)) for each in os.scandir(folder)}


def _files(folder: Path) -> list[tuple[Path, int]]:
    paths = [Path(place, name) for place, _, names in os.walk(folder) for name in names]
    return [(path, path.lstat().st_ino) for path in paths]


def _lose_data(path: Path, journal: Path, before: Before) -> None:
    """Give a file the content of its last fsync; without one it is empty, or as at the start."""
    facts = path.stat()
    synchronised = journal / f"data.{facts.st_ino}"
    content = synchronised.read_bytes() if synchronised.exists() else before.data.get(facts.st_ino, b"")
    if content != path.read_bytes():
        path.write_bytes(content)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _fill(new: Path, inode: int, journal: Path, before: Before, places: dict[int, Path]) -> None:
    """Give a new folder the names that the folder of an inode had at its last fsync, or at the start."""
    listing = journal / f"names.{inode}"
    names = before.names.get(inode, {})
    if listing.exists():
        lines = [line.split(" ", 2) for line in listing.read_text().split("\n")[:-1]]
        names = {name: (int(number), kind == "d") for number, kind, name in lines}
    for name, (number, is_folder) in names.items():
        if is_folder:
            (new / name).mkdir()
            _fill(new / name, number, journal, before, places)
        else:
            os.link(places[number], new / name)
