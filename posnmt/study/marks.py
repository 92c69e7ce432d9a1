"""Signs of significance over several seeds: a sign is shown only if it holds for all pairs of seeds.

The tests of an analysis compare outputs (docs/metrics.md). For two systems with several seeds, every pair of seeds is
compared. A sign that holds only for some pairs may depend on the choice of seeds.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from itertools import product

from posnmt.study.layout import Marks, Table
from posnmt.study.measured import Measured, StudyResults, Variant
from posnmt.study.measures import measure


def signs(results: StudyResults, table: Table) -> tuple[dict[tuple[int, int], str], list[str]]:
    """The signs of a table of scores, (row, column) -> sign, and the sentences of the legend that explain them."""
    by_cell: dict[tuple[int, int], str] = {}
    variants = [results.variant(row) for row in table.rows]
    for number, column in enumerate(table.columns):
        baselines = {table.rows.index(each.baseline): each for each in table.marks if each.analysis == column.analysis}
        for row in range(len(table.rows)):
            above = [place for place in baselines if place < row]
            if row in baselines or not above:
                continue
            marks = baselines[max(above)]
            measured = results.measured.get(marks.analysis)
            if measured is not None:
                sign = _sign(measured, column.measure, marks, variants[row], variants[max(above)])
                if sign:
                    by_cell[row, number] = sign
    return by_cell, list(_legend(results, table))


def _sign(measured: Measured, metric: str, marks: Marks, variant: Variant, baseline: Variant) -> str:
    """The sign of the lowest level at which every seed beats every seed of the baseline; empty if there is none."""
    entry = (measured.results["significance"] or {"metrics": {}})["metrics"].get(metric)
    pairs = list(product(measured.outputs(variant), measured.outputs(baseline)))
    if entry is None or not pairs:
        return ""
    tested = entry["tests"][marks.test]
    for row, column in pairs:
        if marks.test == "sign_test":  # it compares numbers of sentences, the other tests compare scores
            ahead = operator.sub(*tested["sentences"][row][column])  # p is 1 unless both baselines favour the same one
        else:
            ahead = (-1 if measure(metric).higher is False else 1) * entry["differences"][row][column]
        if ahead <= 0:
            return ""
    worst = max(tested["corrected"][row][column] for row, column in pairs)
    return next((sign for sign, level in sorted(marks.signs.items(), key=lambda each: each[1]) if worst < level), "")


def _legend(results: StudyResults, table: Table) -> Iterator[str]:
    """The meaning of the signs; baselines with the same signs share a sentence."""
    labels = dict(zip(table.rows, results.labels([results.variant(row) for row in table.rows]), strict=True))
    baselines: dict[tuple[str, str], list[str]] = {}
    for marks in table.marks:
        meaning = ", ".join(f"{sign} p < {level:g}" for sign, level in marks.signs.items())
        baselines.setdefault((meaning, marks.test.replace("_", " ")), []).append(labels[marks.baseline])
    analyses = [results.measured.get(marks.analysis) for marks in table.marks]
    several = any(len(seeds) > 1 for measured in analyses if measured for seeds in measured.places.values())
    plain = uncorrected(each for each in analyses if each)
    pairs = ", in every pair of a seed of one and a seed of the other" if several else ""
    for (meaning, test), names in baselines.items():
        which = " or ".join(dict.fromkeys(names)) + (", whichever is the nearest above," if len(names) > 1 else "")
        yield f"{meaning}: better than {which} by the {test}{pairs}{plain}."


def uncorrected(analyses: Iterable[Measured]) -> str:
    """The end of a sentence of a legend if no analysis corrects its p; otherwise empty."""
    corrections = {each.results["settings"]["correction"] for each in analyses}
    return "; p is not corrected for the number of comparisons" if corrections == {"none"} else ""
