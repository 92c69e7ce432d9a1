"""The registry of position schemes by name, and the check of a list of schemes before a model is built."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import torch

from posnmt_position.errors import PositionError, nearest
from posnmt_position.seam import Scheme, Stack, changes_embeddings, rotated

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
"""The name of a scheme, and its options; a list called `layers` among these names the layers that have it."""

Found = Callable[[str], AbstractContextManager[type[Scheme]]]
"""A context that has the class of a scheme of some name. All code of the scheme runs inside it.

It raises PositionError if there is no such scheme. It may turn an exception of the scheme's code into another one.
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


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[int, ...] | None]:
    """The options of a scheme, and the layers that have it; None: all of them.

    A list called `layers` names the layers, from 0. A number of this name is an option, as of `recurrent`.
    """
    layers = options.get("layers")
    if not isinstance(layers, list | tuple):
        return dict(options), None
    return {name: each for name, each in options.items() if name != "layers"}, tuple(layers)


def build(choice: Choice, stack: Stack, found: Found = registered) -> Scheme:
    """A scheme for a stack, which `check` accepts; it has no weights for layers that are not among its `layers`."""
    name, (options, layers) = choice[0], split(choice[1])
    if layers is not None:
        stack = replace(stack, layers=len(layers))
    with found(name) as kind:
        built: Scheme = kind(stack, kind.Settings(**options))  # type: ignore[call-arg]
    built.placed = None if layers is None else tuple(sorted(layers))
    return built


def create(name: str, stack: Stack, **options: Any) -> Scheme:
    """A registered scheme for a stack.

    Args:
        name: of `SCHEMES`, such as `rope`.
        options: of the scheme, the fields of its `Settings`; and `layers`, a list of the layers that have it, from 0.

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
    names = {name for name, _ in choices}
    for index, choice in enumerate(choices):
        try:
            with found(choice[0]) as kind:
                sentences = [*_faults(kind, choice, stack, names - {choice[0]})]
        except PositionError as error:
            sentences = [str(error)]
        faults += ((index, sentence) for sentence in sentences)
    sound = [(index, choice) for index, choice in enumerate(choices) if index not in {at for at, _ in faults}]
    faults += _rotating_twice(sound, stack, found)
    faults += ((None, f"{name} is listed twice{where}") for name, where in _listed_twice(choices, stack))
    return faults


def _faults(kind: type[Scheme], choice: Choice, stack: Stack, others: Collection[str]) -> Iterator[str]:
    """What is wrong with one choice."""
    name, (options, layers) = choice[0], split(choice[1])
    wrong = [*kind.Settings.faults(name, options)]
    if layers is not None:
        wrong += (f"{name}.layers: {fault}" for fault in _misplaced(kind, layers, stack.layers))
        stack = replace(stack, layers=len(layers))
    if stack.cross and (reason := not_cross(kind)):
        wrong.append(f"{name} cannot serve attention to the source: it {reason}; choose one of {', '.join(crossing())}")
    yield from wrong or (f"{name} {refusal}" for refusal in kind.refuses(stack, kind.Settings(**options), others))


def not_cross(kind: type[Scheme]) -> str | None:
    """Why a scheme cannot serve attention to the source, to continue "it"; None: it can."""
    if changes_embeddings(kind):
        return "changes the embeddings, which that attention does not read"
    return kind.not_cross


def crossing() -> list[str]:
    """The registered schemes that can serve attention to the source."""
    return sorted(name for name in SCHEMES if not_cross(scheme_class(name)) is None)


def _misplaced(kind: type[Scheme], layers: Sequence[Any], count: int) -> Iterator[str]:
    """What is wrong with the `layers` of a choice, in a stack of `count` layers."""
    if not layers:
        yield "the list is empty; name a layer, or leave layers out for all of them"
    for layer in dict.fromkeys(layers):
        if type(layer) is not int or not 0 <= layer < count:
            yield f"there is no layer {layer!r}; the stack has layers 0 to {count - 1}"
        elif layers.count(layer) > 1:
            yield f"layer {layer} is listed twice"
    if changes_embeddings(kind):
        yield "it changes the embeddings, which all layers read; leave layers out"


def _listed_twice(choices: Sequence[Choice], stack: Stack) -> Iterator[tuple[str, str]]:
    """Each scheme that two choices give to one layer, and where."""
    seen: dict[str, set[int]] = {}
    twice = {}
    for name, options in choices:
        layers = {*(split(options)[1] or range(stack.layers))}
        if common := layers & seen.setdefault(name, set()):
            twice[name] = "" if len(common) == stack.layers else f" for layer {min(common)}"
        seen[name] |= layers
    yield from sorted(twice.items())


def _rotating_twice(choices: list[tuple[int, Choice]], stack: Stack, found: Found) -> Iterator[tuple[int, str]]:
    """A fault for each pair of schemes that both rotate the queries or keys of one product."""
    if len(choices) < 2:
        return
    with torch.device("meta"):
        rotating = [
            (index, choice[0], {*rotated(build(choice, stack, found), stack.layers)}) for index, choice in choices
        ]
    for (_, first, ours), (index, second, theirs) in itertools.combinations(rotating, 2):
        if first != second and (common := ours & theirs):
            where = "one stack" if len(common) == stack.layers else f"layer {min(common)}"
            yield (
                index,
                f"{first} cannot stand beside {second} in {where}; choose one of them: both change the queries or"
                " keys of one product, and such changes do not add up",
            )
