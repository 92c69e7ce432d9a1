"""The figures of a study: a chart for each panel in the recipe, drawn like the charts of an analysis.

Lines with the same name have the same style in all panels of a figure. A line is the mean over seeds, with a band from
the lowest to the highest seed; with a single seed, the band is its 95 % interval over sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from posnmt.analyse.bins import Bin, TrainedLengths, mark
from posnmt.report.charts import Chart, Curve, Panel
from posnmt.report.figures.lines import MOST_BANDS
from posnmt.report.measures import MEASURES, Measure
from posnmt.study.examples import Example, examples
from posnmt.study.grid import Cell, Grid, Head, Row, stem
from posnmt.study.layout import Figure
from posnmt.study.layout import Panel as Wanted
from posnmt.study.measured import Measured, StudyResults, Variant

# Maximum number of length classes in a figure of corpora.
MOST_CLASSES = 12
Interval = tuple[float, float] | None


@dataclass(frozen=True)
class Plate:
    """One figure of the report.

    Attributes:
        name: of its files, and its anchor on the page.
        title: for example "Figure 3".
        caption: text.
        charts: its panels, without those that cannot be drawn.
        legend: sentences below the figure, including why something is not drawn.
        examples: of a figure of kind `examples`, which has no charts.
    """

    name: str
    title: str
    caption: str
    charts: Sequence[Chart]
    legend: Sequence[str]
    examples: Sequence[Example] = ()


def plates(results: StudyResults) -> list[Plate]:
    """All figures of the recipe, in its order."""
    drawn: list[Plate] = []
    for figure in results.recipe.figures:
        name = stem(f"figure-{figure.figure}", [each.name for each in drawn])
        charts: list[Chart] = []
        shown: list[Example] = []
        if figure.kind == "examples":
            of_panels = [examples(results, figure, wanted) for wanted in figure.panels]
            shown = [example for sentences, _ in of_panels for example in sentences]
            legend = [caption for _, caption in of_panels]
        else:
            charts, legend = _panels(results, figure, name)
        if figure.published:
            legend.append(f"In the paper: {figure.published}")
        drawn.append(Plate(name, f"Figure {figure.figure}", figure.caption, charts, legend, shown))
    return drawn


def _panels(results: StudyResults, figure: Figure, name: str) -> tuple[list[Chart], list[str]]:
    """The charts of a figure, and its legend."""
    if figure.kind == "corpus-lengths":
        if not results.corpora:
            return [], ["The lengths of the corpora are not known."]
        return [_corpus_lengths(results, name)], []
    charts: list[Chart] = []
    legend: list[str] = []
    numbers: dict[str, int] = {}
    for place, wanted in enumerate(figure.panels):
        title = wanted.title or results.recipe.analyses[wanted.analysis].title or wanted.analysis
        measured = results.measured.get(wanted.analysis)
        if measured is None:
            why = results.missing.get(wanted.analysis, "the analysis was not made")
            legend.append(f"{title}: not drawn, because {why.rstrip('.')}.")
            continue
        part = _Part(results, figure, wanted, measured, f"{name}{chr(ord('a') + place)}", title, numbers)
        if figure.kind != "length-distribution" and not part.is_measured():
            legend.append(f"{title}: not drawn, because the analysis does not measure {part.measure.title}.")
            continue
        outcome = KINDS[figure.kind](part)
        legend += part.absences()
        if isinstance(outcome, str):
            legend.append(f"{title}: not drawn, because {outcome}.")
        else:
            charts.append(outcome)
    if charts:
        curves = [chart.panels[0].curves for chart in charts]
        banded = figure.kind != "length-distribution" and max(map(len, curves)) <= MOST_BANDS
        legend.append(_describe_seeds(max(curve.seeds for of_chart in curves for curve in of_chart), banded))
    return charts, list(filter(None, dict.fromkeys(legend)))


def _describe_seeds(seeds: int, banded: bool) -> str:
    """A sentence of the legend that explains lines and bands."""
    if seeds == 1:
        return "Bands are 95 % intervals over sentences." if banded else ""
    return f"Means over seeds{'; bands go from the lowest to the highest seed' if banded else ''}."


@dataclass(frozen=True)
class _Part:
    """The data of one panel. `numbers` maps the name of every line of the figure to the number of its style."""

    results: StudyResults
    figure: Figure
    wanted: Wanted
    measured: Measured
    name: str
    title: str
    numbers: dict[str, int]

    @property
    def measure(self) -> Measure:
        return MEASURES[self.figure.measure]

    @property
    def unit(self) -> str:
        """The unit of lengths. Text in subwords is measured in tokens, which are subwords."""
        unit: str = self.measured.results["settings"]["unit"]
        return "subwords" if unit == "tokens" else unit

    def variants(self) -> list[Variant]:
        """The systems that the panel should show; a system without a training has those of the analysis."""
        analysis = self.results.recipe.analyses[self.wanted.analysis]
        of_line = [system for line in self.figure.lines.values() for system in line]
        every = [
            variant
            for variant, tests in self.results.recipe.variants(self.results.scale).items()
            if variant[1] in analysis.trainings and analysis.test in tests
            if analysis.systems is None or variant[0] in analysis.systems
        ]
        chosen: list[Variant] = []
        for text in self.wanted.systems or of_line:
            if "/" in text:
                chosen.append(self.results.recipe.variant(text))
            else:
                of_system = [variant for variant in every if variant[0] == text]
                chosen += of_system or [self.results.variant(text, self.wanted.analysis)]
        return chosen or every

    def is_measured(self) -> bool:
        """Whether the analysis has the figure's measure."""
        return self.figure.measure in self.measured.results["systems"][0]["overall"]

    def absences(self) -> list[str]:
        """Why some systems are not drawn, or not with every seed: a sentence for each reason."""
        labels: dict[str, list[str]] = {}
        for variant in self.variants():
            if reason := self.results.absence(variant, self.wanted.analysis):
                labels.setdefault(reason[1], []).append(self.results.recipe.label(variant))
        return [f"{', '.join(names)}: {why}." for why, names in labels.items()]

    def shown(self) -> list[tuple[str, Variant]]:
        """The measured systems, with the names of their lines."""
        measured = [variant for variant in self.variants() if variant in self.measured.places]
        return list(zip(self.results.labels(measured), measured, strict=True))

    def number(self, label: str) -> int:
        """The number of a line, which determines colour, stroke and marker."""
        return self.numbers.setdefault(label, len(self.numbers))

    def curve(self, label: str, points: Sequence[tuple[Sequence[float], Sequence[float] | None]]) -> Curve:
        """A line through points; each has the values of all seeds, and the interval of a single seed."""
        values: list[float | None] = []
        ends: list[Interval] = []
        for figures, interval in points:
            values.append(fmean(figures) if figures else None)
            if len(figures) > 1:
                ends.append((min(figures), max(figures)))
            else:
                ends.append(None if interval is None else (interval[0], interval[1]))
        seeds = max((len(figures) for figures, _ in points), default=1)
        return Curve(label, self.number(label), values, ends, max(seeds, 1))


