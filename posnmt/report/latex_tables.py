"""The results as LaTeX tables in the layouts of the papers; each file is a `table` for `\\input`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posnmt.report.charts import Chart, Curve
from posnmt.report.latex import Block, Cell, escape, table
from posnmt.report.measures import measures_of, metrics_of, presentations

# Maximum number of columns of figures; a table with more continues in a second tabular below.
MOST_COLUMNS = 10
# The same for tables of scores, which are narrow.
MOST_SHORT = 14
# A matrix has the systems' names as column headings if they are at most this many and this long; otherwise numbers.
MOST_NAMED, LONGEST_NAMED = 6, 12
_MARKS = {">>": r"$\gg$", "<<": r"$\ll$", ">": "$>$", "<": "$<$", "~": r"$\sim$", "": ""}


def latex_tables(results: dict[str, Any], charts: dict[str, list[Chart]]) -> dict[str, str]:
    """Name → text of the LaTeX files, without empty ones.

    Args:
        results: of `posnmt.analyse.analyse.analyse`.
        charts: from `posnmt.report.charts.charts`.
    """
    files = {"overall": _overall(results), "by-length": _by_length(results, charts["length"])}
    for chart in [*charts["length"], *charts["swap"]]:
        files[chart.name] = _of_chart(chart)
    significance = results["significance"] or {"metrics": {}}
    names = [system["name"] for system in results["systems"]]
    for metric, entry in significance["metrics"].items():
        for test, matrices in entry["tests"].items():
            name = f"significance-{metric}-{test}".replace("_", "-")
            files[name] = _matrix(results, name, names, metric, test.replace("_", " "), matrices["marks"])
    if results["seeds"]:
        files["seeds"] = _seeds(results)
        names = [system["name"] for system in results["seeds"]["systems"]]
        for metric, matrices in results["seeds"]["welch"].items() if len(names) > 1 else ():
            name = f"significance-{metric}-seeds"
            files[name] = _matrix(results, name, names, metric, "Welch's t-test over seeds", matrices["marks"])
    return {f"{name}.tex": text for name, text in files.items()}


def _overall(results: dict[str, Any]) -> str:
    """A row for each output; scores have marks of significance against the first output."""
    measures = measures_of(results)
    rows = []
    for number, system in enumerate(results["systems"]):
        cells = [_figure(results, name, system["overall"][name]) + _mark(results, name, number) for name in measures]
        rows.append([escape(system["name"]), *cells])
    block = Block([[Cell("System"), *(Cell(escape(presentations(results)[name].title)) for name in measures)]], rows)
    caption = f"All {sum(each['n'] for each in results['bins'])} sentences."
    if results["significance"]:
        first = escape(results["systems"][0]["name"])
        caption += f" Marks compare with {first} by paired bootstrap: {_levels(results)}."
    return table(_cut(block), caption, "overall")


def _mark(results: dict[str, Any], measure: str, number: int) -> str:
    """The mark of an output against the first one, as a superscript; empty if the difference is not significant."""
    metrics = (results["significance"] or {"metrics": {}})["metrics"]
    mark = metrics[measure]["tests"]["paired_bootstrap"]["marks"][number][0] if measure in metrics else ""
    return "" if mark in ("", "~") else rf"\rlap{{\textsuperscript{{{_MARKS[mark]}}}}}"


def _levels(results: dict[str, Any]) -> str:
    """The explanation of the marks."""
    strong, weak = results["significance"]["levels"] if results["significance"] else (0.01, 0.05)
    correction = results["settings"]["correction"]
    corrected = "" if correction == "none" else f", corrected for the number of pairs ({escape(correction.title())})"
    return (
        rf"$\gg$ better and $\ll$ worse with $p < {strong}$, $>$ and $<$ with $p < {weak}$,"
        rf" $\sim$ or no mark: $p \geq {weak}${corrected}"
    )


def _by_length(results: dict[str, Any], charts: Sequence[Chart]) -> str:
    """Rosendahl et al. (2019), Table 2: a row for each system, the main metric and TER side by side in each bin."""
    names = metrics_of(results)
    chosen = [presentations(results)[name] for name in dict.fromkeys([names[0], *(["ter"] if "ter" in names else [])])]
    shown = [chart for chart in charts if chart.panels[0].measure in chosen]
    first, each = shown[0], len(shown)
    blocks = []
    for part in _parts(len(first.labels), MOST_SHORT // each):
        heading = [
            [Cell(""), *(Cell(_label(first.labels[place]), each) for place in part)],
            [Cell("System"), *(Cell(f"$n={_counts(first)[place]}$", each) for place in part)],
        ]
        if each > 1:
            heading.append([Cell(""), *(Cell(escape(chart.panels[0].measure.title)) for _ in part for chart in shown)])
        rows = [
            [escape(curve.name), *(_value(chart, number, place) for place in part for chart in shown)]
            for number, curve in enumerate(first.panels[0].curves)
        ]
        blocks.append(Block(heading, rows))
    titles = " and ".join(escape(measure.title) for measure in chosen)
    return table(blocks, f"{titles} by {escape(first.axis)}, $n$ sentences each.{_seeds_noted(first)}", "by-length")


def _of_chart(chart: Chart) -> str:
    """A row for each system, a column for each position of the chart."""
    heading = [[Cell("System"), *(Cell(_label(label)) for label in chart.labels)]]
    if chart.counts:
        heading.append([Cell("$n$"), *(Cell(str(count)) for count in chart.counts[1])])
    places = range(len(chart.labels))
    rows = [
        [escape(curve.name), *(_value(chart, number, place) for place in places)]
        for number, curve in enumerate(chart.panels[0].curves)
    ]
    caption = f"{escape(chart.panels[0].measure.title)} by {escape(chart.axis)}.{_seeds_noted(chart)}"
    return table(_cut(Block(heading, rows)), caption, chart.name)


def _matrix(
    results: dict[str, Any], name: str, systems: Sequence[str], metric: str, test: str, marks: Sequence[Sequence[str]]
) -> str:
    """Neishi and Yoshinaga (2019), Table 4: the mark of each row's system against each column's."""
    named = len(systems) <= MOST_NAMED and max(map(len, systems)) <= LONGEST_NAMED
    heads = [escape(system) if named else str(number) for number, system in enumerate(systems, 1)]
    sides = [escape(system) if named else f"{number} {escape(system)}" for number, system in enumerate(systems, 1)]
    rows = [[side, *(_MARKS[mark] for mark in of_row)] for side, of_row in zip(sides, marks, strict=True)]
    block = Block([[Cell(""), *map(Cell, heads)]], rows, align="c")
    title = escape(presentations(results)[metric].title)
    caption = f"{title}, {escape(test)}; the row's system against the column's: {_levels(results)}."
    return table(_cut(block, 20), caption, name)


def _seeds(results: dict[str, Any]) -> str:
    """Mean and standard deviation of every system with several seeds."""
    measures = measures_of(results)
    rows = [
        [
            escape(system["name"]),
            str(len(system["outputs"])),
            *(_spread(results, name, system["overall"][name]) for name in measures),
        ]
        for system in results["seeds"]["systems"]
    ]
    titles = [Cell(escape(presentations(results)[name].title)) for name in measures]
    block = Block([[Cell("System"), Cell("Seeds"), *titles]], rows)
    return table([block], r"Mean $\pm$ standard deviation over seeds.", "seeds")


def _spread(results: dict[str, Any], measure: str, spread: dict[str, float | None]) -> str:
    """Mean and standard deviation; a deviation has no sign."""
    if spread["mean"] is None or spread["deviation"] is None:
        return _figure(results, measure, None)
    decimals = presentations(results)[measure].decimals
    return rf"{_figure(results, measure, spread['mean'])} $\pm$ {spread['deviation']:.{decimals}f}"


def _cut(block: Block, most: int = MOST_COLUMNS) -> list[Block]:
    """Split a tabular into several with at most `most` columns of figures each."""
    cut = []
    for part in _parts(block.columns - 1, most):
        heading = [[row[0], *(row[column + 1] for column in part)] for row in block.heading]
        rows = [[row[0], *(row[column + 1] for column in part)] for row in block.rows]
        cut.append(Block(heading, rows, block.align))
    return cut


def _parts(count: int, most: int) -> list[range]:
    """Split the numbers below `count` into parts of nearly equal size, at most `most`."""
    parts = -(-count // most)
    return [range(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def _counts(chart: Chart) -> Sequence[int]:
    """The number of sentences at each position."""
    return chart.counts[1] if chart.counts else []


def _value(chart: Chart, number: int, place: int) -> str:
    """One figure of a chart."""
    panel = chart.panels[0]
    return escape(panel.measure.show(panel.curves[number].values[place]))


def _figure(results: dict[str, Any], measure: str, value: float | None) -> str:
    """One figure of a measure."""
    return escape(presentations(results)[measure].show(value))


def _label(label: str) -> str:
    """The label of a bin or a share, with an en dash in ranges."""
    return escape(label.replace("-", "\N{EN DASH}"))


def _seeds_noted(chart: Chart) -> str:
    """A remark on rows that are means over seeds."""
    curves: Sequence[Curve] = chart.panels[0].curves
    several = [f"{escape(curve.name)} ({curve.seeds})" for curve in curves if curve.seeds > 1]
    return f" Means of several seeds: {', '.join(several)}." if several else ""
