"""Histograms of output lengths, one for each system."""

from __future__ import annotations

from posnmt.evaluation.report.charts import Chart
from posnmt.evaluation.report.figures import canvas
from posnmt.evaluation.report.figures.canvas import COLOURS, Drawing


def draw_histogram(chart: Chart) -> Drawing:
    """Draw the reference as an area, and in each panel a system as a stepped line, on the same axes."""
    firsts = list(chart.places or ())
    edges = [*firsts, firsts[-1] + chart.width]
    highest = max(value or 0 for panel in chart.panels for curve in panel.curves for value in curve.values)
    entries = ["reference"]
    with canvas.settings(chart.name):
        figure, all_axes = canvas.figure_of(chart, entries)
        handles = []
        for number, (axes, panel) in enumerate(zip(all_axes, chart.panels, strict=True)):
            for curve in panel.curves:
                counts = [value or 0 for value in curve.values]
                if curve.number < 0:
                    handles.append(axes.stairs(counts, edges, fill=True, color=COLOURS["reference"], zorder=1.5))
                else:
                    style = {**canvas.line_style(curve.number), "linestyle": "-"}
                    axes.stairs(counts, edges, baseline=None, zorder=3, **style)
            axes.set_xlim(edges[0], edges[-1])
            axes.set_ylim(0, 1.05 * highest or 1)
            axes.locator_params(axis="x", integer=True, nbins=5)
            axes.locator_params(axis="y", integer=True, nbins=4)
            canvas.quiet(axes, chart, number)
            if not canvas.lowest(chart, number):
                axes.tick_params(labelbottom=False)
        canvas.add_legend(figure, chart, handles[:1], entries)
        centres = [first + chart.width / 2 for first in firsts]
        return canvas.save(figure, canvas.points_of(chart, all_axes, centres))
