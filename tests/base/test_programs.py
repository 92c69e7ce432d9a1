"""Other programs: found beside this Python or on PATH, and their failures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from posnmt.base.errors import UserError
from posnmt.base.programs import found, output_of


def test_a_program_is_found_beside_this_python_and_on_path(monkeypatch, tmp_path):
    program = tmp_path / "a-program-of-this-test"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    assert found(Path(sys.executable).name) == sys.executable
    assert found(program.name) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(program.name) == str(program)


def test_a_failure_has_the_last_line_of_the_errors(tmp_path):
    where = "import os, sys; sys.stdout.write(os.getcwd() + os.environ['MINE'])"
    assert output_of([sys.executable, "-c", where], "it", "mend it", tmp_path, {"MINE": "!"}) == f"{tmp_path}!"
    for code, reason in (("import sys; sys.exit('one\\ntwo')", "two"), ("import sys; sys.exit(3)", "status 3")):
        with pytest.raises(UserError) as caught:
            output_of([sys.executable, "-c", code], "it", "mend it")
        fault = caught.value
        assert (fault.what, fault.where, fault.todo) == (f"it failed: {reason}", sys.executable, "mend it")