def _length_curve(part: _Part) -> Chart | str:
    """A measure over the bins of source length (Neishi and Yoshinaga 2019, Figures 3, 4, 6 and 7)."""
    measured, measure = part.measured, part.figure.measure
    bins = measured.results["bins"]
    curves = []
    for label, variant in part.shown():
        points = [
            (list(measured.values(variant, measure, number).values()), measured.interval(variant, measure, number))
            for number in range(len(bins))
        ]
        curves.append(part.curve(label, points))
    return Chart(
        name=part.name,
        title=f"{part.title}: {part.measure.title} by source length",
        axis=f"source length in {part.unit}",
        labels=[each["label"] for each in bins],
        panels=[Panel(part.measure, curves)],
        counts=("n", [each["n"] for each in bins]),
        training=_seen_by_all(part),
    )


def _seen_by_all(part: _Part) -> list[str | None]:
    """For each bin, whether its lengths occur in training; `partly unseen` also if only some trainings saw them."""
    trained = {
        TrainedLengths(*run["source_lengths"])
        for _, variant in part.shown()
        for run in part.results.runs_of(variant)
        if run["source_lengths"]
    }
    marks: list[str | None] = []
    for each in part.measured.results["bins"]:
        bin_marks = {mark(Bin(each["first"], each["last"]), lengths) for lengths in trained}
        marks.append(
            None if not bin_marks or None in bin_marks else "partly unseen" if len(bin_marks) > 1 else bin_marks.pop()
        )
    return marks


def _length_distribution(part: _Part) -> Chart | str:
    """The distribution of output lengths for the sources of one bin (Neishi and Yoshinaga 2019, Figure 5)."""
    lengths = part.wanted.lengths
    ends = lengths.get(part.results.scale) if isinstance(lengths, dict) else lengths
    bins = part.measured.results["bins"]
    chosen = [number for number, each in enumerate(bins) if [each["first"], each["last"]] == ends]
    if not chosen:
        asked = "-".join("" if end is None else str(end) for end in ends or ())
        return f"{asked or 'none'} is not a bin of the analysis, which has {', '.join(each['label'] for each in bins)}"
    label, n = bins[chosen[0]]["label"], bins[chosen[0]]["n"]
    distribution = part.measured.results["length_distributions"][chosen[0]]
    if distribution is None:
        return f"no source has {label} {part.unit}"
    firsts = distribution["first"]
    curves = [Curve("reference", -1, distribution["reference"], [None] * len(firsts))]
    for name, variant in part.shown():
        outputs = [distribution["systems"][place] for place in part.measured.places[variant].values()]
        means = [sum(counts) / len(outputs) for counts in zip(*outputs, strict=True)]
        curves.append(Curve(name, part.number(name), means, [None] * len(firsts), len(outputs)))
    return Chart(
        name=part.name,
        title=f"{part.title}: output lengths for sources of {label} {part.unit}",
        axis=f"output length in {part.unit}",
        labels=[
            str(first) if distribution["width"] == 1 else f"{first}-{first + distribution['width'] - 1}"
            for first in firsts
        ],
        panels=[Panel(Measure("Sentences", f"sources of {label} {part.unit}, n={n}", 1), curves)],
        places=firsts,
        width=distribution["width"],
    )


