"""The figures of a study: a chart for each panel in the recipe, drawn like the charts of an analysis.

Lines with the same name have the same style in all panels of a figure. A line is the mean over seeds, with a band from
the lowest to the highest seed; with a single seed, the band is its 95 % interval over sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES, TrainedLengths, mark_of
from posnmt.evaluation.report.charts import (
    Chart,
    Curve,
    Line,
    Panel,
    curve_through,
    distribution_chart,
    length_chart,
    lengths_of,
    sharing,
    swap_chart,
)
from posnmt.evaluation.report.figures.lines import MOST_BANDS
from posnmt.evaluation.report.grid import stem
from posnmt.metrics.measure import Measure
from posnmt.study.examples import Example, examples
from posnmt.study.layout import Figure, words_at
from posnmt.study.layout import Panel as PanelSection
from posnmt.study.measured import Measured, StudyResults, Variant
from posnmt.study.measures import measure as measure_of
from posnmt.study.points import curves

# Maximum number of length classes in a figure of corpora.
MOST_CLASSES = 12


@dataclass(frozen=True)
class Plate:
    """One figure of the report.

    Attributes:
        name: of its files, and its anchor on the page.
        title: for example "Figure 3".
        caption: text.
        charts: its panels, without those that cannot be drawn.
        legend: sentences below the figure, which also say why something is not drawn.
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
            of_panels = [examples(results, figure, panel) for panel in figure.panels]
            shown = [example for sentences, _ in of_panels for example in sentences]
            legend = [caption for _, caption in of_panels]
        else:
            charts, legend = _panels(results, figure, name)
        if figure.published:
            legend.append(f"In the paper: {figure.published}")
        caption = words_at(figure.caption, results.scale)
        drawn.append(Plate(name, f"Figure {figure.figure}", caption, charts, legend, shown))
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
    for place, panel in enumerate(figure.panels):
        title = panel.title or results.recipe.title_of(panel.analysis, results.scale)
        measured = results.measured.get(panel.analysis)
        if measured is None:
            why = results.missing.get(panel.analysis, "the analysis was not made")
            legend.append(f"{title}: not drawn, because {why.rstrip('.')}.")
            continue
        part = _Part(results, figure, panel, measured, f"{name}{chr(ord('a') + place)}", title, numbers)
        is_measured = figure.measure in measured.results["systems"][0]["overall"]
        if figure.kind != "length-distribution" and not is_measured:
            legend.append(f"{title}: not drawn, because the analysis does not measure {part.measure.title}.")
            continue
        outcome = KINDS[figure.kind](part)
        legend += part.absences()
        if isinstance(outcome, str):
            legend.append(f"{title}: not drawn, because {outcome}.")
        else:
            charts.append(outcome)
    if any(chart.few for chart in charts):
        legend.append(f"Points of fewer than {FEWEST_SENTENCES} sentences are hollow and not joined.")
    if charts:
        legend.append(_describe_intervals(charts))
    return sharing(charts), list(filter(None, dict.fromkeys(legend)))


def _describe_intervals(charts: Sequence[Chart]) -> str:
    """A sentence of the legend of charts that explains lines and intervals."""
    curves = [curve for chart in charts for _, curve in chart.columns()]
    most = max(len(panel.curves) for chart in charts for panel in chart.panels)
    bands = "" if charts[0].kind == "histogram" else "bands" if most <= MOST_BANDS else "bars"
    return _describe_seeds({count for curve in curves for count in curve.outputs if count}, bands)


def _describe_seeds(seeds: Collection[int], bands: str) -> str:
    """A sentence of the legend that explains lines and intervals.

    Args:
        seeds: the numbers of seeds behind the points.
        bands: how intervals are drawn; empty: not at all.
    """
    if max(seeds, default=1) == 1:
        return f"{bands.capitalize()} are 95 % intervals over sentences." if bands else ""
    of_one = "; those of a single seed are 95 % intervals over sentences" if min(seeds) == 1 else ""
    return f"Means over seeds{f'; {bands} go from the lowest to the highest seed{of_one}' if bands else ''}."


