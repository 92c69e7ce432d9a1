"""What the report draws and tabulates, as numbers: one value of every system at every place along an axis.

A figure, the table beside it on the page and the LaTeX table are made from the same `Chart`. Several seeds of a system
are one curve, their mean; every system has the same number, and so the same colour and marker, in all charts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from posnmt.analyse.seeds import spread
from posnmt.report.measures import MEASURES, Measure, measures_of, metrics_of

# Bins whose distributions of output lengths are drawn; the counts of all bins are in lengths.csv.
MOST_DISTRIBUTIONS = 8
# A histogram of fewer sentences is not opened if there are others.
FEWEST_SHOWN = 10
# Classes of lengths in a histogram: neighbours are taken together for it, not in lengths.csv.
MOST_CLASSES = 24

Interval = Sequence[float] | None


@dataclass(frozen=True)
class Curve:
    """The values of one system.

    Attributes:
        name: of the system.
        number: of the system, from 0; -1 is the reference.
        values: one for each place of the chart; None where there is nothing to measure.
        intervals: for each value its (lower, upper), or None; of several seeds the lowest and the highest.
        seeds: how many outputs it is the mean of.
    """

    name: str
    number: int
    values: Sequence[float | None]
    intervals: Sequence[Interval]
    seeds: int = 1


@dataclass(frozen=True)
class Panel:
    """Curves that share axes: of one measure."""

    measure: Measure
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Chart:
    """One figure and its table.

    Attributes:
        name: of the files and, on the page, of figure and table.
        title: what it shows.
        axis: what lies along the horizontal axis.
        labels: of the places along it.
        panels: one above the other.
        places: where each label stands; None: beside each other at equal distances.
        counts: heading → how many sentences or words lie at each place; shown under the labels where it is `n`.
        training: for each place, whether training saw its lengths; None: not known.
        width: of the classes of a histogram, which begin at `places`; None: not a histogram.
        opened: whether the page shows it from the start.
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
        """What a screen reader says in place of the figure."""
        kind = "Line chart" if self.width is None else "Histogram"
        names = ", ".join(curve.name for curve in self.panels[0].curves)
        return f"{kind}: {self.title}, one line each for {names}. Its data are in a table below."


def families(results: dict[str, Any]) -> dict[str, list[int]]:
    """Each system → its outputs, by their places in the results; several where there are several seeds."""
    seeds = results["seeds"] or {"systems": []}
    owners = {output: system["name"] for system in seeds["systems"] for output in system["outputs"]}
    rows_of: dict[str, list[int]] = {}
    for row, system in enumerate(results["systems"]):
        rows_of.setdefault(owners.get(system["name"], system["name"]), []).append(row)
    return rows_of


def charts(results: dict[str, Any]) -> dict[str, list[Chart]]:
    """All charts by the section of the page that they belong to: `length`, `distribution`, `position`, `swap`.

    Args:
        results: what `posnmt.analyse.analyse.analyse` gives.
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
        title=f"{MEASURES[measure].title} by source length",
        axis=f"source length in {results['settings']['unit']}",
        labels=[each["label"] for each in bins],
        panels=[Panel(MEASURES[measure], curves)],
        counts=("n", [each["n"] for each in bins]),
        training=[each["training"] for each in bins] if results["training"] else None,
    )


def _swap_chart(results: dict[str, Any], metric: str) -> Chart:
    """One metric over the share of swapped words (Chen et al. 2019a, Figures 3 to 5)."""
    shares = sorted({share for curve in results["swap"] for share in curve["shares"]})
    return Chart(
        name=f"{metric}-by-swap",
        title=f"{MEASURES[metric].title} by share of swapped words",
        axis="share of swapped words in the source",
        labels=[f"{100 * share:g} %" for share in shares],
        panels=[Panel(MEASURES[metric], list(_swap_curves(results, metric, shares)))],
        places=shares,
    )


def _swap_curves(results: dict[str, Any], metric: str, shares: Sequence[float]) -> Iterable[Curve]:
    """A curve for each system; seeds that were given different shares are curves of their own."""
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
    """The values at the places; None where they are not known."""
    by_place = dict(zip(known, values, strict=True))
    return [by_place.get(place) for place in places]


def _position_chart(results: dict[str, Any], kind: str) -> Chart:
    """Precision and recall over the places in the sentence; places after the end of the longest one are left out."""
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
    places = {"relative": "place in the sentence, in %", "absolute": "place in the sentence, in words"}
    return Chart(
        name=f"bleu-by-{kind}-position",
        title=f"Precision and recall by {places[kind]}",
        axis=places[kind],
        labels=labels[:last],
        panels=panels,
        counts=("Words of the reference", systems[0][kind]["n"]["recall"][:last]),
    )


def _distributions(results: dict[str, Any]) -> list[Chart]:
    """How long outputs and references are, by bin of source length (Neishi and Yoshinaga 2019, Figure 5).

    Of many bins those without training and then the longest are chosen. That of the longest sources which training
    saw and that of the shortest which it did not see, as in the paper, are opened; without training the longest.
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
    """The histogram of output lengths for the sources of one bin; of several seeds the mean."""
    distribution, each = results["length_distributions"][number], results["bins"][number]
    unit, groups = results["settings"]["unit"], families(results)
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
        axis=f"output length in {unit}",
        labels=[str(first) if width == 1 else f"{first}-{first + width - 1}" for first in firsts],
        panels=[Panel(Measure("Sentences", f"{sources}, n={each['n']}", decimals), curves)],
        places=firsts,
        width=width,
        opened=opened,
    )


def _summed(counts: Sequence[int], together: int) -> list[int]:
    """The counts with so many neighbours added up."""
    return [sum(counts[first : first + together]) for first in range(0, len(counts), together)]


def _interval(low: float | None, high: float | None) -> Interval:
    """Both ends, or None where there are none."""
    return None if low is None or high is None else (low, high)


def _joined(
    name: str, number: int, values: Sequence[Sequence[float | None]], intervals: Sequence[Interval] | None = None
) -> Curve:
    """The outputs of one system as a curve: a single one as it is, several as mean, lowest and highest."""
    if len(values) == 1:
        return Curve(name, number, values[0], intervals or [None] * len(values[0]))
    spreads = [spread(of_place) for of_place in zip(*values, strict=True)]
    ends = [_interval(each["lowest"], each["highest"]) for each in spreads]
    return Curve(name, number, [each["mean"] for each in spreads], ends, len(values))
