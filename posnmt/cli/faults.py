"""Mistakes on a command line as sentences: click's own messages name its types, such as "not a valid float range"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from typing import Any

import click

from posnmt.base.errors import choices, nearest, quoted
from posnmt.cli.help import is_long


def sentence(error: click.ClickException) -> str:
    """A fault that click found, with what to do about it."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "posnmt"
    todo = f"see `{command} {'--help-all' if context and is_long(context.command) else '--help'}`"
    match error:
        case click.NoSuchOption():
            what = f"{command} has no option {error.option_name}"
            todo = _meant(error.option_name, _options(error.ctx)) or todo
        case click.exceptions.NoSuchCommand():
            what = f"{command} has no command {quoted(error.command_name)}"
            group = error.ctx and error.ctx.command
            todo = _meant(error.command_name, group.commands if isinstance(group, click.Group) else ()) or todo
        case click.MissingParameter():
            what = f"{_name(error)} is missing"
        case click.BadParameter():
            what = f"{_name(error)}: {error.message.rstrip('.')}"
        case click.BadOptionUsage():
            several = re.search(r"\d+ (?=argument)", error.message)
            needs = f"needs {several[0]}values" if several else "needs a value"
            return f"{error.option_name} {'takes no value' if 'does not take' in error.message else needs}"
        case click.UsageError() if context and (more := re.search(r"extra arguments? \((.+)\)$", error.message)):
            names = [each.human_readable_name for each in context.command.params if isinstance(each, click.Argument)]
            taken = f"{' '.join(names)} alone" if names else "no argument"
            what = f"{command} takes {taken}, and {more[1]} is too much"
        case _:
            what = error.format_message().rstrip(".")
    return f"{what}; {todo}"


def in_words(command: click.Command) -> click.Command:
    """A command whose numbers and choices, and those of its subcommands, are refused in our words.

    Numbers such as `1_0` are refused as configurations refuse them. Python would read it as ten.
    """
    for each in _parameters(command):
        if isinstance(each.type, _NUMBERS | click.Choice) and "convert" not in vars(each.type):
            each.type = _in_words(each.type)
    return command


_NUMBERS = click.types.IntParamType | click.types.FloatParamType


def _in_words(kind: click.ParamType) -> click.ParamType:
    def convert(value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from posnmt.config.numbers import in_digits, within

        try:
            is_text = isinstance(kind, _NUMBERS) and isinstance(value, str)
            converted = kind.convert(in_digits(value) if is_text else value, param, ctx)
            limited = getattr(kind, "max", None) is not None
            return within(converted) if isinstance(kind, _NUMBERS) and not limited else converted
        except ValueError as error:
            kind.fail(f"{error}; got {quoted(value)}", param, ctx)
        except click.BadParameter:
            if isinstance(kind, click.Choice):
                kind.fail(f"there is no {quoted(value)}; {choices(str(value), list(kind.choices))}", param, ctx)
            kind.fail(f"{needed(kind)} is needed; got {quoted(value)}", param, ctx)

    words = copy(kind)
    words.convert = convert  # type: ignore[method-assign]
    return words


def needed(kind: click.ParamType) -> str:
    """The numbers that a type accepts, as "a whole number from 1 to 9"."""
    number = "a whole number" if isinstance(kind, click.types.IntParamType) else "a number"
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    above, below = getattr(kind, "min_open", False), getattr(kind, "max_open", False)
    if low is not None and high is not None and not (above or below):
        return f"{number} from {_digits(low)} to {_digits(high)}"
    limits = []
    if low is not None:
        limits.append(f"above {_digits(low)}" if above else f"of {_digits(low)} or more")
    if high is not None:
        limits.append(f"below {_digits(high)}" if below else f"of {_digits(high)} or less")
    return " ".join([number, *" and ".join(limits).split()])


def _digits(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def _meant(word: str, known: Iterable[str]) -> str | None:
    names = {name.lstrip("-"): name for name in known}  # hyphens make all options similar
    near = nearest(word.lstrip("-"), names)
    return f"did you mean {names[near]}?" if near else None


def _options(context: click.Context | None) -> list[str]:
    parameters = [] if context is None else context.command.params
    return [
        name for each in parameters if isinstance(each, click.Option) for name in (*each.opts, *each.secondary_opts)
    ]


def _name(error: click.BadParameter) -> str:
    """The option, or the placeholder of the argument, that an error is about."""
    parameter = error.param
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return str(error.param_hint) if parameter is None else parameter.human_readable_name


def _parameters(command: click.Command) -> Iterable[click.Parameter]:
    """The parameters of a command and of its subcommands."""
    yield from command.params
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _parameters(each)
