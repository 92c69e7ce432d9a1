"""The data of the report's figures: one value of every system at each position of an axis.

A figure, its table on the page and its LaTeX table are made from the same `Chart`. Several seeds of a system are one
curve, their mean. A system has the same number, and thus the same colour and marker, in all charts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from posnmt.analyse.seeds import spread
from posnmt.report.measures import Measure, measures_of, metrics_of, presentations

# Maximum number of bins with a histogram of output lengths; lengths.csv has all bins.
MOST_DISTRIBUTIONS = 8
# Histograms of fewer sentences are not opened if there are others.
FEWEST_SHOWN = 10
# Maximum number of length classes in a histogram; lengths.csv has the original classes.
MOST_CLASSES = 24

Interval = Sequence[float] | None


@dataclass(frozen=True)
class Curve:
    """The values of one system.

    Attributes:
        name: of the system.
        number: of the system, from 0; -1 is the reference.
        values: one for each position of the chart; None where nothing can be measured.
        intervals: for each value (lower, upper) or None; with several seeds, the lowest and highest seed.
        seeds: number of outputs that it is the mean of.
    """

    name: str
    number: int
    values: Sequence[float | None]
    intervals: Sequence[Interval]
    seeds: int = 1


@dataclass(frozen=True)
class Panel:
    """Curves of one measure, on shared axes."""

    measure: Measure
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Chart:
    """One figure and its table.

    Attributes:
        name: of the files, and of figure and table on the page.
        title: of the figure.
        axis: label of the horizontal axis.
        labels: of the positions on the horizontal axis.
        panels: from top to bottom.
        places: coordinates of the positions; None: equally spaced.
        counts: heading, and the number of sentences or words at each position; drawn below the labels if it is `n`.
        training: for each position, whether its lengths occur in training; None: unknown.
        width: of the classes of a histogram, which start at `places`; None: not a histogram.
        opened: whether the page shows it initially.
    """

    name: str
    title: str
    axis: str
    labels: Sequence[str]
    panels: Sequence[Panel]
    places: Sequence[float] | None = None
    counts: tuple[str, Sequence[int]] | None = None
    training: Sequence[str | None] | None = None
    width: int | None = None
    opened: bool = True

    @property
    def alternative(self) -> str:
        """The alternative text of the figure, for screen readers."""
        kind = "Line chart" if self.width is None else "Histogram"
        names = ", ".join(curve.name for curve in self.panels[0].curves)
        return f"{kind}: {self.title}, one line each for {names}. Its data are in a table below."


def families(results: dict[str, Any]) -> dict[str, list[int]]:
    """System → indices of its outputs in the results: one for each seed."""
    seeds = results["seeds"] or {"systems": []}
    owners = {output: system["name"] for system in seeds["systems"] for output in system["outputs"]}
    rows_of: dict[str, list[int]] = {}
    for row, system in enumerate(results["systems"]):
        rows_of.setdefault(owners.get(system["name"], system["name"]), []).append(row)
    return rows_of


def charts(results: dict[str, Any]) -> dict[str, list[Chart]]:
    """All charts by section of the page: `length`, `distribution`, `position`, `swap`.

    Args:
        results: of `posnmt.analyse.analyse.analyse`.
    """
    return {
        "length": [length_chart(results, name) for name in measures_of(results)],
        "distribution": _distributions(results),
        "position": [_position_chart(results, kind) for kind in ("relative", "absolute")],
        "swap": [_swap_chart(results, name) for name in metrics_of(results)] if results["swap"] else [],
    }


def length_chart(results: dict[str, Any], measure: str) -> Chart:
    """One measure over the bins of source length (Neishi and Yoshinaga 2019, Figures 3 and 4)."""
    curves = []
    for number, (name, rows) in enumerate(families(results).items()):
        outputs = [results["systems"][row] for row in rows]
        values = [[each[measure] for each in output["bins"]] for output in outputs]
        intervals = None
        if outputs[0]["intervals"]:
            intervals = [each[measure] for each in outputs[0]["intervals"]["bins"]]
        curves.append(_joined(name, number, values, intervals))
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


def _swap_chart(results: dict[str, Any], metric: str) -> Chart:
    """One metric over the share of swapped words (Chen et al. 2019a, Figures 3 to 5)."""
    shares = sorted({share for curve in results["swap"] for share in curve["shares"]})
    return Chart(
        name=f"{metric}-by-swap",
        title=f"{presentations(results)[metric].title} by share of swapped words",
        axis="share of swapped words in the source",
        labels=[f"{100 * share:g} %" for share in shares],
        panels=[Panel(presentations(results)[metric], list(_swap_curves(results, metric, shares)))],
        places=shares,
    )


def _swap_curves(results: dict[str, Any], metric: str, shares: Sequence[float]) -> Iterable[Curve]:
    """A curve for each system, or for each of its seeds if they have different shares."""
    by_name = {curve["name"]: curve for curve in results["swap"]}
    spare = len(results["systems"])
    for number, (name, rows) in enumerate(families(results).items()):
        names = [results["systems"][row]["name"] for row in rows]
        curves = [by_name[output] for output in names if output in by_name]
        together = len(curves) == len(rows) and len({tuple(curve["shares"]) for curve in curves}) == 1
        for group in [curves] if together else [[curve] for curve in curves]:
            values = [_at(shares, curve["shares"], curve[metric]) for curve in group]
            ends = group[0]["intervals"]
            intervals = _at(shares, group[0]["shares"], ends[metric]) if ends else None
            yield _joined(name if together else group[0]["name"], number if together else spare, values, intervals)
            spare += not together


def _at(places: Sequence[float], known: Sequence[float], values: Sequence[Any]) -> list[Any]:
    """The values at the places; None where they are unknown."""
    by_place = dict(zip(known, values, strict=True))
    return [by_place.get(place) for place in places]


def _position_chart(results: dict[str, Any], kind: str) -> Chart:
    """Precision and recall by position in the sentence, up to the end of the longest sentence."""
    systems = results["positions"]["systems"]
    labels = [label.removesuffix(" %") for label in results["positions"]["places"][kind]]
    words = [max(each[kind]["n"][side][place] for each in systems for side in ("precision", "recall"))
             for place in range(len(labels))]  # fmt: skip
    last = max((place for place, count in enumerate(words) if count), default=0) + 1
    panels = []
    for side in ("precision", "recall"):
        measure = Measure(side.capitalize(), "of n-grams, higher is better", 1)
        curves = [
            _joined(name, number, [systems[row][kind][side][:last] for row in rows])
            for number, (name, rows) in enumerate(families(results).items())
        ]
        panels.append(Panel(measure, curves))
    what = "characters" if results["positions"]["tokenizer"] == "char" else "words"
    places = {"relative": "place in the sentence, in %", "absolute": f"place in the sentence, in {what}"}
    return Chart(
        name=f"bleu-by-{kind}-position",
        title=f"Precision and recall by {places[kind]}",
        axis=places[kind],
        labels=labels[:last],
        panels=panels,
        counts=(f"{what.capitalize()} of the reference", systems[0][kind]["n"]["recall"][:last]),
    )


def _distributions(results: dict[str, Any]) -> list[Chart]:
    """Histograms of output and reference lengths by bin of source length (Neishi and Yoshinaga 2019, Figure 5).

    With more than `MOST_DISTRIBUTIONS` bins, those beyond training are preferred, then those with the longest sources.
    As in the paper, the bins of the longest sources within training and of the shortest beyond it are opened; without
    trained lengths, that of the longest sources.
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
    return [_distribution(results, number, number in opened) for number in sorted(preferred[:MOST_DISTRIBUTIONS])]


