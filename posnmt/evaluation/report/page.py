"""Self-contained HTML pages with tables and figures, and the page of an analysis."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES
from posnmt.evaluation.report.charts import Chart, baseline_of, lines_of
from posnmt.evaluation.report.completeness import Shown
from posnmt.evaluation.report.embed import (
    SCRIPTS,
    content_security_policy,
    interactive_parts,
    packed_files,
    page_script,
    print_files,
)
from posnmt.evaluation.report.examples import Examples
from posnmt.evaluation.report.figures import Drawing
from posnmt.evaluation.report.figures.canvas import COLOURS, SERIES
from posnmt.evaluation.report.figures.lines import MOST_BANDS
from posnmt.evaluation.report.grid import dashed, headed
from posnmt.evaluation.report.measures import higher_is_better, measures_of, presentations
from posnmt.evaluation.report.sheets import each_seed, overall, ranked
from posnmt.evaluation.report.significance import TESTS, contested, explained, significance_sheets
from posnmt.evaluation.report.words import words_sheet

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from posnmt.evaluation.report.likelihood import LikelihoodReport

# Name in the page's style sheet → colour of figures; the style sheet adds the colours of the dark theme.
LIGHT = {**COLOURS, **{f"series-{number}": colour for number, colour in enumerate(SERIES, 1)}}
# Replaced by the list of sections.
CONTENTS = "<!-- contents -->"
# Of the circles that show the text of a point, in the points of the figure.
RADIUS = "4.5"
_VARIABLES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}


def render(
    results: dict[str, Any],
    sections: dict[str, list[Chart]],
    drawings: dict[str, Drawing],
    files: Mapping[str, bytes],
    examples: Examples | None = None,
    complete: Shown | None = None,
    likelihood: LikelihoodReport | None = None,
) -> str:
    """The page of an analysis as HTML text.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
        sections: from `posnmt.evaluation.report.charts.charts`.
        drawings: the figure of each chart, from `posnmt.evaluation.report.figures.draw`.
        files: the other files of the report, by their paths in its folder.
        examples: the sentences of the example browser, if any.
        complete: omitted sentences, if they were looked for.
        likelihood: likelihood of references by position, if it was given; its names are unique on the page.
    """
    lines = lines_of(results)
    return page(
        "report.html",
        SCRIPTS,
        [*chain.from_iterable(sections.values()), *(likelihood.charts if likelihood else ())],
        drawings,
        files,
        results=results,
        measures={name: presentations(results)[name] for name in measures_of(results)},
        better={name: higher_is_better(name, results) for name in measures_of(results)},
        sections=sections,
        overall=overall(results),
        each_seed=each_seed(results) if results["seeds"] else None,
        ranked=ranked(results),
        baseline=baseline_of(results),
        tested=significance_sheets(results),
        tests=TESTS,
        explained=explained(results),
        contested=contested(results),
        bands=len(lines) <= MOST_BANDS,
        ranges=_training_words(results["training"]),
        files=[*(name for name in files if not name.startswith("figures/")), "figures/*.svg", "figures/*.pdf"],
        words=words_sheet(results),
        complete=complete,
        likelihood=likelihood,
        **interactive_parts(results, files["results.json"].decode("utf-8"), examples),
    )


def page(
    template: str,
    scripts: Sequence[str],
    charts: Sequence[Chart],
    drawings: Mapping[str, Drawing],
    made: Mapping[str, bytes],
    **variables: Any,
) -> str:
    """A self-contained page as HTML text, with a list of its sections: elements `h2` with an id.

    Args:
        template: its name.
        scripts: the parts of its script.
        charts, drawings: its figures.
        made: files of the report by their paths; figures as PDF and tables for LaTeX among them can be saved from it.
        variables: of the template.
    """
    from markupsafe import Markup

    script, for_print = page_script(scripts), print_files(made)
    text = templates().get_template(template).render(
        script=Markup(script), # noqa: S704  the package's own
        policy=content_security_policy(script), colours=LIGHT, fewest=FEWEST_SENTENCES,
        figures=inline_figures(charts, drawings), print_names=list(for_print),
        packed_print=packed_files(for_print) if for_print else "", **variables,
    )  # fmt: skip
    sections = re.findall(r'<h2 id="([^"]+)"[^>]*>(.*?)</h2>', text)
    links = "".join(f'<li><a href="#{name}">{title}</a></li>\n' for name, title in sections)
    return text.replace(CONTENTS, f"<ul>\n{links}</ul>", 1)


def templates() -> Environment:
    """The environment of all templates: variables are escaped, and undefined ones are errors."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("posnmt.evaluation.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"series": _series, "dashed": dashed, "headed": headed}
    return environment


def _series(number: int) -> str:
    """The colour of a system by its number, as a variable of the style sheet."""
    return f"var(--series-{number % len(SERIES) + 1})"


