"""The report: a self-contained HTML file with the tables and figures of an analysis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from posnmt.report.charts import Chart, families
from posnmt.report.embed import interactive_parts
from posnmt.report.examples import Examples
from posnmt.report.figures import Drawing
from posnmt.report.figures.canvas import COLOURS, SERIES
from posnmt.report.figures.lines import MOST_BANDS
from posnmt.report.measures import measures_of, presentations

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

# Name in the page's style sheet → colour of figures; the style sheet adds the colours of the dark theme.
LIGHT = {**COLOURS, **{f"series-{number}": colour for number, colour in enumerate(SERIES, 1)}}
_VARIABLES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}


def render(
    results: dict[str, Any],
    sections: dict[str, list[Chart]],
    drawings: dict[str, Drawing],
    files: Sequence[str],
    results_text: str,
    examples: Examples | None = None,
) -> str:
    """The page as HTML text.

    Args:
        results: of `posnmt.analyse.analyse.analyse`.
        sections: from `posnmt.report.charts.charts`.
        drawings: the figure of each chart, from `posnmt.report.figures.draw`.
        files: the names of the other files of the report.
        results_text: the text of results.json, which can be saved from the page.
        examples: the sentences of the example browser, if any.
    """
    every = [chart for section in sections.values() for chart in section]
    page = templates().get_template("report.html")
    return page.render(
        results=results,
        colours=LIGHT,
        measures={name: presentations(results)[name] for name in measures_of(results)},
        sections=sections,
        figures=inline_figures(every, drawings),
        bands=len(families(results)) <= MOST_BANDS,
        ranges=_training_words(results["training"]),
        files=files,
        **interactive_parts(results, results_text, examples),
    )


def templates() -> Environment:
    """The environment of all templates: variables are escaped, and undefined ones are errors."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("posnmt.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def inline_figures(charts: Iterable[Chart], drawings: Mapping[str, Drawing]) -> dict[str, Markup]:
    """Chart -> its figure as an element inside a page."""
    from markupsafe import Markup

    return {chart.name: Markup(inline_svg(drawings[chart.name].svg, chart.name, chart.alternative)) for chart in charts}


def inline_svg(svg: str, prefix: str, alternative: str) -> str:
    """Convert the text of an SVG file to an element of a page.

    Its ids get a `prefix`, so that several figures can share a page; its colours become variables of the style sheet;
    it fills the available width; `alternative` is its text for screen readers.
    """
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        # HTML implies the namespaces; without them, the page contains no URL.
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {
            key.rpartition("}")[2]: _inline_value(key, value, prefix) for key, value in element.attrib.items()
        }
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": alternative}
    return ElementTree.tostring(root, encoding="unicode")


def _inline_value(key: str, value: str, prefix: str) -> str:
    """An attribute's value with prefixed ids, and with variables for colours."""
    if key == "id":
        return f"{prefix}-{value}"
    value = re.sub(r"^#(?=\w)", f"#{prefix}-", value) if key.endswith("href") else value
    value = value.replace("url(#", f"url(#{prefix}-")
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: _VARIABLES.get(match[0], match[0]), value)


def _training_words(training: dict[str, int | None] | None) -> str | None:
    """The range of trained source lengths in words; None if they are unknown."""
    if training is None:
        return None
    shortest, longest = training["shortest"], training["longest"]
    if longest is None:
        return f"{shortest} or more"
    return f"{shortest} to {longest}" if shortest is not None else f"up to {longest}"
