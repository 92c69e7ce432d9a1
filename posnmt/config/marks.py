"""Marks in the annotations of settings: what code outside the schema does with a setting.

`On` says where an option of search is offered: the command line, the server and the Python API make their options from
the fields of `posnmt.config.schema.Decode`; see CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class Chosen:
    """If a configuration leaves the setting out, or has `auto`, `posnmt.run.defaults` chooses a value."""


@dataclass(frozen=True)
class OfWeights:
    """Trained weights fit only the value that they were trained with: see `posnmt.training.continued`."""


@dataclass(frozen=True)
class MayChange:
    """A run may be resumed with another value: see `posnmt.run.run`."""


def marked(section: type[BaseModel], mark: type, prefix: str = "") -> Iterator[str]:
    """The dotted keys of the settings of a section, and of the sections in it, that have a mark.

    Args:
        prefix: of the keys.
    """
    for name, setting in section.model_fields.items():
        if any(isinstance(each, mark) for each in setting.metadata):
            yield f"{prefix}{name}"
        if isinstance(setting.annotation, type) and issubclass(setting.annotation, BaseModel):
            yield from marked(setting.annotation, mark, f"{prefix}{name}.")


@dataclass(frozen=True)
class On:
    """Where an option of search is offered, beside the section `decode` of a configuration.

    Attributes:
        cli: whether `posnmt translate` has it as an option.
        python: `call`: an argument of each translation; `load`: an argument of `posnmt.load`, since models are loaded
            with it; empty: not an argument.
        server: whether `posnmt serve` has it as an option. If `python` is `call`, requests to the server have it too.
        speed: whether it changes nothing but speed and rounding.
        also: values that only some engines take, not configurations → their description.
        flag: for a section that may be None: the option that turns it on. Its settings are options beside it.
        heading: under which the help of a command lists it.
        common: whether `--help` lists it; `--help-all` lists every option.
    """

    cli: bool = True
    python: Literal["call", "load", ""] = "call"
    server: bool = False
    speed: bool = False
    also: Mapping[str, str] = field(default_factory=dict)
    flag: str = ""
    heading: str = "Search"
    common: bool = False


class Option(NamedTuple):
    """A field of a settings section, together with where it is offered."""

    name: str
    field: FieldInfo
    on: On

    @property
    def about(self) -> str:
        """The description that help texts and documentation show."""
        return str(self.field.description)


def offered(section: type[BaseModel], where: Callable[[On], bool] = lambda on: True) -> Iterator[Option]:
    """The options of a section, in order, for whose marks `where` is true; without a mark, `On()` counts."""
    for name, each in section.model_fields.items():
        on = next((mark for mark in each.metadata if isinstance(mark, On)), On())
        if where(on):
            yield Option(name, each, on)


class Kind(NamedTuple):
    """The values that an option takes.

    Attributes:
        types: its types, without None and without the type of `choices`.
        choices: the strings that it takes.
        limits: `gt`, `ge`, `lt` and `le` → number.
    """

    types: list[Any]
    choices: list[str]
    limits: dict[str, Any]


def kind(info: FieldInfo) -> Kind:
    """The values that a field takes."""
    whole = info.annotation
    alternatives = get_args(whole) if get_origin(whole) in (Union, UnionType) else [whole]
    parts = [each for each in alternatives if each is not NoneType]
    rules, types = [*info.metadata], list[Any]()
    choices: list[str] = []
    for part in parts:
        if get_origin(part) is Annotated:
            part, *more = get_args(part)
            rules += [rule for each in more for rule in getattr(each, "metadata", [each])]
        if get_origin(part) is Literal:
            choices += get_args(part)
        else:
            types.append(part)
    names = ("gt", "ge", "lt", "le")
    limits = {name: getattr(rule, name) for rule in rules for name in names if hasattr(rule, name)}
    return Kind(types, choices, limits)
