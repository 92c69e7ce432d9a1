"""A row for each system, with the point and the interval of one value in each panel; panels have measures of their own.

Such a figure is read from top to bottom, and has room for the names of many systems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posnmt.evaluation.report.charts import Chart, Panel, ends_of
from posnmt.evaluation.report.figures import canvas
from posnmt.evaluation.report.figures.canvas import COLOURS, LETTER, POINT, SERIES, TICK_FONT, Drawing
from posnmt.evaluation.report.figures.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Sizes in inches: margins, the space between panels, a row, and the space for titles and for numbers.
EDGE, GAP, ROW, ABOVE, BELOW = 0.06, 0.22, 0.165, 0.34, 0.26
CAP = 0.17


def draw_rows(chart: Chart, style: Style) -> Drawing:
    """Draw the panels side by side; the point of a value that nothing is said of in `chart.few` is hollow."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    left = EDGE + max(map(canvas.letters, chart.labels)) * LETTER * TICK_FONT * POINT + 0.08
    width = (style.width - left - EDGE - (len(chart.panels) - 1) * GAP) / len(chart.panels)
    plot = ROW * len(chart.labels)
    height = ABOVE + plot + BELOW
    with canvas.settings(chart.name, style):
        figure = Figure(figsize=(style.width, height), facecolor=COLOURS["surface"])
        FigureCanvasAgg(figure)
        for number, panel in enumerate(chart.panels):
            start = left + number * (width + GAP)
            place = (start / style.width, BELOW / height, width / style.width, plot / height)
            axes = figure.add_axes(place, facecolor=COLOURS["surface"])
            _draw(axes, chart, panel, style)
            axes.set_yticks(range(len(chart.labels)), list(chart.labels) if number == 0 else [""] * len(chart.labels))
            size, title = canvas.fitted(panel.title, width + (GAP if number + 1 < len(chart.panels) else 0))
            axes.set_title(title, loc="left", fontsize=size, color=COLOURS["ink"], pad=13)
            axes.text(
                0, 1, panel.measure.better, transform=axes.transAxes, ha="left", va="bottom",
                fontsize=canvas.fitted(panel.measure.better, width)[0], color=COLOURS["muted"],
            )  # fmt: skip
        return canvas.save(figure, style, [])


def _draw(axes: Axes, chart: Chart, panel: Panel, style: Style) -> None:
    """The points and intervals of a panel, from top to bottom."""
    [curve] = panel.curves
    for row, (value, interval) in enumerate(zip(curve.values, curve.intervals, strict=True)):
        if value is None:
            continue
        if interval is not None and style.bands:
            axes.hlines(row, interval[0], interval[1], color=SERIES[0], linewidth=1.1, zorder=3)
            axes.vlines(interval, row - CAP, row + CAP, color=SERIES[0], linewidth=1.1, zorder=3)
        face = COLOURS["surface"] if row in chart.few else SERIES[0]
        axes.plot(value, row, "o", markersize=4, color=SERIES[0], markerfacecolor=face, zorder=4)
    if panel.measure.neutral is not None:
        axes.axvline(panel.measure.neutral, color=COLOURS["muted"], linewidth=0.8, zorder=2)
    axes.set_ylim(len(chart.labels) - 0.5, -0.5)
    axes.set_xlim(*ends_of(panel.curves, panel.measure, style.bands))
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(colors=COLOURS["muted"], labelsize=TICK_FONT, length=0)
    axes.tick_params(axis="y", labelcolor=COLOURS["ink"])
    axes.grid(axis="x", color=COLOURS["grid"], linewidth=0.6, zorder=1)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(COLOURS["muted"])
