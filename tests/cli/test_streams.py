"""Standard streams that are closed, full, or read by a program that ends; names that are not ASCII."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.commands import all_commands
from tests.support.forked import become, fork

POSNMT = [sys.executable, "-m", "posnmt"]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full and the statuses of shells are Unix's")


def in_a_fork(arguments: list[str], closed: int) -> tuple[int, str]:
    """The exit status of a command with a closed stream, and what it writes to standard error."""
    with tempfile.TemporaryFile() as err, Path(os.devnull).open("r+b") as none:
        child = fork()
        if child == 0:
            for number, stream in enumerate((none, none, err)):
                os.dup2(stream.fileno(), number)
            become(arguments, closed=closed)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        err.seek(0)
        return status, err.read().decode()


@pytest.mark.parametrize(
    ("closed", "option", "status", "lines"),
    [(0, "--help", 0, 0), (1, "--help", 2, 1), (1, "--no-such-option", 2, 1), (2, "--no-such-option", 2, 0)],
)
def test_every_command_ends_in_order_without_a_stream(closed: int, option: str, status: int, lines: int) -> None:
    """Help needs standard output. A refusal has no line where standard error is closed."""
    for path, _ in all_commands():
        ended, err = in_a_fork([*path, option], closed)
        assert (ended, err.count("\n"), err.count("error: ")) == (status, lines, lines), (path, err)


@LINUX
@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", ">/dev/full", "2>/dev/full"])
def test_as_a_shell_closes_them(closing: str) -> None:
    """A process of its own: what Python makes of a closed stream as it starts."""
    command = f"{' '.join(POSNMT)} systems {closing}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if closing.startswith(">") else 0)
    assert done.stderr.count("\n") == done.stderr.count("error: ") == closing.startswith(">")
    assert ("relative" in done.stdout) == (not closing.startswith(">"))


@LINUX
def test_a_file_does_not_get_the_number_of_a_closed_stream() -> None:
    """What a library or another program prints would be written into it."""
    script = "import os; from posnmt.cli.streams import prepare; prepare(); os._exit(os.open(os.devnull, os.O_RDONLY))"
    for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(f"{sys.executable} -c '{script}' {closing}", shell=True, check=False)
        assert done.returncode > 2


@LINUX
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_has_ended_is_no_fault_and_not_success(stream: str) -> None:
    """As for `cat`: nothing is said, and a shell sees the status of SIGPIPE."""
    read, write = os.pipe()
    os.close(read)
    to = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: write}
    done = subprocess.run([*POSNMT, "systems"], check=False, **to)
    os.close(write)
    assert (done.returncode, done.stderr or b"") == (141 if stream == "stdout" else 0, b"")


@LINUX
@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}], ids=str)
def test_names_and_texts_are_utf8_in_every_locale(locale: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "grün").write_text("für mich\n", encoding="utf-8")
    command = [*POSNMT, "condition", "swap", "--source", "grün", "--share", "0.5", "--out", "blé"]
    environment = {**os.environ, "PYTHONCOERCECLOCALE": "0", **locale}
    done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().startswith("blé")
    assert next((tmp_path / "blé").glob("swapped*")).read_text(encoding="utf-8").split() == ["für", "mich"]
