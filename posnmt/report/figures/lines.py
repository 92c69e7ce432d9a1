"""Line charts: measures by source length, position in the sentence or share of swapped words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from posnmt.report.charts import Chart, Curve, Interval, Panel
from posnmt.report.figures import canvas
from posnmt.report.figures.canvas import COLOURS, Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With more curves, bands are not drawn, since they would cover each other; the table has all intervals.
MOST_BANDS = 6
# With more positions, not every one has a marker.
MOST_MARKERS = 24
SHADES: dict[str | None, tuple[str, dict[str, Any]]] = {
    "unseen": ("length not in training", {"facecolor": COLOURS["unseen"]}),
    "partly unseen": ("partly in training", {"facecolor": COLOURS["partly"], "hatch": "////"}),
}


def draw_lines(chart: Chart) -> Drawing:
    """Draw a line for each system in every panel, with bands for the intervals; unseen lengths are shaded."""
    shaded = [SHADES[mark][0] for mark in dict.fromkeys(chart.training or ()) if mark in SHADES]
    curves = chart.panels[0].curves
    entries = [*map(canvas.entry, curves), *shaded]
    with canvas.settings(chart.name):
        figure, all_axes = canvas.figure_of(chart, entries)
        places = list(chart.places or range(len(chart.labels)))
        for axes, panel in zip(all_axes, chart.panels, strict=True):
            shades = _shade(axes, chart.training or ())
            for curve in panel.curves:
                _draw_curve(axes, places, curve, bridged=chart.places is not None)
                if len(panel.curves) <= MOST_BANDS:
                    _draw_band(axes, places, curve)
            _label(axes, chart, panel, places)
        canvas.label_axis(all_axes[-1], chart.axis)
        handles = [*all_axes[0].get_lines()[: len(curves)], *(shades[text] for text in shaded)]
        canvas.add_legend(figure, handles, entries)
        return canvas.save(figure)


def _draw_curve(axes: Axes, places: list[float], curve: Curve, bridged: bool) -> None:
    """Draw the line of one system. Missing values break the line, unless they are `bridged`."""
    points = [
        (place, math.nan if value is None else value)
        for place, value in zip(places, curve.values, strict=True)
        if value is not None or not bridged
    ]
    axes.plot(
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


def _shade(axes: Axes, training: Sequence[str | None]) -> dict[str, Any]:
    """Shade the positions with lengths that do not occur in training; return the legend's patches by text."""
    shades = {}
    for mark, run in groupby(enumerate(training), lambda each: each[1]):
        if mark in SHADES:
            numbers = [number for number, _ in run]
            text, style = SHADES[mark]
            shades[text] = axes.axvspan(
                numbers[0] - 0.5, numbers[-1] + 0.5, edgecolor=COLOURS["hatch"], linewidth=0, zorder=0, **style
            )
    return shades


def _label(axes: Axes, chart: Chart, panel: Panel, places: list[float]) -> None:
    """Add the title, as many labels as fit, with n below each, and the line of the neutral value."""
    measure = panel.measure
    canvas.quiet(axes, f"{measure.title} ({measure.better})")
    labels = list(chart.labels)
    if chart.counts and canvas.counted(chart):
        labels = [f"{label}\nn={count}" for label, count in zip(labels, chart.counts[1], strict=True)]
    shown = range((len(labels) - 1) % step(labels), len(labels), step(labels))
    last = panel is chart.panels[-1]
    axes.set_xticks([places[number] for number in shown], [labels[number] if last else "" for number in shown])
    margin = 0.5 if chart.places is None else 0.05 * (places[-1] - places[0]) or 0.5
    axes.set_xlim(places[0] - margin, places[-1] + margin)
    if measure.neutral is not None:
        axes.axhline(measure.neutral, color=COLOURS["muted"], linewidth=0.8, zorder=2)


def step(labels: Sequence[str]) -> int:
    """The smallest n such that every n-th label fits without overlapping."""
    widest = max(canvas.letters(line) for label in labels for line in label.split("\n"))
    characters = (canvas.WIDTH - canvas.LEFT - canvas.RIGHT) / (canvas.TICK_FONT * canvas.POINT * canvas.LETTER)
    return math.ceil(len(labels) * (widest + 1) / characters)
