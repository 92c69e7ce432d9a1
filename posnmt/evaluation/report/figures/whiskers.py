"""Differences from a baseline: one small panel a system, with a whisker for the interval at each position."""

from __future__ import annotations

from posnmt.evaluation.report.charts import Chart
from posnmt.evaluation.report.figures import canvas
from posnmt.evaluation.report.figures.canvas import COLOURS, Drawing
from posnmt.evaluation.report.figures.lines import few_shown, label, shade, shaded

CAP = 0.13
DOTTED = (0, (1, 1.5))


def draw_whiskers(chart: Chart) -> Drawing:
    """Draw a point and its interval at each position, in panels that share their axes.

    The point is hollow where the interval holds 0, or is of few sentences; the whisker of few sentences is dotted.
    """
    from matplotlib.lines import Line2D

    ends = [end for panel in chart.panels for curve in panel.curves for each in curve.intervals if each for end in each]
    low, high = min([0, *ends]), max([0, *ends])
    margin = 0.06 * (high - low) or 1
    places = [float(place) for place in range(len(chart.labels))]
    with canvas.settings(chart.name):
        entries = [*few_shown(chart), *shaded(chart)]
        figure, all_axes = canvas.figure_of(chart, entries)
        for number, (axes, panel) in enumerate(zip(all_axes, chart.panels, strict=True)):
            shades = shade(axes, chart)
            for curve in panel.curves:
                colour = canvas.line_style(curve.number)["color"]
                for place, value, interval in zip(places, curve.values, curve.intervals, strict=True):
                    if value is None or interval is None:
                        continue
                    unsure = place in chart.few
                    stroke = DOTTED if unsure else "-"
                    axes.vlines(
                        place, interval[0], interval[1], color=colour, linewidth=1.1, linestyle=stroke, zorder=3
                    )
                    axes.hlines(interval, place - CAP, place + CAP, color=colour, linewidth=1.1, zorder=3)
                    face = COLOURS["surface"] if unsure or interval[0] <= 0 <= interval[1] else colour
                    axes.plot(place, value, "o", markersize=4, color=colour, markerfacecolor=face, zorder=4)
            label(axes, chart, number, places)
            axes.axvline(0.5, color=COLOURS["grid"], linewidth=0.8, zorder=1)
            axes.set_ylim(low - margin, high + margin)
            axes.locator_params(axis="y", nbins=5)
        dotted = [Line2D([], [], color=COLOURS["muted"], linewidth=1.1, linestyle=DOTTED) for _ in few_shown(chart)]
        canvas.add_legend(figure, chart, [*dotted, *shades.values()], entries)
        return canvas.save(figure, canvas.points_of(chart, all_axes, places))
