"""The configurations of a recipe's trainings: settings of the scale, then the training, then the system."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posnmt.base.errors import UserError
from posnmt.config.schema import Config as WholeConfig
from posnmt.config.schema import Decode, scheme_lists, with_schemes
from posnmt.config.systems import SIZES, named
from posnmt.config.yaml import merge
from posnmt.run.defaults import AUTO, distance
from posnmt.run.resolve import with_names
from posnmt.study.recipe import Recipe, Scale, Training, at, lacks

Config = dict[str, Any]
Options = Mapping[str, Mapping[str, Any]]
"""Position scheme -> option -> value."""


def train_config(recipe: Recipe, scale: Scale, system: str, training: str, seed: int) -> Config:
    """The configuration of a training, without corpora.

    If the system has its own size, settings of the scale that a size determines are left out.
    """
    chosen, definition = recipe.systems[system], recipe.trainings[training]
    own = chosen.model_at(scale)
    config = text_config(recipe, scale, definition)
    if (size := own.get("size")) in SIZES:
        below = config.get("model", {})
        config = {**config, "model": {key: value for key, value in below.items() if key not in SIZES[size]}}
    model: dict[str, Any] = {"system": chosen.system, **({"without": chosen.without} if chosen.without else {})}
    sections = {"model": merge(model, own), "train": {**chosen.train, "seed": seed}}
    config = merge(config, {**sections, **({"decode": chosen.decode} if chosen.decode else {})})
    return merge(config, {"model": _with_options(config["model"], recipe.scales[scale].options, chosen.options, scale)})


def model_section(recipe: Recipe, scale: Scale, system: str) -> dict[str, Any]:
    """The model section of a system, with the defaults of its name."""
    chosen = recipe.systems[system]
    own = {"model": {"system": chosen.system, **chosen.model_at(scale)}}
    return with_names(merge(recipe.scales[scale].config, own)["model"])


def schemes_of(recipe: Recipe, scale: Scale, system: str) -> set[str]:
    """The names of the position schemes of a system, those of attention to the source included."""
    lists = scheme_lists(model_section(recipe, scale, system))
    return {each["scheme"] for _, _, schemes in lists for each in schemes}


def with_distance(config: Config, median: float = math.inf) -> Config:
    """A configuration in which each clipping distance `auto` is a number: see `posnmt.run.defaults.distance`.

    Args:
        median: length of a training sentence, in subwords; infinite while it is unknown, for the largest distance.
    """
    asked = {"scheme": "relative", "distance": AUTO}
    model = config.get("model")
    if not isinstance(model, dict):
        return config
    given = {"distance": distance(median)}
    sides = with_schemes(model, lambda each: {**each, **given} if asked.items() <= each.items() else each)
    return {**config, "model": merge(model, sides)}


def resolved(tree: Config) -> WholeConfig:
    """A configuration without corpora, checked and complete; imports PyTorch.

    Raises:
        UserError: it has faults.
    """
    from posnmt.run.resolve import from_tree

    corpora = {name: {"source": "-", "target": "-"} for name in ("train", "dev")}
    return from_tree(merge({"data": corpora}, with_distance(tree)))


def text_config(recipe: Recipe, scale: Scale, definition: Training, system: str | None = None) -> Config:
    """The scale's configuration with the settings of the training, and of the subwords that a system needs."""
    pair = recipe.pair_at(scale)
    languages = {"source_language": pair.source, "target_language": pair.target}
    config = merge(merge({"data": languages}, recipe.scales[scale].config), definition.config)
    if definition.max_length is not None:
        config = merge(config, {"data": {"max_length": at(definition.max_length, scale)}})
    if system is not None and (own := named(recipe.systems[system].system).subword):
        config = {**config, "subword": merge(own, config.get("subword", {}))}
    return config


def searched(decode: Decode, search: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of search that override those of a run.

    Unless the run or the recipe says otherwise, lines are not split and outputs are not completed, so that a test
    measures the model itself.

    Args:
        decode: of the run.
        search: of the recipe.
    """
    whole = {"split": "huge", "complete": "off"}
    return {**{name: value for name, value in whole.items() if getattr(decode, name) == "as-trained"}, **search}


def _with_options(model: Config, common: Options, own: Options, scale: Scale) -> Config:
    """The position schemes of a `model` section with the recipe's options; empty if the recipe has none for them.

    Args:
        model: with a named system.
        common: options of the scale, for the systems that have the scheme.
        own: options of the system, which take precedence.
        scale: selects the values of options that differ by scale.

    Raises:
        UserError: the system has no such scheme.
    """
    if not common and not own:
        return {}
    filled = with_names(model)
    present = {each["scheme"] for _, _, schemes in scheme_lists(filled) for each in schemes}
    for name in set(own) - present:
        raise UserError(f"the system {model['system']!r} has no scheme {name!r} to give options to", "systems")

    def chosen(scheme: Config) -> Config:
        return {**scheme, **common.get(scheme["scheme"], {}), **_at_scale(own.get(scheme["scheme"], {}), scale)}

    return with_schemes(filled, chosen) if present & {*common, *own} else {}


def _at_scale(options: Mapping[str, Any], scale: Scale) -> Config:
    """The options at a scale: those for all scales, and those for this one."""
    return {key: at(value, scale) for key, value in options.items() if not lacks(value, scale)}
