"""The results as tables, and as CSV files in full precision; missing values are empty cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from posnmt.evaluation.analyse.words import KINDS
from posnmt.evaluation.report.grid import csv_text

Rows = Iterable[Sequence[Any]]


TABLES = (
    "scores", "differences", "cuts", "significance", "seeds", "swap", "positions", "words", "word_differences",
    "lengths", "completeness", "places",
)  # fmt: skip
"""The names of the tables."""


def csv_tables(results: dict[str, Any]) -> dict[str, str]:
    """Name → text of the CSV files, without empty ones.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
    """
    listed = {name: (heading, list(rows)) for name, (heading, rows) in tables(results).items()}
    return {f"{name}.csv": csv_text([heading, *rows]) for name, (heading, rows) in listed.items() if rows}


def tables(results: dict[str, Any]) -> dict[str, tuple[list[str], Rows]]:
    """Name of `TABLES` → the names of the columns, and the rows."""
    measures = [name for name in results["systems"][0]["overall"] if name != "n"]
    ends = [f"{name}_{end}" for name in measures for end in ("low", "high")] if results["settings"]["samples"] else []
    return {
        "scores": (
            ["system", "bin", "first", "last", "training", "n", *measures, *ends], _scores(results, measures, ends),
        ),
        "differences": (
            ["system", "other", "bin", "measure", "difference", "low", "high"], _differences(results),
        ),
        "cuts": (
            ["system", "other", "kind", "cut", "first", "last", "sentences", "units", "difference", "low", "high",
             "ahead", "p"],
            _cuts(results),
        ),
        "significance": (
            ["metric", "test", "system", "other", "difference", "p", "corrected", "mark", "baseline_p"],
            _tests(results),
        ),
        "seeds": (
            ["system", "bin", "measure", "seeds", "mean", "deviation", "lowest", "highest"], _seeds(results),
        ),
        "swap": (["system", "share", *measures, *ends], _swap(results, measures, ends)),
        "positions": (
            ["system", "kind", "place", "precision", "output_words", "recall", "reference_words"], _positions(results),
        ),
        "words": (
            ["system", "kind", "bucket", "reference_words", "measure", "value", "low", "high"], _words(results),
        ),
        "word_differences": (
            ["system", "other", "kind", "bucket", "measure", "difference", "low", "high"], _word_differences(results),
        ),
        "lengths": (["bin", "text", "system", "first", "last", "sentences"], _lengths(results)),
        "places": (["system", "place", "n", *measures, *ends], _places(results, measures, ends)),
        "completeness": (
            ["system", "place", "sentences", "omitted", "rate", "low", "high", "at_most"], _completeness(results),
        ),
    }  # fmt: skip


def _limits(intervals: dict[str, Any], measures: Sequence[str], ends: Sequence[str]) -> Iterator[float | None]:
    """The lower and upper end of each measure's interval; empty without intervals."""
    return chain.from_iterable(intervals.get(name) or (None, None) for name in measures if ends)


def _scores(results: dict[str, Any], measures: Sequence[str], ends: Sequence[str]) -> Rows:
    """A row for each output and bin; the bin `all` is the full test set."""
    overall = {"label": "all", "first": None, "last": None, "training": None}
    for system in results["systems"]:
        values = [system["overall"], *system["bins"]]
        intervals = system["intervals"] or {"overall": {}, "bins": [{}] * len(results["bins"])}
        of_values = [intervals["overall"], *intervals["bins"]]
        for each, scores, interval in zip([overall, *results["bins"]], values, of_values, strict=True):
            about = [each[key] for key in ("label", "first", "last", "training")]
            figures = [scores[name] for name in measures]
            yield [system["name"], *about, scores["n"], *figures, *_limits(interval, measures, ends)]


def _differences(results: dict[str, Any]) -> Rows:
    """A row for each pair of systems, bin and measure; the bin `all` is the full test set."""
    labels = ["all", *(each["label"] for each in results["bins"])]
    for pair in results["differences"] or []:
        for label, measures in zip(labels, [pair["overall"], *pair["bins"]], strict=True):
            for measure, figures in measures.items():
                yield [pair["system"], pair["other"], label, measure, *(figures or [None] * 3)]


def _cuts(results: dict[str, Any]) -> Rows:
    """A row for each pair of systems and part of the lengths."""
    for pair in (results["verdict"]["by_length"] or {"pairs": []})["pairs"]:
        for figure in pair["figures"]:
            yield [pair["system"], pair["other"], *figure.values()]


def _words(results: dict[str, Any]) -> Rows:
    """A row for each output, bucket of words and measure."""
    for kind in KINDS:
        of_kind = results["words"][kind]
        for system in of_kind["systems"]:
            for place, (label, count) in enumerate(zip(of_kind["labels"], of_kind["reference_words"], strict=True)):
                for measure in of_kind["measures"]:
                    limits = (system["intervals"] or {measure: {place: None}})[measure][place]
                    yield [
                        system["name"],
                        kind,
                        label,
                        count,
                        measure,
                        system[measure][place],
                        *(limits or (None, None)),
                    ]


