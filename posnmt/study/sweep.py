"""The section of a recipe that varies settings: a grid of values, every combination of which is a point."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, get_args

from pydantic import Field, field_validator, model_validator

from posnmt.base.errors import UserError, quoted
from posnmt.config.numbers import in_digits
from posnmt.config.yaml import Section
from posnmt.study.claims import Scale

Value = bool | int | float | str
Seeds = Annotated[int, Field(gt=0, le=1000)]
"""A number of seeds; for each there is a training with its translations."""
MOST_POINTS = 100
"""The default limit of points of a sweep."""
OF_TEXT = ("data", "subword", "decode")
"""Sections of a configuration that belong to a training of a recipe; all others belong to its systems."""


class Dimension(Section):
    """A setting, and the values that it has."""

    of: str = Field(
        pattern=r"^([\w-]+(\.[\w-]+)*:\w+\.\w+|[\w-]+(\.[\w-]+)+)$",
        description="a setting of a configuration, such as `data.max_length`, or an option of a position scheme, such "
        "as `relative.distance` or `module:Class.option`",
    )
    values: dict[Scale, list[Value]] = Field(description="a list, or a list for each scale")
    label: str | None = Field(None, description="title of the axis; default: the setting")

    @field_validator("values", mode="before")
    @classmethod
    def _checked(cls, written: Any) -> dict[str, list[Value]]:
        by_scale = written if isinstance(written, dict) else dict.fromkeys(get_args(Scale), written)
        return {scale: _values(each) for scale, each in by_scale.items()}

    @model_validator(mode="after")
    def _can_be_varied(self) -> Dimension:
        if self.of == "train.seed":
            raise ValueError("train.seed is varied by `seeds`")
        return self

    @property
    def keys(self) -> list[str]:
        """The section, or the position scheme, and the keys in it."""
        return self.of.rsplit(".", 1) if ":" in self.of else self.of.split(".")

    @property
    def of_text(self) -> bool:
        """Whether the setting belongs to a training of a recipe."""
        return self.keys[0] in OF_TEXT


class Sweep(Section):
    """Systems and trainings with every combination of the values of some settings, measured together."""

    systems: list[str] = Field(
        [], description="systems to vary; default: those of `runs` with the position schemes of the grid"
    )
    trainings: list[str] = Field([], description="training texts; default: the first of the recipe")
    analyses: list[str] = Field([], description="analyses on whose tests the points are measured; default: all")
    grid: dict[Annotated[str, Field(pattern=r"^[\w-]+$")], Dimension] = Field(
        min_length=1, description="name -> setting and values; the first is the axis of figures"
    )
    seeds: Seeds | dict[Scale, Seeds] | None = Field(None, description="instead of the scale's number")
    caption: str | None = Field(None, description="caption of its figures")
    most: int = Field(MOST_POINTS, gt=0, le=10_000, description="number of points that it may have")

    @model_validator(mode="after")
    def _varies_each_once(self) -> Sweep:
        settings = [dimension.of for dimension in self.grid.values()]
        if twice := [setting for number, setting in enumerate(settings) if setting in settings[:number]]:
            raise ValueError(f"two dimensions of its grid vary {twice[0]}")
        return self

    @model_validator(mode="after")
    def _not_too_large(self) -> Sweep:
        if (fault := self.fault()) is not None:
            raise ValueError(fault)
        return self

    def fault(self) -> str | None:
        """What is wrong with the number of points; None if nothing is. Default systems can make it too large."""
        for scale in get_args(Scale):
            if (points := self.size(scale)) > self.most:
                return (
                    f"it has {points:,} points at scale {scale} ({self.formula(scale)}); `most: {points}` allows them"
                )
        return None

    def size(self, scale: Scale) -> int:
        """The number of points at a scale."""
        sizes = [len(dimension.values.get(scale, [])) for dimension in self.grid.values()]
        return math.prod([len(self.systems) or 1, len(self.trainings) or 1, *sizes])

    def formula(self, scale: Scale) -> str:
        """The number of points at a scale as a product, in words."""
        factors = [(len(self.systems), "systems"), (len(self.trainings), "trainings")]
        several = [f"{count} {kind}" for count, kind in factors if count > 1]
        of_grid = [f"{len(dimension.values.get(scale, []))} of {name}" for name, dimension in self.grid.items()]
        return " x ".join([*several, *of_grid])


def grid_of(written: Sequence[str]) -> dict[str, Any]:
    """The grid of `setting=value,value` of a command line, as in a recipe.

    Raises:
        UserError: one of them has another form.
    """
    grid: dict[str, Any] = {}
    for each in written:
        setting, sign, values = each.partition("=")
        if not sign or "." not in setting:
            example = "for example --sweep relative.distance=2,4,8"
            raise UserError(f"a sweep is written section.setting=value,value; got {quoted(each)}", "--sweep", example)
        name = setting.rpartition(".")[2]
        name = setting.replace(".", "-") if name in grid else name
        words = {"true": True, "false": False}  # as in YAML
        grid[name] = {"of": setting, "values": [words.get(value, value) for value in values.split(",") if value]}
    return grid


def _values(written: Any) -> list[Value]:
    """The values in a list, with numbers as numbers: those of a command line are text.

    Raises:
        ValueError: it is not a list, is empty, or has a value twice or one that is neither a number nor a word.
    """
    if not isinstance(written, list):
        raise ValueError(f"values are a list, such as [2, 4, 8]; got {quoted(written)}")
    if not written:
        raise ValueError("there are no values")
    values = [_value(each) for each in written]
    names = [name_of(value) for value in values]
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise ValueError(f"{twice[0]} is there twice")
    return values


def _value(written: Any) -> Value:
    """A value, as a number if it is one."""
    if isinstance(written, bool | int):
        return written
    if isinstance(written, float | str):
        try:
            number = float(in_digits(written) if isinstance(written, str) else written)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return int(number) if number.is_integer() else number
    if not isinstance(written, str) or not re.fullmatch(r"[\w.-]+", written):
        raise ValueError(f"a value is a number or a word, not {quoted(written)}")
    return written


def name_of(value: Value) -> str:
    """A value as the name of a point has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
