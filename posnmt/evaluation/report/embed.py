"""The embedded parts that make the page self-contained: its script, its content security policy and its data."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from posnmt.evaluation.report.charts import lines_of
from posnmt.evaluation.report.examples import Examples
from posnmt.evaluation.report.figures.canvas import SERIES
from posnmt.evaluation.report.measures import metrics_of, presentations
from posnmt.metrics.metric import Metric

# Parts of a page's script, in order: those of all pages, and the further ones of the page of an analysis.
SHARED = ("report.js", "tables.js")
SCRIPTS = (*SHARED, "tested.js", "baseline.js", "difference.js", "examples.js", "browser.js")
# zlib's default: the highest level takes several times as long, and saves 5 %.
LEVEL = 6
# zlib's number for a whole file of gzip, whose header then has no time.
GZIP = 31


def page_script(parts: Sequence[str] = SCRIPTS) -> str:
    """The text of a page's script."""
    templates = files("posnmt.evaluation.report") / "templates"
    # The hash of the policy is that of the exact text between the tags, so leading and trailing newlines are removed.
    return "\n".join((templates / name).read_text(encoding="utf-8") for name in parts).strip()


def content_security_policy(script: str) -> str:
    """The Content-Security-Policy of a page that loads nothing and runs only this script.

    All styles are allowed: figures have them in attributes, for which hashes are not practical.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def packed(parts: Iterable[str | bytes]) -> str:
    """Compress texts (as UTF-8) or bytes, joined, as base64 of gzip, which the page unpacks; deterministic."""
    compressor = zlib.compressobj(LEVEL, wbits=GZIP)
    compressed = [compressor.compress(part.encode("utf-8") if isinstance(part, str) else part) for part in parts]
    return base64.b64encode(b"".join([*compressed, compressor.flush()])).decode("ascii")


def print_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The figures as PDF and the tables for LaTeX, by their names with their suffixes.

    Args:
        files: of a report, by their paths in its folder.
    """
    kinds = {"figures": ".pdf", "tables": ".tex"}
    return {
        name: content
        for path, content in files.items()
        for folder, _, name in [path.rpartition("/")]
        if name.endswith(kinds.get(folder, "/"))
    }


def packed_files(files: Mapping[str, bytes]) -> str:
    """Files packed together: a line of JSON, name → length, and then their contents."""
    lengths = json.dumps({name: len(content) for name, content in files.items()})
    return packed([f"{lengths}\n", *files.values()])


def interactive_parts(results: dict[str, Any], results_text: str, examples: Examples | None) -> dict[str, Any]:
    """The template variables of the page's interactive parts.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
        results_text: the text of results.json.
        examples: the sentences of the example browser; None or empty: the page has none.
    """
    metrics = metrics_of(results)
    numbers = {output: line.number for line in lines_of(results) for output in line.outputs}
    systems = [
        {"name": system["name"], "colour": numbers[row] % len(SERIES) + 1}
        for row, system in enumerate(results["systems"])
    ]
    measures = presentations(results)
    by_sentence = (name for name in metrics if isinstance(each := measures[name], Metric) and each.by_sentence)
    titles = [{"name": name, "title": measures[name].title, "shown": measures[name].decimals} for name in metrics]
    return {
        "packed_results": packed([results_text]),
        "examples": examples,
        "sentence_metrics": metrics,
        "disagreed": next(by_sentence, metrics[0]),  # the browser opens with sentences that differ most by it
        "packed_examples": packed(examples.parts(systems, titles)) if examples and examples.numbers else "",
    }
