"""Figures for print from a study: from its folder, or from a published copy.

A copy has scores, and neither outputs nor tests, so fewer kinds of figures can be made from it.
"""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, refuse_unknown
from posnmt.base.files import load_json
from posnmt.evaluation.analyse.bins import Bin, TrainedLengths, mark
from posnmt.evaluation.analyse.length_effects import D1
from posnmt.evaluation.report.bands import BANDS, OF_ONE
from posnmt.evaluation.report.charts import Chart, Curve, Line, Panel
from posnmt.evaluation.report.grid import dashed
from posnmt.evaluation.report.likelihood_table import TableCurves, read_curves
from posnmt.evaluation.report.printed import BEYOND, OF_LOSSES, of_analysis, of_losses
from posnmt.metrics.measure import Measure
from posnmt.study.copied import MARK, Mark, packed_in
from posnmt.study.database import PUBLISHED
from posnmt.study.load import load
from posnmt.study.measured import Measured, Variant
from posnmt.study.packed import damaged, unpack
from posnmt.study.recipe import Recipe
from posnmt.study.study import REQUEST, load_plan, with_analyses
from posnmt.study.workflow import status

Row = dict[str, str]
Output = tuple[str, str, str]
"""System, training and seed."""
Bins = dict[str, dict[str, Row]]
"""Bin -> measure -> its row."""
OMITTED = "omitted_sentences"
"""The measure of a figure of what is beyond training."""


def is_study(folder: Path) -> bool:
    """Whether a folder is that of a study or of a published copy."""
    return (folder / REQUEST).exists() or (folder / MARK).exists()


def charts_of(folder: Path, kind: str, measure: str | None, names: Sequence[str]) -> list[Chart]:
    """The charts of a kind for each analysis (or likelihood).

    Args:
        folder: of a study, or of a copy.
        kind: one of `posnmt.evaluation.report.printed.KINDS`.
        measure: default: the main metric.
        names: of analyses or likelihoods of the recipe; none: the first.

    Raises:
        UserError: the study has no such analysis, measure or figure, or is damaged.
    """
    copied = (folder / MARK).exists()
    recipe = load(str(folder / "recipe.yaml"), check_configs=False) if copied else load_plan(folder).recipe
    if kind == BEYOND:
        return [_beyond(folder, copied, recipe, names)]
    what, known = ("likelihood", recipe.likelihoods) if kind in OF_LOSSES else ("analysis", recipe.analyses)
    if not known:
        raise UserError(f"the recipe of this study has no {what}", folder, "choose another --kind")
    for name in names:
        refuse_unknown(name, known, f"{what} of this study", "--analysis")
    charts = []
    for name in names or [next(iter(known))]:
        if kind in OF_LOSSES:
            made = _of_likelihood(folder, copied, name, kind)
        else:
            results, lines = (_copied if copied else _measured)(folder, recipe, name, kind)
            title = recipe.analyses[name].title or name
            found = of_analysis(results, kind, measure, lines)
            axes = [chart.axis.replace(" in tokens", " in subwords") for chart in found]
            made = [
                replace(chart, title=f"{title}: {chart.title}", axis=axis)
                for chart, axis in zip(found, axes, strict=True)
            ]
        charts += [replace(chart, name=f"{name}-{chart.name}") for chart in made]
    return charts