def _distribution(results: dict[str, Any], number: int, opened: bool) -> Chart:
    """The histogram of output lengths for the sources of one bin, as the mean over seeds."""
    distribution, each = results["length_distributions"][number], results["bins"][number]
    unit, groups = results["settings"]["unit"], families(results)
    target_unit = results["settings"].get("target_unit", unit)
    together = -(-len(distribution["first"]) // MOST_CLASSES)
    firsts, width = distribution["first"][::together], distribution["width"] * together
    counts = [_summed(of_output, together) for of_output in distribution["systems"]]
    curves = [Curve("reference", -1, _summed(distribution["reference"], together), [None] * len(firsts))]
    for order, (name, rows) in enumerate(groups.items()):
        curves.append(_joined(name, order, [counts[row] for row in rows]))
    sources = f"sources of {each['first']} {'or more' if each['last'] is None else 'to ' + str(each['last'])} {unit}"
    known = "" if each["training"] in (None, "seen") else f", {each['training']} in training"
    decimals = 0 if len(groups) == len(results["systems"]) else 1
    return Chart(
        name=f"output-lengths-{each['first']}-{'and-more' if each['last'] is None else each['last']}",
        title=f"Output lengths for {sources} (n={each['n']}{known})",
        axis=f"output length in {target_unit}",
        labels=[str(first) if width == 1 else f"{first}-{first + width - 1}" for first in firsts],
        panels=[Panel(Measure("Sentences", f"{sources}, n={each['n']}", decimals), curves)],
        places=firsts,
        width=width,
        opened=opened,
    )


def _summed(counts: Sequence[int], together: int) -> list[int]:
    """Sums of `together` neighbouring counts each."""
    return [sum(counts[first : first + together]) for first in range(0, len(counts), together)]


def _interval(low: float | None, high: float | None) -> Interval:
    """The interval, or None if an end is missing."""
    return None if low is None or high is None else (low, high)


def _joined(
    name: str, number: int, values: Sequence[Sequence[float | None]], intervals: Sequence[Interval] | None = None
) -> Curve:
    """The curve of one system: of a single output, or the mean, lowest and highest of several."""
    if len(values) == 1:
        return Curve(name, number, values[0], intervals or [None] * len(values[0]))
    spreads = [spread(of_place) for of_place in zip(*values, strict=True)]
    ends = [_interval(each["lowest"], each["highest"]) for each in spreads]
    return Curve(name, number, [each["mean"] for each in spreads], ends, len(values))
