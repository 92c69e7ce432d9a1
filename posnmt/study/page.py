"""The report of a study: an HTML page with tables and figures, which are also written as files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from posnmt.base.progress import duration
from posnmt.evaluation.report.charts import Chart
from posnmt.evaluation.report.embed import SHARED
from posnmt.evaluation.report.figures import Drawing, draw
from posnmt.evaluation.report.grid import Sheet, to_csv
from posnmt.evaluation.report.latex_sheet import to_latex
from posnmt.evaluation.report.page import page
from posnmt.evaluation.report.write import write_files
from posnmt.study import database, examples
from posnmt.study.beyond import cost, every_output
from posnmt.study.compatible import compatibility
from posnmt.study.figures import Plate, plates
from posnmt.study.measured import StudyResults
from posnmt.study.recipe import Text
from posnmt.study.tables import sheets
from posnmt.study.trainings import text_config
from posnmt.study.verdict import counts, shown_p
from posnmt.study.wording import amount, counted, decimals

WHAT_SCALES_ARE = {
    "smoke": "A few updates on a small text show that all of it runs. Nothing is learned, no figure means anything.",
    "small": "Small models and short trainings: compare these systems with each other, not with published figures.",
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
    files["report.html"] = _page(results, of_paper, beyond, figures, scored, drawings, files, out).encode("utf-8")
    write_files(files, out)


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
    files: dict[str, bytes],
    out: Path,
) -> str:
    words = counts(results.verdicts)
    return page(
        "study.html",
        SHARED,
        _charts(figures, scored),
        drawings,
        {} if results.published else files,  # of a copy, `posnmt figure` draws what is printed
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
    """The outcome in a sentence: the recommendation, or the counts of verdicts; empty if there is neither."""
    if results.recommendation:
        return results.recommendation.sentence
    what = "the paper's claims" if results.recipe.paper else "the claims"
    return f"Of {what}: {words}." if words else ""


def _counted(words: Iterable[str]) -> str:
    """Counts of words: "3 done, 1 failed"."""
    return ", ".join(f"{count} {word}" for word, count in Counter(words).items())


def _analyses(results: StudyResults, out: Path) -> list[dict[str, Any]]:
    """For every analysis its title, and the link to its report (none in a published study) or why it is missing."""
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


def facts(results: StudyResults, states: str) -> list[tuple[str, str]]:
    """Pairs of a term and its value in this study.

    Args:
        results: of the study.
        states: counts of the states of its trainings, in words.
    """
    recipe, setting = results.recipe, results.recipe.scales[results.scale]
    pair = recipe.pair_at(results.scale)
    seeds = [recipe.seeds(variant, results.scale) for variant in recipe.variants(results.scale)]
    listed = [
        ("Recipe", recipe.recipe),
        ("Languages", f"{pair.source} to {pair.target}"),
        ("Scale", results.scale),
        ("Seeds", counted(seeds or [setting.seeds], "seed").partition(" seed")[0]),
        ("Trainings", states or "none"),
        ("Training time", duration(results.cost)),
        ("Corpora", _corpora(results)),
        ("Longest pair in training, in subwords", _longest(results)),
        ("Updates", _spread(run["updates"] for run in results.runs)),
        ("Processors", _processors(run.get("processor") for run in results.trainings)),
        ("Registered", results.registration.sentence if results.verdicts or results.recommendation else ""),
        ("Versions", ", ".join(f"{name} {version}" for name, version in results.versions.items())),
    ]
    return [(term, text) for term, text in listed if text]


def _corpora(results: StudyResults) -> str:
    """The corpora with their files, and the pairs of those that are prepared."""
    setting = results.recipe.scales[results.scale]
    pairs = {name: f" ({facts['pairs']:,} pairs)" for name, facts in results.corpora.items()}
    if setting.artificial is not None:
        return "; ".join(f"{name}{count}" for name, count in pairs.items()) or "the built-in language pair"
    named = [
        f"{name}: {', '.join(_named(text) for text in (texts if isinstance(texts, list) else [texts]))}"
        for name, texts in setting.corpora.items()
    ]
    return "; ".join([*named, *(f"{name}{count}" for name, count in pairs.items())])


def _named(text: Text) -> str:
    """The file or the public name of a corpus, and the part of it that is used."""
    if text.public is not None:
        name = str(text.public.get("name") or text.public.get("sacrebleu") or next(iter(text.public.values())))
    else:
        name = str(text.source).removesuffix(".xz").removesuffix(".gz").removesuffix(".{source}")
    lines = f" lines {text.lines[0]:,} to {text.lines[1]:,}" if text.lines else ""
    joined = f", {text.join} consecutive lines joined" if text.join else ""
    return f"{name}{lines}{joined}" + (f" ({text.take:,} pairs of it)" if text.take else "")


def _longest(results: StudyResults) -> str:
    """For each training, the longest pair that its runs recorded, and the limit in the recipe."""
    recipe, listed = results.recipe, {}
    for name in dict.fromkeys(training for _, training in recipe.variants(results.scale)):
        cap: Any = text_config(recipe, results.scale, recipe.trainings[name]).get("data", {}).get("max_length", 100)
        longest = _spread(run["longest_pair"] for run in results.runs if run["training"] == name)
        limit = "no limit" if cap is None else f"limit {cap:,}"
        listed[recipe.trainings[name].label or name] = f"{longest or 'not known'} ({limit})"
    if len(set(listed.values())) == 1:
        return next(iter(listed.values()))
    return "; ".join(f"{name}: {longest}" for name, longest in listed.items())


def _processors(names: Iterable[str | None]) -> str:
    """The processors of the trainings; if there are several, with the number of trainings on each."""
    counts = Counter(name for name in names if name)
    return ", ".join(f"{name} ({count})" if len(counts) > 1 else name for name, count in counts.most_common())


def _spread(counts: Iterable[int | None]) -> str:
    """Numbers as a range, or as one number if all are equal; empty if none is known."""
    known = [count for count in counts if count is not None]
    if not known:
        return ""
    return f"{known[0]:,}" if len(set(known)) == 1 else f"{min(known):,} to {max(known):,}"


BY_CHARACTER = "The systems have different subwords: the table has losses in bits by character."


@dataclass(frozen=True)
class Shown:
    """One likelihood on the page; the names of its tables and figures are unique there.

    Attributes:
        name: of its section, and of its CSV file in `tables`.
        sentences: conclusions and omissions; or the reason why it is missing.
        csv: every figure in full precision; empty if it is missing.
    """

    name: str
    title: str
    sentences: Sequence[str]
    csv: str = ""
    sheets: Sequence[Sheet] = ()
    charts: Sequence[Chart] = ()


def likelihoods(results: StudyResults) -> Iterator[Shown]:
    """The likelihoods of the recipe at the scale of the study, in order."""
    for name in results.recipe.likelihoods_at(results.scale):
        section, title = f"likelihood-{name}", results.recipe.title_of(name, results.scale, "likelihoods")
        likelihood = results.likelihoods.get(name)
        if likelihood is None:
            yield Shown(section, title, [f"Missing, because {results.unscored.get(name, 'it was not made')}."])
        elif (report := likelihood.report) is None:
            yield Shown(section, title, [BY_CHARACTER, *likelihood.notes], likelihood.csv)
        else:
            named = report.named(section)
            yield Shown(section, title, [*named.sentences, *named.notes], named.csv, named.sheets, named.charts)
