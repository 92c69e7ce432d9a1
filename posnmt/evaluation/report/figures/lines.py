"""Line charts: measures by source length, position in the sentence or share of swapped words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from posnmt.evaluation.report.charts import Chart, Curve, Interval
from posnmt.evaluation.report.figures import canvas
from posnmt.evaluation.report.figures.canvas import COLOURS, Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With more curves, bands are not drawn, since they would cover each other; the table has all intervals.
MOST_BANDS = 2
# With more positions, not every one has a marker.
MOST_MARKERS = 24
SHADES: dict[str | None, tuple[str, dict[str, Any]]] = {
    "unseen": ("not in training", {"facecolor": COLOURS["unseen"]}),
    "partly unseen": ("partly in training", {"facecolor": COLOURS["partly"], "hatch": "////"}),
}


def draw_lines(chart: Chart) -> Drawing:
    """Draw a line for each system in every panel, with bands for the intervals; unseen lengths are shaded."""
    curves = chart.panels[0].curves
    with canvas.settings(chart.name):
        entries = [*map(canvas.entry, curves), *few_shown(chart), *shaded(chart)]
        figure, all_axes = canvas.figure_of(chart, entries)
        places = list(chart.places or range(len(chart.labels)))
        handles: list[Any] = []
        for number, (axes, panel) in enumerate(zip(all_axes, chart.panels, strict=True)):
            shades = shade(axes, chart)
            for curve in panel.curves:
                joined, apart = _parted(curve, chart.few)
                handles += _draw_curve(axes, places, joined, bridged=chart.places is not None)
                _draw_apart(axes, places, apart)
                if len(panel.curves) <= MOST_BANDS:
                    _draw_band(axes, places, joined)
            label(axes, chart, number, places)
        hollow = [_hollow() for _ in few_shown(chart)]
        canvas.add_legend(figure, chart, [*handles[: len(curves)], *hollow, *shades.values()], entries)
        return canvas.save(figure, canvas.points_of(chart, all_axes, places))


def _parted(curve: Curve, few: Sequence[int]) -> tuple[Curve, Curve]:
    """A curve without its values of few sentences, and a curve with only these."""
    joined, apart = (
        [value if (place in few) == chosen else None for place, value in enumerate(curve.values)]
        for chosen in (False, True)
    )
    intervals = [None if place in few else interval for place, interval in enumerate(curve.intervals)]
    return replace(curve, values=joined, intervals=intervals), replace(curve, values=apart)


def few_shown(chart: Chart) -> list[str]:
    """The legend's text for values of few sentences, if there are any."""
    return [chart.about_few] if chart.few else []


def _hollow() -> Any:
    """The legend's handle for values of few sentences."""
    from matplotlib.lines import Line2D

    colour = COLOURS["muted"]
    return Line2D(
        [], [], linestyle="none", marker="o", markersize=4.2, color=colour, markerfacecolor=COLOURS["surface"]
    )


def _draw_apart(axes: Axes, places: list[float], curve: Curve) -> None:
    """Draw the values of few sentences, which no line joins, as hollow markers."""
    style = {**canvas.marker_style(curve.number), "markerfacecolor": COLOURS["surface"], "markeredgewidth": 1.0}
    style["markeredgecolor"] = canvas.line_style(curve.number)["color"]
    points = [(place, value) for place, value in zip(places, curve.values, strict=True) if value is not None]
    if points:
        axes.plot(*zip(*points, strict=True), linestyle="none", **style, clip_on=False, zorder=3)


def _draw_curve(axes: Axes, places: list[float], curve: Curve, bridged: bool) -> list[Any]:
    """Draw the line of one system. Missing values break the line, unless they are `bridged`."""
    points = [
        (place, math.nan if value is None else value)
        for place, value in zip(places, curve.values, strict=True)
        if value is not None or not bridged
    ]
    return axes.plot(
        [place for place, _ in points], [value for _, value in points],
        **canvas.line_style(curve.number), **canvas.marker_style(curve.number),
        markevery=math.ceil(len(places) / MOST_MARKERS), clip_on=False, zorder=3,
    )  # fmt: skip


def _draw_band(axes: Axes, places: list[float], curve: Curve) -> None:
    """Draw a band between the ends of the intervals; an interval without neighbours becomes a bar."""
    colour = canvas.line_style(curve.number)["color"]
    for known, group in groupby(zip(places, curve.intervals, strict=True), lambda each: each[1] is not None):
        run: list[tuple[float, Interval]] = list(group)
        if known:
            at = [place for place, _ in run]
            lows, highs = zip(*(interval for _, interval in run if interval), strict=True)
            if len(run) == 1:
                axes.vlines(at, lows, highs, color=colour, alpha=0.5, linewidth=2, zorder=2)
            else:
                axes.fill_between(at, lows, highs, color=colour, alpha=0.15, linewidth=0, zorder=2)


def shaded(chart: Chart) -> list[str]:
    """The legend's texts for shaded positions, first for those that do not occur in training at all."""
    return [_shade_text(mark, chart) for mark in SHADES if mark in (chart.training or ())]


def _shade_text(mark: str | None, chart: Chart) -> str:
    text, _ = SHADES[mark]
    if mark == "unseen":
        return chart.unreached or f"{chart.trained} {text}"
    if not chart.unreached:
        return text
    return "part of the bin is" if "unseen" in (chart.training or ()) else f"in part {chart.unreached}"


def shade(axes: Axes, chart: Chart) -> dict[str, Any]:
    """Shade the positions with lengths that do not occur in training; return the legend's patches in its order."""
    shades = {}
    for mark, run in groupby(enumerate(chart.training or ()), lambda each: each[1]):
        if mark in SHADES:
            numbers = [number for number, _ in run]
            shades[_shade_text(mark, chart)] = axes.axvspan(
                numbers[0] - 0.5,
                numbers[-1] + 0.5,
                edgecolor=COLOURS["hatch"],
                linewidth=0,
                zorder=0,
                **SHADES[mark][1],
            )
    return {text: shades[text] for text in shaded(chart)}


def label(axes: Axes, chart: Chart, number: int, places: list[float]) -> None:
    """Add a panel's title, as many labels as fit, with n below each, and the line of the neutral value."""
    canvas.quiet(axes, chart, number)
    labels = list(chart.labels)
    if chart.counts and canvas.counted(chart):
        labels = [f"{label}\nn={count}" for label, count in zip(labels, chart.counts[1], strict=True)]
    every = step(labels, canvas.panel_width(chart))
    shown = range((len(labels) - 1) % every, len(labels), every)
    low = canvas.lowest(chart, number)
    if chart.logarithmic:
        axes.set_xscale("log")
        axes.minorticks_off()
        margin = (places[-1] / places[0]) ** 0.05
        axes.set_xlim(places[0] / margin, places[-1] * margin)
    else:
        margin = 0.5 if chart.places is None else 0.05 * (places[-1] - places[0]) or 0.5
        axes.set_xlim(places[0] - margin, places[-1] + margin)
    axes.set_xticks([places[each] for each in shown], [labels[each] if low else "" for each in shown])
    if (neutral := chart.panels[number].measure.neutral) is not None:
        axes.axhline(neutral, color=COLOURS["muted"], linewidth=0.8, zorder=2)


def step(labels: Sequence[str], width: float) -> int:
    """The smallest n such that every n-th label fits without overlapping into a width in inches."""
    widest = max(canvas.letters(line) for label in labels for line in label.split("\n"))
    characters = width / (canvas.TICK_FONT * canvas.POINT * canvas.LETTER)
    return math.ceil(len(labels) * (widest + 1) / characters)
