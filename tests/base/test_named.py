"""What tables name as `module:object` exists, and is imported when it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pkgutil import resolve_name

import pytest

from posnmt.cli.main import COMMANDS
from posnmt.deploy.documents.formats import FORMATS
from tests.support.commands import refused

LOADED = """
import json, sys
from posnmt.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""


def loaded(*arguments: str) -> set[str]:
    """The modules of a process that has run a command."""
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    return {*done.stdout.splitlines()[-1].strip("[]").replace('"', "").split(", ")}


def test_a_command_is_called_what_the_table_says():
    assert {name: resolve_name(path).name for name, path in COMMANDS.items()} == {name: name for name in COMMANDS}


def test_a_name_that_is_none_is_compared_with_all():
    [line] = refused("transl")
    assert "did you mean translate" in line


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_its_reader(name):
    assert callable(resolve_name(FORMATS[name].reader))


def test_help_imports_nothing_that_takes_long():
    modules = loaded("--help")
    assert not modules & {"torch", "numpy", "pydantic", "yaml", "rich", "posnmt.config.schema"}
    assert {"posnmt.cli.study", "posnmt.cli.translate"} <= modules


def test_a_command_imports_no_other():
    modules = loaded("show", "--help")
    commands = {path.partition(":")[0] for path in COMMANDS.values()}
    assert modules & commands == {"posnmt.cli.main", "posnmt.cli.show"}
    assert not modules & {"torch", "numpy", "pydantic", "yaml"}
