"""The registry of position schemes by name, and the check of a list of schemes before a model is built."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from posnmt_position.errors import PositionError, nearest
from posnmt_position.seam import Scheme, Stack, rotates

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
    "fox": "forgetting:Fox",
}
"""Scheme name → module and class inside this package, or the class itself.

A class takes (stack, settings) and defines `Settings`. A program adds its own scheme with `SCHEMES["mine"] = Mine`.
"""

Choice = tuple[str, Mapping[str, Any]]
"""The name of a scheme, and its options."""

Found = Callable[[str], AbstractContextManager[type[Scheme]]]
"""A context with the class of a scheme, in which everything is done that runs the scheme's own code.

Raises PositionError, and whatever it makes of an exception inside it.
"""


def scheme_class(name: str) -> type[Scheme]:
    """The class of a registered scheme.

    Raises:
        PositionError: no scheme has this name.
    """
    if name not in SCHEMES:
        near = nearest(name, SCHEMES)
        hint = f"did you mean {near!r}? " if near else ""
        raise PositionError(
            f"no position scheme is called {name!r}", todo=f"{hint}there are: {', '.join(sorted(SCHEMES))}"
        )
    entry = SCHEMES[name]
    if not isinstance(entry, str):
        return entry
    module, attribute = entry.split(":")
    scheme: type[Scheme] = getattr(importlib.import_module(f"posnmt_position.{module}"), attribute)
    return scheme


@contextmanager
def registered(name: str) -> Iterator[type[Scheme]]:
    """The class of a registered scheme; see `Found`."""
    yield scheme_class(name)


def build(choice: Choice, stack: Stack, found: Found = registered) -> Scheme:
    """A scheme for a stack, which `check` accepts."""
    name, options = choice
    with found(name) as kind:
        built: Scheme = kind(stack, kind.Settings(**options))  # type: ignore[call-arg]
    return built


def create(name: str, stack: Stack, **options: Any) -> Scheme:
    """A registered scheme for a stack.

    Args:
        name: of `SCHEMES`, such as `rope`.
        options: of the scheme, the fields of its `Settings`.

    Raises:
        PositionError: no scheme has this name, an unknown option, a value out of its range, or a stack that the scheme
            cannot serve; all at once, a line each.
    """
    if faults := check([(name, options)], stack):
        raise PositionError("\n".join(fault for _, fault in faults))
    return build((name, options), stack)


def check(choices: Sequence[Choice], stack: Stack, found: Found = registered) -> list[tuple[int | None, str]]:
    """The faults of a stack's list of schemes: (index in the list, or None, and a sentence) for each."""
    faults: list[tuple[int | None, str]] = []
    names = [name for name, _ in choices]
    for index, (name, options) in enumerate(choices):
        try:
            with found(name) as kind:
                sentences = kind.Settings.faults(name, options) or [
                    f"{name} {refusal}" for refusal in kind.refuses(stack, kind.Settings(**options), {*names} - {name})
                ]
        except PositionError as error:
            sentences = [str(error)]
        faults += ((index, sentence) for sentence in sentences)
    sound = [(index, choice) for index, choice in enumerate(choices) if index not in {at for at, _ in faults}]
    faults += _rotating_twice(sound, stack, found)
    faults += ((None, f"{name} is listed twice") for name in sorted({*names}) if names.count(name) > 1)
    return faults


def _rotating_twice(choices: list[tuple[int, Choice]], stack: Stack, found: Found) -> Iterator[tuple[int, str]]:
    """A fault for each pair of schemes that both rotate the queries or keys of one product."""
    if len(choices) < 2:
        return
    with torch.device("meta"):
        rotating = [
            (index, choice[0]) for index, choice in choices if rotates(build(choice, stack, found), stack.layers)
        ]
    for (_, first), (index, second) in itertools.combinations(rotating, 2):
        if first != second:
            yield (
                index,
                f"{first} cannot stand beside {second} in one stack; choose one of them: both change the queries or"
                " keys of one product, and such changes do not add up",
            )
