"""Histograms of output lengths."""

from __future__ import annotations

from posnmt.report.charts import Chart
from posnmt.report.figures import canvas
from posnmt.report.figures.canvas import COLOURS, Drawing


def draw_histogram(chart: Chart) -> Drawing:
    """Draw the reference as an area, and each system as a stepped line."""
    (panel,) = chart.panels
    firsts, width = chart.places or (), chart.width or 1
    entries = [canvas.entry(curve) for curve in panel.curves]
    with canvas.settings(chart.name):
        figure, (axes,) = canvas.figure_of(chart, entries)
        edges = [*firsts, firsts[-1] + width]
        handles = []
        for curve in panel.curves:
            counts = [value or 0 for value in curve.values]
            if curve.number < 0:
                handles.append(axes.stairs(counts, edges, fill=True, color=COLOURS["reference"], zorder=1.5))
            else:
                style = canvas.line_style(curve.number)
                handles.append(axes.stairs(counts, edges, baseline=None, zorder=3, **style))
        canvas.quiet(axes, f"{panel.measure.title} ({panel.measure.better})")
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0)
        axes.locator_params(axis="both", integer=True, nbins=8)
        canvas.label_axis(axes, chart.axis)
        canvas.add_legend(figure, handles, entries)
        return canvas.save(figure)
