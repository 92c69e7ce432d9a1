"""The parts from outside posnmt on which a study's results depend: plug-ins, and the models of neural metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from posnmt.base.plugins import Origin, origin
from posnmt.config.schema import scheme_lists
from posnmt.study.recipe import Analysis, Recipe, Scale
from posnmt.study.trainings import train_config

Name = tuple[str, str]
"""Kind and name of a plug-in, or of a part of posnmt."""


def names_of(model: dict[str, Any]) -> Iterator[Name]:
    """The named system of a `model` section, and its position schemes."""
    from posnmt.run.resolve import with_names

    if isinstance(model.get("system"), str):
        yield "system", model["system"]
    for _, _, schemes in scheme_lists(with_names(model)):
        for each in schemes:
            yield "scheme", each["scheme"]


def metrics_of(analysis: Analysis) -> Iterator[Name]:
    """Yield ("metric", name) for each metric of an analysis."""
    return (("metric", name) for name in analysis.metrics)


def parts_of(recipe: Recipe, scale: Scale) -> list[Origin]:
    """The plug-ins that a recipe's trainings at a scale and its analyses use, as they are now.

    A neural metric is such a part: its version is that of its model, and its digest that of all its scores depend on.

    Raises:
        UserError: one cannot be imported, or is not allowed; a neural metric is not installed.
    """
    from posnmt.config.systems import SYSTEMS, named
    from posnmt.evaluation.analyse.neural import neural
    from posnmt.metrics.neural.install import installed
    from posnmt.metrics.registry import OWN, metric
    from posnmt.model.positions import SCHEMES, scheme_class

    known: dict[str, tuple[Collection[str], Callable[[str], object]]] = {
        "system": (SYSTEMS, named), "scheme": (SCHEMES, scheme_class), "metric": (OWN, metric),
    }  # fmt: skip
    used: dict[Name, None] = {}
    for system, training in recipe.variants(scale) if scale in recipe.scales else ():  # `plan` refuses other scales
        used |= dict.fromkeys(names_of(train_config(recipe, scale, system, training, 1)["model"]))
    used |= dict.fromkeys(name for analysis in recipe.analyses.values() for name in metrics_of(analysis))
    names = neural([name for kind, name in used if kind == "metric"])
    parts: list[Origin | None] = [installed(*each).origin for each in names.items()]
    for kind, name in used:
        own, load = known[kind]
        if name not in own and name not in names:
            load(name)
            parts.append(origin(kind, name))
    return [part for part in parts if part is not None]


def in_key(names: Iterable[Name], parts: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The plug-ins that a step uses as a part of its key; empty if it uses none.

    Args:
        names: from `names_of` or `metrics_of`.
        parts: the plug-ins of the study, as JSON has them.
    """
    all_names = {*names} if parts else set()
    used = [dict(part) for part in parts if (part["kind"], part["name"]) in all_names]
    return {"plugins": used} if used else {}
