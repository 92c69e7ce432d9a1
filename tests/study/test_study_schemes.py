"""What a recipe says of a position scheme reaches all lists: of encoder, decoder and attention to the source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from posnmt.config.schema import SCHEME_LISTS, Model, SchemeChoice, scheme_lists
from posnmt.config.yaml import merge
from posnmt.study.load import load
from posnmt.study.parts import names_of
from posnmt.study.recipe import Recipe
from posnmt.study.trainings import train_config, with_distance
from tests.support.recipe_case import SMALL, faults_of, written

LISTS = [("encoder", "position"), ("decoder", "position"), ("decoder", "cross")]
each_list = pytest.mark.parametrize(("side", "key"), LISTS)


def recipe_of(folder: Path, system: dict[str, Any], **changes: Any) -> str:
    """The path of a recipe with the system `own`, which runs, and one without schemes."""
    systems = {"bare": {"system": "none"}, "own": {"system": "none", **system}}
    runs = [{"systems": ["bare", "own"], "trainings": ["all"], "tests": ["test"]}]
    return written(folder, {**SMALL, "systems": systems, "runs": runs, **changes})


def sweep_of(option: str, *values: int) -> dict[str, Any]:
    """A sweep `s` over an option of a scheme, at one scale; it names no systems."""
    return {"s": {"analyses": ["test"], "grid": {"it": {"of": option, "values": {"smoke": [*values]}}}}}


def made(recipe: Recipe, system: str = "own", scale: Any = "smoke") -> dict[str, Any]:
    """The lists of a system that are not empty: side.key -> schemes."""
    lists = scheme_lists(train_config(recipe, scale, system, "all", 1)["model"])
    return {f"{side}.{key}": schemes for side, key, schemes in lists if schemes}


def lists_of(section: type[BaseModel], *keys: str) -> Iterator[tuple[str, ...]]:
    """The keys of each list of schemes below a section of the schema."""
    for name, field in section.model_fields.items():
        kind: Any = field.annotation
        if kind == list[SchemeChoice]:
            yield (*keys, name)
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from lists_of(kind, *keys, name)


def test_each_list_of_schemes_in_the_schema_is_known() -> None:
    assert [*lists_of(Model)] == [*SCHEME_LISTS] == LISTS


@each_list
def test_options_of_a_scale_and_of_a_system(tmp_path: Path, side: str, key: str) -> None:
    model = {side: {key: [{"scheme": "sandwich"}]}}
    of_scale = load(recipe_of(tmp_path, {"model": model}), ("scales.smoke.options.sandwich.width=8",))
    assert made(of_scale) == {f"{side}.{key}": [{"scheme": "sandwich", "width": 8}]}
    assert made(of_scale, "bare") == {}
    own = {"sandwich": {"width": {"smoke": 6}, "encoder": "symmetric"}}
    both = load(recipe_of(tmp_path, {"model": model, "options": own}), ("scales.smoke.options.sandwich.width=8",))
    assert made(both) == {f"{side}.{key}": [{"scheme": "sandwich", "width": 6, "encoder": "symmetric"}]}
    assert made(both, scale="small") == {f"{side}.{key}": [{"scheme": "sandwich", "encoder": "symmetric"}]}
    told = faults_of(recipe_of(tmp_path, {"model": model}), "scales.smoke.options.kerple.form=power")
    assert "no system has this scheme" in told
    assert "they have sandwich" in told


def test_an_option_is_the_same_in_all_lists(tmp_path: Path) -> None:
    cross = {"decoder": {"cross": [{"scheme": "relative", "distance": 4}]}}
    system = {"system": "relative", "model": cross, "options": {"relative": {"distance": 7}}}
    expected = {f"{side}.{key}": [{"scheme": "relative", "distance": 7}] for side, key in LISTS}
    assert made(load(recipe_of(tmp_path, system))) == expected


@each_list
@pytest.mark.parametrize("by_scale", [False, True])
def test_a_sweep_takes_the_systems_that_have_the_scheme(tmp_path: Path, side: str, key: str, by_scale: bool) -> None:
    schemes = [{"scheme": "sandwich"}]
    model = {side: {key: {"smoke": schemes} if by_scale else schemes}}
    recipe = load(recipe_of(tmp_path, {"model": model}, sweep=sweep_of("sandwich.width", 6, 8)))
    assert recipe.sweep["s"].systems == ["own"]
    for width in (6, 8):
        assert made(recipe, f"own@it={width}") == {f"{side}.{key}": [{"scheme": "sandwich", "width": width}]}


def test_a_sweep_takes_systems_with_a_scheme_of_the_scale(tmp_path: Path) -> None:
    config = merge(SMALL["scales"]["smoke"]["config"], {"model": {"decoder": {"cross": [{"scheme": "sandwich"}]}}})
    scales = merge(SMALL["scales"], {"smoke": {"config": config}})
    recipe = load(recipe_of(tmp_path, {}, scales=scales, sweep=sweep_of("sandwich.width", 6)))
    assert recipe.sweep["s"].systems == ["bare", "own"]
    assert made(recipe, "own@it=6") == {"decoder.cross": [{"scheme": "sandwich", "width": 6}]}


@each_list
def test_a_clipping_distance_that_the_text_decides(tmp_path: Path, side: str, key: str) -> None:
    model = {side: {key: [{"scheme": "relative", "distance": "auto"}, {"scheme": "t5-bias", "distance": 90}]}}
    config = train_config(load(recipe_of(tmp_path, {"model": model})), "smoke", "own", "all", 1)
    changed = with_distance(config, 24)["model"][side][key]
    assert changed == [{"scheme": "relative", "distance": 6}, {"scheme": "t5-bias", "distance": 90}]


@each_list
def test_the_parts_of_a_system(side: str, key: str) -> None:
    model = {"system": "none", side: {key: [{"scheme": "mine:Near"}, {"scheme": "relative"}]}}
    assert [*names_of(model)] == [("system", "none"), ("scheme", "mine:Near"), ("scheme", "relative")]


@each_list
@pytest.mark.parametrize("value", [3, "relative", [3], [{"distance": 4}], [{"scheme": [1]}], {"scheme": "relative"}])
@pytest.mark.parametrize("swept", [False, True])
def test_what_is_no_list_of_schemes_is_refused(tmp_path: Path, side: str, key: str, value: Any, swept: bool) -> None:
    sweep = {"sweep": sweep_of("relative.distance", 4)} if swept else {}
    path = recipe_of(tmp_path, {"model": {side: {key: value}}}, **sweep)
    told = faults_of(path, "scales.smoke.options.relative.distance=4")
    assert ("sweep.s: no system of `runs` has" if swept else f"systems.own: model.{side}.{key}") in told