@dataclass(frozen=True)
class _Part:
    """The data of one panel. `numbers` maps the name of every line of the figure to the number of its style."""

    results: StudyResults
    figure: Figure
    panel: PanelSection
    measured: Measured
    name: str
    title: str
    numbers: dict[str, int]

    @property
    def measure(self) -> Measure:
        return measure_of(self.figure.measure)

    @property
    def unit(self) -> str:
        """The unit of lengths. Text in subwords is measured in tokens, which are subwords."""
        unit = self.measured.results["settings"]["unit"]
        return "subwords" if unit == "tokens" else str(unit)

    def variants(self) -> list[Variant]:
        """The systems that the panel should show; one without a training stands for each training of the analysis."""
        analysis = self.results.recipe.analyses[self.panel.analysis]
        of_line = [system for line in self.swept()[0].values() for system in line]
        every = [
            variant
            for variant, tests in self.results.recipe.variants(self.results.scale).items()
            if analysis.test in tests and analysis.includes(*variant)
        ]
        chosen: list[Variant] = []
        for text in self.panel.systems or of_line:
            if "/" in text:
                chosen.append(self.results.recipe.variant(text))
            else:
                of_system = [variant for variant in every if variant[0] == text]
                chosen += of_system or [self.results.variant(text, self.panel.analysis)]
        return chosen or every

    def swept(self) -> tuple[dict[str, dict[str, float]], list[str] | None]:
        """The lines of a figure of kind `sweep`, and the labels of its places if these are not numbers."""
        if self.figure.sweep is None:
            return self.figure.lines, None
        return curves(self.results.recipe, self.figure.sweep, self.results.scale)

    @property
    def axis(self) -> str:
        """The label of the axis of a figure of kind `sweep`."""
        if self.figure.axis is not None or self.figure.sweep is None:
            return self.figure.axis or ""
        first = next(iter(self.results.recipe.sweep[self.figure.sweep].grid.values()))
        return first.label or first.of

    def bin(self) -> int | str | None:
        """The number of the panel's bin, or a sentence if the analysis lacks it; None: all lengths."""
        lengths = self.panel.lengths
        ends = lengths.get(self.results.scale) if isinstance(lengths, dict) else lengths
        if ends is None:
            return None
        bins = self.measured.results["bins"]
        numbers = [number for number, each in enumerate(bins) if [each["first"], each["last"]] == ends]
        if numbers:
            return numbers[0]
        asked = "-".join("" if end is None else str(end) for end in ends)
        return f"{asked} is not a bin of the analysis, which has {', '.join(each['label'] for each in bins)}"

    def absences(self) -> list[str]:
        """Why some systems are not drawn, or not with every seed: a sentence for each reason."""
        labels: dict[str, list[str]] = {}
        for variant in self.variants():
            if reason := self.results.absence(variant, self.panel.analysis):
                labels.setdefault(reason[1], []).append(self.results.recipe.label(variant))
        return [f"{', '.join(names)}: {why}." for why, names in labels.items()]

    def shown(self) -> list[tuple[str, Variant]]:
        """The measured systems, with the names of their lines."""
        measured = [variant for variant in self.variants() if variant in self.measured.places]
        return list(zip(self.results.labels(measured), measured, strict=True))

    def number(self, label: str) -> int:
        """The number of a line, which determines colour, stroke and marker."""
        return self.numbers.setdefault(label, len(self.numbers))

    def lines(self) -> list[Line]:
        """The measured systems as lines, with the outputs of all their seeds."""
        return [Line(label, self.number(label), self.measured.outputs(variant)) for label, variant in self.shown()]

    def chart(self, chart: Chart, by: str, **changes: Any) -> Chart:
        """A chart of the analysis with the name and title of this panel; `by`: the end of the title."""
        axis = chart.axis.replace(" in tokens", f" in {self.unit}")
        return replace(chart, name=self.name, title=f"{self.title}: {by}", axis=axis, **changes)


