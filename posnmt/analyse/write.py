"""The files of an analysis: results.json, scores.csv, figures and the page."""

from __future__ import annotations

import csv
import io
import json
from itertools import chain
from pathlib import Path
from typing import Any

from posnmt.errors import UserError


def write(results: dict[str, Any], out: Path) -> None:
    """Draw everything, then write the files."""
    from posnmt.report.figures import draw
    from posnmt.report.page import render

    drawings = draw(results)
    # The page names a metric's signature by the metric's title, and so can only have those that it shows.
    files = {
        "results.json": json.dumps(results, ensure_ascii=False, indent=2, allow_nan=False) + "\n",
        "scores.csv": table(results),
        "report.html": render(results, drawings),
    }
    pages = {name: text.encode("utf-8") for name, text in files.items()}
    for name, drawing in drawings.items():
        pages[f"figures/{name}.svg"] = drawing.svg.encode("utf-8")
        pages[f"figures/{name}.pdf"] = drawing.pdf
    try:
        (out / "figures").mkdir(parents=True, exist_ok=True)
        for name, content in pages.items():
            (out / name).write_bytes(content)
    except OSError as error:
        raise UserError(f"the results cannot be written: {error.strerror}", out, "choose another --out") from None


def table(results: dict[str, Any]) -> str:
    """All figures as CSV: a row for each system and bin, `all` for the whole; full precision, nothing where null.

    After the measures come the ends of their intervals, `MEASURE_low` and `MEASURE_high`, if there are intervals.
    """
    measures = [name for name in results["systems"][0]["overall"] if name != "n"]
    ends = [f"{name}_{end}" for name in measures for end in ("low", "high")] if results["settings"]["samples"] else []
    whole = {"label": "all", "first": None, "last": None, "training": None}
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["system", "bin", "first", "last", "training", "n", *measures, *ends])
    for system in results["systems"]:
        values = [system["overall"], *system["bins"]]
        intervals = system["intervals"] or {"overall": {}, "bins": [{}] * len(results["bins"])}
        of_values = [intervals["overall"], *intervals["bins"]]
        for each, scores, interval in zip([whole, *results["bins"]], values, of_values, strict=True):
            about = [each[key] for key in ("label", "first", "last", "training")]
            limits = chain.from_iterable(interval.get(name) or (None, None) for name in measures if ends)
            rows.writerow([system["name"], *about, scores["n"], *(scores[name] for name in measures), *limits])
    return text.getvalue()
