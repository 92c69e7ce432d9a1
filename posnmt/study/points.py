"""The points of a recipe's sweeps, which become systems and trainings like any others.

The name of a point's system is that of its base with the values that belong to the system, such as `relative@clip=4`.
If some values belong to the text, the point has a training of its own, such as `all@cap=28`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, get_args

from posnmt.base.errors import UserError
from posnmt.config.yaml import merge
from posnmt.study.layout import OF_SYSTEMS, Figure, Panel, Table
from posnmt.study.recipe import Analysis, Recipe, Runs, Scale, System, Training
from posnmt.study.sweep import Dimension, Sweep, Value, name_of
from posnmt.study.trainings import schemes_of

MARK = "@"
"""Stands before the values in the name of a point."""
OF_SYSTEM = ("model", "train")
"""Sections of a configuration that belong to a system; any other name is that of a position scheme."""
Values = Mapping[str, Value]
"""Dimension -> value."""


@dataclass(frozen=True)
class Point:
    """One combination of a sweep.

    Attributes:
        base: the system and the training without the values.
        values: of all dimensions, in their order.
        system, training: their names with the values.
    """

    base: tuple[str, str]
    values: dict[str, Value]
    system: str
    training: str


def points(recipe: Recipe, sweep: Sweep, scale: Scale) -> list[Point]:
    """The points of a sweep at a scale, except those of systems and trainings that the recipe does not define."""
    if scale not in recipe.scales:
        return []
    systems = [name for name in sweep.systems if name in recipe.systems]
    trainings = [name for name in sweep.trainings or [next(iter(recipe.trainings))] if name in recipe.trainings]
    combinations = itertools.product(*(dimension.values.get(scale, []) for dimension in sweep.grid.values()))
    return [
        Point(
            (system, training),
            values := dict(zip(sweep.grid, combination, strict=True)),
            _named(system, _part(sweep, values, of_text=False)),
            _named(training, _part(sweep, values, of_text=True)),
        )
        for combination in combinations
        for system, training in itertools.product(systems, trainings)
    ]


def _part(sweep: Sweep, values: Values, of_text: bool) -> Values:
    """The values that belong to a training (`of_text`), or to a system."""
    return {name: value for name, value in values.items() if sweep.grid[name].of_text == of_text}


def _named(base: str, values: Values) -> str:
    """The name of a system or training with values."""
    return base + (MARK + _words(values, ",") if values else "")


def _words(values: Values, between: str = ", ") -> str:
    return between.join(f"{name}={name_of(value)}" for name, value in values.items())


def with_all_systems(recipe: Recipe) -> Recipe:
    """The recipe with all of its systems in the runs and in the tables that name none.

    A table has the systems of its analyses; without an analysis, all that are run.
    """
    recipe = recipe.model_copy(
        update={
            "runs": [
                each if each.systems else each.model_copy(update={"systems": [*recipe.systems]}) for each in recipe.runs
            ]
        }
    )
    tables = [
        each if each.rows or each.kind not in OF_SYSTEMS else each.model_copy(update={"rows": _rows(recipe, each)})
        for each in recipe.tables
    ]
    return recipe.model_copy(update={"tables": tables})


def _rows(recipe: Recipe, table: Table) -> list[str]:
    """The systems of a table that names none."""
    analyses = [recipe.analyses[name] for name in table.analyses() if name in recipe.analyses]
    first = next(iter(recipe.trainings))
    return list(
        dict.fromkeys(
            system if training == first else f"{system}/{training}"
            for runs in recipe.runs
            for system, training in itertools.product(runs.systems, runs.trainings)
            if not analyses or any(each.test in runs.tests and each.includes(system, training) for each in analyses)
        )
    )


def expanded(recipe: Recipe) -> Recipe:
    """The recipe with the points of its sweeps among its systems, trainings, runs and analyses.

    A sweep without a figure gets one for each measure of its analyses.
    """
    recipe = recipe.model_copy(update={"sweep": {name: _whole(recipe, sweep) for name, sweep in recipe.sweep.items()}})
    systems, trainings, runs = dict(recipe.systems), dict(recipe.trainings), list(recipe.runs)
    analyses, figures = dict(recipe.analyses), list(recipe.figures)
    for name, sweep in recipe.sweep.items():
        measured = [each for each in dict.fromkeys(sweep.analyses) if each in analyses]
        of_scales = {scale: points(recipe, sweep, scale) for scale in get_args(Scale)}
        every = list(itertools.chain.from_iterable(of_scales.values()))
        for point in every:
            system, training = point.base
            systems[point.system] = _system(recipe.systems[system], system, sweep, point.values)
            trainings[point.training] = _training(recipe, training, sweep, point.values)
        tests = list(dict.fromkeys(analyses[each].test for each in measured))
        runs += [_runs(here, tests, sweep, scale) for scale in recipe.scales if (here := of_scales[scale])]
        analyses |= {each: _with_points(analyses[each], every) for each in measured}
        if not any(figure.sweep == name for figure in recipe.figures):
            numbers = [each.figure for each in figures if isinstance(each.figure, int)]
            figures += _figures(recipe, name, measured, max(numbers, default=0) + 1)
    update = {"systems": systems, "trainings": trainings, "runs": runs, "analyses": analyses, "figures": figures}
    return recipe.model_copy(update=update)


def _runs(here: Sequence[Point], tests: list[str], sweep: Sweep, scale: Scale) -> Runs:
    """The runs of the points at a scale."""
    return Runs(
        systems=list(dict.fromkeys(point.system for point in here)),
        trainings=list(dict.fromkeys(point.training for point in here)),
        tests=tests,
        seeds=sweep.seeds,
        scales=[scale],
    )


def _with_points(analysis: Analysis, every: Sequence[Point]) -> Analysis:
    """An analysis with points of a sweep."""
    added = {"trainings": list(dict.fromkeys([*analysis.trainings, *(point.training for point in every)]))}
    if analysis.systems is not None:
        added["systems"] = list(dict.fromkeys([*analysis.systems, *(point.system for point in every)]))
    return analysis.model_copy(update=added)


def collapsed(recipe: Recipe) -> Recipe:
    """The recipe that `expanded` was given, as a file holds it: without the points of its sweeps."""

    def plain(names: Iterable[str]) -> list[str]:
        return [name for name in names if MARK not in name]

    added = sum(bool(points(recipe, sweep, scale)) for sweep in recipe.sweep.values() for scale in recipe.scales)
    analyses = {
        name: each.model_copy(
            update={
                "trainings": plain(each.trainings),
                "systems": None if each.systems is None else plain(each.systems),
            }
        )
        for name, each in recipe.analyses.items()
    }
    update = {
        "systems": {name: recipe.systems[name] for name in plain(recipe.systems)},
        "trainings": {name: recipe.trainings[name] for name in plain(recipe.trainings)},
        "runs": recipe.runs[: len(recipe.runs) - added],
        "analyses": analyses,
    }
    return recipe.model_copy(update=update)


def _whole(recipe: Recipe, sweep: Sweep) -> Sweep:
    """A sweep with default systems and analyses where it names none."""
    schemes = {dimension.keys[0] for dimension in sweep.grid.values() if not dimension.of_text} - {*OF_SYSTEM}
    run = dict.fromkeys(system for runs in recipe.runs for system in runs.systems if system in recipe.systems)
    systems = [name for name in run if schemes <= _schemes(recipe, name)]
    return sweep.model_copy(
        update={"systems": sweep.systems or systems, "analyses": sweep.analyses or list(recipe.analyses)}
    )


def _schemes(recipe: Recipe, system: str) -> set[str]:
    """The position schemes of a system, at any scale; none if the system is faulty, which is refused with its line."""
    try:
        return {scheme for scale in recipe.scales for scheme in schemes_of(recipe, scale, system)}
    except UserError:
        return set()


def _system(base: System, name: str, sweep: Sweep, values: Values) -> System:
    """A system with the values that belong to it."""
    mine = _part(sweep, values, of_text=False)
    if not mine:
        return base
    tree = reduce(merge, (_at_path(sweep.grid[each], value) for each, value in mine.items()))
    options = {scheme: chosen for scheme, chosen in tree.items() if scheme not in OF_SYSTEM}
    return base.model_copy(
        update={
            "label": f"{base.label or name}, {_words(mine)}",
            "model": merge(base.model, tree.get("model", {})),
            "train": merge(base.train, tree.get("train", {})),
            "options": merge(base.options, options),
        }
    )


def _training(recipe: Recipe, name: str, sweep: Sweep, values: Values) -> Training:
    """A training with the values that belong to its text."""
    base, mine = recipe.trainings[name], _part(sweep, values, of_text=True)
    if not mine:
        return base
    tree = reduce(merge, (_at_path(sweep.grid[each], value) for each, value in mine.items()))
    before = "" if name == next(iter(recipe.trainings)) else f"{base.label or name}, "
    update: dict[str, Any] = {"label": before + _words(mine), "config": merge(base.config, tree)}
    if "max_length" in tree.get("data", {}):
        update["max_length"] = None  # it would replace that of the config
    return base.model_copy(update=update)


def _at_path(dimension: Dimension, value: Value) -> dict[str, Any]:
    """A value in the sections around it."""
    tree: Any = value
    for key in reversed(dimension.keys):
        tree = {key: tree}
    return tree  # type: ignore[no-any-return]


def _figures(recipe: Recipe, name: str, analyses: list[str], number: int) -> Iterator[Figure]:
    """A figure for each measure of some analyses."""
    sweep = recipe.sweep[name]
    measures = dict.fromkeys(measure for each in analyses for measure in recipe.analyses[each].metrics)
    for place, measure in enumerate(measures):
        yield Figure(
            figure=number + place,
            caption=sweep.caption or f"The sweep {name}",
            kind="sweep",
            sweep=name,
            measure=measure,
            panels=[Panel(analysis=each) for each in analyses if measure in recipe.analyses[each].metrics],
        )


def origins(recipe: Recipe) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Keys of the system or training of a point -> keys of the part of the sweep that it is made from, for messages."""
    sources: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name, sweep in recipe.sweep.items():
        for scale in recipe.scales:
            for point in points(recipe, sweep, scale):
                for kind, each, of_text in (("systems", point.system, False), ("trainings", point.training, True)):
                    dimensions = list(_part(sweep, point.values, of_text))
                    if dimensions:
                        sources[kind, each] = ("sweep", name, "grid", *(dimensions if len(dimensions) == 1 else ()))
    return sources


def curves(recipe: Recipe, name: str, scale: Scale) -> tuple[dict[str, dict[str, float]], list[str] | None]:
    """The points of a sweep as curves over its first dimension.

    Returns:
        Curve -> `system/training` -> its place on the axis, and the labels of places that are no numbers, or None.
    """
    sweep = recipe.sweep[name]
    axis, first = next(iter(sweep.grid.items()))
    values = first.values.get(scale, [])
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    lines: dict[str, dict[str, float]] = {}
    for point in points(recipe, sweep, scale):
        others = {key: value for key, value in point.values.items() if key != axis}
        words = [recipe.label(point.base), *([_words(others)] if others else [])]
        value = point.values[axis]
        place = float(value) if numeric else values.index(value)
        lines.setdefault(", ".join(words), {})[f"{point.system}/{point.training}"] = place
    return lines, None if numeric else [name_of(value) for value in values]
