"""Every `posnmt …` in the pages is a command that exists, with options that exist: parsed, and not run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from posnmt.cli.main import main
from tests.support.commands import all_commands
from tests.support.documents import blocks, name, pages, prose, read

PAGES = [page for page in pages() if page.name != "CHANGELOG.md"]  # which also names options that have gone


FORMATS = {"analysis 1"}
"""What `format` says in a file of results, which looks like a command."""


def in_blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and arguments of every command in a page's code blocks."""
    for start, kind, content in blocks(text):
        block = typed(content) if kind == "console" else content
        joined = re.sub(r"\\\n", lambda _: " \x00", block)
        line = start
        for each in joined.split("\n"):
            for command in commands(each.replace("\x00", " ")):
                yield line, command
            line += 1 + each.count("\x00")


def typed(session: str) -> str:
    """A session without what the commands print; lines keep their numbers."""
    lines, goes_on = [], False
    for line in session.split("\n"):
        is_typed = goes_on or line.startswith("$ ")
        lines.append(line if is_typed else "")
        goes_on = is_typed and line.endswith("\\")
    return "\n".join(lines)


def commands(line: str) -> Iterator[list[str]]:
    """The arguments of every `posnmt` of a shell line."""
    if not re.search(r"(^|[\s$|&;])posnmt\s", line):
        return
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;><")
    lexer.whitespace_split = True
    words = list(lexer)
    for place, word in enumerate(words):
        starts = place == 0 or set(words[place - 1]) <= set("|&;") or words[place - 1] in ("-m", "do")
        if word == "posnmt" and starts:
            rest = words[place + 1 :]
            end = next((i for i, each in enumerate(rest) if set(each) <= set("|&;><")), len(rest))
            yield rest[:end]


def in_sentences(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and arguments of every command in the sentences of a page, between backticks."""
    plain = prose(text)
    for code in re.finditer(r"`posnmt ([^`]+)`", plain):
        if code[1] not in FORMATS:
            yield plain[: code.start()].count("\n") + 1, code[1].split()


def fault(arguments: list[str], whole: bool) -> str | None:
    """What is wrong with a command, or None.

    Args:
        whole: whether all that is required must be there; where a part is left out (`…`), or the command is named in a
            sentence, its subcommand and options are looked up alone.
    """
    if any("…" in each or each == "..." for each in arguments):
        whole = False
    rest, command = list(arguments), main
    context = click.Context(main, info_name="posnmt")
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-") and rest[0] != "…":
        found = command.get_command(context, rest[0])
        if found is None:
            return f"no command {rest[0]}"
        command, context = found, click.Context(found, info_name=rest.pop(0), parent=context)
    if whole:
        try:
            command.make_context(context.info_name or "posnmt", rest)
        except click.exceptions.Exit:  # --help
            return None
        except click.ClickException as error:
            return error.format_message()
        return None
    known = {option for each in command.get_params(context) for option in [*each.opts, *each.secondary_opts]}
    unknown = [each for each in rest if each.startswith("--") and each.split("=")[0].rstrip(",") not in known]
    return f"{command.name} has no {', '.join(unknown)}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page):
    text = read(page)
    found = [(line, arguments, True) for line, arguments in in_blocks(text) if "[OPTIONS]" not in arguments]
    found += [(line, arguments, False) for line, arguments in in_sentences(text)]
    faults = [
        f"{name(page)}:{line}: posnmt {' '.join(arguments)}: {wrong}"
        for line, arguments, whole in found
        if (wrong := fault(arguments, whole)) is not None
    ]
    assert not faults, "\n".join(faults)


def test_commands_are_found():
    shell = "cat a | posnmt translate runs/mine \\\n    --beam 2 > b\n$ posnmt systems\n"
    text = f"Run `posnmt study list`.\n\n```\n{shell}```\n"
    assert list(in_blocks(text)) == [(4, ["translate", "runs/mine", "--beam", "2"]), (6, ["systems"])]
    assert list(in_sentences(text)) == [(1, ["study", "list"])]
    session = "```console\n$ posnmt translate runs/mine \\\n    --beam 2\nBLEU; posnmt 0.1.0.\n$ posnmt systems\n```\n"
    assert list(in_blocks(session)) == [(2, ["translate", "runs/mine", "--beam", "2"]), (5, ["systems"])]
    assert sum(len(list(in_blocks(read(page)))) for page in PAGES) > 80


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("trane a.yaml", "no command trane"),
        ("study runs", "no command runs"),
        ("translate runs/mine --beams 2", "No such option"),
        ("translate runs/mine --beam many", "Invalid value"),
        ("analyse --source a", "Missing option"),
    ],
)
def test_a_wrong_command_is_seen(command, what):
    assert what in (fault(command.split(), whole=True) or "")


def test_a_wrong_option_in_a_sentence_is_seen():
    assert fault(["analyse", "--swaped", "NAME:SHARE=FILE"], whole=False) == "analyse has no --swaped"
    assert fault(["analyse", "--swapped", "NAME:SHARE=FILE"], whole=False) is None


FOREIGN = {"--gpus", "--state"}
"""Options of other programs (COMET, the cluster for the tests)."""


OPTIONS = {
    name
    for command in (main, *(each for _, each in all_commands()))
    for parameter in command.get_params(click.Context(command))
    for name in [*parameter.opts, *parameter.secondary_opts]
}


def unknown_options(text: str) -> list[str]:
    """The options that sentences name between backticks, alone, and that no command has."""
    named = re.findall(r"`(--[a-z][a-z-]*)", prose(text))
    return sorted({each for each in named if each not in OPTIONS | FOREIGN})


@pytest.mark.parametrize("page", [page for page in PAGES if "benchmarks" not in page.parts], ids=name)
def test_options_in_sentences_exist(page):
    assert not unknown_options(read(page))


def test_an_unknown_option_is_seen():
    assert unknown_options("`--corection holm`, `--correction holm`, `--beam`, `--gpus 0`") == ["--corection"]
