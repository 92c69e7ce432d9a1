"""The generated parts of the pages, and the pictures, are what the code makes of them today."""

from __future__ import annotations

import re

import click
import pytest

from docs.scripts import pictures, reference
from posnmt.cli.help import HEADINGS
from posnmt.cli.main import main
from tests.support.documents import ROOT, name, read

RUN = "run `python {}` and commit what it writes"


@pytest.mark.parametrize("page", reference.pages(), ids=name)
def test_generated_parts_are_current(page):
    assert read(page) == reference.filled(read(page)), RUN.format("docs/scripts/reference.py")


def test_there_are_generated_parts():
    parts = {part[1] for page in reference.pages() for part in reference.PART.findall(read(page))}
    assert parts == set(reference.PARTS)


def test_an_outdated_part_is_filled():
    page = ROOT / "docs" / "commands.md"
    assert reference.filled(read(page).replace("--beam", "--width")) == read(page)


def test_a_summary_of_a_module_does_not_end_inside_a_citation():
    cited = [line for line in reference.modules().splitlines() if "et al." in line]
    assert len(cited) > 10
    assert not [line for line in cited if line.endswith("et al.") or line.count("(") != line.count(")")]


def test_what_is_markdown_is_escaped():
    assert reference.text("<tab> [x] `<tab>` a_b") == "&lt;tab> \\[x\\] `<tab>` a\\_b"


def test_every_setting_and_option_is_described():
    text = "".join(part.group(0) for page in reference.pages() for part in reference.PART.finditer(read(page)))
    rows = [re.split(r" (?<!\\)\| ", row.strip("| ")) for row in re.findall(r"^\| `.*\|$", text, re.MULTILINE)]
    assert len(rows) > 200
    assert all(len(row[-1]) > 1 or row[-1] == "–" for row in rows), [row for row in rows if len(row[-1]) < 2]


def test_every_command_and_option_says_what_it_does():
    silent = []
    groups = [(main, click.Context(main, info_name="posnmt"))]
    for group, context in groups:
        for each in group.list_commands(context):
            command = group.get_command(context, each)
            inner = click.Context(command, info_name=each, parent=context)
            options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
            silent += [f"{inner.command_path} {option.opts[0]}" for option in options if not option.help]
            silent += [] if command.help else [inner.command_path]
            groups += [(command, inner)] if isinstance(command, click.Group) else []
    assert len(groups) > 3
    assert not silent


def test_commands_have_the_headings_of_the_help():
    text = reference.commands()
    lists = {
        heading: re.findall(r"^\| \[(\w+)\]", rows, re.MULTILINE)
        for heading, rows in re.findall(r"^\*\*(\w+)\*\*\n\n((?:\|.*\n)+)", text.split("\n## ")[0] + "\n", re.MULTILINE)
    }
    sections = {
        section.split("\n")[0]: re.findall(r"^### posnmt (\w+)$", section, re.MULTILINE)
        for section in text.split("\n## ")[1:]
    }
    assert lists == sections
    assert [*lists] == [*HEADINGS]
    assert sum(map(len, lists.values())) == len(main.commands)


@pytest.mark.parametrize("picture", pictures.PICTURES)
def test_pictures_are_current(picture):
    path = ROOT / "docs" / "pictures" / f"{picture}.svg"
    assert read(path) == pictures.PICTURES[picture](), RUN.format("-m docs.scripts.pictures")


def test_pictures_are_drawn_by_the_figures_of_reports():
    """No other code writes SVG: colours, strokes and names are the same everywhere."""
    folders = [ROOT / name for name in ("posnmt", "position", "docs", "benchmarks")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(files) > 300
    assert [path for path in files if "//www.w3.org/2000/svg" in read(path)] == []


def test_the_python_page_has_every_public_name():
    import posnmt
    import posnmt.position

    page = read(ROOT / "docs" / "python.md")
    names = {f"posnmt.{each}" for each in posnmt.__all__ if each not in ("__version__", "position", "testing")}
    names |= {f"posnmt.position.{each}" for each in posnmt.position.__all__ if each != "__version__"}
    assert names <= set(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE))
