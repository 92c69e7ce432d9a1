"""The registry of position schemes by name, and the check of a list of schemes before a model is built."""

from __future__ import annotations

import importlib
import itertools
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError

from posnmt.base import plugins
from posnmt.base.errors import UserError, nearest, quoted, raise_all, refuse_unknown
from posnmt.config.schema import SchemeChoice

if TYPE_CHECKING:
    from posnmt.position.seam import Options, Scheme, Stack

SCHEMES: dict[str, str | type[Scheme]] = {
    "sinusoidal": "absolute:Sinusoidal",
    "learned": "absolute:Learned",
    "relative": "relative:Relative",
    "recurrent": "recurrent.scheme:Recurrent",
    "recurrent-heads": "recurrent.heads:RecurrentHeads",
    "additional": "reordering:Additional",
    "reordering": "reordering:Reordering",
    "directional": "directional:Directional",
    "transformer-xl": "xl:TransformerXL",
    "rope": "rotary:Rope",
    "xpos": "rotary:Xpos",
    "shape": "augmented:Shape",
    "cape": "augmented:Cape",
    "randomised": "augmented:Randomised",
    "alibi": "bias:Alibi",
    "t5-bias": "bias:T5Bias",
    "kerple": "bias:Kerple",
    "sandwich": "bias:Sandwich",
    "fire": "fire:Fire",
    "cope": "cope:Cope",
}
"""Scheme name → module and class inside posnmt.position, or the class itself.

A class takes (stack, settings) and defines `Settings`. A program that imports posnmt adds its own scheme with
`SCHEMES["mine"] = Mine`; installed packages and `module:Class` add theirs by `posnmt.base.plugins`.
`posnmt.testing.check_scheme(Mine)` tests one.
"""


def scheme_class(name: str) -> type[Scheme]:
    """The class of a scheme: registered, of an installed package, or a class by `module:Class`.

    Raises:
        UserError: no scheme has this name, or `posnmt.base.plugins.load` refuses it.
    """
    if name not in SCHEMES:
        if not plugins.is_class(name):
            refuse_unknown(name, [*SCHEMES, *plugins.names("scheme")], "position scheme")
        return plugins.load("scheme", name, _as_scheme)
    entry = SCHEMES[name]
    if not isinstance(entry, str):
        plugins.remember("scheme", name, entry)
        return entry
    module, attribute = entry.split(":")
    scheme: type[Scheme] = getattr(importlib.import_module(f"posnmt.position.{module}"), attribute)
    return scheme


def _as_scheme(offered: Any) -> type[Scheme]:
    """The class that a package offers as a scheme.

    Raises:
        TypeError: it is none.
    """
    from posnmt.position.seam import Options, Scheme

    if not (isinstance(offered, type) and issubclass(offered, Scheme)):
        raise TypeError(f"{quoted(offered)} is no subclass of posnmt.position.Scheme")
    if not (isinstance(offered.Settings, type) and issubclass(offered.Settings, Options)):
        raise TypeError("its Settings are no subclass of posnmt.position.Options")
    return offered


def build(choice: SchemeChoice, stack: Stack) -> Scheme:
    """A scheme for a stack, from its configuration.

    Raises:
        UserError: the constructor of a scheme from outside posnmt raised an exception.
    """
    scheme = scheme_class(choice.scheme)
    with plugins.blaming("scheme", choice.scheme):
        built: Scheme = scheme(stack, scheme.Settings.model_validate(choice.options))  # type: ignore[call-arg]
    if plugins.is_outside("scheme", choice.scheme):
        from posnmt.position.outside import check_outputs

        check_outputs(built, choice.scheme)
    return built


def create(name: str, stack: Stack, **options: Any) -> Scheme:
    """A registered scheme for a stack, for use in a model of one's own (docs/api.md).

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


def check(choices: list[SchemeChoice], stack: Stack) -> list[tuple[int | None, str]]:
    """The faults of a stack's list of schemes: (index in the list, or None, and a sentence) for each."""
    faults: list[tuple[int | None, str]] = []
    names = [choice.scheme for choice in choices]
    for index, choice in enumerate(choices):
        try:
            kind = scheme_class(choice.scheme)
            settings: Options = kind.Settings.model_validate(choice.options)
            others = {*names} - {choice.scheme}
            with plugins.blaming("scheme", choice.scheme):
                refusals = kind.refuses(stack, settings, others)
        except UserError as error:
            faults.append((index, error.line()))
            continue
        except ValidationError as error:
            faults.extend((index, option_fault(choice.scheme, kind.Settings, problem)) for problem in error.errors())
            continue
        faults.extend((index, f"{choice.scheme} {fault}") for fault in refusals)
    faults.extend(_rotating_twice(choices, stack, {index for index, _ in faults}))
    faults.extend((None, f"{name} is listed twice") for name in sorted(set(names)) if names.count(name) > 1)
    return faults


def _rotating_twice(choices: list[SchemeChoice], stack: Stack, faulty: set[int | None]) -> list[tuple[int, str]]:
    """A fault for each pair of schemes that both rotate the queries or keys of one product."""
    from posnmt.position.seam import rotates

    sound = [(index, choice) for index, choice in enumerate(choices) if index not in faulty]
    if len(sound) < 2:
        return []
    with torch.device("meta"):
        rotating = [(index, choice.scheme) for index, choice in sound if rotates(build(choice, stack), stack.layers)]
    return [
        (
            index,
            f"{first} cannot stand beside {second} in one stack; choose one of them: both change the queries or keys of"
            " one product, and such changes do not add up",
        )
        for (_, first), (index, second) in itertools.combinations(rotating, 2)
        if first != second
    ]


def option_fault(name: str, settings: type[Options], problem: object) -> str:
    """One of pydantic's problems with the options of a scheme or an architecture, as a sentence."""
    assert isinstance(problem, dict)
    option = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = list(settings.model_fields)
        near = nearest(option, known)
        advice = f"did you mean {near!r}?" if near else f"its options: {', '.join(known) or 'none'}"
        return f"{name} has no option {option!r}; {advice}"
    if problem["type"] == "value_error":
        return f"{name}{'.' * bool(option)}{option}: {problem['ctx']['error']}"
    return f"{name}.{option}: {problem['msg']}, got {problem['input']!r}"
