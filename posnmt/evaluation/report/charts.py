"""The data of a report's figures: one value of every system at each position of an axis.

A figure, its table on the page, its LaTeX table and its CSV file are made from the same `Chart`. A system with several
seeds is one curve, their mean. A system has the same number in all charts, and thus the same colour and marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES, few
from posnmt.evaluation.analyse.seeds import spread, systems_of
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, dashed, with_best
from posnmt.evaluation.report.measures import difference_of, measures_of, metrics_of, presentations
from posnmt.metrics.measure import Measure

# Maximum number of bins with a histogram of output lengths; lengths.csv has all bins.
MOST_DISTRIBUTIONS = 8
# A place in the sentence with fewer words of the reference says little: a window of 10 words of so few sentences.
FEWEST_WORDS = 10 * FEWEST_SENTENCES
# Histograms of fewer sentences are not opened if there are others.
FEWEST_SHOWN = 10
# Maximum number of cells of a heat map that a page has in a table, too.
MOST_CELLS = 400
# Maximum number of length classes in a histogram; lengths.csv has the original classes.
MOST_CLASSES = 24

Interval = Sequence[float] | None
IN_TRAINING = {"seen": "yes", "partly unseen": "in part", "unseen": "no", None: ""}


@dataclass(frozen=True)
class Line:
    """A system in charts: its name, its number, and the indices of its outputs, one for each seed."""

    name: str
    number: int
    outputs: Sequence[int]


@dataclass(frozen=True)
class Curve:
    """The values of one system.

    Attributes:
        name: of the system.
        number: of the system, from 0; -1 is the reference.
        values: one for each position of the chart; None where nothing can be measured.
        intervals: for each value (lower, upper) or None; with several seeds, the lowest and highest seed.
        outputs: for each value the number of outputs that it is the mean of; default: one.
        by_seed: for each value those of the seeds; empty: not known.
    """

    name: str
    number: int
    values: Sequence[float | None]
    intervals: Sequence[Interval]
    outputs: Sequence[int] = ()
    by_seed: Sequence[Sequence[float | None]] = ()

    @property
    def seeds(self) -> int:
        """The largest number of outputs that one of its values is the mean of."""
        return max(self.outputs, default=1)

    @property
    def seeds_shown(self) -> str:
        """The number of seeds of its values in words: `3`, or `1 to 3` if it differs between values."""
        fewest = min(filter(None, self.outputs), default=1)
        return f"{self.seeds}" if fewest == self.seeds else f"{fewest} to {self.seeds}"


@dataclass(frozen=True)
class Panel:
    """Curves of one measure, on shared axes; `title`: default the measure, and which direction is better."""

    measure: Measure
    curves: Sequence[Curve]
    title: str = ""

    @property
    def heading(self) -> str:
        """Return the text above the panel: its title, or else the measure and which direction is better."""
        return self.title or f"{self.measure.title} ({self.measure.better})"


@dataclass(frozen=True)
class Chart:
    """One figure and its table.

    Attributes:
        name: of the files, and of figure and table on the page.
        title: of the figure.
        axis: label of the horizontal axis.
        labels: of the positions on the horizontal axis.
        panels: one below the other for `lines`, else small multiples with the same axes.
        kind: `lines`; `histogram`, with the reference and one system in each panel; `whiskers`, with one system in each
            panel; `heat`, in which a curve is a row of cells; `rows`, in which a position is a row, and each panel has
            one curve.
        places: coordinates of the positions; None: equally spaced.
        logarithmic: whether the axis of the places is logarithmic.
        counts: a heading, and the number of sentences or words at each position; drawn below the labels if the heading
            is `n`.
        training: for each position, whether its lengths occur in training; None: unknown.
        trained: for the legend, the word for what occurs in training, such as `length`.
        unreached: for the legend, the words for positions that too little of training reaches, where `training` marks
            these.
        squared: for `heat`, whether rows have the same positions as columns, so that `training` marks both.
        width: of the classes of a histogram, which start at `places`.
        opened: whether the page shows it initially.
        about_bands: the intervals in words, where they are not bootstrap intervals or those over seeds.
        drawn: what the bootstrap of the intervals draws: `sentences`, `documents` or `paragraphs`.
        limits: ends of the vertical axis, of a chart that shares it with others; None: from its values.
        signature: of the metric, for a caption; empty: it has none.
        undecided: positions whose values decide nothing, and the reason for the legend; None: those of few sentences.
    """

    name: str
    title: str
    axis: str
    labels: Sequence[str]
    panels: Sequence[Panel]
    kind: Literal["lines", "histogram", "whiskers", "heat", "rows"] = "lines"
    places: Sequence[float] | None = None
    logarithmic: bool = False
    counts: tuple[str, Sequence[int]] | None = None
    training: Sequence[str | None] | None = None
    trained: str = "length"
    unreached: str = ""
    squared: bool = False
    width: int = 1
    opened: bool = True
    about_bands: str = ""
    drawn: str = "sentences"
    limits: tuple[float, float] | None = None
    signature: str = ""
    undecided: tuple[Sequence[int], str] | None = None

    @property
    def heading(self) -> str:
        """The title above small multiples, whose panels are titled by system; empty for lines."""
        measure = self.panels[0].measure
        return {"whiskers": self.title, "histogram": f"{measure.title} ({measure.better})"}.get(self.kind, "")

    @property
    def alternative(self) -> str:
        """The alternative text of the figure, for screen readers."""
        kind = {
            "lines": "Line chart", "histogram": "Histograms", "whiskers": "Points with intervals", "heat": "Heat map",
            "rows": "Points with intervals",
        }[self.kind]  # fmt: skip
        where = "in a table below" if self.tabled else f"in figures/{self.name}.csv"
        return f"{kind}: {self.title}, {self._extent()}. Its data are {where}."

    def _extent(self) -> str:
        """The content of the figure for the alternative text: its curves, or its largest cell."""
        if self.kind != "heat":
            return f"of {', '.join(dict.fromkeys(curve.name for _, curve in self.columns()))}"
        cells = [
            (value, panel, curve, place)
            for panel in self.panels
            for curve in panel.curves
            for place, value in enumerate(curve.values)
            if value is not None
        ]
        if not cells:
            return "without values"
        _, panel, curve, place = max(cells, key=lambda cell: cell[0])
        return f"whose largest value is at {self.tip(panel, curve, place)}"

    @property
    def few(self) -> list[int]:
        """The positions with too few sentences for their values to say much."""
        if self.undecided is not None:
            return list(self.undecided[0])
        heading, counts = self.counts or ("", [])
        return [place for place, count in enumerate(counts) if heading == "n" and few(count)]

    @property
    def about_few(self) -> str:
        """Return the text of the legend for the positions in `few`."""
        return f"fewer than {FEWEST_SENTENCES} sentences" if self.undecided is None else self.undecided[1]

    def span(self, panel: Panel, bands: bool = True) -> tuple[float, float]:
        """The ends of a panel's vertical axis. Panels of the same measure have the same.

        Args:
            panel: of this chart.
            bands: whether intervals are drawn.
        """
        same = [each for each in self.panels if each.measure == panel.measure]
        return self.limits or ends_of([curve for each in same for curve in each.curves], panel.measure, bands)

    @property
    def tabled(self) -> bool:
        """Whether a page has its values in a table; those of large heat maps are only in a file."""
        cells = len(self.labels) * sum(len(panel.curves) for panel in self.panels)
        return self.kind != "heat" or cells <= MOST_CELLS

    def columns(self) -> list[tuple[Panel, Curve]]:
        """Every curve with its panel, only once, although the reference is in all panels of a histogram."""
        return list(
            {
                (panel.measure, curve.number, curve.name): (panel, curve)
                for panel in self.panels
                for curve in panel.curves
            }.values()
        )

    def tip(self, panel: Panel, curve: Curve, place: int) -> str:
        """The text of a point: its value, with interval and n."""
        count = f", n = {self.counts[1][place]:,}" if self.counts else ""
        shown = _cell(panel.measure, curve, place)
        return (
            f"{isolated(curve.name)}, {dashed(self.labels[place])}: {panel.measure.title} {shown.own}"
            + (f" ({shown.spread})" if shown.spread else "")
            + count
        )

    def _cell(self, panel: Panel, curve: Curve, place: int) -> Cell:
        """The cell of one value in a table."""
        cell = _cell(panel.measure, curve, place)
        return replace(cell, few=place in self.few and cell.mean is not None)

    def by_place(self) -> Grid:
        """A row for each position, a column for each curve."""
        columns = self.columns()
        several = len({panel.measure for panel, _ in columns}) > 1
        heads = [
            Head(
                f"{curve.name}, {panel.measure.title.lower()}" if several else curve.name,
                about=f"mean of {curve.seeds_shown}" if curve.seeds > 1 else "",
            )
            for panel, curve in columns
        ]
        counts = [Head(self.counts[0])] if self.counts else []
        training = [Head("Reached in training" if self.unreached else "In training")] if self.training else []
        rows = []
        for place, label in enumerate(self.labels):
            marked = self.training[place] if self.training else None
            count = [Cell(own=f"{each[1][place]:,}", mean=each[1][place]) for each in [self.counts] if each]
            seen = [Cell(own=IN_TRAINING[marked]) for _ in training]
            figures = [self._cell(panel, curve, place) for panel, curve in columns]
            rows.append(Row(dashed(label), [replace(cell, training=marked) for cell in [*count, *seen, *figures]]))
        return Grid([*counts, *training, *heads], rows, corner=f"{self.axis[0].upper()}{self.axis[1:]}", ordered=True)

    def by_curve(self) -> Grid:
        """A row for each curve, a column for each position; intervals are text only in charts of kind `whiskers`."""
        panel = self.panels[0]
        about = [f"n = {count:,}" for count in self.counts[1]] if self.counts else [""] * len(self.labels)
        curves = [curve for _, curve in self.columns()]
        cells = [[self._cell(panel, curve, place) for place in range(len(self.labels))] for curve in curves]
        if self.kind != "whiskers":
            without = [[replace(cell, spread="") for cell in row] for row in cells]
            cells = with_best(without, [panel.measure.higher] * len(self.labels))
        rows = [Row(curve.name, row, series=curve.number) for curve, row in zip(curves, cells, strict=True)]
        heads = [Head(label, about=n) for label, n in zip(self.labels, about, strict=True)]
        return Grid(heads, rows, corner=panel.measure.title)


def ends_of(curves: Iterable[Curve], measure: Measure, bands: bool = True) -> tuple[float, float]:
    """The ends of an axis for curves, with a margin; an axis of values of 0 and more begins at 0 or above."""
    values: list[float] = [] if measure.neutral is None else [measure.neutral]
    shown: list[float] = []
    for curve in curves:
        shown += [value for value in curve.values if value is not None]
        values += [end for ends in curve.intervals if bands and ends for end in ends]
    values += shown
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    margin = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    below = low - margin if min(shown, default=0) < 0 or measure.signed else max(low - margin, 0.0)
    return below, high + margin


def sharing(charts: Sequence[Chart]) -> list[Chart]:
    """The same line charts with one vertical axis for all of the same measure, for plots side by side."""
    together: dict[Measure, list[Curve]] = {}
    for chart in charts:
        for panel in chart.panels:
            together.setdefault(panel.measure, []).extend(panel.curves)
    return [
        replace(chart, limits=ends_of(together[chart.panels[0].measure], chart.panels[0].measure))
        if chart.kind == "lines" and len({panel.measure for panel in chart.panels}) == 1
        else chart
        for chart in charts
    ]


def _cell(measure: Measure, curve: Curve, place: int) -> Cell:
    interval = curve.intervals[place]
    low, high = interval or (None, None)
    return Cell(
        own=measure.show(curve.values[place]), spread=measure.between(interval), mean=curve.values[place],
        seeds=curve.outputs[place] if curve.outputs else 1, low=low, high=high,
    )  # fmt: skip


def lines_of(results: dict[str, Any]) -> list[Line]:
    """The systems of an analysis, each with its outputs."""
    names = [system["name"] for system in results["systems"]]
    groups = {each["name"]: each["outputs"] for each in (results["seeds"] or {"systems": []})["systems"]}
    return [Line(name, number, outputs) for number, (name, outputs) in enumerate(systems_of(names, groups).items())]


def baseline_of(results: dict[str, Any]) -> Line:
    """The system that tables, marks and differences compare the others with: the one asked for, or the first."""
    lines = lines_of(results)
    return next((line for line in lines if line.name == results["settings"].get("baseline")), lines[0])


def charts(results: dict[str, Any], of: Sequence[Line] | None = None) -> dict[str, list[Chart]]:
    """All charts of an analysis by section of the page: `difference`, `length`, `distribution`, `position`, `swap`.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
        of: the systems; default: all, with the names of the results, which differences always have.
    """
    lines = of or lines_of(results)
    return {
        "difference": [difference_chart(results, name) for name in metrics_of(results)]
        if results["differences"]
        else [],
        "length": [length_chart(results, lines, name) for name in measures_of(results)],
        "distribution": _distributions(results, lines),
        "position": [_position_chart(results, lines, kind) for kind in ("relative", "absolute")],
        "swap": [swap_chart(results, lines, name) for name in metrics_of(results)] if results["swap"] else [],
    }


def difference_chart(results: dict[str, Any], measure: str) -> Chart:
    """The differences of all other systems from the baseline, overall and over the bins of source length."""
    baseline = baseline_of(results)
    pairs = {(pair["system"], pair["other"]): pair for pair in results["differences"]}
    presentation = difference_of(measure, results)
    panels = []
    for line in lines_of(results):
        if line == baseline:
            continue
        ahead = pairs.get((line.name, baseline.name))  # each pair stands once
        sign, pair = (-1, pairs[baseline.name, line.name]) if ahead is None else (1, ahead)
        figures = [each[measure] for each in [pair["overall"], *pair["bins"]]]
        values = [None if each is None else sign * each[0] for each in figures]
        ends = [None if each is None else (sign * each[1], sign * each[2])[::sign] for each in figures]
        panels.append(Panel(presentation, [Curve(line.name, line.number, values, ends)], line.name))
    chart = length_chart(results, lines_of(results), measure)
    assert chart.counts is not None
    title = f"{presentations(results)[measure].title} by source length: difference from {baseline.name}"
    return replace(
        chart, name=f"{measure}-differences".replace("_", "-"), title=title, panels=panels, kind="whiskers",
        labels=["all", *chart.labels], counts=("n", [sum(chart.counts[1]), *chart.counts[1]]),
        training=None if chart.training is None else [None, *chart.training],
    )  # fmt: skip


def length_chart(results: dict[str, Any], lines: Sequence[Line], measure: str) -> Chart:
    """One measure over the bins of source length (Neishi and Yoshinaga 2019, Figures 3 and 4)."""
    curves = []
    for line in lines:
        outputs = [results["systems"][row] for row in line.outputs]
        values = [[each[measure] for each in output["bins"]] for output in outputs]
        intervals = None
        if outputs[0]["intervals"]:
            intervals = [each[measure] for each in outputs[0]["intervals"]["bins"]]
        curves.append(_joined(line, values, intervals))
    bins = results["bins"]
    return Chart(
        name=f"{measure}-by-length".replace("_", "-"),
        title=f"{presentations(results)[measure].title} by source length",
        axis=f"source length in {results['settings']['unit']}",
        labels=[each["label"] for each in bins],
        panels=[Panel(presentations(results)[measure], curves)],
        counts=("n", [each["n"] for each in bins]),
        training=[each["training"] for each in bins] if results["training"] else None,
    )


def swap_chart(results: dict[str, Any], lines: Sequence[Line], metric: str) -> Chart:
    """One metric over the share of swapped words (Chen et al. 2019a, Figures 3 to 5)."""
    shares = sorted({share for curve in results["swap"] for share in curve["shares"]})
    return Chart(
        name=f"{metric}-by-swap",
        title=f"{presentations(results)[metric].title} by share of swapped words",
        axis="share of swapped words in the source",
        labels=[f"{100 * share:g} %" for share in shares],
        panels=[Panel(presentations(results)[metric], list(_swap_curves(results, lines, metric, shares)))],
        places=shares,
    )


def _swap_curves(
    results: dict[str, Any], lines: Sequence[Line], metric: str, shares: Sequence[float]
) -> Iterable[Curve]:
    """A curve for each system, or for each of its seeds if these have different shares."""
    by_name = {curve["name"]: curve for curve in results["swap"]}
    spare = len(results["systems"])
    for line in lines:
        names = [results["systems"][row]["name"] for row in line.outputs]
        curves = [by_name[output] for output in names if output in by_name]
        together = len(curves) == len(names) and len({tuple(curve["shares"]) for curve in curves}) == 1
        for group in [curves] if together else [[curve] for curve in curves]:
            values = [_at(shares, curve["shares"], curve[metric]) for curve in group]
            ends = group[0]["intervals"]
            intervals = _at(shares, group[0]["shares"], ends[metric]) if ends else None
            yield _joined(line if together else Line(group[0]["name"], spare, ()), values, intervals)
            spare += not together


def _at(places: Sequence[float], known: Sequence[float], values: Sequence[Any]) -> list[Any]:
    """The values at the places; None where they are unknown."""
    by_place = dict(zip(known, values, strict=True))
    return [by_place.get(place) for place in places]


def _position_chart(results: dict[str, Any], lines: Sequence[Line], kind: str) -> Chart:
    """Precision and recall by position in the sentence, up to the end of the longest sentence."""
    systems = results["positions"]["systems"]
    labels = [label.removesuffix(" %") for label in results["positions"]["places"][kind]]
    words = [max(each[kind]["n"][side][place] for each in systems for side in ("precision", "recall"))
             for place in range(len(labels))]  # fmt: skip
    last = max((place for place, count in enumerate(words) if count), default=0) + 1
    panels = []
    for side in ("precision", "recall"):
        measure = Measure(side.capitalize(), "of n-grams, higher is better", 1)
        curves = [_joined(line, [systems[row][kind][side][:last] for row in line.outputs]) for line in lines]
        panels.append(Panel(measure, curves))
    what = "characters" if results["positions"]["tokenizer"] == "char" else "words"
    counts = systems[0][kind]["n"]["recall"][:last]
    faded = [place for place, count in enumerate(counts) if count < FEWEST_WORDS]
    places = {"relative": "place in the sentence, in %", "absolute": f"place in the sentence, in {what}"}
    return Chart(
        name=f"bleu-by-{kind}-position",
        title=f"Precision and recall by {places[kind]}",
        axis=places[kind],
        labels=labels[:last],
        panels=panels,
        limits=ends_of([curve for panel in panels for curve in panel.curves], panels[0].measure),
        counts=(f"{what.capitalize()} of the reference", counts),
        undecided=(faded, f"fewer than {FEWEST_WORDS} {what} of the reference"),
    )


def _distributions(results: dict[str, Any], lines: Sequence[Line]) -> list[Chart]:
    """Histograms of output and reference lengths by bin of source length (Neishi and Yoshinaga 2019, Figure 5).

    If there are more than `MOST_DISTRIBUTIONS` bins, those beyond training are preferred, then those with the longest
    sources. As in the paper, two bins are opened: that of the longest sources within training, and that of the shortest
    beyond it. If trained lengths are not known, the bin of the longest sources is opened.
    """
    bins, distributions = results["bins"], results["length_distributions"]
    filled = [number for number, distribution in enumerate(distributions) if distribution]
    large = [number for number in filled if bins[number]["n"] >= FEWEST_SHOWN] or filled
    beyond = [number for number in filled if bins[number]["training"] == "unseen"]
    within = [number for number in filled if number not in beyond]
    last = [number for number in large if number in within][-1:]
    next_ones = [number for number in large if number in beyond and [number] > last]
    opened = [*last, *next_ones[:1]]
    preferred = list(dict.fromkeys([*opened, *beyond, *within[::-1]]))
    return [
        replace(distribution_chart(results, lines, number), opened=number in opened)
        for number in sorted(preferred[:MOST_DISTRIBUTIONS])
    ]


def lengths_of(each: Mapping[str, Any]) -> str:
    """The lengths of a bin of the results in words: 10 to 19, or 60 or more."""
    return f"{each['first']} or more" if each["last"] is None else f"{each['first']} to {each['last']}"


def distribution_chart(results: dict[str, Any], lines: Sequence[Line], number: int) -> Chart:
    """The histograms of output lengths for the sources of one bin, one for each system, as the mean over its seeds.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
        lines: the systems.
        number: of the bin, which has sentences.
    """
    distribution, each = results["length_distributions"][number], results["bins"][number]
    unit = results["settings"]["unit"]
    target_unit = results["settings"].get("target_unit", unit)
    together = -(-len(distribution["first"]) // MOST_CLASSES)
    firsts, width = distribution["first"][::together], distribution["width"] * together
    reference = Curve("reference", -1, _summed(distribution["reference"], together), [None] * len(firsts))
    sources = f"sources of {lengths_of(each)} {unit}"
    known = "" if each["training"] in (None, "seen") else f", {each['training']} in training"
    decimals = 0 if all(len(line.outputs) == 1 for line in lines) else 1
    measure = Measure("Sentences", f"{each['n']:,} {sources}", decimals)
    panels = []
    for line in lines:
        counts = [_summed(distribution["systems"][row], together) for row in line.outputs]
        panels.append(Panel(measure, [reference, _joined(line, counts)], line.name))
    return Chart(
        name=f"output-lengths-{each['first']}-{'and-more' if each['last'] is None else each['last']}",
        title=f"Output lengths for {each['n']:,} {sources}{known}",
        axis=f"output length in {target_unit}",
        labels=[str(first) if width == 1 else f"{first}-{first + width - 1}" for first in firsts],
        panels=panels or [Panel(measure, [reference])],
        kind="histogram",
        places=firsts,
        width=width,
    )


def _summed(counts: Sequence[int], together: int) -> list[int]:
    """Sums of `together` neighbouring counts each."""
    return [sum(counts[first : first + together]) for first in range(0, len(counts), together)]


def _joined(line: Line, values: Sequence[Sequence[float | None]], intervals: Sequence[Interval] | None = None) -> Curve:
    """The curve of one system: of a single output, or the mean of several with the lowest and the highest."""
    ends = intervals or [None] * len(values[0])
    return curve_through(line.name, line.number, zip(zip(*values, strict=True), ends, strict=True))


def curve_through(name: str, number: int, points: Iterable[tuple[Sequence[float | None], Interval]]) -> Curve:
    """A curve from the values of all seeds at each position; where there is a single seed, with the given interval."""
    values: list[float | None] = []
    ends: list[Interval] = []
    outputs, by_seed = [], []
    for of_seeds, interval in points:
        if len(of_seeds) > 1:
            each = spread(of_seeds)
            values.append(each["mean"])
            low, high = each["lowest"], each["highest"]
            ends.append(None if low is None or high is None else (low, high))
        else:
            values.append(of_seeds[0] if of_seeds else None)
            ends.append(interval)
        outputs.append(len(of_seeds))
        by_seed.append(of_seeds)
    return Curve(name, number, values, ends, outputs, by_seed)