def _swap(part: _Part) -> Chart | str:
    """A measure over the share of swapped words (Chen et al. 2019a, Figures 3 to 5)."""
    measure = part.figure.measure
    by_name = {curve["name"]: curve for curve in part.measured.results["swap"] or []}
    if not by_name:
        return f"the analysis {part.wanted.analysis} has no swapped sources"
    shares = sorted({share for curve in by_name.values() for share in curve["shares"]})
    curves = []
    for label, variant in part.shown():
        names = [part.measured.results["systems"][place]["name"] for place in part.measured.places[variant].values()]
        of_seeds = [by_name[name] for name in names if name in by_name]
        points = [_at_share(of_seeds, share, measure) for share in shares]
        curves.append(part.curve(label, points))
    return Chart(
        name=part.name,
        title=f"{part.title}: {part.measure.title} by share of swapped words",
        axis="words of the source that were swapped",
        labels=[f"{100 * share:g} %" for share in shares],
        panels=[Panel(part.measure, curves)],
        places=shares,
    )


def _at_share(curves: Sequence[dict[str, Any]], share: float, measure: str) -> tuple[list[float], list[float] | None]:
    """The values of all seeds at a share of swapped words, and the interval of the first."""
    points = [(curve, curve["shares"].index(share)) for curve in curves if share in curve["shares"]]
    values = [curve[measure][place] for curve, place in points if curve[measure][place] is not None]
    if not points or not points[0][0]["intervals"]:
        return values, None
    return values, points[0][0]["intervals"][measure][points[0][1]]


def _sweep(part: _Part) -> Chart | str:
    """A measure over a hyperparameter of the systems (Chen et al. 2019b, Figure 2)."""
    measure = part.figure.measure
    places = sorted({number for line in part.figure.lines.values() for number in line.values()})
    curves = []
    for label, systems in part.figure.lines.items():
        at = {number: part.results.variant(system, part.wanted.analysis) for system, number in systems.items()}
        points: list[tuple[list[float], list[float] | None]] = []
        for place in places:
            if place in at:
                values, interval = part.measured.values(at[place], measure), part.measured.interval(at[place], measure)
                points.append((list(values.values()), interval))
            else:
                points.append(([], None))
        if any(values for values, _ in points):
            curves.append(part.curve(label, points))
    if not curves:
        return f"the analysis {part.wanted.analysis} has none of its systems"
    return Chart(
        name=part.name,
        title=f"{part.title}: {part.measure.title} by {part.figure.axis or 'the number that the systems differ in'}",
        axis=part.figure.axis or "",
        labels=[f"{place:g}" for place in places],
        panels=[Panel(part.measure, curves)],
        places=places,
    )


def _corpus_lengths(results: StudyResults, name: str) -> Chart:
    """The distribution of source lengths in each corpus, in per cent (Neishi and Yoshinaga 2019, Figure 2)."""
    counts = {corpus: facts["lengths"]["source"] for corpus, facts in results.corpora.items()}
    longest = max((int(length) for of_corpus in counts.values() for length in of_corpus), default=0)
    width = next(width for width in _widths() if longest // width < MOST_CLASSES)
    curves = []
    for number, (corpus, of_corpus) in enumerate(counts.items()):
        shares = [0.0] * (longest // width + 1)
        for length, count in of_corpus.items():
            shares[int(length) // width] += 100 * count / sum(of_corpus.values())
        curves.append(Curve(corpus, number, shares, [None] * len(shares)))
    return Chart(
        name=f"{name}a",
        title="Source lengths of the corpora",
        axis="source length in subwords",
        labels=[f"{first}-{first + width - 1}" for first in range(0, longest + 1, width)],
        panels=[Panel(Measure("Sentences", "% of the corpus", 1), curves)],
    )


def _widths() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50 …"""
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def data(chart: Chart) -> Grid:
    """The values of a chart as a table: a row for each line, a column for each point."""
    measure = chart.panels[0].measure
    rows = []
    for curve in chart.panels[0].curves:
        cells = []
        for value, interval in zip(curve.values, curve.intervals, strict=True):
            between = "" if interval is None else f"{measure.show(interval[0])} to {measure.show(interval[1])}"
            low, high = interval or (None, None)
            cells.append(
                Cell(own=measure.show(value), spread=between, mean=value, seeds=curve.seeds, low=low, high=high)
            )
        rows.append(Row(curve.name, cells))
    return Grid([Head(label) for label in chart.labels], rows, corner=measure.title)


KINDS: dict[str, Callable[[_Part], Chart | str]] = {
    "length-curve": _length_curve,
    "length-distribution": _length_distribution,
    "swap": _swap,
    "sweep": _sweep,
}
