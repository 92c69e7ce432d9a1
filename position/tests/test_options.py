"""Options of schemes: every value that a field does not allow is a fault, by the rules of the field alone."""

from __future__ import annotations

from dataclasses import fields
from types import NoneType
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from posnmt_position.errors import PositionError
from posnmt_position.options import LARGEST, Options, option
from posnmt_position.registry import SCHEMES, scheme_class


class Mine(Options):
    cell: Literal["gru", "lstm"] = option("gru", "the cell")
    width: Literal["full"] | int | None = option(None, "cells", ge=2, multiple_of=2)
    rate: float = option(0.5, "a share", gt=0, lt=1)
    on: bool = False
    sizes: tuple[int, ...] = option((3,), "sizes", min_length=1, ge=1)


class Wider(Mine):
    needed: str


OPTIONS = [(name, field) for name in SCHEMES for field in fields(scheme_class(name).Settings)]


def alternatives(kind, field):
    """The types of a field, each by itself."""
    annotation = get_type_hints(kind)[field.name]
    return [annotation] if get_origin(annotation) in (Literal, None) else list(get_args(annotation))


@pytest.mark.parametrize(("name", "field"), OPTIONS, ids=[f"{name}-{field.name}" for name, field in OPTIONS])
def test_an_option_of_every_scheme_allows_its_types_and_limits_alone(name, field):
    kind = scheme_class(name).Settings
    assert kind.faults(name, {field.name: field.default}) == []
    assert field.metadata["help"]
    kinds = alternatives(kind, field)
    for value, its in ((True, bool), (7, int), (1.5, float), ("?", str), (None, NoneType)):
        limited = {"ge", "gt", "le", "lt", "multiple_of"} & field.metadata.keys()
        if its not in kinds and not (its is int and float in kinds):
            assert len(kind.faults(name, {field.name: value})) == 1
        elif not limited:
            assert kind.faults(name, {field.name: value}) == []
    limits = {key: field.metadata[key] for key in ("ge", "gt", "le", "lt") if key in field.metadata}
    step = 1 if int in kinds else 1e-9
    for key, limit in limits.items():
        inside, outside = {
            "ge": (limit, limit - step), "gt": (limit + step, limit), "le": (limit, limit + step),
            "lt": (limit - step, limit),
        }[key]  # fmt: skip
        assert kind.faults(name, {field.name: inside}) == []
        assert any(str(limit) in fault for fault in kind.faults(name, {field.name: outside}))
    if int in kinds:
        assert kind.faults(name, {field.name: LARGEST + 2}) != []


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        ({}, []),
        ({"width": 4, "rate": 0.25, "on": True, "sizes": [1, 2]}, []),
        ({"width": "full"}, []),
        ({"cell": "sru"}, ["x.cell: Input should be 'gru' or 'lstm', got 'sru'"]),
        ({"width": 0}, ["x.width: Input should be greater than or equal to 2, got 0"]),
        ({"width": 3}, ["x.width: Input should be a multiple of 2, got 3"]),
        ({"width": True}, ["x.width: Input should be 'full' or a valid integer, got True"]),
        ({"width": LARGEST + 2}, ["x.width: 100000002 is more than 100,000,000"]),
        ({"rate": float("nan")}, ["x.rate: Input should be a finite number, got nan"]),
        ({"rate": 1}, ["x.rate: Input should be less than 1, got 1"]),
        ({"on": 1}, ["x.on: Input should be a valid boolean, got 1"]),
        ({"sizes": ()}, ["x.sizes: Input should have at least 1 item, got ()"]),
        (
            {"sizes": [1, 0, "a"]},
            [
                "x.sizes.1: Input should be greater than or equal to 1, got 0",
                "x.sizes.2: Input should be a valid integer, got 'a'",
            ],
        ),
        (
            {"widht": 3, "on": 0},
            ["x has no option 'widht'; did you mean 'width'?", "x.on: Input should be a valid boolean, got 0"],
        ),
        ({"zzzz": 3}, ["x has no option 'zzzz'; its options: cell, width, rate, on, sizes"]),
    ],
)
def test_what_is_wrong_is_said_of_every_option(given, faults):
    assert Mine.faults("x", given) == faults


def test_values_have_the_types_of_their_fields():
    class Number(float):
        """As a number of NumPy's, which is a number as well."""

    mine = Mine(width=4, rate=Number(0.25), sizes=[1, 2])
    assert (mine.width, mine.rate, type(mine.rate), mine.sizes) == (4, 0.25, float, (1, 2))
    assert mine == Mine(width=4, rate=0.25, sizes=(1, 2)) != Mine()
    with pytest.raises(AttributeError):
        mine.width = 2


def test_a_wrong_value_is_an_error_where_it_is_given():
    with pytest.raises(PositionError) as error:
        Mine(width=1, rate=2.0)
    assert [line.partition(":")[0] for line in str(error.value).split("\n")] == ["Mine.width", "Mine.rate"]


def test_an_option_without_a_default_is_needed():
    assert Wider.faults("x", {"on": True}) == ["x needs the option 'needed'"]
    assert Wider(needed="a").cell == "gru"


def test_a_limit_that_does_not_exist_is_no_limit():
    with pytest.raises(AssertionError):
        option(1, "help", minimum=0)
