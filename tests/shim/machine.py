"""Commands under the shim (`shim.c`), each a fork of one process that has imported everything, with its own journal."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

SOURCE = Path(__file__).parent / "shim.c"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path) -> Path:
    """Build the shim in a folder; the library's path."""
    assert COMPILER is not None
    library = folder / "shim.so"
    subprocess.run([COMPILER, "-O1", "-Wall", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    return library


def variables(watched: Path, journal: Path, at: int, fault: str) -> dict[str, str]:
    """What tells the shim; see `shim.c`."""
    return {"SHIM_FOLDER": str(watched), "SHIM_JOURNAL": str(journal), "SHIM_AT": str(at), "SHIM_FAULT": fault}


def operations(journal: Path) -> list[str]:
    """A line `name path` for each numbered operation."""
    log = journal / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.partition("\t")[2].replace("\t", " ") for line in lines]


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: its exit status, or -9 where it was killed.
        out, err: what it wrote to standard output and standard error.
        operations: a line `name path` for each numbered operation; `!name` failed.
    """

    status: int
    out: str
    err: str
    operations: list[str]


class Machine:
    """A process that runs commands whose disk fails; a context manager.

    Args:
        folder: for the library, the journal and outputs; on the file system of what the commands write.
        programs: a folder of programs that commands find before others.
        packages: a folder of packages that they import.
    """

    def __init__(self, folder: Path, programs: Path, packages: Path) -> None:
        self.folder, self.journal = folder.resolve(), folder.resolve() / "journal"
        self._paths = {"PATH": [str(programs), os.environ["PATH"]], "PYTHONPATH": [str(packages), *sys.path]}

    def __enter__(self) -> Machine:
        environment = {
            **os.environ, "LD_PRELOAD": str(build(self.folder)), "OMP_NUM_THREADS": "1", "TMPDIR": str(self.folder),
            **{name: os.pathsep.join(filter(None, paths)) for name, paths in self._paths.items()},
        }  # fmt: skip
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.shim.machine"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    def run(
        self, watched: Path, arguments: list[str], at: int = 0, fault: str = "EIO", closed: int | None = None
    ) -> Ended:
        """Run a command in the folder above `watched`, of which the operations are numbered.

        Args:
            at, fault: what happens and when; see `shim.c`.
            closed: the number of a standard stream that is closed.
        """
        shutil.rmtree(self.journal, ignore_errors=True)
        self.journal.mkdir()
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            asked = {
                "arguments": arguments, "folder": str(watched.parent), "streams": place,
                "variables": {
                    **variables(watched, self.journal, at, fault), "POSNMT_CACHE": str(watched / "cache"),
                },
                "closed": closed,
            }  # fmt: skip
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.write(json.dumps(asked) + "\n")
            self._server.stdin.flush()
            status = int(self._server.stdout.readline())
            out, err = (Path(place, name).read_text("utf-8", "replace") for name in ("out", "err"))
        return Ended(status, out, err, operations(self.journal))


def _serve() -> None:
    """Run commands that standard input names; write the exit status of each when all its processes have ended."""
    from tests.support.forked import become, fork, import_all

    library = ctypes.CDLL(None)
    library.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: processes of a killed one are ours
    answers = os.fdopen(os.dup(1), "w")
    import_all()

    def begin() -> None:
        os.environ.update(asked["variables"])
        os.chdir(asked["folder"])
        library.shim_begin()

    for line in sys.stdin:
        asked = json.loads(line)
        child = fork()
        if child == 0:
            for number, name in enumerate((os.devnull, "out", "err")):
                os.dup2(os.open(Path(asked["streams"], name), os.O_CREAT | os.O_RDWR, 0o600), number)
            become(asked["arguments"], begin, asked["closed"])
        status = 0
        with suppress(ChildProcessError):
            while True:
                ended, state = os.waitpid(-1, 0)
                status = os.waitstatus_to_exitcode(state) if ended == child else status
        print(status, file=answers, flush=True)


if __name__ == "__main__":
    _serve()
