"""Inputs that failed once, and a few hundred new ones; `make fuzz` tries a million."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from itertools import repeat
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.fuzz import fuzz
from tests.fuzz.hunt import fault_of, hunt
from tests.fuzz.whole_commands import Commands
from tests.support.forked import fork

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


def test_commands_that_failed_once() -> None:
    with Commands() as commands:
        for path in CASES:
            if path.is_relative_to(fuzz.CASES / "commands"):
                assert fault_of(commands.attempt, json.loads(path.read_bytes())) is None, path


def searched(folder: Path, *arguments: object) -> str:
    """What a search prints, in a fork of this process, whose memory is bounded."""
    printed = folder / "printed"
    child = fork()
    if not child:
        status = 1
        try:
            with printed.open("w") as file, redirect_stdout(file), redirect_stderr(file):
                sys.argv = ["fuzz.py", *map(str, arguments), "--cases", str(folder / "cases")]
                try:
                    fuzz.main()
                except SystemExit as ended:
                    status = int(ended.code or 0)
                except BaseException:
                    traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, printed.read_text()
    return printed.read_text()


def test_damaged_files(tmp_path: Path) -> None:
    assert "200 inputs of 20 parsers" in searched(tmp_path, "parsers", "--count", 200, "--seed", 11)


def test_odd_commands(tmp_path: Path) -> None:
    assert "8 commands, seed 3" in searched(tmp_path, "commands", "--count", 8, "--seed", 3)


def test_a_command_that_fails_is_noticed(monkeypatch) -> None:
    """Its process ends with a traceback, a signal, or a status that no command has."""
    with Commands() as commands:
        fault = partial(fault_of, commands.attempt, ["systems"])
        assert fault() is None
        monkeypatch.setattr("tests.support.forked.main", lambda: {}["a"])
        assert fault() == "KeyError in outside the package: \"'a'\""
        monkeypatch.setattr("tests.support.forked.main", partial(sys.exit, 3))
        assert fault() == "status 3 of ['systems']: ''"
        monkeypatch.setattr("tests.support.forked.main", lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert fault() == "status -9 of ['systems']: ''"
        monkeypatch.setattr("tests.support.forked.main", partial(sys.exit, 2))
        assert fault().startswith("no clear line")
        monkeypatch.setattr("tests.support.forked.main", partial(time.sleep, 600))
        with monkeypatch.context() as patched:
            patched.setattr("tests.fuzz.hunt.WAITED", 1)
            assert fault().startswith("TooLong")
        monkeypatch.setattr("tests.support.forked.main", partial(all, repeat(True)))
        monkeypatch.setattr("tests.fuzz.hunt.SECONDS", 1)
        assert fault() == f"status -{int(signal.SIGXCPU)} of ['systems']: ''"


def test_a_parser_that_does_not_end_is_noticed(monkeypatch) -> None:
    monkeypatch.setattr("tests.fuzz.hunt.SECONDS", 0.1)
    assert fault_of(lambda _: all(each for each in repeat(True)), None).startswith("TooLong")


def test_a_log_leaves_out_what_is_done(tmp_path: Path, monkeypatch, capsys) -> None:
    """In the process of the tests, whose memory is not bounded."""
    monkeypatch.setattr(fuzz, "bound_memory", lambda: None)

    def printed(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["fuzz.py", *map(str, arguments), "--log", str(tmp_path / "log")])
        with pytest.raises(SystemExit) as ended:
            fuzz.main()
        assert ended.value.code == 0
        return capsys.readouterr().out

    words = ["parsers", "--only", "words", "text", "--seed", 2, "--cases", tmp_path, "--count", 20]
    assert "\n20 inputs of 2 parsers" in printed(*words)
    assert printed(*words).startswith("0 inputs of 2 parsers")
    assert printed("counts") == "20 inputs of parsers, 0 faults, seed 2\n"


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
