"""Tests of significance as tables: the marks of every pair of outputs, and explanations where tests disagree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product
from operator import itemgetter
from typing import Any

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.verdict import CHANCE
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, Sheet
from posnmt.evaluation.report.measures import higher_is_better, metrics_of, presentations
from posnmt.metrics.measure import Measure

TESTS = {
    "paired_bootstrap": "paired bootstrap",
    "approximate_randomisation": "approximate randomisation",
    "sign_test": "sign test",
    "welch": "Welch's t-test over seeds",
}
"""Test → its name, in the order of presentation."""
MOST_EXPLAINED = 5
"""The maximum number of pairs on which tests disagree that are explained one by one."""


@dataclass(frozen=True)
class Tested:
    """One metric and one test, and its table of every pair of systems."""

    metric: str
    test: str
    sheet: Sheet


def significance_sheets(results: dict[str, Any]) -> list[Tested]:
    """The matrices of all metrics and tests (Neishi and Yoshinaga 2019, Table 4); none without tests.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
    """
    sheets = []
    outputs = [system["name"] for system in results["systems"]]
    seeds = results["seeds"] or {"systems": []}
    for metric in metrics_of(results):
        if results["significance"]:
            tests = results["significance"]["metrics"][metric]["tests"]
            sheets += [_tested(results, metric, test, outputs, tests[test]) for test in TESTS if test in tests]
        if len(seeds["systems"]) > 1:
            names = [system["name"] for system in seeds["systems"]]
            sheets.append(_tested(results, metric, "welch", names, seeds["welch"][metric]))
    return sheets


def _tested(results: dict[str, Any], metric: str, test: str, names: Sequence[str], matrices: dict[str, Any]) -> Tested:
    """The table of one metric and one test."""
    smallest = floor(test, results["settings"]["samples"])
    rows = []
    for name, marks, p, corrected in zip(names, matrices["marks"], matrices["p"], matrices["corrected"], strict=True):
        cells = [
            Cell() if raw is None else Cell(own=mark, spread=show_p(raw, of_family, smallest), mean=of_family)
            for mark, raw, of_family in zip(marks, p, corrected, strict=True)
        ]
        rows.append(Row(name, cells))
    title = presentations(results)[metric].title
    name = f"significance-{metric}-{'seeds' if test == 'welch' else test}".replace("_", "-")
    caption = f"{title}, {TESTS[test]}: each row's system against each column's"
    grid = Grid([Head(name) for name in names], rows, matrix=True)
    return Tested(metric, test, Sheet(name, f"{title}, {TESTS[test]}", caption, [grid], [levels(results)]))


def levels(results: dict[str, Any]) -> str:
    """A sentence about the meaning of the marks and the correction of p."""
    strong, weak = results["significance"]["levels"] if results["significance"] else (0.01, 0.05)
    marks = f">> better and << worse with p < {strong}, > and < with p < {weak}, ~ neither"
    correction = results["settings"]["correction"]
    if len(results["systems"]) == 2:
        return f"{marks}."
    if correction == "none":
        return f"{marks}. p is not corrected for the number of pairs, of which some differ by chance."
    return f"{marks}; p is corrected for the number of pairs ({correction.title()})."


def floor(test: str, samples: int) -> float:
    """The smallest p that a test can give with this number of samples; 0 if there is no such limit."""
    return {"paired_bootstrap": 2.0, "approximate_randomisation": 1.0}.get(test, 0.0) / (1 + samples)


def show_p(p: float, corrected: float, smallest: float = 0.0) -> str:
    """Format a corrected p-value.

    Args:
        p: without correction.
        corrected: the value that is shown.
        smallest: the smallest p that the test can give; the true p may be below it.
    """
    if corrected < 0.0001:
        return "< 0.0001"
    if p <= smallest * (1 + 1e-9):
        return f"≤ {math.ceil(corrected * 10_000) / 10_000:.4f}"
    return f"{corrected:.4f}"


def explained(results: dict[str, Any]) -> list[str]:
    """Sentences about pairs of outputs where the sign test favours the one with the worse score.

    Only pairs are listed for which the sign test or the paired bootstrap finds a difference.
    """
    return _listed(
        results,
        _opposed,
        "The sign test counts every sentence once, however much it gains or loses; a score adds up what all sentences "
        "gain and lose, of which long ones have more. Many small gains and a few large losses set the two apart.",
    )


def contested(results: dict[str, Any]) -> list[str]:
    """Sentences about pairs of outputs where the outcome of the sign test depends on the choice of the baseline."""
    return _listed(
        results,
        _by_baseline,
        "The sign test replaces the baseline's outputs one by one, so its p depends on which system is the baseline. "
        "The table has the larger p of the two, and 1 where each baseline favours another system.",
    )


def _listed(
    results: dict[str, Any], of_metric: Callable[[dict[str, Any], str], Iterator[tuple[float, str]]], why: str
) -> list[str]:
    """Sentences about pairs of outputs, those of each metric by increasing p, and then why; empty without pairs."""
    tested = (results["significance"] or {"metrics": {}})["metrics"]
    pairs = [
        sentence
        for metric in metrics_of(results)
        if metric in tested
        for _, sentence in sorted(of_metric(results, metric), key=itemgetter(0))
    ]
    if not pairs:
        return []
    more = [f"So it is with {len(pairs) - MOST_EXPLAINED} more pairs."] if len(pairs) > MOST_EXPLAINED else []
    return [*pairs[:MOST_EXPLAINED], *more, why]


def _opposed(results: dict[str, Any], metric: str) -> Iterator[tuple[float, str]]:
    """p and a sentence for each pair of outputs where the sign test favours the one with the worse score."""
    entry, systems = results["significance"]["metrics"][metric], results["systems"]
    tests, shown = entry["tests"], presentations(results)[metric]
    direction = 1 if higher_is_better(metric, results) else -1
    sentences, of_baseline = tests["sign_test"]["sentences"], tests["sign_test"]["baseline_p"]
    for one, other in permutations(range(len(systems)), 2):
        # Of each baseline p, and the numbers of sentences for `one` and for `other`; the table has the larger p.
        by_baseline = [(of_baseline[one][other], sentences[one][other])]
        by_baseline.append((of_baseline[other][one], sentences[other][one][::-1]))
        p = [tests[test]["corrected"][one][other] for test in ("sign_test", "paired_bootstrap")]
        favoured = all(more > fewer for _, (more, fewer) in by_baseline)
        if favoured and direction * entry["differences"][one][other] < 0 and min(p) < CHANCE:
            names = [isolated(systems[each]["name"]) for each in (one, other)]
            scores = _apart(shown, [systems[each]["overall"][metric] for each in (one, other)])
            more, fewer = max(by_baseline, key=itemgetter(0))[1]
            yield (
                min(p),
                f"More sentences speak for {names[0]} than for {names[1]} ({more:,} and "
                f"{fewer:,}, p {_equals(p[0])}), and yet its {shown.title} is worse ({scores[0]} and {scores[1]}, "
                f"paired bootstrap p {_equals(p[1])}).",
            )


def _by_baseline(results: dict[str, Any], metric: str) -> Iterator[tuple[float, str]]:
    """p and a sentence for each pair of outputs where the two choices of the baseline have different outcomes.

    These p are not corrected for the number of pairs.
    """
    test, names = results["significance"]["metrics"][metric]["tests"]["sign_test"], results["systems"]
    title = presentations(results)[metric].title
    for pair in combinations(range(len(names)), 2):
        by_baseline = {}
        for row, column in (pair, pair[::-1]):
            more, fewer = test["sentences"][row][column]
            p = test["baseline_p"][row][column]
            by_baseline[row] = (p, (row if more > fewer else column) if p < CHANCE else None)
        if by_baseline[pair[0]][1] != by_baseline[pair[1]][1]:
            ends = [
                f"{isolated(names[row]['name'])} as the baseline p {_equals(p)}"
                + ("" if favoured is None else f", for {isolated(names[favoured]['name'])}")
                for row, (p, favoured) in sorted(by_baseline.items(), key=lambda each: each[1][0])
            ]
            yield min(p for p, _ in by_baseline.values()), f"{title}: with {ends[0]}; with {ends[1]}."


def _apart(shown: Measure, scores: Sequence[float]) -> list[str]:
    """Two scores, with up to three more decimals than usual if these are needed to distinguish them."""
    for more in range(4):
        texts = [replace(shown, decimals=shown.decimals + more).show(score) for score in scores]
        if texts[0] != texts[1]:
            break
    return texts


def _equals(p: float) -> str:
    """A p-value as it follows "p"."""
    text = show_p(p, p)
    return text if text[0] in "<≤" else f"= {text}"


def agreed(results: dict[str, Any], metric: str, test: str, ones: Sequence[int], others: Sequence[int]) -> str | None:
    """The mark of one system against another that holds for all pairs of their seeds.

    Args:
        results: of an analysis.
        metric, test: of the marks.
        ones, others: indices of the outputs of the two systems.

    Returns:
        `>>`, `>`, `~`, `<` or `<<`; None if the analysis lacks the test or one of the systems.
    """
    entry = (results["significance"] or {"metrics": {}})["metrics"].get(metric)
    if entry is None:
        return None
    marks = {entry["tests"][test]["marks"][one][other] for one, other in product(ones, others)}
    if not marks:
        return None
    for strong, weak in ((">>", ">"), ("<<", "<")):
        if marks <= {strong, weak}:
            return strong if marks == {strong} else weak
    return "~"