def _beyond(folder: Path, copied: bool, recipe: Recipe, names: Sequence[str]) -> Chart:
    """A row for each system: D1 less that of the baseline, and omitted sentences in the longest bin beyond training.

    Args:
        names: of a likelihood and of an analysis with completeness; default: the first of each.
    """
    complete = {name: each for name, each in recipe.analyses.items() if each.completeness}
    for name in names:
        refuse_unknown(name, {**recipe.likelihoods, **complete}, "likelihood or analysis of completeness", "--analysis")
    if not recipe.likelihoods:
        raise UserError("the recipe of this study has no likelihood", folder, "choose another --kind")
    likelihood = next((name for name in names if name in recipe.likelihoods), next(iter(recipe.likelihoods)))
    curves = _curves_of(folder, copied, likelihood)
    if D1 not in curves.designs:
        todo = "its test needs sentences longer than any in training"
        raise UserError(f"the likelihood {likelihood} has no {D1}", folder, todo)
    levels = curves.designs[D1].levels
    systems = sorted(curves.systems, key=lambda name: levels[name].value)
    seeds = [levels[name].seeds for name in systems]
    panels, about = [_rise(curves, systems, seeds)], "95 % intervals over documents and seeds"
    if analysis := next((name for name in names if name in complete), next(iter(complete), None)):
        results, lines = (_copied if copied else _measured)(folder, recipe, analysis, "length")
        [chart] = of_analysis(results, "length", OMITTED, lines)
        if omitted := _omitted(chart, systems, seeds):
            panels.append(omitted)
            of_seeds = BANDS["range"] if max(seeds) > 1 else OF_ONE.format(chart.drawn)
            about = f"left, {about}; right, {of_seeds}"
    title = f"{recipe.likelihoods[likelihood].title or likelihood}: beyond the lengths of training"
    return Chart(BEYOND, title, "system", systems, panels, "rows", about_bands=about)


def _rise(curves: TableCurves, systems: Sequence[str], seeds: Sequence[int]) -> Panel:
    """D1 of systems less that of the baseline, which is 0."""
    of_systems = [curves.designs[D1].differences.get(name) for name in systems]
    values = [0.0 if each is None else each.value for each in of_systems]
    intervals = [None if each is None else each.interval() for each in of_systems]
    better = f"nats a subword, less that of {curves.systems[0]}"
    measure = Measure("Rise in loss", better, 3, signed=True, neutral=0)
    return Panel(measure, [Curve("Beyond training", 0, values, intervals, seeds)], "Rise in loss beyond training")


def _omitted(chart: Chart, systems: Sequence[str], seeds: Sequence[int]) -> Panel | None:
    """Omitted sentences of systems in the longest bin that training does not cover; None if there is none."""
    beyond = [place for place, mark in enumerate(chart.training or []) if mark != "seen" and place not in chart.few]
    found = {curve.name: curve for curve in chart.panels[0].curves}
    if not beyond or not found.keys() >= {*systems}:
        return None
    sources = f"sources of {dashed(chart.labels[beyond[-1]])} subwords"
    values = [found[name].values[beyond[-1]] for name in systems]
    intervals = [found[name].intervals[beyond[-1]] for name in systems]
    measure = Measure("Omitted sentences", f"% of sentences, {sources}", 1)
    return Panel(measure, [Curve(sources, 0, values, intervals, seeds)], "Omitted sentences")


def _of_likelihood(folder: Path, copied: bool, name: str, kind: str) -> list[Chart]:
    """The charts of a likelihood, from its table."""
    return of_losses(_curves_of(folder, copied, name), kind)


def _curves_of(folder: Path, copied: bool, name: str) -> TableCurves:
    """The table of a likelihood."""
    path = f"tables/likelihood-{name}.csv"
    text = unpack(packed_in(folder, "tables")).get(path) if copied else _content(folder / path)
    if text is None:
        raise UserError(f"the likelihood {name} has no table yet", folder, "run the study, then its report")
    return read_curves(text.decode("utf-8"), folder / path)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _measured(folder: Path, recipe: Recipe, analysis: str, kind: str) -> tuple[dict[str, Any], list[Line]]:
    """The results of a finished analysis, and its systems with their labels."""
    plan = load_plan(folder)
    graph, missing = with_analyses(plan, folder)
    step = f"analyse/{analysis}"
    if step not in graph.steps or not status.finished(graph, folder, step):
        why = missing.get(step, "it is not finished")
        raise UserError(f"the analysis {analysis} cannot be drawn: {why.rstrip('.')}", folder, "run the study")
    made = graph.folder(folder, step)
    if kind == "difference":  # its names are those of the outputs
        what = "a figure of differences is made from the folder of an analysis, not of a study"
        raise UserError(what, folder, f"name {made}")
    measured = Measured.read(made)
    return measured.results, _lines(recipe, {each: measured.outputs(each) for each in measured.places})


