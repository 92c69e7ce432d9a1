"""Position schemes as configurations name them: registered ones, those of installed packages, and classes.

The package of schemes knows nothing of posnmt: its errors become `UserError`s here, and what it calls a property of a
stack is called a setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import torch

from posnmt.base import plugins
from posnmt.base.errors import UserError, quoted, raise_all, refuse_unknown
from posnmt.config.schema import SchemeChoice
from posnmt_position import registry
from posnmt_position.errors import PositionError
from posnmt_position.options import Options
from posnmt_position.registry import SCHEMES
from posnmt_position.returns import wrong_returns
from posnmt_position.seam import Scheme, Stack


def scheme_class(name: str) -> type[Scheme]:
    """The class of a scheme: registered, of an installed package, or a class by `module:Class`.

    Raises:
        UserError: no scheme has this name, or `posnmt.base.plugins.load` refuses it.
    """
    if name in SCHEMES:
        kind = registry.scheme_class(name)
        if SCHEMES[name] is kind:  # not one of the package's own, which are registered by their modules
            plugins.remember("scheme", name, kind)
        return kind
    if not plugins.is_class(name):
        refuse_unknown(name, [*SCHEMES, *plugins.names("scheme")], "position scheme")
    return plugins.load("scheme", name, _as_scheme)


def _as_scheme(offered: Any) -> type[Scheme]:
    """The class that a package offers as a scheme.

    Raises:
        TypeError: it is not a scheme.
    """
    if not (isinstance(offered, type) and issubclass(offered, Scheme)):
        raise TypeError(f"{quoted(offered)} is no subclass of posnmt.position.Scheme")
    if not (isinstance(offered.Settings, type) and issubclass(offered.Settings, Options)):
        raise TypeError("its Settings are no subclass of posnmt.position.Options")
    return offered


@contextmanager
def _found(name: str) -> Iterator[type[Scheme]]:
    """A context with the class of a scheme; errors of its code name the scheme (`posnmt_position.registry.Found`)."""
    try:
        kind = scheme_class(name)
        with plugins.blaming("scheme", name):
            yield kind
    except UserError as error:
        raise PositionError(error.what, error.where, error.todo) from error


def check(choices: Sequence[SchemeChoice], stack: Stack) -> list[tuple[int | None, str]]:
    """The faults of a stack's list of schemes: (index in the list, or None, and a sentence) for each."""
    return registry.check([(choice.scheme, choice.options) for choice in choices], stack, _found)


def build(choice: SchemeChoice, stack: Stack) -> Scheme:
    """A scheme for a stack, from its configuration.

    Raises:
        UserError: the constructor of a scheme from outside posnmt raised an exception, or its methods return something
            else than they must.
    """
    try:
        built = registry.build((choice.scheme, choice.options), stack, _found)
    except PositionError as error:
        raise UserError(error.what, error.where, error.todo) from error
    if plugins.is_outside("scheme", choice.scheme) and torch.empty(0).device.type != "meta":
        with plugins.blaming("scheme", choice.scheme):
            found = list(wrong_returns(built, stack))
        raise_all(plugins.wrong_returns(choice.scheme, found))
    return built


def create(name: str, stack: Stack, **options: Any) -> Scheme:
    """A scheme for a stack, for use in a model of one's own (docs/api.md).

    Args:
        name: of `SCHEMES`, such as `rope`, of an installed package, or `module:Class`.
        options: of the scheme; `posnmt systems --parts` lists them.

    Raises:
        UserError: no scheme has this name, an unknown option, a value out of its range, or a stack that the scheme
            cannot serve; all at once.
    """
    with plugins.allowing():  # the program names it
        plugins.admit([name])
    choice = SchemeChoice.model_validate({"scheme": name, **options})
    raise_all([UserError(fault) for _, fault in check([choice], stack)])
    return build(choice, stack)


def limiting_setting(scheme: Scheme) -> str | None:
    """The setting that raises `Scheme.longest`, as a configuration names it; None: there is none."""
    name = scheme.limited_by
    if name in {field.name for field in fields(Stack)}:
        return f"model.{name}"
    return name and f"the option {name} of {_name(scheme)}"


def refuse_beyond(scheme: Scheme, end: int) -> None:
    """Check that a scheme has `end` positions. Commands check lengths before they begin.

    Raises:
        UserError: it has not.
    """
    if scheme.longest is not None and end > scheme.longest:
        setting = limiting_setting(scheme)
        advice = f"train with a larger {setting}" if setting else "translate shorter texts"
        raise UserError(
            f"there are {scheme.longest} {_name(scheme)} positions, and position {end} is needed",
            setting,
            f"{advice}, or choose a system without a longest sentence, such as relative",
        )


def _name(scheme: Scheme) -> str:
    return type(scheme).__name__.lower()
