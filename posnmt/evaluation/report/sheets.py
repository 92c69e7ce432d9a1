"""The tables of an analysis on the page and in LaTeX; `tables` makes the CSV files, which have all figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Any

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.seeds import spread
from posnmt.evaluation.report.charts import Chart, Line, baseline_of, lines_of
from posnmt.evaluation.report.completeness import omitted_sentences
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, Sheet, with_best
from posnmt.evaluation.report.measures import higher_is_better, measures_of, metrics_of, presentations
from posnmt.evaluation.report.significance import agreed, levels, significance_sheets
from posnmt.evaluation.report.words import words_sheet

SIGNS_BY = "paired_bootstrap"
"""The test behind the marks of the overall table."""


def latex_sheets(results: dict[str, Any], sections: dict[str, list[Chart]]) -> Iterator[Sheet]:
    """The tables that are written as LaTeX.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
        sections: from `posnmt.evaluation.report.charts.charts`.
    """
    yield overall(results)
    yield by_length(results, sections["length"])
    yield from (chart_sheet(chart) for name in ("length", "difference", "swap") for chart in sections[name])
    yield from (tested.sheet for tested in significance_sheets(results))
    if results["seeds"]:
        yield each_seed(results)
    yield words_sheet(results)
    if results["completeness"]:
        yield omitted_sentences(results)


def ranked(results: dict[str, Any]) -> list[Line]:
    """The systems, the best by the main metric first."""
    main = metrics_of(results)[0]
    sign = -1 if higher_is_better(main, results) else 1
    return sorted(lines_of(results), key=lambda line: sign * fmean(_values(results, line, main)))


def overall(results: dict[str, Any]) -> Sheet:
    """A row for each system, the best first, with intervals or the spread over seeds, and marks by the baseline."""
    baseline, measures = baseline_of(results), measures_of(results)
    lines, scores, names = ranked(results), [], []
    for line in lines:
        cells = []
        for measure in measures:
            mark = agreed(results, measure, SIGNS_BY, line.outputs, baseline.outputs) if line != baseline else None
            cells.append(replace(_score(results, line, measure), sign="" if mark in (None, "~") else mark))
        scores.append(cells)
        names.append(line.name if len(line.outputs) == 1 else f"{isolated(line.name)} ({len(line.outputs)} seeds)")
    marked = with_best(scores, [higher_is_better(measure, results) for measure in measures])
    rows = [Row(name, cells, series=line.number) for name, cells, line in zip(names, marked, lines, strict=True)]
    samples, n = results["settings"]["samples"], sum(each["n"] for each in results["bins"])
    drawn = results["settings"]["drawn"]
    legend = (
        [f"Below each score its 95 % interval, from {samples:,} bootstrap samples of the {drawn}."] if samples else []
    )
    if results["seeds"]:
        legend.append("Of several seeds: mean ± standard deviation (n − 1), below them the lowest and the highest.")
    if results["significance"]:
        legend.append(f"Marks compare with {isolated(baseline.name)} by paired bootstrap: {levels(results)}")
    return Sheet("overall", "Overall", f"All {n:,} sentences", [Grid(_heads(results), rows)], legend)


def each_seed(results: dict[str, Any]) -> Sheet:
    """A row for each output of the systems with several seeds."""
    rows = [
        Row(results["systems"][output]["name"], [output_cell(results, output, name) for name in measures_of(results)])
        for line in lines_of(results)
        if len(line.outputs) > 1
        for output in line.outputs
    ]
    return Sheet("seeds", "Each seed", "The scores of each seed", [Grid(_heads(results), rows, corner="Output")])


def _heads(results: dict[str, Any]) -> list[Head]:
    return [Head(presentations(results)[name].title) for name in measures_of(results)]


def _values(results: dict[str, Any], line: Line, measure: str) -> list[float]:
    """The values of all outputs of a system."""
    return [results["systems"][output]["overall"][measure] for output in line.outputs]


def _score(results: dict[str, Any], line: Line, measure: str) -> Cell:
    """The score of a system: of its output, or the mean and the spread over seeds."""
    if len(line.outputs) == 1:
        return output_cell(results, line.outputs[0], measure)
    about, of_seeds = presentations(results)[measure], spread(_values(results, line, measure))
    mean, deviation, low, high = (of_seeds[key] for key in ("mean", "deviation", "lowest", "highest"))
    if mean is None or deviation is None or low is None or high is None:
        return Cell(own=about.show(None))
    shown = f"{about.show(mean)} ± {replace(about, signed=False).show(deviation)}"
    return Cell(
        shown, about.between((low, high)), mean=mean, deviation=deviation, seeds=len(line.outputs), low=low, high=high
    )


def output_cell(results: dict[str, Any], output: int, measure: str) -> Cell:
    """The score of one output on the whole test set, with its interval."""
    system, about = results["systems"][output], presentations(results)[measure]
    interval = (system["intervals"] or {"overall": {}})["overall"].get(measure)
    low, high = interval or (None, None)
    value = system["overall"][measure]
    return Cell(own=about.show(value), spread=about.between(interval), mean=value, seeds=1, low=low, high=high)


def by_length(results: dict[str, Any], charts: Sequence[Chart]) -> Sheet:
    """A row for each system, the main metric and TER side by side in each bin (Rosendahl et al. 2019, Table 2)."""
    names = metrics_of(results)
    chosen = [presentations(results)[name] for name in dict.fromkeys([names[0], *(["ter"] if "ter" in names else [])])]
    grids = [chart.by_curve() for chart in charts if chart.panels[0].measure in chosen]
    titles = " and ".join(measure.title for measure in chosen)
    sheet = Sheet("by-length", titles, f"{titles} by {charts[0].axis}", grids, _seeds_noted(charts[0]))
    if len(grids) == 1:
        return sheet
    heads = [
        Head(grid.corner, head.title, head.about)
        for of_place in zip(*(grid.heads for grid in grids), strict=True)
        for grid, head in zip(grids, of_place, strict=True)
    ]
    rows = [
        replace(of_curve[0], cells=list(chain.from_iterable(zip(*(row.cells for row in of_curve), strict=True))))
        for of_curve in zip(*(grid.rows for grid in grids), strict=True)
    ]
    return replace(sheet, grids=[Grid(heads, rows)])


def chart_sheet(chart: Chart) -> Sheet:
    """The numbers of a chart: a row for each system, a column for each position."""
    return Sheet(chart.name, chart.title, chart.title, [chart.by_curve()], _seeds_noted(chart))


def _seeds_noted(chart: Chart) -> list[str]:
    """A remark on rows that are means over seeds."""
    several = [f"{curve.name} ({curve.seeds_shown})" for _, curve in chart.columns() if curve.seeds > 1]
    return [f"Means of several seeds: {', '.join(several)}."] if several else []