def _lines(recipe: Recipe, outputs: dict[Variant, list[int]]) -> list[Line]:
    """Systems with their labels, which have the training where this is needed to be unique."""
    unique = len({system for system, _ in outputs}) == len(outputs)
    labels = [recipe.label(variant, [] if unique else None) for variant in outputs]
    return [Line(label, number, of) for number, (label, of) in enumerate(zip(labels, outputs.values(), strict=True))]


def _copied(folder: Path, recipe: Recipe, analysis: str, kind: str) -> tuple[dict[str, Any], list[Line]]:
    """The scores of an analysis by source length, in the form of results.json, from the table of a copy."""
    if kind != "length":
        what = f"a published copy has no figure of kind {kind}"
        raise UserError(what, "--kind", "choose length or position, or name the study's own folder")
    outputs: dict[Output, Bins] = {}
    for row in _rows(folder / PUBLISHED):
        if row["test_condition"] == analysis and row["first"]:  # places and swapped sources have no length
            output = row["system"], row["training_condition"], row["seed"]
            outputs.setdefault(output, {}).setdefault(row["bin"], {})[row["measure"]] = row
    if not outputs:
        raise UserError(f"the copy has no scores of the analysis {analysis} by length", folder, "choose --analysis")
    first_rows = [next(iter(of_bin.values())) for of_bin in next(iter(outputs.values())).values()]
    about = load_json(folder / MARK, Mark, "the copy's file", "publish the study again")
    trained = TrainedLengths.of_trainings(_trained(folder, outputs))
    results = {
        "settings": {
            "unit": first_rows[0]["unit"],
            "metrics": _measures(outputs)[:1],
            "scores": {},
            "drawn": "sentences",
        },
        "signatures": about["signatures"].get(analysis, {}),
        "systems": [_system(bins, _measures(outputs)) for bins in outputs.values()],
        "training": None if trained == TrainedLengths() else trained,
        "bins": [{"label": row["bin"], "n": int(row["n"]), "training": mark(_bin(row), trained)} for row in first_rows],
    }
    of_variants: dict[Variant, list[int]] = {}
    for number, (system, training, _) in enumerate(outputs):
        of_variants.setdefault((system, training), []).append(number)
    return results, _lines(recipe, of_variants)


def _measures(outputs: dict[Output, Bins]) -> list[str]:
    """The measures that every bin has, in order."""
    return list(next(iter(next(iter(outputs.values())).values())))


def _trained(folder: Path, outputs: dict[Output, Bins]) -> Iterator[tuple[int, int]]:
    """The shortest and the longest source of the training of each output."""
    for run in csv.DictReader(io.StringIO((folder / "runs.csv").read_text(encoding="utf-8"), newline="")):
        if run["longest"] and (run["system"], run["training_condition"], run["seed"]) in outputs:
            yield int(run["shortest"]), int(run["longest"])


def _system(bins: Bins, measures: Sequence[str]) -> dict[str, Any]:
    """The figures of an output in the form of results.json."""
    return {
        "overall": dict.fromkeys(measures),
        "bins": [{each: _number(of_bin[each]["value"]) for each in measures} for of_bin in bins.values()],
        "intervals": {"bins": [{each: _ends(of_bin[each]) for each in measures} for of_bin in bins.values()]},
    }


def _ends(row: Row) -> tuple[float, float] | None:
    return (float(row["low"]), float(row["high"])) if row["low"] else None


def _number(text: str) -> float | None:
    return float(text) if text else None


def _bin(row: Row) -> Bin:
    return Bin(int(row["first"]), int(row["last"]) if row["last"] else None)


def _rows(path: Path) -> list[Row]:
    """The rows of a packed table."""
    try:
        return list(csv.DictReader(io.StringIO(lzma.decompress(path.read_bytes()).decode("utf-8"), newline="")))
    except (OSError, lzma.LZMAError, UnicodeDecodeError):
        raise damaged(path) from None