def inline_figures(charts: Iterable[Chart], drawings: Mapping[str, Drawing]) -> dict[str, Markup]:
    """Chart -> its figure as an element inside a page."""
    from markupsafe import Markup

    return {
        chart.name: Markup(inline_svg(drawings[chart.name], f"f{number}", chart.alternative))  # noqa: S704  from a tree
        for number, chart in enumerate(charts, 1)
    }


def inline_svg(drawing: Drawing, prefix: str, alternative: str) -> str:
    """Convert a figure to an element of a page.

    Its ids get a `prefix`, so that several figures can share a page. Its colours become variables of the style sheet.
    It fills the available width. Each point gets a circle with its text. `alternative` is for screen readers.
    """
    root = ElementTree.fromstring(drawing.svg)  # noqa: S314  drawn here
    for element in root.iter():
        # HTML implies the namespaces; without them, the page contains no URL.
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {
            key.rpartition("}")[2]: _inline_value(key, value, prefix) for key, value in element.attrib.items()
        }
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    _leave_out_what_does_nothing(root, prefix)
    root.attrib |= {"role": "img", "aria-label": alternative}
    for x, y, text in drawing.points:
        place = {"class": "point", "cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": RADIUS}
        ElementTree.SubElement(ElementTree.SubElement(root, "circle", place), "title").text = text
    return ElementTree.tostring(root, encoding="unicode")


_REFERENCE = re.compile(r"#([\w-]+)")
_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def _leave_out_what_does_nothing(root: ElementTree.Element, prefix: str) -> None:
    """Remove the ids that nothing refers to, groups without attributes, indentation, and digits that nobody sees.

    Neighbouring groups, and neighbouring lines, become one if they have the same attributes. Of a page with many
    figures this is more than half.
    """
    values = (value for element in root.iter() for key, value in element.attrib.items() if key != "id")
    referenced = {name for value in values for name in _REFERENCE.findall(value)}
    for element in root.iter():
        if element.get("id") not in referenced:
            element.attrib.pop("id", None)
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        element.attrib = {
            key: _NUMBER.sub(lambda number: f"{float(number[0]):.1f}", value) for key, value in element.attrib.items()
        }
        if "style" in element.attrib and "clip-path" in element.attrib:
            element.set("style", f"{element.attrib['style']}; clip-path: {element.attrib.pop('clip-path')}")
        if "d" in element.attrib:
            element.set("d", " ".join(element.attrib["d"].split()))
    _join_children(root)
    _name_styles(root, prefix)


def _name_styles(root: ElementTree.Element, prefix: str) -> None:
    """Replace styles that occur more than once by classes, which a sheet of the figure defines."""
    counts = Counter(
        element.get("style") for element in root.iter() if element is not root and "style" in element.attrib
    )
    classes = {style: f"{prefix}-{number}" for number, style in enumerate(each for each, n in counts.items() if n > 1)}
    for element in root.iter():
        if (name := classes.get(element.get("style"))) is not None:
            del element.attrib["style"]
            element.set("class", name)
    if classes:
        sheet = ElementTree.SubElement(root, "style")
        sheet.text = "".join(f".{name}{{{style}}}" for style, name in classes.items())


def _join_children(element: ElementTree.Element) -> None:
    """Join the neighbouring children that do the same, and put those of groups that do nothing where these are."""
    kept: list[ElementTree.Element] = []
    for child in element:
        _join_children(child)
        child.tail = None
        if not child.tag.endswith("text") and not (child.text or "").strip():
            child.text = None
        before = kept[-1] if kept and kept[-1].tag == child.tag else ElementTree.Element("none")
        if child.tag == "g" and not child.attrib:
            kept += child
        elif child.tag == "g" and child.attrib == before.attrib:
            before.extend(child)
        elif child.tag == "path" and _is_line(child) and {**child.attrib, "d": ""} == {**before.attrib, "d": ""}:
            before.set("d", f"{before.attrib['d']} {child.attrib['d']}")
        else:
            kept.append(child)
    element[:] = kept


def _is_line(path: ElementTree.Element) -> bool:
    """Whether a path is drawn where it stands, and not filled."""
    return "id" not in path.attrib and "fill: none" in path.get("style", "")


def _inline_value(key: str, value: str, prefix: str) -> str:
    """An attribute's value with prefixed ids, and with variables for colours."""
    if key == "id":
        return f"{prefix}-{value}"
    value = re.sub(r"^#(?=\w)", f"#{prefix}-", value) if key.endswith("href") else value
    value = value.replace("url(#", f"url(#{prefix}-")
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: _VARIABLES.get(match[0], match[0]), value)


def _training_words(training: dict[str, Any] | None) -> str | None:
    """The range of trained source lengths in words; None if they are unknown."""
    if training is None:
        return None
    if "each" in training:
        return " or ".join(f"{shortest} to {longest}" for shortest, longest in training["each"])
    shortest, longest = training["shortest"], training["longest"]
    if longest is None:
        return f"{shortest} or more"
    return f"{shortest} to {longest}" if shortest is not None else f"up to {longest}"
