"""Omitted sentences as a table, and the lines with most of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.completeness.measure import Completeness
from posnmt.evaluation.analyse.inputs import Text
from posnmt.evaluation.analyse.measures import COMPLETENESS
from posnmt.evaluation.report.charts import baseline_of
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, Sheet
from posnmt.evaluation.report.significance import show_p


@dataclass(frozen=True)
class Shown:
    """The omitted sentences on the page.

    Attributes:
        sheet: the table.
        worst: `name` of an output, and its `lines`: `number`, `sentences` (text, whether omitted) and `output`.
    """

    sheet: Sheet
    worst: list[dict[str, Any]]


def shown(results: dict[str, Any], complete: Completeness, texts: Sequence[Text], with_texts: bool) -> Shown:
    """The omitted sentences as the page shows them.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
        complete: from the same analysis.
        texts: source, reference and outputs.
        with_texts: whether the page may contain sentences.
    """
    worst = []
    systems = results["completeness"]["systems"] if with_texts else []
    for system, text in zip(systems, texts[2:], strict=False):  # outputs of swapped sources come last
        lines = [
            {
                "number": each["line"],
                "sentences": [
                    (sentence, number in each["sentences"])
                    for number, sentence in enumerate(complete.sources[each["line"] - 1].sentences, start=1)
                ],
                "output": text.lines[each["line"] - 1],
            }
            for each in system["worst"]
        ]
        worst += [{"name": system["name"], "lines": lines}] if lines else []
    return Shown(omitted_sentences(results), worst)


def omitted_sentences(results: dict[str, Any]) -> Sheet:
    """A row for each output: its rate on the whole test set and at each place in a line, and the bound.

    The legend compares the first output of the baseline with each other output.
    """
    complete = results["completeness"]
    first = complete["systems"][baseline_of(results).outputs[0]]["name"]
    places = list(dict.fromkeys(each["place"] for system in complete["systems"] for each in system["places"]))
    rows = []
    for number, system in enumerate(complete["systems"]):
        of_place = {each["place"]: each for each in system["places"]}
        cells = [_rate(system), *(_rate(of_place[place]) if place in of_place else Cell() for place in places)]
        cells.append(_percent(system["at_most"]))
        hand = system["hand"]
        cells += [_percent(hand["rate"], hand["interval"]) if hand else Cell()] * any(
            each["hand"] for each in complete["systems"]
        )
        rows.append(Row(system["name"], cells, series=number))
    heads = [Head("All"), *(Head("last one" if each == "last" else f"sentence {each}") for each in places)]
    heads.append(Head("At most"))
    if any(system["hand"] for system in complete["systems"]):
        heads.append(Head("Corrected by judges"))
    legend = [
        f"{isolated(each['system'])} and {isolated(each['other'])}: {each['omitted_by_system_only']:,} sentences are"
        f" omitted by the first alone, {each['omitted_by_other_only']:,} by the second alone"
        f" (McNemar's test, p-value {show_p(each['p'], each['p'])})."
        for each in complete["mcnemar"]
        if first in (each["system"], each["other"])
    ]
    caption = f"Omitted sentences, % of {complete['source_sentences']:,}, and by place in lines of several sentences"
    return Sheet("omitted-sentences", "Omitted sentences", caption, [Grid(heads, rows)], legend)


def _rate(of: dict[str, Any]) -> Cell:
    return _percent(of["rate"], of["interval"])


def _percent(share: float | None, interval: Sequence[float] | None = None) -> Cell:
    """A share as a cell, in percent."""
    measure = COMPLETENESS["omitted_sentences"]
    low, high = (None, None) if interval is None else (100 * interval[0], 100 * interval[1])
    value = None if share is None else 100 * share
    between = "" if low is None or high is None else measure.between((low, high))
    return Cell(own=measure.show(value), spread=between, mean=value, low=low, high=high)