def _length_curve(part: _Part) -> Chart | str:
    """A measure over the bins of source length (Neishi and Yoshinaga 2019, Figures 3, 4, 6 and 7)."""
    chart = length_chart(part.measured.results, part.lines(), part.figure.measure)
    return part.chart(chart, f"{part.measure.title} by source length", training=_seen_by_all(part))


def _seen_by_all(part: _Part) -> list[str | None]:
    """For each bin, whether its lengths occur in training; `partly unseen` also if only some trainings saw them."""
    trained = TrainedLengths.of_trainings(
        run["source_lengths"]
        for _, variant in part.shown()
        for run in part.results.runs_of(variant)
        if run["source_lengths"]
    )
    return [mark_of(each, trained) for each in part.measured.results["bins"]]


def _length_distribution(part: _Part) -> Chart | str:
    """The distribution of output lengths for the sources of one bin (Neishi and Yoshinaga 2019, Figure 5)."""
    chosen = part.bin()
    if not isinstance(chosen, int):
        return chosen or "the panel names no `lengths`"
    lengths = lengths_of(part.measured.results["bins"][chosen])
    if part.measured.results["length_distributions"][chosen] is None:
        return f"no source has {lengths} {part.unit}"
    chart = distribution_chart(part.measured.results, part.lines(), chosen)
    return part.chart(chart, f"output lengths for sources of {lengths} {part.unit}")


def _swap(part: _Part) -> Chart | str:
    """A measure over the share of swapped words (Chen et al. 2019a, Figures 3 to 5)."""
    if not part.measured.results["swap"]:
        return f"the analysis {part.panel.analysis} has no swapped sources"
    chart = swap_chart(part.measured.results, part.lines(), part.figure.measure)
    return part.chart(chart, f"{part.measure.title} by share of swapped words")


def _sweep(part: _Part) -> Chart | str:
    """A measure over a setting of the systems or of their texts (Chen et al. 2019b, Figure 2)."""
    measure, chosen = part.figure.measure, part.bin()
    if isinstance(chosen, str):
        return chosen
    lines, words = part.swept()
    places = sorted({number for line in lines.values() for number in line.values()})
    drawn = []
    for label, systems in lines.items():
        at = {number: part.results.variant(system, part.panel.analysis) for system, number in systems.items()}
        points = [
            (
                list(part.measured.values(at[place], measure, chosen).values()),
                part.measured.interval(at[place], measure, chosen),
            )
            if place in at
            else ([], None)
            for place in places
        ]
        if any(values for values, _ in points):
            drawn.append(curve_through(label, part.number(label), points))
    if not drawn:
        return f"the analysis {part.panel.analysis} has none of its systems"
    by = part.axis or "the number that the systems differ in"
    title = f"{part.title}: {part.measure.title} by {by}"
    if chosen is not None:
        title += f", sources of {lengths_of(part.measured.results['bins'][chosen])} {part.unit}"
    return Chart(
        name=part.name,
        title=title,
        axis=part.axis,
        labels=words or [f"{place:g}" for place in places],
        panels=[Panel(part.measure, drawn)],
        places=None if words else places,
        logarithmic=words is None and _is_geometric(places),
    )


def _is_geometric(places: Sequence[float]) -> bool:
    """Whether places are spaced more evenly on a logarithmic axis than on a linear one: 2, 4, 8, but not 2, 4, 6."""
    if len(places) < 3 or places[0] <= 0:
        return False
    differences = [second - first for first, second in pairwise(places)]
    factors = [math.log(second / first) for first, second in pairwise(places)]
    return max(factors) / min(factors) < max(differences) / min(differences)


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


KINDS: dict[str, Callable[[_Part], Chart | str]] = {
    "length-curve": _length_curve,
    "length-distribution": _length_distribution,
    "swap": _swap,
    "sweep": _sweep,
}
