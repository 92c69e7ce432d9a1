"""What the report of a study shows of likelihood by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from posnmt.evaluation.report.charts import Chart
from posnmt.evaluation.report.grid import Sheet
from posnmt.study.measured import StudyResults

BY_CHARACTER = "The systems have different subwords: the table has losses in bits by character."


@dataclass(frozen=True)
class Shown:
    """One likelihood on the page; its parts have names of their own there.

    Attributes:
        name: of its section, and of its CSV file in `tables`.
        sentences: what may be said, and what was left out; or why it is missing.
        csv: every figure in full precision; empty if it is missing.
    """

    name: str
    title: str
    sentences: Sequence[str]
    csv: str = ""
    sheets: Sequence[Sheet] = ()
    charts: Sequence[Chart] = ()


def likelihoods(results: StudyResults) -> Iterator[Shown]:
    """Those of the recipe at the scale, in its order."""
    for name in results.recipe.likelihoods_at(results.scale):
        section, title = f"likelihood-{name}", results.recipe.title_of_likelihood(name, results.scale)
        likelihood = results.likelihoods.get(name)
        if likelihood is None:
            yield Shown(section, title, [f"Missing, because {results.unscored.get(name, 'it was not made')}."])
        elif (report := likelihood.report) is None:
            yield Shown(section, title, [BY_CHARACTER, *likelihood.notes], likelihood.csv)
        else:
            named = report.named(section)
            yield Shown(section, title, [*named.sentences, *named.notes], named.csv, named.sheets, named.charts)