def _word_differences(results: dict[str, Any]) -> Rows:
    """A row for each pair of systems, bucket of words and measure."""
    for kind in KINDS:
        of_kind = results["words"][kind]
        for pair in of_kind["differences"] or []:
            for place, label in enumerate(of_kind["labels"]):
                for measure in of_kind["measures"]:
                    figures = pair[measure][place] or [None] * 3
                    yield [pair["system"], pair["other"], kind, label, measure, *figures]


def _tests(results: dict[str, Any]) -> Rows:
    """A row for each metric, test and ordered pair of outputs; for Welch's test, of systems with several seeds."""
    names = [system["name"] for system in results["systems"]]
    for metric, entry in (results["significance"] or {"metrics": {}})["metrics"].items():
        for test, matrices in entry["tests"].items():
            yield from _pairs(metric, test, names, entry["differences"], matrices)
    if results["seeds"]:
        names = [system["name"] for system in results["seeds"]["systems"]]
        for metric, matrices in results["seeds"]["welch"].items():
            yield from _pairs(metric, "welch", names, matrices["differences"], matrices)


def _pairs(metric: str, test: str, names: Sequence[str], differences: Any, matrices: dict[str, Any]) -> Rows:
    """A row for each ordered pair of systems."""
    for row, name in enumerate(names):
        for column, other in enumerate(names):
            if row != column:
                figures = [matrices[key][row][column] for key in ("p", "corrected", "marks")]
                baseline = matrices["baseline_p"][row][column] if test == "sign_test" else None
                yield [metric, test, name, other, differences[row][column], *figures, baseline]


def _seeds(results: dict[str, Any]) -> Rows:
    """A row for each system with several seeds, bin and measure."""
    labels = ["all", *(each["label"] for each in results["bins"])]
    for system in (results["seeds"] or {"systems": []})["systems"]:
        for label, measures in zip(labels, [system["overall"], *system["bins"]], strict=True):
            for measure, spread in measures.items():
                figures = [spread[key] for key in ("mean", "deviation", "lowest", "highest")]
                yield [system["name"], label, measure, len(system["outputs"]), *figures]


def _swap(results: dict[str, Any], measures: Sequence[str], ends: Sequence[str]) -> Rows:
    """A row for each output and share of swapped words."""
    for curve in results["swap"] or []:
        for place, share in enumerate(curve["shares"]):
            interval = {name: limits[place] for name, limits in (curve["intervals"] or {}).items()}
            figures = [curve[name][place] for name in measures]
            yield [curve["name"], share, *figures, *_limits(interval, measures, ends)]


def _positions(results: dict[str, Any]) -> Rows:
    """A row for each output and place in the sentence, relative ones first."""
    for system in results["positions"]["systems"]:
        for kind, places in results["positions"]["places"].items():
            curves = system[kind]
            columns = [curves["precision"], curves["n"]["precision"], curves["recall"], curves["n"]["recall"]]
            for place, *figures in zip(places, *columns, strict=True):
                yield [system["name"], kind, place, *figures]


def _places(results: dict[str, Any], measures: Sequence[str], ends: Sequence[str]) -> Rows:
    """A row for each output and place of a sentence in its paragraph."""
    places = results["places"] or {"systems": []}
    for system in places["systems"]:
        for place, (label, count) in enumerate(zip(places["labels"], places["n"], strict=True)):
            interval = {name: limits[place] for name, limits in (system["intervals"] or {}).items()}
            figures = [system[name][place] for name in measures]
            yield [system["name"], label, count, *figures, *_limits(interval, measures, ends)]


def _completeness(results: dict[str, Any]) -> Rows:
    """A row for each output and place of a sentence in its line; the place `all` is the full test set."""
    for system in (results["completeness"] or {"systems": []})["systems"]:
        for each in [{**system, "place": "all"}, *system["places"]]:
            counts = [each[key] for key in ("place", "sentences", "omitted", "rate")]
            yield [system["name"], *counts, *(each["interval"] or (None, None)), each["at_most"]]


def _lengths(results: dict[str, Any]) -> Rows:
    """A row for each bin, text (the reference, every output) and class of lengths."""
    for each, distribution in zip(results["bins"], results["length_distributions"], strict=True):
        if distribution:
            names = [("reference", ""), *(("output", system["name"]) for system in results["systems"])]
            for (text, name), counts in zip(names, [distribution["reference"], *distribution["systems"]], strict=True):
                for first, count in zip(distribution["first"], counts, strict=True):
                    yield [each["label"], text, name, first, first + distribution["width"] - 1, count]
