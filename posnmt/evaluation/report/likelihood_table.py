"""Read likelihood.csv, so that its curves can be drawn without the losses that it was computed from."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast, get_args

import numpy as np

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.bins import Mark
from posnmt.evaluation.analyse.crossed import Estimate
from posnmt.evaluation.analyse.jackknife import Statistic
from posnmt.evaluation.analyse.length_effects import Measured
from posnmt.evaluation.analyse.zones import Support
from posnmt.evaluation.report.likelihood import CSV_HEAD

# What a table lacks: the figure of every model.
_NO_STATISTIC = Statistic(np.empty(0), np.empty((0, 0)), np.empty(0), 0)
NEEDED = [name for name in CSV_HEAD if name != "training"]
"""Columns that a table must have; without `training`, no position is marked."""


@dataclass(frozen=True)
class TableCurves:
    """The curves of a table, as `posnmt.evaluation.report.likelihood.Curves` has them.

    Attributes:
        systems: names, the baseline first.
        overall, positions, source_lengths, distances: by axis.
        designs: by their names.
    """

    systems: Sequence[str]
    overall: Sequence[Measured]
    positions: Sequence[Measured]
    source_lengths: Sequence[Measured]
    distances: Sequence[Measured]
    designs: Mapping[str, Measured]


def read_curves(text: str, where: object) -> TableCurves:
    """The curves of a table.

    Args:
        text: of likelihood.csv.
        where: its place, for messages.

    Raises:
        UserError: it is no such table, or a row is damaged.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    if lacking := [name for name in NEEDED if name not in (reader.fieldnames or [])]:
        what = f"this is no table of likelihood by position: it has no column {lacking[0]}"
        raise UserError(what, str(where), "name the likelihood.csv that `posnmt score --by-position --out` wrote")
    rows = []
    for row in reader:
        try:
            rows.append((row, *_estimates(row)))
        except (TypeError, ValueError):
            todo = "write it again, or restore it"
            raise UserError("a row of the table is damaged", f"{where}:{reader.line_num}", todo) from None
    measured = []
    for (axis, label), group in groupby(rows, lambda each: (each[0]["axis"], each[0]["bin"])):
        of_bin = list(group)
        first = of_bin[0][0]
        mark = first.get("training")
        measured.append(
            Measured(
                axis,
                label,
                _support(first),
                {row["system"]: level for row, level, _ in of_bin},
                {row["system"]: difference for row, _, difference in of_bin if difference},
                _NO_STATISTIC,
                cast(Mark, mark) if mark in get_args(Mark) else None,
            )
        )
    names = list(dict.fromkeys(row["system"] for row, _, _ in rows))
    baseline = next((row["baseline"] for row, _, _ in rows if row["baseline"]), None)
    systems = [*([baseline] if baseline in names else []), *(name for name in names if name != baseline)]

    def of(axis: str) -> list[Measured]:
        return [each for each in measured if each.axis == axis]

    return TableCurves(
        systems,
        of("all"),
        of("target position"),
        of("source length"),
        of("distance beyond training"),
        {each.bin: each for each in of("design")},
    )


def _support(row: dict[str, str]) -> Support:
    return Support(int(row["sentences"]), int(row["documents"]), float(row["G*"]))


def _estimates(row: dict[str, str]) -> tuple[Estimate, Estimate | None]:
    """The loss of a system in a row, whose variance a table lacks, and its difference from the baseline, if any."""
    support, seeds = _support(row), int(row["seeds"])
    level = Estimate(_number(row["L"]), math.nan, math.nan, support, seeds)
    if not row["baseline"]:
        return level, None
    return level, Estimate(_number(row["Delta"]), _number(row["SE"]) ** 2, _number(row["df"]), support, seeds)


def _number(text: str) -> float:
    """A number; NaN for an empty cell."""
    return float(text) if text else math.nan
