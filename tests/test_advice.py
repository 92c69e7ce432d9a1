"""What errors advise: an option that exists, of the command that failed; outside of the command line none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest

import posnmt
from posnmt.base.errors import UserError
from posnmt.cli.group import LESS_MEMORY
from tests.support.commands import all_commands, refused
from tests.support.untrained import LEARNED, untrained

PACKAGE = Path(posnmt.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


OPTIONS = {
    " ".join(path): {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for path, command in all_commands()
    if not isinstance(command, click.Group)
}
EXIST = {"--help", "--help-all"}.union(*OPTIONS.values())


def messages():
    """The place and the strings of each error that the package raises, and of each constant with advice."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            of_error = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("UserError", "Refusal")
            names = [getattr(each, "id", "") for each in node.targets] if isinstance(node, ast.Assign) else []
            if of_error or any(name == "todo" or name.isupper() for name in names):
                yield (
                    f"{path}:{node.lineno}",
                    [
                        each.value
                        for each in ast.walk(node)
                        if isinstance(each, ast.Constant) and type(each.value) is str
                    ],
                )


def test_options_that_errors_name_exist():
    named = {(place, option) for place, texts in messages() for text in texts for option in OPTION.findall(text)}
    assert len(named) > 100
    of_others = {"--list", "--nproc-per-node"}  # of sacrebleu and torchrun
    assert sorted((place, option) for place, option in named if option not in EXIST | of_others) == []


def test_what_needs_less_memory_is_an_option_of_the_command():
    for name, advice in LESS_MEMORY.items():
        options = set().union(*(OPTIONS[each] for each in OPTIONS if each.split()[0] == name))
        assert options.issuperset(OPTION.findall(advice)), name


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A run whose position table ends at 9 subwords, with a line that is longer."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "long").write_text("uns " * 30 + "\n")
    (folder / "short").write_text("uns\n")
    (folder / "prefix").write_text("uns\n")
    return untrained(folder / "run", "learned", max_length=10).parent


@pytest.mark.parametrize(
    ("command", "advised"),
    [
        (["translate", "run", "--input", "long"], ["--split"]),
        (["translate", "run", "--input", "long", "--max-source", "5"], ["--max-source"]),
        (["translate", "run", "--input", "short", "--prefix", "long"], []),
        (["translate", "run", "--input", "short", "--nbest", "3", "--beam", "2"], ["--beam"]),
        (["translate", "run", "--input", "short", "--mbr", "3", "--beam", "2"], ["--beam", "--mbr"]),
        (["translate", "run", "--input", "short", "--mbr", "2", "--nbest", "3", "--beam", "4"], ["--mbr"]),
        (["translate", "run", "--input", "long", "--prefix", "prefix", "--split", "auto"], ["--split"]),
        (["translate", "run", "--input", "short", "--join", "2"], ["--join"]),
        (["score", "run", "--source", "long", "--target", "short"], []),
        (["score", "run", "--source", "short", "--target", "long"], []),
    ],
    ids=" ".join,
)
def test_a_command_is_advised_what_it_has(table, command, advised, monkeypatch):
    monkeypatch.chdir(table)
    [line] = refused(*command)
    assert sorted(set(OPTION.findall(line))) == advised
    assert OPTIONS[command[0]].issuperset(advised)
    assert "decode." not in line.partition("; ")[2]


@pytest.mark.parametrize(
    "call",
    [
        lambda model, long: model.translate([long]),
        lambda model, long: model.translate(["uns"], prefixes=[long]),
        lambda model, long: model.translate([long], split="auto", prefixes=["uns"]),
        lambda model, long: model.translate(["uns"], mbr=3, beam=2),
        lambda model, long: model.translate(["uns"], join=2),
        lambda model, long: model.hypotheses(["uns"], nbest=3, beam=2),
        lambda model, long: model.hypotheses(["uns"], nbest=3, beam=4, mbr=2),
        lambda model, long: model.score([(long, "uns")]),
        lambda model, long: model.score([("uns", long)]),
        lambda model, long: model.encode([long]),
        lambda model, long: model.attention(long, "uns"),
        lambda model, long: model.attention("uns", long),
        lambda model, long: model.positions([long], ["uns"]),
    ],
)
def test_python_is_advised_no_options(table, call):
    with pytest.raises(UserError) as raised:
        call(posnmt.load(table / "run"), (table / "long").read_text().strip())
    assert OPTION.findall(raised.value.line()) == []


def test_a_limit_of_the_configuration_is_none_of_python_s_options():
    model = posnmt.load(LEARNED)
    model._decode = model._decode.model_copy(update={"max_source": 1})
    with pytest.raises(UserError) as raised:
        model.translate(["uns uns uns"])
    assert OPTION.findall(raised.value.line()) == []
