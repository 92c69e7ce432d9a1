"""The report of a study: an HTML page with the paper's tables and figures, which are also written as files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from posnmt.base.errors import UserError
from posnmt.base.progress import duration
from posnmt.evaluation.report.charts import Chart
from posnmt.evaluation.report.embed import SHARED
from posnmt.evaluation.report.figures import Drawing, draw
from posnmt.evaluation.report.grid import Sheet, to_csv
from posnmt.evaluation.report.latex_sheet import to_latex
from posnmt.evaluation.report.page import page
from posnmt.study import database, examples
from posnmt.study.beyond import cost, every_output
from posnmt.study.compatible import compatibility
from posnmt.study.figures import Plate, plates
from posnmt.study.measured import Recommendation, StudyResults
from posnmt.study.overview import facts
from posnmt.study.scored import Shown, likelihoods
from posnmt.study.tables import sheets
from posnmt.study.verdict import counts, shown_p
from posnmt.study.wording import amount, decimals

__all__ = ["Recommendation", "StudyResults", "render"]

WHAT_SCALES_ARE = {
    "smoke": "A few updates on a small text show that all of it runs. Nothing is learned, no figure means anything.",
    "small": "A small model, trained for hours on a processor: its figures are no match for the paper's, but its "
    "systems can be compared with each other.",
    "paper": "The settings of the paper.",
}


def render(results: StudyResults, out: Path) -> None:
    """Write report.html, tables/*.csv and *.tex, figures/*.svg, *.pdf and *.csv.

    The same results give the same bytes.

    Args:
        results: of the study.
        out: the folder to write to, created if it does not exist; links to analyses are relative to it.

    Raises:
        UserError: the files cannot be written.
    """
    of_paper, beyond, figures = sheets(results), [*every_output(results), *cost(results)], plates(results)
    scored = list(likelihoods(results))
    charts = _charts(figures, scored)
    drawings = draw(charts)
    files: dict[str, bytes] = {}
    of_likelihoods = [sheet for each in scored for sheet in each.sheets]
    for sheet in filter(lambda sheet: sheet.grids, [*of_paper, *beyond, *of_likelihoods]):
        files[f"tables/{sheet.name}.csv"] = to_csv(sheet.grids).encode("utf-8")
        files[f"tables/{sheet.name}.tex"] = to_latex(sheet).encode("utf-8")
    for chart in charts:
        files[f"figures/{chart.name}.svg"] = drawings[chart.name].svg.encode("utf-8")
        files[f"figures/{chart.name}.pdf"] = drawings[chart.name].pdf
        files[f"figures/{chart.name}.csv"] = to_csv([chart.by_curve()]).encode("utf-8")
    for plate in figures:
        if plate.examples:
            files[f"figures/{plate.name}.csv"] = examples.to_csv(plate.examples).encode("utf-8")
    files |= {f"tables/{each.name}.csv": each.csv.encode("utf-8") for each in scored if each.csv}
    files["report.html"] = _page(results, of_paper, beyond, figures, scored, drawings, out).encode("utf-8")
    try:
        for name, content in files.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(content)
    except OSError as error:
        raise UserError(f"the report cannot be written: {error.strerror}", out, "choose another --out") from None


def _charts(figures: Sequence[Plate], scored: Sequence[Shown]) -> list[Chart]:
    """All charts, in the order of the page."""
    return [
        *(chart for plate in figures for chart in plate.charts),
        *(chart for each in scored for chart in each.charts),
    ]


def _page(
    results: StudyResults,
    of_paper: list[Sheet],
    beyond: list[Sheet],
    figures: list[Plate],
    scored: list[Shown],
    drawings: dict[str, Drawing],
    out: Path,
) -> str:
    """The page as HTML text."""
    words = counts(results.verdicts)
    return page(
        "study.html",
        SHARED,
        _charts(figures, scored),
        drawings,
        results=results,
        recipe=results.recipe,
        answer=_answer(results, words),
        scale_is=WHAT_SCALES_ARE[results.scale],
        facts=facts(results, _counted(run["state"] for run in results.trainings)),
        notes=results.recipe.notes_at(results.scale),
        words=words,
        sheets=of_paper,
        plates=figures,
        likelihoods=scored,
        beyond=beyond,
        amount=amount,
        compatibility=compatibility,
        counted=_counted,
        shown_p=shown_p,
        decimals=decimals,
        analyses=_analyses(results, out),
        undone=results.undone(),
        cost=duration(results.cost),
        all_figures=database.PUBLISHED if results.published else database.FILE,
    )


def _answer(results: StudyResults, words: str) -> str:
    """The outcome in a sentence: the recommendation, or the verdicts counted; empty without either."""
    if results.recommendation:
        return results.recommendation.sentence
    what = "the paper's claims" if results.recipe.paper else "the claims"
    return f"Of {what}: {words}." if words else ""


def _counted(words: Iterable[str]) -> str:
    """Counts of words: "3 done, 1 failed"."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _analyses(results: StudyResults, out: Path) -> list[dict[str, Any]]:
    """Title of every analysis, and the link to its report, or why it is missing; neither in a published study."""
    return [
        {
            "title": results.recipe.title_of(name, results.scale),
            "link": quote(os.path.relpath(results.analyses[name] / "report.html", out).replace(os.sep, "/"))
            if name in results.analyses and not results.published
            else None,
            "missing": None if name in results.analyses else results.missing.get(name, "it was not made"),
        }
        for name in results.recipe.analyses
    ]
