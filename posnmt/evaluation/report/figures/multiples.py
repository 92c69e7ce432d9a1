"""Small multiples: histograms of output lengths, and differences from a baseline, in one panel for each system."""

from __future__ import annotations

from posnmt.evaluation.report.charts import Chart
from posnmt.evaluation.report.figures import canvas
from posnmt.evaluation.report.figures.canvas import COLOURS, Drawing
from posnmt.evaluation.report.figures.lines import few_shown, label, shade, shaded
from posnmt.evaluation.report.figures.style import Style

CAP = 0.13
DOTTED = (0, (1, 1.5))


def draw_histogram(chart: Chart, style: Style) -> Drawing:
    """Draw the reference as an area, and in each panel a system as a stepped line, on the same axes."""
    firsts = list(chart.places or ())
    edges = [*firsts, firsts[-1] + chart.width]
    highest = max(value or 0 for panel in chart.panels for curve in panel.curves for value in curve.values)
    entries = ["reference"]
    with canvas.settings(chart.name, style):
        figure, all_axes = canvas.figure_of(chart, entries, style)
        handles = []
        for number, (axes, panel) in enumerate(zip(all_axes, chart.panels, strict=True)):
            for curve in panel.curves:
                counts = [value or 0 for value in curve.values]
                if curve.number < 0:
                    handles.append(axes.stairs(counts, edges, fill=True, color=COLOURS["reference"], zorder=1.5))
                else:
                    stroke = {**canvas.line_style(curve.number), "linestyle": "-"}
                    axes.stairs(counts, edges, baseline=None, zorder=3, **stroke)
            axes.set_xlim(edges[0], edges[-1])
            axes.set_ylim(0, 1.05 * highest or 1)
            axes.locator_params(axis="x", integer=True, nbins=5)
            axes.locator_params(axis="y", integer=True, nbins=4)
            canvas.quiet(axes, chart, number, style)
            if not canvas.lowest(chart, number, style):
                axes.tick_params(labelbottom=False)
        canvas.add_legend(figure, chart, handles[:1], entries, style)
        centres = [first + chart.width / 2 for first in firsts]
        return canvas.save(figure, style, canvas.points_of(chart, all_axes, lambda _: centres))


def draw_whiskers(chart: Chart, style: Style) -> Drawing:
    """Draw a point and its interval at each position, in panels that share their axes.

    The point is hollow where the interval holds 0, or is of few sentences; the whisker of few sentences is dotted.
    """
    from matplotlib.lines import Line2D

    ends = [end for panel in chart.panels for curve in panel.curves for each in curve.intervals if each for end in each]
    low, high = min([0, *ends]), max([0, *ends])
    margin = 0.06 * (high - low) or 1
    places = [float(place) for place in range(len(chart.labels))]
    with canvas.settings(chart.name, style):
        entries = [*few_shown(chart), *shaded(chart)]
        figure, all_axes = canvas.figure_of(chart, entries, style)
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
            label(axes, chart, number, places, style)
            axes.axvline(0.5, color=COLOURS["grid"], linewidth=0.8, zorder=1)
            axes.set_ylim(low - margin, high + margin)
            axes.locator_params(axis="y", nbins=5)
        dotted = [Line2D([], [], color=COLOURS["muted"], linewidth=1.1, linestyle=DOTTED) for _ in few_shown(chart)]
        canvas.add_legend(figure, chart, [*dotted, *shades.values()], entries, style)
        return canvas.save(figure, style, canvas.points_of(chart, all_axes, lambda _: places))
