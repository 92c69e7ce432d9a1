"""A search option that a stranger declares: offered everywhere, and refused by each engine that does not know it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import posnmt
from tests.support.untrained import LEARNED

PACKAGE = Path(posnmt.__file__).parent
DECLARED = (
    '    shyness: Annotated[int, On(server=True)] = Field(0, ge=0, le=9, description="how shy translations are")\n'
)
SCRIPT = """
import inspect, json, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2]]
import reference
reference.OPTIONS.write_text(reference.filled(reference.OPTIONS.read_text()))

import click
from click.testing import CliRunner
import posnmt
from posnmt.cli.main import main
from posnmt.deploy.server.own import Query

run, found = sys.argv[1], {}
def command(*words):
    done = CliRunner().invoke(main, ["translate", run, *words], input="uns\\n")
    return done.exit_code, done.stderr

for each in ("translate", "serve"):
    _, chosen, _ = main.resolve_command(click.Context(main), [each])
    [option] = [option for option in chosen.params if option.name == "shyness"]
    found[each] = option.opts[0], option.type.min, option.type.max, option.help
found["requests"] = Query.model_json_schema()["properties"]["shyness"]["anyOf"][0]
found["page"] = "| `shyness` | whole number from 0 to 9 | `0` | how shy translations are |" in reference.settings()
model = posnmt.load(run)
found["python"] = "shyness" in inspect.signature(model.translate).parameters
found["default"] = command("--shyness", "0")[0]
found["range"] = command("--shyness", "10")
engines = ("torch", "ctranslate2", "auto")
found["engines"] = {engine: command("--shyness", "3", "--engine", engine) for engine in engines}
try:
    model.translate(["uns"], shyness=3)
except posnmt.UserError as error:
    found["refused"] = str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a copy of posnmt with one more declaration does."""
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")
    copy = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, copy / "posnmt", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PACKAGE.parent / "docs" / "scripts", copy / "docs" / "scripts")
    schema = copy / "posnmt" / "config" / "schema.py"
    text, mark = schema.read_text(encoding="utf-8"), "    beam: Annotated["
    assert text.count(mark) == 1
    schema.write_text(text.replace(mark, DECLARED + mark), encoding="utf-8")
    script = [sys.executable, "-c", SCRIPT, str(LEARNED), str(copy / "docs" / "scripts")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(PACKAGE.parent / "position")])}
    done = subprocess.run(script, cwd=copy, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.decode().splitlines()[-1])


def test_it_is_offered_at_every_door(found):
    offered = ["--shyness", 0, 9, "how shy translations are; default: the run's config"]
    assert found["translate"] == found["serve"] == offered
    assert found["requests"] == {"type": "integer", "minimum": 0, "maximum": 9}
    assert found["page"]
    assert found["python"]


def test_its_range_is_that_of_its_declaration(found):
    status, message = found["range"]
    assert status == 2
    assert "--shyness" in message
    assert "from 0 to 9" in message


def test_no_engine_ignores_it(found):
    assert found["default"] == 0
    for engine, who in (("torch", "PyTorch"), ("ctranslate2", "CTranslate2"), ("auto", "PyTorch")):
        status, message = found["engines"][engine]
        assert status == 2, engine
        assert message.splitlines()[-1].startswith(f"error: not available with {who} here (--shyness)"), engine
    assert found["refused"].startswith("not available with PyTorch here (decode.shyness)")
