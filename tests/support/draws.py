"""Random systems and settings of search, drawn from what is registered; a seed determines them.

Whatever is added to the registries of systems, architectures and schemes, and every option of theirs, is drawn too.
"""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch

from posnmt.base.errors import UserError, UserErrors
from posnmt.config.schema import Activation, Decode, Init, Norm, Positions, SchemeChoice
from posnmt.config.systems import SYSTEMS
from posnmt.data.subword import BREAK, EOS
from posnmt.model.at_inference import change_positions
from posnmt.model.base import TranslationModel, stacks
from posnmt.model.positions import SCHEMES, check, scheme_class
from posnmt.model.registry import architecture
from posnmt_position.options import Options
from posnmt_position.seam import Stack
from tests.support import tiny

TRAINED = (9, 9)
"""Tokens of the longest source and target of a training that did not take place."""


def options(rng: random.Random, kind: type[Options]) -> dict[str, Any]:
    """Some options of a scheme or an architecture."""
    hints = get_type_hints(kind)
    return {
        each.name: _value(rng, hints[each.name], each.metadata)
        for each in dataclasses.fields(kind)
        if rng.random() < 0.5
    }


def _value(rng: random.Random, hint: Any, limits: Any) -> Any:
    """A value of a type: one of a `Literal`, or a small number within its limits."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _value(rng, rng.choice(inside), limits)
    if origin is Literal:
        return rng.choice(inside)
    if origin is tuple:
        return [_value(rng, inside[0], limits) for _ in range(rng.randint(1, 3))]
    if hint is NoneType:
        return None
    if hint is bool:
        return rng.random() < 0.5
    low = limits.get("ge", limits.get("gt", 0))
    high = min(limits.get("le", limits.get("lt", low + 8)), low + 8)
    if hint is float:
        return rng.uniform(0.9 * low + 0.1 * high, 0.1 * low + 0.9 * high)
    multiple = limits.get("multiple_of", 1)
    return multiple * rng.randint(-(-(low + ("gt" in limits)) // multiple), max(high // multiple, 1))


def schemes(rng: random.Random, stack: Stack) -> list[dict[str, Any]]:
    """A list of up to three schemes that a stack accepts; the attention to the source has none as often as not."""
    chosen: list[dict[str, Any]] = []
    wanted = rng.choice([0, 0, 0, 1, 1, 2] if stack.cross else [1, 1, 2, 2, 3])
    for _ in range(50):
        if len(chosen) == wanted:
            break
        name = rng.choice(list(SCHEMES))
        one = {"scheme": name, **options(rng, scheme_class(name).Settings)}
        if rng.random() < 0.2:
            one["layers"] = sorted(rng.sample(range(stack.layers), rng.randint(1, stack.layers)))
        if not check([SchemeChoice.model_validate(each) for each in [*chosen, one]], stack):
            chosen.append(one)
    return chosen


def system(rng: random.Random) -> dict[str, Any]:
    """A `model` section that is accepted: a named system, or lists of schemes, with settings of the model."""
    while True:
        part: dict[str, Any] = {
            "heads": rng.choice([1, 2, 4]),
            "norm": rng.choice(get_args(Norm)),
            "init": rng.choice(get_args(Init)),
            "activation": rng.choice(get_args(Activation)),
            "source_end": rng.random() < 0.8,
            "scale_embeddings": rng.random() < 0.5,
            "tie_embeddings": rng.choice(["none", "target"]),
            "encoder": {"layers": rng.randint(1, 3)},
            "decoder": {"layers": rng.randint(1, 3)},
        }
        part = {key: value for key, value in part.items() if key.endswith("coder") or rng.random() < 0.5}
        if rng.random() < 0.4:
            part["system"] = name = rng.choice(list(SYSTEMS))
            part["without"] = rng.choice([None, None, None, "encoder", "decoder", "both"])
            kind = architecture(SYSTEMS[name].model.get("architecture", "transformer"))
            if drawn := options(rng, kind.Settings):
                part["options"] = drawn
        try:
            section = tiny.settings(**part)
            if "system" not in part:
                for setting, stack in stacks(section).items():
                    side, key = setting.split(".")
                    part[side][key] = schemes(rng, stack)
                tiny.settings(**part)
        except (UserError, UserErrors):
            continue
        return part


def positions(rng: random.Random) -> Positions:
    """A change of positions at inference; often none."""
    one: dict[str, Any] = rng.choice(
        [{}, {"interpolate": 1.5}, {"ntk": 2.0}, {"yarn": 2.0}, {"clip": 3}, {"clip": 3, "group": 2}]
    )
    return Positions(**one, temperature=rng.choice([None, None, "log"]))


def model(part: dict[str, Any], seed: int, changes: Positions) -> TranslationModel:
    """A model whose parameters are all random, also those that begin at 0, and which ends sentences now and then.

    Args:
        changes: of its positions at inference, unless its schemes refuse them.
    """
    built = tiny.build(seed=seed, **part)
    try:
        change_positions(built, changes, TRAINED, Path("a run"))
    except UserError:
        return model(part, seed, Positions())
    with torch.no_grad():
        for parameter in built.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    project, bias = built.project, torch.zeros(tiny.VOCABULARY, dtype=torch.float64)
    bias[[BREAK, EOS]] = 1.5
    built.project = lambda hidden: project(hidden) + bias  # type: ignore[method-assign]
    return built


def decode(rng: random.Random, beam: int) -> Decode:
    """Settings of search for short outputs."""
    return Decode(
        beam=beam,
        length_penalty=rng.choice([0.0, 1.0, rng.uniform(0, 2)]),
        max_ratio=rng.uniform(0.5, 1.5),
        max_extra=rng.randint(0, 3),
        min_length=rng.choice([0, 0, 1, 3]),
        allow_unk=rng.random() < 0.3,
        batch=4096,
    )
