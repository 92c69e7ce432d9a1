"""Figures for print from any results in a folder, for `posnmt figure`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.analyse import FORMAT
from posnmt.evaluation.analyse.losses import PLAIN
from posnmt.evaluation.report.bands import Bands
from posnmt.evaluation.report.figures import Style
from posnmt.evaluation.report.figures.style import COLUMN, Font
from posnmt.evaluation.report.likelihood import TABLE, Curves, read_report
from posnmt.evaluation.report.likelihood_table import read_curves
from posnmt.evaluation.report.printed import BEYOND, OF_LOSSES, Figure, figures_of, of_analysis, of_losses
from posnmt.evaluation.report.write import BY_POSITION
from posnmt.study.printed import charts_of, is_study

RESULTS = "results.json"


def figures(
    place: Path,
    kind: str,
    measure: str | None = None,
    analyses: Sequence[str] = (),
    systems: Sequence[str] = (),
    width: float = COLUMN,
    font: Font = "sans",
    bands: Bands = "range",
) -> list[Figure]:
    """The figures of a kind.

    Args:
        place: folder of an analysis, of losses by position, of a study or of its copy; or likelihood.csv.
        kind: one of `posnmt.evaluation.report.printed.KINDS`.
        measure: default: the main metric.
        analyses: of a study; none: its first.
        systems: names of those to draw; none: all.
        width: in inches.
        font, bands: see `Style` and `BANDS`.

    Raises:
        UserError: there are no such results, or they have no such figure.
    """
    style = Style(width, font, bands != "none", alone=True)
    if analyses and not is_study(place):
        raise UserError("only a study has several analyses", "--analysis", "leave it out")
    if measure is not None and kind in (*OF_LOSSES, BEYOND, "output-length", "place"):
        raise UserError(f"a figure of kind {kind} has one measure", "--measure", "leave it out")
    if is_study(place):
        charts = charts_of(place, kind, measure, analyses)
    elif kind == BEYOND:
        raise UserError("only a study has a figure of this kind", "--kind", "choose position-difference or length")
    elif kind in OF_LOSSES:
        charts = of_losses(_curves(place), kind)
    else:
        charts = of_analysis(_results(place), kind, measure)
    return figures_of(charts, style, bands, systems)


def _results(place: Path) -> dict[str, Any]:
    """results.json of an analysis.

    Raises:
        UserError: it is not there, or damaged.
    """
    path = place / RESULTS if place.is_dir() else place
    if not path.exists():
        what = "there are no results of an analysis or a study" if place.exists() else "this place does not exist"
        todo = "name the folder that `posnmt analyse`, `posnmt score --by-position` or `posnmt study` wrote"
        raise UserError(what, place, todo)
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError("this is no results.json of an analysis", path, "name its folder, or analyse again") from None
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        raise UserError("this is no results.json of an analysis", path, "name its folder, or analyse again")
    return results


def _curves(place: Path) -> Curves:
    """The curves of losses by position."""
    if place.is_dir():
        if (place / f"{PLAIN}.npz").exists():
            return read_report(place).effects
        place = next((path for name in (TABLE, BY_POSITION) if (path := place / name).exists()), place / TABLE)
    if not place.exists():
        todo = "`posnmt score --by-position --out FOLDER` writes them, and `posnmt analyse --likelihood` keeps them"
        raise UserError("there are no losses by position", place, todo)
    try:
        return read_curves(place.read_text(encoding="utf-8"), place)
    except UnicodeDecodeError:
        raise UserError("this is no table of likelihood by position", place, "name a likelihood.csv") from None
