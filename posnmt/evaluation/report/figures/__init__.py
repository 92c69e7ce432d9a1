"""Draw figures with matplotlib, as wide as a column of a paper; the same charts give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable

from posnmt.base.progress import Work
from posnmt.evaluation.report.charts import Chart
from posnmt.evaluation.report.figures.canvas import Drawing
from posnmt.evaluation.report.figures.heat import draw_heat
from posnmt.evaluation.report.figures.lines import draw_lines
from posnmt.evaluation.report.figures.multiples import draw_histogram, draw_whiskers
from posnmt.evaluation.report.figures.rows import draw_rows
from posnmt.evaluation.report.figures.style import Style

KINDS = {
    "lines": draw_lines,
    "histogram": draw_histogram,
    "whiskers": draw_whiskers,
    "heat": draw_heat,
    "rows": draw_rows,
}
REPORT = Style()
"""The style of reports."""


def draw(charts: Iterable[Chart], style: Style = REPORT) -> dict[str, Drawing]:
    """Name of chart → its figure."""
    charts, drawings = list(charts), {}
    with Work("drawing", "figures", len(charts)) as work:
        for chart in charts:
            drawings[chart.name] = KINDS[chart.kind](chart, style)
            work.add(1)
    return drawings
