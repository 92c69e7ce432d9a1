"""Tables of a study's report beyond those of the paper: every output with intervals, and the cost of training."""

from __future__ import annotations

from posnmt.base.progress import duration
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, Sheet
from posnmt.evaluation.report.measures import measures_of, presentations
from posnmt.evaluation.report.sheets import output_cell
from posnmt.study.measured import Measured, StudyResults
from posnmt.study.published import show


def every_output(results: StudyResults) -> list[Sheet]:
    """A table for each analysis, with a row for every output."""
    return [_outputs(results, name, measured) for name, measured in results.measured.items()]


def _outputs(results: StudyResults, name: str, measured: Measured) -> Sheet:
    """The scores of every output of one analysis on the whole test set."""
    measures, shown = measures_of(measured.results), presentations(measured.results)
    rows = []
    for variant, places in measured.places.items():
        for seed, place in places.items():
            cells = [output_cell(measured.results, place, measure) for measure in measures]
            rows.append(Row(f"{results.recipe.label(variant)}, seed {seed}", cells))
    n = sum(each["n"] for each in measured.results["bins"])
    samples = measured.results["settings"]["samples"]
    legend = [f"95 % intervals over sentences, from {samples:,} bootstrap samples."] if samples else []
    legend += [f"{shown[metric].title}: {signature}" for metric, signature in measured.results["signatures"].items()]
    title = results.recipe.title_of(name, results.scale)
    heads = [Head(shown[measure].title) for measure in measures]
    return Sheet(f"outputs-{name}", title, f"Every output, {n:,} sentences", [Grid(heads, rows)], legend)


def cost(results: StudyResults) -> list[Sheet]:
    """A table of the time, size and speed of every training; empty without trainings."""
    if not results.runs:
        return []
    tests = list(dict.fromkeys(test for run in results.runs for test in run["decoding_speed"]))
    heads = [
        Head("State"), Head("Parameters"), Head("Updates"), Head("Time"), Head("Training", "Source tokens a second"),
        *(Head(f"Decoding {test}", "Source tokens a second") for test in tests),
    ]  # fmt: skip
    rows = [
        Row(
            f"{results.recipe.label((run['system'], run['training']))}, seed {run['seed']}",
            [
                Cell(
                    own=run["state"],
                    absent=run["state"] != "done",
                    note=f"{run['error'].rstrip('.')}." if run["error"] else "",
                ),
                _count(run["parameters"], "parameters"),
                Cell() if run["updates"] is None else Cell(own=f"{run['updates']:,}", mean=run["updates"], seeds=1),
                Cell() if run["seconds"] is None else Cell(own=duration(run["seconds"]), mean=run["seconds"], seeds=1),
                _count(run["training_speed"], "training_speed"),
                *(_count(run["decoding_speed"].get(test), "decoding_speed") for test in tests),
            ],
        )
        for run in results.runs
    ]
    legend = [
        f"All trainings together: {duration(results.cost)}.",
        "Speeds are those of each run, where and when it ran, and cannot be compared with each other.",
    ]
    return [
        Sheet("cost", "Cost", "Every training, its time and its speed", [Grid(heads, rows, corner="Training")], legend)
    ]


def _count(figure: float | None, measure: str) -> Cell:
    """The cell of a measure in `OF_RUNS`."""
    return Cell() if figure is None else Cell(own=show(figure, measure), mean=figure, seeds=1)
