"""The shim itself, on small programs: it numbers operations, fails one, and says what a loss of power leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shim.machine import COMPILER, build, operations, variables
from tests.shim.power import Before, lose

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD and /proc are Linux's"),
    pytest.mark.skipif(COMPILER is None, reason="the shim is built by a C compiler, and there is none"),
]
PROGRAM = """
import os, sys
def write(name, text, flags=0):
    number = os.open(name, os.O_CREAT | os.O_WRONLY | flags)
    os.write(number, text)
    os.close(number)
def sync(name):
    number = os.open(name, os.O_RDONLY)
    os.fsync(number)
    os.close(number)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


class Watched:
    """A folder that has the file `old` and the folder `full` with a file, and its journal."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder, self.journal, self.library = folder / "watched", folder / "journal", library
        (self.folder / "full").mkdir(parents=True)
        self.journal.mkdir()
        for name in ("old", "full/file"):
            (self.folder / name).write_text("old")
        self.before = Before.of(self.folder)

    def run(self, program: str, at: int = 0, fault: str = "EIO") -> subprocess.CompletedProcess[str]:
        told = variables(self.folder, self.journal, at, fault)
        environment = {**os.environ, **told, "LD_PRELOAD": str(self.library)}
        command = [sys.executable, "-I", "-S", "-c", PROGRAM + program]
        return subprocess.run(command, cwd=self.folder, env=environment, text=True, capture_output=True, check=False)

    def after(self, names: bool) -> dict[str, str]:
        lose(self.folder, self.journal, self.before, names)
        return {
            path.relative_to(self.folder).as_posix(): path.read_text()
            for path in self.folder.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def watched(tmp_path: Path, library: Path) -> Watched:
    return Watched(tmp_path.resolve(), library)


SAME = {"old": "old", "full/file": "old"}
LOST: dict[str, tuple[dict[str, str | None], dict[str, str | None]]] = {
    "write('a', b'x')": ({"a": ""}, {}),
    "write('a', b'x'); sync('a')": ({"a": "x"}, {}),
    "write('a', b'x'); sync('.')": ({"a": ""}, {"a": ""}),
    "write('a', b'x'); sync('a'); sync('.')": ({"a": "x"}, {"a": "x"}),
    "write('old', b'x', os.O_APPEND)": ({}, {}),
    "write('old', b'x', os.O_APPEND); sync('old'); write('old', b'y', os.O_APPEND)": ({"old": "oldx"}, {"old": "oldx"}),
    "write('a', b'x'); os.rename('a', 'old')": ({"old": ""}, {}),
    "write('a', b'x'); sync('a'); os.rename('a', 'old')": ({"old": "x"}, {}),
    "os.unlink('old')": ({"old": None}, {}),
    "os.unlink('old'); sync('.')": ({"old": None}, {"old": None}),
    "os.unlink('full/file'); os.rmdir('full')": ({"full/file": None}, {}),
    "os.mkdir('b'); write('b/a', b'x'); sync('b/a'); sync('b')": ({"b/a": "x"}, {}),
    "os.mkdir('b'); write('b/a', b'x'); sync('b/a'); sync('b'); sync('.')": ({"b/a": "x"}, {"b/a": "x"}),
    "os.rename('old', 'full/old'); sync('full')": ({"old": None, "full/old": "old"}, {"full/old": "old"}),
}
"""A program → what differs in the end where data is lost, and where names are lost too; None: the file is gone."""


@pytest.mark.parametrize("program", LOST)
@pytest.mark.parametrize("names", [False, True], ids=["data", "names"])
def test_what_was_not_synchronised_is_lost(program: str, names: bool, watched: Watched) -> None:
    done = watched.run(program)
    assert (done.returncode, done.stderr) == (0, "")
    left = {**SAME, **LOST[program][names]}
    assert watched.after(names) == {name: text for name, text in left.items() if text is not None}


def test_files_keep_what_tells_them_from_others(watched: Watched) -> None:
    facts = (watched.folder / "old").stat()
    watched.run("os.rename('old', 'new'); write('new', b'x', os.O_TRUNC)")
    watched.after(names=True)
    after = (watched.folder / "old").stat()
    assert (after.st_ino, after.st_size) == (facts.st_ino, facts.st_size)


SIX = "os.mkdir('b'); write('b/a', b'x'); os.rename('b/a', 'a'); os.unlink('a'); os.rmdir('b')"
NUMBERED = ["mkdir b", "open b/a", "write b/a", "rename b/a", "unlink a", "rmdir b"]


def test_operations_are_numbered_and_one_fails(watched: Watched) -> None:
    done = watched.run(SIX, at=4)
    assert "OSError: [Errno 5] Input/output error: 'b/a' -> 'a'" in done.stderr
    named = [line.replace(f"{watched.folder}/", "") for line in operations(watched.journal)]
    assert named == [*NUMBERED[:3], f"!{NUMBERED[3]}"]


def test_a_full_disk_stays_full_and_files_can_be_removed(watched: Watched) -> None:
    program = (
        "os.unlink('old')\nfor name in 'ab':\n try: write(name, b'x')\n except OSError as error: print(error.errno)"
    )
    assert watched.run(program, at=1, fault="ENOSPC").stdout.split() == ["28", "28"]
    assert not (watched.folder / "old").exists()


def test_a_process_is_killed_before_an_operation(watched: Watched) -> None:
    assert watched.run(SIX, at=3, fault="KILL").returncode == -9
    assert (watched.folder / "b" / "a").read_text() == ""


def test_libraries_in_c_are_numbered_too(watched: Watched) -> None:
    """`numpy.save` writes by `fwrite`, `shutil.copyfile` by `sendfile`."""
    program = "import shutil, numpy; numpy.save('a.npy', numpy.arange(3)); shutil.copyfile('old', 'b')"
    environment = {
        **os.environ,
        **variables(watched.folder, watched.journal, 0, ""),
        "LD_PRELOAD": str(watched.library),
    }
    subprocess.run([sys.executable, "-c", program], cwd=watched.folder, env=environment, check=True)
    named = {line.split("/")[0].strip() + " " + Path(line).name for line in operations(watched.journal)}
    assert {"fwrite a.npy", "sendfile64 b"} <= named
