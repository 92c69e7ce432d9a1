"""Help for people: commands and options under headings, and no more than a screen at a time.

A command and an option declare their heading where they are defined. The `--help` of a command with many options lists
the common ones, and `--help-all` lists all of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from typing import Any

import click

HEADINGS = ("Translate", "Compare", "Research", "Share")
"""The headings of commands, in their order."""

SHORT = 12
"""Most parameters of a command whose `--help` lists all of them."""

_ALL = "posnmt.cli.help.all"


class Option(click.Option):
    """An option with its place in the help.

    Args:
        heading: where the help lists it. A command whose options all fit into one short list needs no headings.
        common: whether `--help` lists it if the command has more than `SHORT` parameters; `--help-all` lists all.
    """

    def __init__(self, *arguments: Any, heading: str = "", common: bool = True, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.heading, self.common = heading, common


option = partial(click.option, cls=Option)
"""The decorator `click.option` for an `Option`."""


class Command(click.Command):
    """A command with its place in the help.

    Args:
        heading: the one of `HEADINGS` under which `posnmt --help` lists it; subcommands need none.
    """

    def __init__(self, *arguments: Any, heading: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.heading = heading

    @cached_property
    def _help_all(self) -> click.Option:
        def show(context: click.Context, option: click.Parameter, chosen: bool) -> None:
            if chosen:
                context.meta[_ALL] = True
                click.echo(context.get_help(), color=context.color)
                context.exit()

        about = f"Show all {sum(isinstance(each, click.Option) for each in self.params)} options and exit."
        return click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show, help=about)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, and `--help-all` if `--help` does not list all of them."""
        parameters = super().get_params(ctx)
        return [*parameters, self._help_all] if is_long(self) else parameters

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the paragraphs of the docstring, and its examples."""
        prose, examples = parts(self.help or "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("\n\n".join(prose))
        if examples:
            with formatter.section("Examples"):
                for line in examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        write_rows(formatter, sections(self, ctx, ctx.meta.get(_ALL, False)))


def _is_common(parameter: click.Parameter) -> bool:
    return getattr(parameter, "common", True)


def is_long(command: click.Command) -> bool:
    """Whether `--help` leaves options of a command to `--help-all`."""
    return len(command.params) > SHORT and not all(map(_is_common, command.params))


def parts(text: str) -> tuple[list[str], list[str]]:
    r"""The paragraphs of a command's docstring, and the lines of its examples, as they are typed into a shell.

    A paragraph that begins with `\b` has examples, with or without `Example: ` before them. A line that is indented
    continues the one before.
    """
    paragraphs = re.split(r"\n[ ]*\n", inspect.cleandoc(text))
    prose = [each for each in paragraphs if not each.startswith("\b")]
    examples = "\n".join(each.removeprefix("\b\n") for each in paragraphs if each.startswith("\b"))
    commands = re.sub(r"^Example: ", "", examples, flags=re.MULTILINE)
    return prose, re.sub(r"\n +", r" \\\n    ", commands).splitlines()


def sections(command: click.Command, context: click.Context, whole: bool = True) -> dict[str, list[tuple[str, str]]]:
    """Heading → the options under it, as pairs of names and description.

    Args:
        whole: all options; otherwise the common ones.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    rest = "Other" if any(getattr(each, "heading", "") for each in command.params) else "Options"
    for each in command.get_params(context):
        record = each.get_help_record(context) if isinstance(each, click.Option) else None
        if record is not None and (whole or _is_common(each) or not is_long(command)):
            names, about = record
            heading = getattr(each, "heading", "") or rest
            found.setdefault(heading, []).append((names.replace(" RANGE", ""), about))
    return found


def commands(group: click.Group, context: click.Context) -> dict[str, list[tuple[str, click.Command]]]:
    """Heading → the commands of a group under it, as pairs of name and command."""
    found: dict[str, list[tuple[str, click.Command]]] = {heading: [] for heading in HEADINGS}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            found.setdefault(getattr(command, "heading", "") or "Commands", []).append((name, command))
    return {heading: rows for heading, rows in found.items() if rows}


def write_rows(formatter: click.HelpFormatter, found: Mapping[str, Iterable[tuple[str, str]]], limit: int = 26) -> None:
    """Write sections of rows, with one column of descriptions for all of them.

    Args:
        limit: greatest width of the first column; the description of a row with a longer name stands below it.
    """
    names = [name for rows in found.values() for name, _ in rows]
    width = max((len(name) for name in names if len(name) <= limit), default=limit)
    for heading, rows in found.items():
        with formatter.section(heading):
            formatter.write_dl([(f"{name:{width}}", about) for name, about in rows], col_max=width)
