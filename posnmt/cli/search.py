"""The search options of a command, generated from the fields of `posnmt.config.schema.Decode`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posnmt.base.errors import UserError
from posnmt.cli.group import NumberRange
from posnmt.cli.help import Command, Option

if TYPE_CHECKING:
    from posnmt.config import marks


class SearchCommand(Command):
    """A command with search options.

    They are made when they are first used, because the schema takes long to import and `posnmt --help` does not need
    it.

    Args:
        mark: the attribute of `On` that selects the options: `cli` or `server`.
        before: the name of the option before which they are listed.
    """

    def __init__(self, *args: Any, mark: str, before: str, **kwargs: Any) -> None:
        self._mark, self._before, self._made = mark, before, False
        super().__init__(*args, **kwargs)

    @property
    def params(self) -> list[click.Parameter]:  # type: ignore[override]
        """Return the parameters in the order of the help; options of search are built on first use."""
        if not self._made:
            place = [each.name for each in self._params].index(self._before)
            self._params[place:place] = search_options(self._mark)
            self._made = True
        return self._params

    @params.setter
    def params(self, own: list[click.Parameter]) -> None:
        self._params = own


def search_options(mark: str) -> list[click.Parameter]:
    """The search options with a mark; see `SearchCommand`."""
    from posnmt.config.marks import offered
    from posnmt.config.schema import Decode

    options = offered(Decode, lambda on: getattr(on, mark))
    return [option for each in options for option in (_section_options(each) if each.on.flag else [_option(each)])]


def _option(option: marks.Option, of: marks.On | None = None, help_: str = "{}; default: the run's config") -> Option:
    """An option of the command line.

    Args:
        of: the mark that says where the help lists it, if not its own.
        help_: the form of its help, around the description.
    """
    from posnmt.config.marks import kind

    flag = _flag(option.name)
    text = [option.about, *(f"{value}: {what}" for value, what in option.on.also.items())]
    if list[str] in kind(option.field).types:
        text.append("FILE: a file with one pattern per line")
    about = re.sub(r"\b[a-z]+_[a-z_]+\b", lambda name: _flag(name[0]), "; ".join(text))  # names of other options
    settings = _value(option)
    name = f"{flag}/--no-{flag[2:]}" if settings.get("type") is bool else flag
    return Option([name, option.name], default=None, help=help_.format(about), **_place(of or option.on), **settings)


def _place(on: marks.On) -> dict[str, Any]:
    return {"heading": on.heading, "common": on.common}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _value(option: marks.Option) -> dict[str, Any]:
    """Arguments of `click.Option` for the values of an option. A list is given as a file with one text per line."""
    from posnmt.config.marks import kind

    types, choices, limits = kind(option.field)
    if list[str] in types:
        return {"metavar": "|".join([*choices, "FILE"])}
    if choices:
        return {"type": click.Choice([*choices, *option.on.also])}
    [number] = types
    if number is int:
        low, high = limits.get("ge"), limits.get("le")
        low = limits["gt"] + 1 if "gt" in limits else low
        high = limits["lt"] - 1 if "lt" in limits else high
        return {"type": click.IntRange(low, high) if limits else int}
    if number is float:
        low, high = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
        return {"type": NumberRange(low, high, min_open="gt" in limits, max_open="lt" in limits)}
    return {"type": number}


def _section_options(option: marks.Option) -> Iterator[Option]:
    """The flag that turns a section on, and an option for each of its settings."""
    from posnmt.config.marks import kind, offered

    flag = option.on.flag
    yield Option([flag, option.name], is_flag=True, default=None, help=option.about, **_place(option.on))
    for each in offered(kind(option.field).types[0]):
        yield _option(each, option.on, f"with {flag}: {{}}; default: {each.field.default:g}")


def chosen_search(options: dict[str, Any], mark: str = "cli") -> dict[str, Any]:
    """Take the search settings that the user chose out of a command's options; `mark`: see `SearchCommand`.

    Raises:
        UserError: a section's setting without the section's flag, a beam with samples, or a file that cannot be read.
    """
    from posnmt.config.marks import kind, offered
    from posnmt.config.schema import Decode

    chosen = {}
    for name, field, on in offered(Decode, lambda on: getattr(on, mark)):
        value = options.pop(name)
        types, choices, _ = kind(field)
        if on.flag:
            inner = {each.name: given for each in offered(types[0]) if (given := options.pop(each.name)) is not None}
            if inner and not value:
                names = ", ".join(map(_flag, inner))
                raise UserError(f"this has an effect only with {on.flag}", names, f"add {on.flag}, or leave it out")
            value = inner if value else None
        elif list[str] in types and value not in (None, *choices):  # all list options of search are lists of patterns
            from posnmt.translate.spans import read_patterns

            value = read_patterns(Path(value))
        if value is not None:
            chosen[name] = value
    if "sampling" in chosen and "beam" in chosen:
        raise UserError("sampling uses no beam", "--beam", "leave it out, or search without --sample")
    return chosen
