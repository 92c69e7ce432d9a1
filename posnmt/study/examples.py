"""Example sentences with the translations of two systems, as a figure of a study (Chen et al. 2019a, Figure 6).

The examples are chosen by sentence scores: the sentence on which the second system is furthest ahead of the first, the
one with the median lead, and the one on which it is furthest behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from posnmt.evaluation.report.grid import csv_text
from posnmt.metrics.registry import metric
from posnmt.study import evidence
from posnmt.study.layout import Figure, Panel
from posnmt.study.likelihood import lines_of
from posnmt.study.measured import StudyResults, Variant

PLACES = ("most ahead", "in the middle", "most behind")


@dataclass(frozen=True)
class Example:
    """One sentence.

    Attributes:
        number: its line in the test text, from 1.
        place: one of `PLACES`, by the lead of the second system.
        texts: pairs of a label and a text: source, reference, and the output of each system, labelled with its score.
    """

    number: int
    place: str
    texts: Sequence[tuple[str, str]]


def examples(results: StudyResults, figure: Figure, panel: Panel) -> tuple[list[Example], str]:
    """The sentences of a panel with two systems, and its legend; without sentences, the legend says why."""
    if results.published:
        return [], "Not shown: a published study holds no sentences of its corpora."
    analysis, measure = results.recipe.analyses[panel.analysis], metric(figure.measure)
    assert panel.systems is not None  # checked when the recipe was read
    first, second = (results.variant(name, panel.analysis) for name in panel.systems)
    labels = [results.recipe.label(each) for each in (first, second)]
    for variant in (first, second):
        if (absence := results.absence(variant, panel.analysis)) is not None:
            return [], f"{results.recipe.label(variant)}: {absence[1]}."
    analysed = evidence.load(results.analyses[panel.analysis])
    if figure.measure not in analysed.columns:
        return [], f"Not shown, because the analysis {panel.analysis} does not measure {measure.title}."
    places = [analysed.places(variant, 0.0) for variant in (first, second)]
    seed = min(places[0].keys() & places[1].keys(), default=None)
    if seed is None or not len(analysed.source_lengths):
        return [], "Not shown, because no seed has outputs of both systems."
    files = _texts(results, analysis.test, first, second, seed)
    if files is None:
        return [], "Not shown, because a translation is missing."
    columns = analysed.columns[figure.measure]
    scores = [measure.score(analysed.counts[:, of[seed], columns].astype(float), sentences=True) for of in places]
    lead = measure.ahead(scores[1] - scores[0])
    rising = sorted(range(len(lead)), key=lambda row: (lead[row], row))
    rows = (rising[-1], rising[len(rising) // 2], rising[0])
    lines = [lines_of(path) for path in files]
    chosen = []
    for place, row in zip(PLACES, rows, strict=True):
        names = [
            f"{label} ({measure.title} {measure.show(score[row])})" for label, score in zip(labels, scores, strict=True)
        ]
        texts = zip(["Source", "Reference", *names], (text[row] for text in lines), strict=True)
        chosen.append(Example(row + 1, place, list(texts)))
    rule = (
        f"Not chosen by hand: of {len(lead):,} sentences, seed {seed}, those on which {labels[1]} is most ahead of "
        f"{labels[0]} in {measure.title}, in the middle, and most behind."
    )
    return chosen, rule


def _texts(results: StudyResults, test: str, first: Variant, second: Variant, seed: int) -> list[Path] | None:
    """The files of source, reference and both outputs; None if one is missing."""
    text = results.texts.get(test)
    outputs = [results.translations.get((*variant, seed, test)) for variant in (first, second)]
    if text is None or None in outputs:
        return None
    return [text / "source", text / "target", *(folder / "output" for folder in outputs if folder is not None)]


def to_csv(chosen: Sequence[Example]) -> str:
    """CSV with a row for every text of every sentence."""
    rows = ((each.number, each.place, name, text) for each in chosen for name, text in each.texts)
    return csv_text([("sentence", "place", "text", "content"), *rows])
