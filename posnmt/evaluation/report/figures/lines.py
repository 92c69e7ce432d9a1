"""Line charts: measures by source length, position in the sentence or share of swapped words.

Up to two curves have bands for their intervals. More have bars, which stand side by side. Systems are named at the ends
of their lines where the names fit, or else in a legend above the plot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from posnmt.evaluation.report.charts import Chart, Curve, Interval
from posnmt.evaluation.report.figures import canvas
from posnmt.evaluation.report.figures.canvas import COLOURS, Drawing
from posnmt.evaluation.report.figures.ends import draw_names, names_of
from posnmt.evaluation.report.figures.style import Style
from posnmt.evaluation.report.grid import dashed, headed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More curves have bars instead of bands, since bands would cover each other.
MOST_BANDS = 2
# The share of the space between two positions that the curves of a chart with bars take, and the most for one of them;
# and the most in inches.
SPREAD, APART, INCHES_APART = 0.6, 0.14, 0.07
# Of hollow markers, which are of few sentences.
FADED = 0.6
# With more positions, not every one has a marker.
MOST_MARKERS = 24
SHADES: dict[str | None, tuple[str, dict[str, Any]]] = {
    "unseen": ("not in training", {"facecolor": COLOURS["unseen"]}),
    "partly unseen": ("partly in training", {"facecolor": COLOURS["partly"], "hatch": "////"}),
}


def draw_lines(chart: Chart, style: Style) -> Drawing:
    """Draw a line for each system in every panel, with its intervals; unseen lengths are shaded."""
    curves = chart.panels[0].curves
    most = max(len(panel.curves) for panel in chart.panels)
    names = names_of(chart, style)
    if names is not None:
        narrower = replace(style, beside=names.width)
        if _axis_labels(chart, narrower)[1] > _axis_labels(chart, style)[1]:
            names = None  # they would cost labels of the axis
        else:
            style = narrower
    with canvas.settings(chart.name, style):
        systems = canvas.entries(curves) if names is None else []
        entries = [*systems, *few_shown(chart), *shaded(chart)]
        figure, all_axes = canvas.figure_of(chart, entries, style)
        places = list(chart.places or range(len(chart.labels)))
        beside = [
            _beside(places, number, most, chart, style) if style.bands and most > MOST_BANDS else places
            for number in range(most)
        ]
        handles: list[Any] = []
        for number, (axes, panel) in enumerate(zip(all_axes, chart.panels, strict=True)):
            shades = shade(axes, chart)
            for row, curve in enumerate(panel.curves):
                joined, apart = _parted(curve, chart.few)
                handles += _draw_curve(axes, beside[row], joined, bridged=chart.places is not None)
                _draw_apart(axes, beside[row], apart)
                if style.bands:
                    (_draw_band if most <= MOST_BANDS else _draw_bars)(axes, beside[row], joined)
            label(axes, chart, number, places, style)
            axes.set_ylim(*chart.span(panel, style.bands))
            if names is not None:
                ends = [beside[row][names.place] for row in range(len(panel.curves))]
                draw_names(axes, panel.curves, names, ends, names.heights[number])
        hollow = [_hollow() for _ in few_shown(chart)]
        canvas.add_legend(figure, chart, [*handles[: len(systems)], *hollow, *shades.values()], entries, style)
        return canvas.save(figure, style, canvas.points_of(chart, all_axes, beside.__getitem__))


def _beside(places: Sequence[float], number: int, count: int, chart: Chart, style: Style) -> list[float]:
    """The places of one of several curves, moved so that no two curves have bars at the same place."""
    along = [math.log(place) for place in places] if chart.logarithmic else places
    share = min(APART, SPREAD / count, INCHES_APART * len(places) / canvas.panel_width(chart, style))
    gap = min((later - earlier for earlier, later in pairwise(along)), default=1.0)
    moved = [place + (number - (count - 1) / 2) * gap * share for place in along]
    return [math.exp(place) for place in moved] if chart.logarithmic else moved


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


def _draw_apart(axes: Axes, places: Sequence[float], curve: Curve) -> None:
    """Draw the values of few sentences, which no line joins, as hollow markers."""
    style = {**canvas.marker_style(curve.number), "markerfacecolor": COLOURS["surface"], "markeredgewidth": 1.0}
    style["alpha"] = FADED
    style["markeredgecolor"] = canvas.line_style(curve.number)["color"]
    points = [(place, value) for place, value in zip(places, curve.values, strict=True) if value is not None]
    if points:
        axes.plot(*zip(*points, strict=True), linestyle="none", **style, clip_on=False, zorder=3)


def _draw_curve(axes: Axes, places: Sequence[float], curve: Curve, bridged: bool) -> list[Any]:
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


def _draw_band(axes: Axes, places: Sequence[float], curve: Curve) -> None:
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


def _draw_bars(axes: Axes, places: Sequence[float], curve: Curve) -> None:
    """Draw a bar between the ends of each interval."""
    known = [(place, *ends) for place, ends in zip(places, curve.intervals, strict=True) if ends]
    if known:
        axes.vlines(
            *zip(*known, strict=True), color=canvas.line_style(curve.number)["color"], linewidth=0.9, zorder=2.5
        )


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


def label(axes: Axes, chart: Chart, number: int, places: list[float], style: Style) -> None:
    """Add a panel's title, as many labels as fit, with n below each, and the line of the neutral value."""
    canvas.quiet(axes, chart, number, style)
    low = canvas.lowest(chart, number, style)
    labels, every = _axis_labels(chart, style)
    if chart.counts and canvas.counted(chart) and low and number % canvas.columns_of(chart, style) == 0:
        canvas.head_counts(axes, chart.counts[0])
    shown = list(range((len(labels) - 1) % every, len(labels), every))
    if chart.kind == "whiskers":  # the first stands for all sentences
        shown = [0, *(each for each in shown if each >= every)]
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


def _axis_labels(chart: Chart, style: Style) -> tuple[list[str], int]:
    """The labels of the horizontal axis, and n if every n-th fits."""
    width = canvas.panel_width(chart, style)
    labels = [ticked(label, width / len(chart.labels)) for label in chart.labels]
    if chart.counts and canvas.counted(chart):
        labels = [f"{label}\n{count:,}" for label, count in zip(labels, chart.counts[1], strict=True)]
    return labels, step(labels, width)


def ticked(text: str, width: float) -> str:
    """A label of the axis: an open bin is `60 and more` if this fits into a width in inches, or else `≥ 60`."""
    words = dashed(text)
    fits = canvas.letters(words) <= width / (canvas.TICK_FONT * canvas.POINT * canvas.LETTER)
    return words if fits else headed(text)


def step(labels: Sequence[str], width: float) -> int:
    """The smallest n such that every n-th label, with the last, fits without overlapping into a width in inches."""
    widths = [max(map(canvas.letters, label.split("\n"))) for label in labels]
    apart = width / (canvas.TICK_FONT * canvas.POINT * canvas.LETTER) / len(labels)  # in letters
    for every in range(1, len(labels)):
        shown = widths[(len(labels) - 1) % every :: every]
        if all((one + next_one) / 2 + 1 <= every * apart for one, next_one in pairwise(shown)):
            return every
    return len(labels)
