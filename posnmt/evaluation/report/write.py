"""Write the files of an analysis: results.json, CSV and LaTeX tables, figures and the page."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from posnmt.base.errors import UserError, raise_all
from posnmt.base.output import changing, write_bytes
from posnmt.base.version import __version__
from posnmt.evaluation.analyse.analyse import Analysis
from posnmt.evaluation.report.figures import Drawing
from posnmt.evaluation.report.likelihood import LikelihoodReport

BY_POSITION = "tables/likelihood.csv"


def place_faults(out: Path) -> list[UserError]:
    """Faults of an output folder, to be checked before anything is measured."""
    nearest = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not nearest.is_dir():
        what = "the output folder is a file" if nearest == out else f"the output folder is inside a file, {nearest}"
        return [UserError(what, out, "name a folder")]
    try:
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        return [UserError(f"the results cannot be written: {error.strerror}", nearest, "choose another --out")]
    return []


def write(
    analysis: Analysis, out: Path, examples: int | None = None, likelihood: LikelihoodReport | None = None
) -> None:
    """Draw all figures, then write all files; remove CSV files of an earlier analysis that would now be empty.

    Args:
        analysis: the results.
        out: the folder, created if it does not exist.
        examples: number of evenly spaced sentences in the page's example browser; None: all, 0: none.
        likelihood: likelihood of references by position, which is shown, too; None: there is none.

    Raises:
        UserError: the files cannot be written.
    """
    from posnmt.evaluation.report.charts import charts
    from posnmt.evaluation.report.completeness import shown as shown_omissions
    from posnmt.evaluation.report.examples import Examples
    from posnmt.evaluation.report.figures import draw
    from posnmt.evaluation.report.latex_sheet import to_latex
    from posnmt.evaluation.report.page import render
    from posnmt.evaluation.report.sheets import latex_sheets
    from posnmt.evaluation.report.tables import TABLES, csv_tables
    from posnmt.evaluation.report.words import words_chart

    raise_all(place_faults(out))
    results = analysis.results
    shown = Examples.of(
        analysis.texts, analysis.source_lengths, analysis.additive, analysis.trained, examples,
        results["settings"]["target_language"],
    )  # fmt: skip
    sections = {**charts(results), "words": [words_chart(results)]}
    by_position = None if likelihood is None else likelihood.named("likelihood")
    drawings = draw([*chain.from_iterable(sections.values()), *(by_position.charts if by_position else ())])
    texts = {
        "results.json": json.dumps(results, ensure_ascii=False, indent=2, allow_nan=False) + "\n",
        **csv_tables(results),
        **{f"tables/{sheet.name}.tex": to_latex(sheet) for sheet in latex_sheets(results, sections)},
        **({BY_POSITION: by_position.csv} if by_position else {}),
    }
    files = {name: text.encode("utf-8") for name, text in texts.items()} | figure_files(drawings)
    complete = None
    if analysis.completeness is not None:
        complete = shown_omissions(results, analysis.completeness, analysis.texts, examples != 0)
    page = render(results, sections, drawings, files, shown, complete, by_position)
    known = [*(f"{table}.csv" for table in TABLES), BY_POSITION]
    write_files({**files, "report.html": page.encode("utf-8")}, out, known)


def write_files(files: Mapping[str, bytes], out: Path, known: Iterable[str] = ()) -> None:
    """Write the files of a report, by their paths inside its folder.

    Args:
        known: files that a report may have; those of an earlier report that this one has not are removed.

    Raises:
        UserError: they cannot be written; earlier files are unchanged.
    """
    try:
        with changing(out) as changes:
            for name, content in files.items():
                changes.path(name).write_bytes(content)
            for name in known:
                if name not in files:
                    changes.remove(name)
    except OSError as error:
        what, todo = f"the results cannot be written: {error.strerror}", "free disk space, or choose another folder"
        raise UserError(what, out, todo) from None


def write_file(path: Path, content: bytes) -> None:
    """Write one file, which replaces an earlier one when it is complete; make its folder.

    Raises:
        UserError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
    except OSError as error:
        raise UserError(f"the file cannot be written: {error.strerror}", path, "choose another place") from None


def figure_files(drawings: Mapping[str, Drawing]) -> dict[str, bytes]:
    """The files of figures, SVG and PDF, by their paths inside a report's folder."""
    files = {}
    for name, drawing in drawings.items():
        files[f"figures/{name}.svg"] = drawing.svg.encode("utf-8")
        files[f"figures/{name}.pdf"] = drawing.pdf
    return files


def likelihood_files(report: LikelihoodReport) -> dict[str, bytes]:
    """The page, the CSV file and the figures of likelihood by position, by their paths inside its folder."""
    from posnmt.evaluation.report.embed import SHARED
    from posnmt.evaluation.report.figures import draw
    from posnmt.evaluation.report.likelihood import PAGE, TABLE
    from posnmt.evaluation.report.page import page

    drawings = draw(report.charts)
    figures = figure_files(drawings)
    text = page("likelihood.html", SHARED, report.charts, drawings, figures, report=report, version=__version__)
    return {**figures, TABLE: report.csv.encode("utf-8"), PAGE: text.encode("utf-8")}
