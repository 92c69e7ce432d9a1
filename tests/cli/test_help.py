"""The help of every command: whole summaries, at most a screen, headings, defaults and examples."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from posnmt.cli.group import COMMAND, Group
from posnmt.cli.help import HEADINGS, SHORT, Command, is_long, option, parts, sections
from posnmt.cli.main import main
from tests.support.commands import all_commands, refused, run

LINES, COLUMNS = 45, 80
"""A screen."""

COMMANDS = {(): main, **dict(all_commands())}
LEAVES = {path: command for path, command in COMMANDS.items() if not isinstance(command, click.Group)}
LONG = {path: command for path, command in LEAVES.items() if len(command.params) > SHORT}
ENTRY = re.compile(r"^  (-.*?)(?:  |$)", re.MULTILINE)
"""The names in a row of a list of options."""


@pytest.fixture(autouse=True)
def screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def helped(path, option="--help"):
    return run(*path, option)[0]


def options(command):
    return [each for each in command.params if isinstance(each, click.Option)]


def listed(text):
    """The names of the options in a help."""
    rows = ENTRY.findall(text.split("\nExamples:\n")[1])
    return {name for row in rows for name in re.findall(r"--[a-z][a-z-]*", row)}


def spelled(path):
    return " ".join(("posnmt", *path))


@pytest.mark.parametrize("path", COMMANDS, ids=spelled)
def test_help_is_at_most_a_screen(path):
    lines = helped(path).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS


@pytest.mark.parametrize("path", LONG, ids=spelled)
def test_all_help_fits_the_width_and_has_every_option(path):
    text = helped(path, "--help-all")
    names = {name for each in options(LONG[path]) for name in (*each.opts, *each.secondary_opts)}
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert listed(text) == names | {"--help", "--help-all"}


@pytest.mark.parametrize("path", LEAVES, ids=spelled)
def test_help_has_every_choice(path):
    text = re.sub(r"(?<=[-|])\s+", "", helped(path, "--help-all" if is_long(LEAVES[path]) else "--help"))
    for each in options(LEAVES[path]):
        for choice in getattr(each.type, "choices", ()):
            assert re.search(rf"(?<![\w-]){re.escape(choice)}[|\]:]", text), (each.opts, choice)


@pytest.mark.parametrize("path", LEAVES, ids=spelled)
def test_help_leaves_out_what_is_not_common_in_a_long_command_and_nothing_else(path):
    command = LEAVES[path]
    rare = {each.opts[0] for each in options(command) if not getattr(each, "common", True)} if path in LONG else set()
    expected = {each.opts[0] for each in options(command)} - rare | {"--help"} | ({"--help-all"} if rare else set())
    text = helped(path)
    assert expected <= listed(text)
    assert not rare & listed(text)
    assert (f"Show all {len(options(command))} options" in text) == bool(rare)


@pytest.mark.parametrize(
    "path", [path for path, each in COMMANDS.items() if isinstance(each, click.Group)], ids=spelled
)
def test_a_summary_is_whole(path):
    group = COMMANDS[path]
    text = helped(path)
    for name in group.list_commands(click.Context(group)):
        prose, _ = parts(COMMANDS[(*path, name)].help)
        sentence = re.split(r"(?<=\.)\s", prose[0])[0]
        assert re.search(rf"^  {name} +{re.escape(sentence)}$", text, re.MULTILINE), name


@pytest.mark.parametrize("path", LEAVES, ids=spelled)
def test_a_misspelt_option_is_answered_with_the_help_that_has_every_option(path):
    [line] = refused(*path, "--misspelt")
    assert line.endswith(f"see `main {' '.join(path)} {'--help-all' if '--help-all' in helped(path) else '--help'}`")


def test_every_command_stands_under_a_heading():
    assert {
        path[0]: each.heading for path, each in COMMANDS.items() if len(path) == 1 and each.heading not in HEADINGS
    } == {}
    found = re.findall(r"^(\w+):$", helped(()), re.MULTILINE)
    assert found == ["Examples", *HEADINGS, "Options"]


@pytest.mark.parametrize("path", LEAVES, ids=spelled)
def test_options_have_headings_all_or_none(path):
    command = LEAVES[path]
    headings = {getattr(each, "heading", "") for each in options(command)}
    assert "" not in headings or headings == {""}
    assert path not in LONG or "" not in headings


UNSET = re.compile(r"\bdefault\b|\binstead\b|\bneeded\b")
"""What says what happens without an option."""


def says_its_default(each, context):
    on_if_asked = each.is_flag and not each.secondary_opts and each.default is not True
    _, about = each.get_help_record(context)
    return each.required or on_if_asked or UNSET.search(about) is not None


@pytest.mark.parametrize("path", LEAVES, ids=spelled)
def test_every_option_says_its_default(path):
    command = LEAVES[path]
    context = click.Context(command, **command.context_settings)
    assert [each.opts[0] for each in options(command) if not says_its_default(each, context)] == []


@pytest.mark.parametrize("path", LEAVES, ids=spelled)
def test_there_is_an_example_of_the_command(path):
    _, examples = parts(LEAVES[path].help)
    assert any(f"{line} ".startswith(f"{spelled(path)} ") for line in examples)
    assert "Examples:\n" + "".join(f"  {line}\n" for line in examples) in helped(path)


def test_the_first_help_begins_with_two_files():
    _, examples = parts(main.help)
    assert examples[0].split()[:6] == ["posnmt", "train", "--source", "train.en", "--target", "train.de"]
    assert [line.split()[1] for line in examples if line.startswith("posnmt")] == ["train", "translate", "analyse"]


def test_an_example_is_continued_as_in_a_shell():
    assert parts("Do.\n\nMore of\nit.\n\n\b\nExample: posnmt do a\n         b\n         c\nposnmt do d") == (
        ["Do.", "More of\nit."],
        ["posnmt do a \\", "    b \\", "    c", "posnmt do d"],
    )


@click.command(context_settings=COMMAND)
def stranger() -> None:
    """Do something."""


def test_a_command_that_declares_no_heading_is_listed_after_the_others():
    group = Group("them", commands=[stranger, Command("own", heading="Share", help="Share.")])
    text = group.get_help(click.Context(group))
    assert re.findall(r"^(\w+):\n  (\S+) ", text, re.MULTILINE)[:2] == [("Share", "own"), ("Commands", "stranger")]


def test_an_option_that_declares_no_heading_stands_beside_the_help():
    command = Command("own", params=[click.Option(["--plain"], help="plain")])
    context = click.Context(command)
    assert [*sections(command, context)] == ["Options"]
    placed = option("--file", type=Path, heading="Files", help="file")(command.callback or (lambda: None))
    command.params += placed.__click_params__
    assert {heading: [name for name, _ in rows] for heading, rows in sections(command, context).items()} == {
        "Files": ["--file PATH"],
        "Other": ["--plain TEXT", "--help"],
    }
