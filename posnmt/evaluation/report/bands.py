"""What the bands and bars of a figure show: seeds, intervals, or nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.intervals import LEVEL
from posnmt.evaluation.analyse.seeds import spread, t_quantile
from posnmt.evaluation.report.charts import Chart, Curve, Interval

Bands = Literal["range", "sd", "ci", "none"]
BANDS: dict[Bands, str] = {
    "range": "from the lowest to the highest seed",
    "sd": "one standard deviation over seeds on both sides of the mean (n − 1)",
    "ci": "95 % intervals of the mean over seeds (Student's t)",
    "none": "",
}
"""What is shown of several seeds; of a single output, all but `sd` and `none` show its interval."""
OF_ONE = "95 % bootstrap intervals over {}"
"""Of a single output, over what the bootstrap draws."""


def banded(chart: Chart, bands: Bands) -> Chart:
    """A chart with these intervals, which are those of seeds where a curve has several.

    Raises:
        UserError: a standard deviation is asked for, and no curve has the values of several seeds.
    """
    if bands == "none":
        panels = [replace(panel, curves=[_without(curve) for curve in panel.curves]) for panel in chart.panels]
        return replace(chart, panels=panels)
    seeds = [curve for _, curve in chart.columns() if curve.seeds > 1 and curve.by_seed]
    if bands == "sd" and (not seeds or chart.about_bands):
        todo = "choose ci, or name outputs of several seeds NAME:SEED in the analysis"
        raise UserError("bands of sd need a system with several seeds, and this figure has none", "--bands", todo)
    if bands == "range" or chart.about_bands:
        return chart
    panels = [replace(panel, curves=[_over_seeds(curve, bands) for curve in panel.curves]) for panel in chart.panels]
    return replace(chart, panels=panels)


def _without(curve: Curve) -> Curve:
    return replace(curve, intervals=[None] * len(curve.values))


def _over_seeds(curve: Curve, bands: Bands) -> Curve:
    """A curve with the intervals of its seeds; that of a single output has its own, or none of its deviation."""
    if curve.seeds == 1 or not curve.by_seed:
        return _without(curve) if bands == "sd" else curve
    return replace(curve, intervals=[_around(values, bands) for values in curve.by_seed])


def _around(values: Sequence[float | None], bands: Bands) -> Interval:
    """The ends for the values of the seeds at one position; None where a seed has none, or there is one seed."""
    of_seeds = spread(values) if len(values) > 1 else {"mean": None, "deviation": None}
    mean, reach = of_seeds["mean"], of_seeds["deviation"]
    if mean is None or reach is None:
        return None
    if bands == "ci":
        reach *= t_quantile((1 + LEVEL) / 2, len(values) - 1) / math.sqrt(len(values))
    return mean - reach, mean + reach


def in_words(chart: Chart, bands: Bands) -> str:
    """What the intervals of a chart are, for its caption; empty if none is drawn."""
    curves = [curve for _, curve in chart.columns() if any(curve.intervals)]
    if not curves:
        return ""
    if chart.about_bands:
        return chart.about_bands
    several, single = (any((curve.seeds > 1) == kind for curve in curves) for kind in (True, False))
    if chart.kind == "whiskers" or not several:
        return OF_ONE.format(chart.drawn)
    return BANDS[bands] + (f"; of one seed, {OF_ONE.format(chart.drawn)}" if single else "")
