"""Figures for print: chosen by kind, drawn in one style, and saved with their caption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, refuse_unknown
from posnmt.base.version import __version__
from posnmt.evaluation.report.bands import Bands, banded, in_words
from posnmt.evaluation.report.charts import Chart, Line, charts, length_chart, lines_of, sharing
from posnmt.evaluation.report.figures import Drawing, Style, draw
from posnmt.evaluation.report.figures.lines import MOST_BANDS, shaded
from posnmt.evaluation.report.figures.pgf import NEEDS
from posnmt.evaluation.report.figures.style import COLUMN
from posnmt.evaluation.report.grid import to_csv
from posnmt.evaluation.report.latex import escape
from posnmt.evaluation.report.likelihood import Curves, likelihood_charts
from posnmt.evaluation.report.measures import measures_of
from posnmt.evaluation.report.write import write_file

KINDS = {
    "length": "a measure by source length",
    "difference": "the difference from the baseline by source length",
    "output-length": "the lengths of outputs, for the sources of each bin",
    "place": "precision and recall by place in the sentence",
    "swap": "a measure by the share of swapped words",
    "position": "the loss of the reference by target position",
    "position-difference": "the difference in this loss from the baseline",
    "source-length": "the loss of the reference by source length",
    "beyond": "of each system of a study, the rise in loss beyond training, and what translations leave out there",
}
"""Kind of a figure → what it shows."""
OF_LOSSES = {
    "position": "loss-by-target-position",
    "position-difference": "difference-by-target-position",
    "source-length": "loss-by-source-length",
}
"""Kind → the name of its chart in a report of likelihood."""
BEYOND = "beyond"
"""The kind that shows a likelihood and an analysis of a study side by side."""
OF_METRICS = ("length", "difference", "swap")
"""The kinds that show a measure of choice."""
OF_ONE_CHART = ("length", "difference", "place", "swap")
"""The kinds of an analysis that are one figure."""
FORMATS = ("pdf", "svg", "tex", "csv")


@dataclass(frozen=True, repr=False)
class Figure:
    """A figure for print.

    Attributes:
        chart: its data.
        drawing: the figure in its formats.
        caption: a text to stand below it, with the signature of its measure.
        style: how it was drawn.
    """

    chart: Chart
    drawing: Drawing
    caption: str
    style: Style

    def save(self, path: str | Path) -> Path:
        """Write the figure into a file, which is replaced if it exists; return its path.

        Args:
            path: its suffix names the format: .pdf, .svg, .tex (a `figure` with the caption, for `\\input`) or .csv.

        Raises:
            UserError: the suffix is another one, or the file cannot be written.
        """
        path = Path(path)
        kind = path.suffix.removeprefix(".")
        if kind not in FORMATS:
            todo = f"end its name in one of {', '.join(f'.{name}' for name in FORMATS)}"
            raise UserError(f"a figure cannot be written as {path.suffix or 'a file without a suffix'}", path, todo)
        write_file(path, self.content(kind, path.stem))
        return path

    def content(self, kind: str, label: str = "") -> bytes:
        """The content of a file.

        Args:
            kind: one of `FORMATS`.
            label: for `tex`, without the prefix `fig:`.
        """
        texts: dict[str, Callable[[], str]] = {
            "svg": lambda: self.drawing.svg,
            "tex": lambda: self._latex(label),
            "csv": lambda: to_csv([self.chart.by_place()]),
        }
        return self.drawing.pdf if kind == "pdf" else texts[kind]().encode("utf-8")

    def _latex(self, label: str) -> str:
        """A `figure` environment, or `figure*` if it is wider than a column."""
        environment = "figure*" if self.style.width > COLUMN * 1.05 else "figure"
        first, _, rest = self.drawing.tex.partition("\n")
        assert first == NEEDS
        body = [
            first,
            rf"\begin{{{environment}}}[t]",
            r"\centering",
            rest.rstrip("\n"),
            rf"\caption{{{escape(self.caption)}}}",
            rf"\label{{fig:{escape(label)}}}",
            rf"\end{{{environment}}}",
        ]
        return "\n".join(body) + "\n"

    def __repr__(self) -> str:
        return f"<Figure: {self.chart.title}>"

    def _repr_svg_(self) -> str:
        """Return the drawing as SVG, by which a notebook shows it."""
        return self.drawing.svg


def of_analysis(
    results: dict[str, Any], kind: str, measure: str | None, lines: Sequence[Line] | None = None
) -> list[Chart]:
    """The charts of a kind.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
        kind: one of `KINDS`, apart from those of `OF_LOSSES`.
        measure: of length, difference and swap; default: the main metric.
        lines: the systems; default: those of the results.

    Raises:
        UserError: the analysis has no such measure, or no such figure.
    """
    measured = measures_of(results)
    measure = measured[0] if measure is None else measure
    refuse_unknown(measure, measured, "measure of this analysis")
    if kind == "length":
        found = [length_chart(results, lines or lines_of(results), measure)]
    else:
        found = _in_sections(charts(results, lines), kind, measure)
    signature = results["signatures"].get(measure, "") if kind in OF_METRICS else ""
    return [replace(chart, drawn=results["settings"]["drawn"], signature=signature) for chart in found]


def _in_sections(sections: dict[str, list[Chart]], kind: str, measure: str) -> list[Chart]:
    """The charts of a kind among those of a report, by its sections."""
    name = measure.replace("_", "-")
    found = {
        "difference": [chart for chart in sections["difference"] if chart.name == f"{name}-differences"],
        "output-length": sections["distribution"],
        "place": sections["position"][:1],
        "swap": [chart for chart in sections["swap"] if chart.name == f"{name}-by-swap"],
    }[kind]
    if not found:
        raise UserError(f"the analysis has no figure of kind {kind} for {measure}", "--kind", _WHY[kind])
    return found


def of_losses(curves: Curves, kind: str) -> list[Chart]:
    """The chart of a kind of `OF_LOSSES`.

    Args:
        curves: of a report of likelihood, or of its table.
        kind: of the chart.

    Raises:
        UserError: there is no such chart.
    """
    found = [chart for chart in likelihood_charts(curves) if chart.name == OF_LOSSES[kind]]
    if not found:
        todo = "it needs several bins" + (" and two systems" if kind == "position-difference" else "")
        raise UserError(f"the losses have no figure of kind {kind}", "--kind", todo)
    return found


_WHY = {
    "difference": "it needs two systems, a metric and --samples",
    "output-length": "none of its bins has sentences",
    "place": "choose another kind",
    "swap": "it needs a metric, and `posnmt analyse --swapped`",
}


def chosen(chart: Chart, systems: Sequence[str]) -> Chart:
    """A chart of some systems alone; none: of all. A system keeps its colour, its line and its marker.

    Raises:
        UserError: it has no system of a name.
    """
    names = list(dict.fromkeys(curve.name for _, curve in chart.columns() if curve.number >= 0))
    for name in systems:
        refuse_unknown(name, names, "system in this figure")
    if not systems:
        return chart
    panels = [
        replace(panel, curves=[curve for curve in panel.curves if curve.number < 0 or curve.name in systems])
        for panel in chart.panels
    ]
    return replace(chart, panels=[panel for panel in panels if any(curve.number >= 0 for curve in panel.curves)])


def figures_of(
    made: Iterable[Chart], style: Style, bands: Bands = "range", systems: Sequence[str] = ()
) -> list[Figure]:
    """Draw charts, in the same style and with one vertical axis for all of the same measure.

    Args:
        made: the charts.
        style: of the figures.
        bands: what their intervals show.
        systems: the names of those to draw; none: all.

    Raises:
        UserError: see `banded` and `chosen`.
    """
    drawn = sharing([banded(chosen(chart, systems), bands) for chart in made])
    drawings = draw(drawn, style)
    return [Figure(chart, drawings[chart.name], caption(chart, bands), style) for chart in drawn]


def caption(chart: Chart, bands: Bands) -> str:
    """The caption of a chart: what it shows, what its marks mean, and by what it was measured."""
    sentences = [f"{chart.title}."]
    seeds = sorted({curve.seeds for _, curve in chart.columns() if curve.seeds > 1})
    if seeds:
        sentences.append(f"Means of {' or '.join(map(str, seeds))} seeds.")
    if words := in_words(chart, bands):
        few_curves = max(len(panel.curves) for panel in chart.panels) <= MOST_BANDS
        marks = {"whiskers": "Whiskers", "rows": "Whiskers", "histogram": ""}.get(
            chart.kind, "Bands" if few_curves else "Bars"
        )
        sentences += [f"{marks}: {words}."] if marks else []
    if chart.counts and chart.counts[0] == "n" and chart.kind != "histogram":
        sentences.append("n: the number of sentences.")
    if chart.few and chart.kind != "histogram":
        sentences.append(f"Hollow: {chart.about_few}.")
    if marked := shaded(chart):
        sentences.append(f"Shaded: {', '.join(marked)}.")
    sentences.append(f"{f'{chart.signature}; ' if chart.signature else ''}posnmt {__version__}.")
    return " ".join(sentences)
