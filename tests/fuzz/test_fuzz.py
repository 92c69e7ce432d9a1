"""Inputs that failed once, and a few hundred new ones; `make fuzz` tries a million."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

import fuzz
from hunt import fault_of, hunt

CASES = sorted(path for path in fuzz.CASES.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", sorted({path.relative_to(fuzz.CASES).parts[0] for path in CASES} - {"commands"}))
def test_inputs_that_failed_once(name: str) -> None:
    _, attempt, folder = fuzz.parse(name)
    try:
        for path in CASES:
            if path.is_relative_to(fuzz.CASES / name):
                file = path.parent.relative_to(fuzz.CASES / name).as_posix()
                assert fault_of(attempt, (file, path.read_bytes())) is None, path
    finally:
        shutil.rmtree(folder)


def searched(*arguments: object) -> str:
    """What a search prints, in a process of its own, whose memory is bounded."""
    command = [sys.executable, str(Path(fuzz.__file__)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_damaged_files(tmp_path: Path) -> None:
    assert "320 inputs of 16 parsers" in searched("parsers", "--count", 320, "--seed", 11, "--cases", tmp_path)


def test_odd_commands(tmp_path: Path) -> None:
    assert "20 commands, 0 faults" in searched("commands", "--count", 20, "--seed", 3, "--cases", tmp_path)


def test_a_search_finds_errors_and_depends_on_its_seed_alone() -> None:
    seen: list[int] = []

    def attempt(number: int) -> None:
        seen.append(number)
        if number % 3 == 1:
            raise KeyError(number)
        if number % 3 == 2:
            raise MemoryError

    tried, found = hunt(st.integers(0, 10**9), attempt, 5, 0, 60)
    assert tried == 60
    assert sorted(what.split()[0] for what in found) == ["KeyError", "MemoryError"]
    before = list(seen)
    seen.clear()
    hunt(st.integers(0, 10**9), attempt, 5, 0, 60)
    assert seen == before
