"""The configurations of a recipe's trainings, without corpora: the scale's, then the training's, then the system's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posnmt.config.systems import SIZES
from posnmt.config.yaml import merge
from posnmt.errors import UserError
from posnmt.resolve import with_names
from posnmt.study.recipe import Recipe, Scale, Training, at

Config = dict[str, Any]
Options = Mapping[str, Mapping[str, Any]]
"""Scheme -> option -> value."""


def train_config(recipe: Recipe, scale: Scale, system: str, training: str, seed: int) -> Config:
    """The configuration of a training, without corpora: the scale's, then the training's, then the system's own.

    A system with a size of its own has the settings of that size: those of the scale that the size names are left out.
    """
    chosen, definition = recipe.systems[system], recipe.trainings[training]
    config = text_config(recipe, scale, definition)
    if (size := chosen.model.get("size")) in SIZES:
        below = config.get("model", {})
        config = {**config, "model": {key: value for key, value in below.items() if key not in SIZES[size]}}
    model: dict[str, Any] = {"system": chosen.system, **({"without": chosen.without} if chosen.without else {})}
    config = merge(config, {"model": merge(model, chosen.model), "train": {**chosen.train, "seed": seed}})
    return merge(config, {"model": _with_options(config["model"], recipe.scales[scale].options, chosen.options, scale)})


def text_config(recipe: Recipe, scale: Scale, definition: Training) -> Config:
    """The scale's configuration with the training's own settings, for any system."""
    languages = {"source_language": recipe.pair.source, "target_language": recipe.pair.target}
    config = merge(merge({"data": languages}, recipe.scales[scale].config), definition.config)
    if definition.max_length is not None:
        config = merge(config, {"data": {"max_length": at(definition.max_length, scale)}})
    return config


def _with_options(model: Config, common: Options, own: Options, scale: Scale) -> Config:
    """The position schemes of a `model` section with options of the recipe in them; nothing if none are given.

    Args:
        model: with a named system.
        common: of the scale, for the systems that have the scheme.
        own: of the system, which win.
        scale: which of the values that are given by scale.

    Raises:
        UserError: the system has no such scheme.
    """
    if not common and not own:
        return {}
    filled = with_names(model)
    sides: Config = {}
    present: set[str] = set()
    for side in ("encoder", "decoder"):
        schemes = []
        for scheme in filled.get(side, {}).get("position", []):
            options = {**common.get(scheme["scheme"], {}), **_at_scale(own.get(scheme["scheme"], {}), scale)}
            present.add(scheme["scheme"])
            schemes.append({**scheme, **options})
        sides[side] = {"position": schemes}
    for scheme in set(own) - present:
        raise UserError(f"the system {model['system']!r} has no scheme {scheme!r} to give options to", "systems")
    return sides if present & {*common, *own} else {}


def _at_scale(options: Mapping[str, Any], scale: Scale) -> Config:
    """The options that a scale has: those given for every scale, and those given for this one."""
    applicable = {key: value for key, value in options.items() if not isinstance(value, Mapping) or scale in value}
    return {key: at(value, scale) for key, value in applicable.items()}
