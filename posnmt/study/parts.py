"""The parts from outside posnmt that the trainings of a study use: they belong to what their results depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posnmt.base.plugins import Origin, origin
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.trainings import train_config

Name = tuple[str, str]
"""Kind and name of a part."""


def names_of(model: dict[str, Any]) -> Iterator[Name]:
    """The named system of a `model` section, and its position schemes."""
    from posnmt.run.resolve import with_names

    if isinstance(model.get("system"), str):
        yield "system", model["system"]
    filled = with_names(model)
    for side in ("encoder", "decoder"):
        for each in filled.get(side, {}).get("position", []):
            yield "scheme", each["scheme"]


def parts_of(recipe: Recipe, scale: Scale) -> list[Origin]:
    """The parts from outside posnmt that a recipe's trainings use at a scale, as they are now.

    Raises:
        UserError: one cannot be imported, or is not allowed.
    """
    from posnmt.config.systems import SYSTEMS, named
    from posnmt.model.positions import SCHEMES, scheme_class

    used: dict[Name, None] = {}
    for system, training in recipe.variants(scale) if scale in recipe.scales else ():  # `plan` refuses other scales
        used |= dict.fromkeys(names_of(train_config(recipe, scale, system, training, 1)["model"]))
    parts = []
    for kind, name in used:
        if name not in (SYSTEMS if kind == "system" else SCHEMES):
            (named if kind == "system" else scheme_class)(name)
            parts.append(origin(kind, name))
    return [part for part in parts if part is not None]


def in_key(model: dict[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """What a training's key has of the parts that its model uses: nothing where it uses none.

    Args:
        model: the `model` section of its configuration.
        parts: of the study, as JSON has them.
    """
    names = {*names_of(model)} if parts else set()
    used = [dict(part) for part in parts if (part["kind"], part["name"]) in names]
    return {"plugins": used} if used else {}
