"""Put the faults of `mutants.yaml` into a copy of the package one at a time, and see that the named tests notice each.

    python tests/mutants/mutants.py [WORD ...]

With words, only faults whose sentence or file holds one of them. Ends with status 1 where a fault lives.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
LONGER, LEAST = 3, 60
"""Tests of a fault may take so many times the seconds of all tests without a fault, and so many seconds more."""

NOTHING = 5
"""The status of pytest where no test was chosen."""

COPIED = (
    "posnmt",
    "position",
    "tests",
    "configs",
    "docs",
    "benchmarks",
    "pyproject.toml",
    "CONTRIBUTING.md",
    "README.md",
)


def main(words: list[str]) -> int:
    listed = Path(__file__).with_name("mutants.yaml").read_text(encoding="utf-8")
    groups: dict[str, list[dict[str, str]]] = yaml.safe_load(listed)
    alive = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "posnmt"
        copy.mkdir()
        for name in COPIED:
            whole = ROOT / name
            copy_of = shutil.copytree if whole.is_dir() else shutil.copy
            copy_of(whole, copy / name)
        mutants = list(chosen(groups, words))
        if missing := misplaced(mutants, copy):
            sys.exit("these do not stand once in their files; move the faults:\n" + "\n".join(missing))
        begun = time.monotonic()
        if fails(copy, sorted({name for each in mutants for name in each["tests"].split()})):
            sys.exit("these tests fail without any fault")
        limit = LONGER * (time.monotonic() - begun) + LEAST
        for mutant in mutants:
            killed = noticed(copy, mutant, limit)
            print(f"{'killed' if killed else 'ALIVE '}  {mutant['fault']}  ({mutant['file']})", flush=True)
            alive += [] if killed else [mutant]
    return 1 if alive else 0


def misplaced(mutants: Iterable[dict[str, str]], root: Path) -> list[str]:
    """The faults whose text does not stand once in their file, and those with tests that do not exist."""
    return [
        f"{each['fault']}: {each['file']}: {each['find']!r}, {each['tests']}"
        for each in mutants
        if (root / each["file"]).read_text("utf-8").count(each["find"]) != 1
        or not all((root / "tests" / name.partition("::")[0]).exists() for name in each["tests"].split())
    ]


def chosen(groups: dict[str, list[dict[str, str]]], words: list[str]) -> Iterator[dict[str, str]]:
    """The faults that hold one of the words; all where there are no words."""
    for group in groups.values():
        for mutant in group:
            if not words or any(word in mutant["fault"] + mutant["file"] for word in words):
                yield mutant


def noticed(copy: Path, mutant: dict[str, Any], seconds: float) -> bool:
    """Whether the tests of a fault fail with it, or go on for longer than some seconds."""
    path = copy / mutant["file"]
    sound = path.read_text(encoding="utf-8")
    path.write_text(sound.replace(mutant["find"], mutant["put"]), encoding="utf-8")
    killed = fails(copy, mutant["tests"].split(), seconds)
    path.write_text(sound, encoding="utf-8")
    return killed


def fails(copy: Path, names: list[str], seconds: float | None = None) -> bool:
    """Whether tests of the copy fail, or go on for longer than some seconds: a fault that hangs is noticed.

    Of a file all tests but the slow ones are run, or the slow ones where there are no others; one test of a file is
    named as pytest names it, and may be slow.
    """
    files = [f"tests/{name}" for name in names if "::" not in name]
    single = [f"tests/{name}" for name in names if "::" in name]
    status = _status(copy, ["-m", "not slow", *files], seconds) if files else 0
    if status == NOTHING:
        status = _status(copy, files, seconds)
    if status == 0 and single:
        status = _status(copy, single, seconds)
    return status == 1


def _status(copy: Path, chosen: list[str], seconds: float | None) -> int:
    """0 if tests pass, 1 if one fails or they take too long, `NOTHING` if there are none.

    Args:
        chosen: arguments of pytest.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *chosen]
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'position'}"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=copy, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that the tests have started
            process.wait()
            return 1
        if status not in (0, 1, NOTHING):
            output.seek(0)
            sys.exit(f"pytest ended with status {status}\n{output.read()}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
