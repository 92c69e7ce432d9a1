"""Words by frequency and by part of the sentence, numbers and names: the tables and the figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES, few
from posnmt.evaluation.analyse.seeds import spread
from posnmt.evaluation.report.charts import Chart, Line, Panel, baseline_of, curve_through, lines_of
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, Sheet, with_best
from posnmt.metrics.measure import Measure

MEASURES = {
    "f1": Measure("F1", "of words; higher is better", higher=True),
    "recall": Measure("Recall", "of the reference's words; higher is better", higher=True),
}
"""Those that are shown; words.csv has precision as well."""
ABOUT_FEW = f"fewer than {FEWEST_SENTENCES} words of the reference"
TITLES = {
    ("frequency", "f1"): "F1 of words by their frequency in {}",
    ("frequency", "recall"): "Recall of words by their frequency in {}",
    ("part", "recall"): "Recall of words by the third of the reference",
    ("kept", "recall"): "Numbers and names of the reference that the output has, %",
}


def words_sheet(results: dict[str, Any]) -> Sheet:
    """A table for each kind of buckets and each measure, with marks against the baseline."""
    of_words, baseline = results["words"], baseline_of(results)
    grids = [
        _grid(results, kind, measure, title.format(frequencies_of(results)))
        for (kind, measure), title in TITLES.items()
    ]
    legend = []
    if results["settings"]["samples"]:
        legend.append("Below each figure its 95 % interval; of several seeds, the lowest and the highest.")
    if of_words["part"]["differences"]:
        legend.append(
            f"> and <: better and worse than {isolated(baseline.name)}; the 95 % interval of the difference excludes 0."
            " This is not corrected for the number of columns."
        )
    legend.append(
        f"Words are those of {of_words['tokenizer']}. A number is a run of digits. A name is a word with a capital"
        " letter that source and reference share, letter by letter, and that begins no sentence; so names that are"
        " translated or written in another script are not seen."
    )
    about = "Which words of the reference the outputs have"
    return Sheet("words", "Words, numbers and names", about, grids, legend, about_few=ABOUT_FEW)


def words_chart(results: dict[str, Any]) -> Chart:
    """F1 by the frequency of words."""
    of_kind = results["words"]["frequency"]
    curves, places, counts = [], buckets(of_kind), of_kind["reference_words"]
    for line in lines_of(results):
        outputs = [of_kind["systems"][row] for row in line.outputs]
        ends = (outputs[0]["intervals"] or {"f1": [None] * len(of_kind["labels"])})["f1"]
        points = (([each["f1"][place] for each in outputs], ends[place]) for place in places)
        curves.append(curve_through(line.name, line.number, points))
    return Chart(
        name="f1-by-frequency",
        title=TITLES["frequency", "f1"].format(frequencies_of(results)),
        axis=f"frequency of the word in {frequencies_of(results)}",
        labels=[of_kind["labels"][place] for place in places],
        panels=[Panel(MEASURES["f1"], curves)],
        counts=("words", [counts[place] for place in places]),
        undecided=([number for number, place in enumerate(places) if few(counts[place])], ABOUT_FEW),
    )


def buckets(of_kind: dict[str, Any]) -> list[int]:
    """The numbers of the buckets that are shown: from the first to the last of a kind with words of the reference."""
    found = [place for place, count in enumerate(of_kind["reference_words"]) if count]
    return [*range(found[0], found[-1] + 1)] if found else [*range(len(of_kind["labels"]))]


def frequencies_of(results: dict[str, Any]) -> str:
    """The text in which frequencies are counted."""
    path = results["words"]["frequencies"]
    return "the reference" if path is None else PurePath(path).name


def _grid(results: dict[str, Any], kind: str, measure: str, title: str) -> Grid:
    """A row for each system, a column for each bucket."""
    of_kind = results["words"][kind]
    places = buckets(of_kind)
    heads = [Head(of_kind["labels"][place], about=f"n = {of_kind['reference_words'][place]:,}") for place in places]
    marks, lines = dict(_marks(results, kind, measure)), lines_of(results)
    cells = [
        [_cell(results, kind, measure, line, place, marks.get((line.name, place), "")) for place in places]
        for line in lines
    ]
    marked = with_best(cells, [MEASURES[measure].higher] * len(heads))
    rows = [Row(line.name, row, series=line.number) for line, row in zip(lines, marked, strict=True)]
    return Grid(heads, rows, title=title)


def _cell(results: dict[str, Any], kind: str, measure: str, line: Line, place: int, mark: str) -> Cell:
    """The figure of a system in a bucket."""
    outputs = [results["words"][kind]["systems"][row] for row in line.outputs]
    about, values = MEASURES[measure], [each[measure][place] for each in outputs]
    if None in values:
        return Cell(own=about.show(None))
    ends = (outputs[0]["intervals"] or {measure: {place: None}})[measure][place]
    mean = spread(values)["mean"]
    if len(values) > 1:
        ends = min(values), max(values)
    low, high = ends or (None, None)
    shown = Cell(about.show(mean), about.between(ends), mark, mean=mean, seeds=len(values), low=low, high=high)
    if few(results["words"][kind]["reference_words"][place]):
        return replace(shown, spread="", sign="", few=True)
    return shown


def _marks(results: dict[str, Any], kind: str, measure: str) -> Iterator[tuple[tuple[str, int], str]]:
    """(system, bucket) → `>` or `<`, where it differs from the baseline."""
    baseline = baseline_of(results).name
    for pair in results["words"][kind]["differences"] or []:
        if baseline not in (pair["system"], pair["other"]):
            continue
        name, better, worse = (pair["other"], "<", ">") if pair["system"] == baseline else (pair["system"], ">", "<")
        for place, figures in enumerate(pair[measure]):
            if figures is not None and (figures[1] > 0 or figures[2] < 0):
                yield (name, place), better if figures[1] > 0 else worse
