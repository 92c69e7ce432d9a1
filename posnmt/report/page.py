"""The report: one HTML file that stands alone, with the tables and figures of an analysis."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from posnmt.report.figures import COLOURS, MEASURES, SERIES, Drawing, measures_of

# The colours that figures are drawn with, by their names in the page's style sheet, which adds the dark values.
_LIGHT = {**COLOURS, **{f"series-{number}": colour for number, colour in enumerate(SERIES, 1)}}
_VARIABLES = {colour: f"var(--{name})" for name, colour in _LIGHT.items()}


def render(results: dict[str, Any], drawings: dict[str, Drawing]) -> str:
    """The page as HTML text.

    Args:
        results: what `posnmt.analyse.analyse.analyse` gives.
        drawings: the figure of each measure, from `posnmt.report.figures.draw`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("posnmt.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    measures = measures_of(results)
    return environment.get_template("report.html").render(
        results=results,
        colours=_LIGHT,
        measures={name: MEASURES[name] for name in measures},
        figures={name: Markup(inline_svg(drawings[name].svg, name, _alternative(name, results))) for name in measures},
        ranges=_training_words(results["training"]),
    )


def inline_svg(svg: str, prefix: str, alternative: str) -> str:
    """An SVG file's text as an element inside a page.

    Its ids start with `prefix`, so that several figures share a page; its colours become the page's variables; it
    fills the width that it is given; `alternative` is what a screen reader says in its place.
    """
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        # Namespaces are understood within HTML; without them the page names no address at all.
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {
            key.rpartition("}")[2]: _inline_value(key, value, prefix) for key, value in element.attrib.items()
        }
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": alternative}
    return ElementTree.tostring(root, encoding="unicode")


def _inline_value(key: str, value: str, prefix: str) -> str:
    """An attribute's value with ids made the figure's own and colours made variables."""
    if key == "id":
        return f"{prefix}-{value}"
    value = re.sub(r"^#(?=\w)", f"#{prefix}-", value) if key.endswith("href") else value
    value = value.replace("url(#", f"url(#{prefix}-")
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: _VARIABLES.get(found[0], found[0]), value)


def _alternative(measure: str, results: dict[str, Any]) -> str:
    """What the figure of a measure shows, in a sentence."""
    names = ", ".join(system["name"] for system in results["systems"])
    unit = results["settings"]["unit"]
    return f"Line chart: {MEASURES[measure].title} by source length in {unit}, one line each for {names}. Table below."


def _training_words(training: dict[str, int | None] | None) -> str | None:
    """The trained source lengths in words, or None when nothing is known of them."""
    if training is None:
        return None
    shortest, longest = training["shortest"], training["longest"]
    if longest is None:
        return f"{shortest} or more"
    return f"{shortest} to {longest}" if shortest is not None else f"up to {longest}"
