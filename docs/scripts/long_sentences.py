"""The picture "What happens to long sentences", from a published study: likelihood and completeness of every system.

    python -m docs.scripts.long_sentences COPY --out OUT.svg

A panel for each system beside the baseline. Above: its loss minus the baseline's by position in the reference, with
the 95 % band over documents and seeds; positions that training thins out are grey, those that it lacks are darker.
Below, where the study looked for omitted sentences: their share by length of the source, mean over seeds, with a bar
from the lowest to the highest; the baseline's is grey.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from docs.scripts.svg import GRID, MUTED, SERIES, SHADE, document, label, number
from posnmt.base.errors import UserError
from posnmt.data.exposure import exposure, sentences_by_length
from posnmt.evaluation.analyse.zones import LEAST_DENSE, LEAST_REACHED
from posnmt.study.copied import MARK
from posnmt.study.load import load
from posnmt.study.packed import unpack
from posnmt.study.recipe import Likelihood, Recipe

WIDTH, LEFT, TOP, GAP = 200, 44, 30, 26
HEIGHTS = (96, 64)
"""Of the two parts of a panel."""
COLUMNS = 4
DARK = "#d8dde2"
Row = dict[str, str]


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="folder of a published study")
    parser.add_argument("--likelihood", help="of its recipe; default: the first")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        made = picture(read(arguments.study, arguments.likelihood))
    except UserError as error:
        parser.exit(2, f"{error.line()}\n")
    arguments.out.write_text(made, encoding="utf-8")


@dataclass(frozen=True)
class Point:
    """A value with the ends of its bar, at a place on an axis."""

    x: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """One system.

    Attributes:
        name: its label.
        losses: loss minus the baseline's, by position; bins that are decided.
        design: D1 of the difference; None: there is none.
        seeds: of the differences.
        omitted: percent of the source sentences, by bin of source length; `x` counts the bins.
    """

    name: str
    losses: Sequence[Point]
    design: Point | None
    seeds: int
    omitted: Sequence[Point]


@dataclass(frozen=True)
class Figures:
    """All that the picture shows.

    Attributes:
        baseline: the label of the system that the others are compared with.
        sparse, beyond: the first positions that fewer than 1 in 10, and than 1 in 1,000, training pairs reach.
        complete: title of the analysis that looked for omitted sentences; None: none did.
        bins: labels of its bins of source length.
        omitted: of the baseline.
    """

    baseline: str
    sparse: int
    beyond: int
    complete: str | None
    bins: Sequence[str]
    omitted: Sequence[Point]
    panels: Sequence[Panel]


def read(study: Path, likelihood: str | None = None) -> Figures:
    """The figures of a published study, of a likelihood of its recipe; default: the first.

    Raises:
        UserError: a file is missing or damaged, the recipe has no such likelihood, or it compares no systems yet.
    """
    recipe = load(str(study / "recipe.yaml"), check_configs=False)
    name = likelihood or next(iter(recipe.likelihoods), "")
    if (chosen := recipe.likelihoods.get(name)) is None:
        there = ", ".join(recipe.likelihoods) or "none"
        raise UserError(f"the study has no likelihood {name!r}", study / "recipe.yaml", f"there are {there}")
    packed = study / "tables.tar.xz"
    table = list(_rows(unpack(packed).get(f"tables/likelihood-{name}.csv", b"")))
    baseline = next((row["baseline"] for row in table if row["baseline"]), None)
    if baseline is None:
        todo = "publish the study again once it has scored two systems"
        raise UserError(f"the likelihood {name} compares no systems yet", packed, todo)
    reached = exposure(sentences_by_length(_record(study, recipe, chosen)["training_histograms"]["target"]))
    complete = next((name for name, each in recipe.analyses.items() if each.completeness), None)
    bins, omitted = _omitted(study, recipe, chosen, complete)
    title = complete and recipe.title_of(complete, json.loads((study / MARK).read_text(encoding="utf-8"))["scale"])
    systems = list(dict.fromkeys(row["system"] for row in table if row["baseline"]))
    panels = [
        Panel(
            system,
            [_point(row, *_ends(row["bin"])) for row in _of(table, system, "target position")],
            next((_point(row, 0, 0) for row in _of(table, system, "design") if row["bin"] == "D1"), None),
            max(int(row["seeds"]) for row in table if row["system"] == system),
            omitted.get(system, []),
        )
        for system in systems
    ]
    sparse, beyond = (int((reached >= least).sum()) for least in (LEAST_DENSE, LEAST_REACHED))
    return Figures(baseline, sparse, beyond, title, bins, omitted.get(baseline, []), panels)


def _rows(content: bytes) -> csv.DictReader[str]:
    return csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""))


def _of(table: Sequence[Row], system: str, axis: str) -> list[Row]:
    """The differences of a system on an axis that rest on enough sentences and documents."""
    return [
        row for row in table if (row["system"], row["axis"], row["status"]) == (system, axis, "decided") and row["low"]
    ]


def _ends(name: str) -> tuple[int, int]:
    first, _, last = name.partition("-")
    return int(first), int(last or first)


def _point(row: Row, first: int, last: int) -> Point:
    """A difference at the middle of its bin; a wide last bin stands where bins of 20 would."""
    middle = (first + min(last + 1, first + 20)) / 2
    return Point(middle, float(row["Delta"]), float(row["low"]), float(row["high"]))


def _record(study: Path, recipe: Recipe, chosen: Likelihood) -> dict[str, dict[str, str]]:
    """The record of the first training that zones can be those of: of the first of the trainings, of any system."""
    runs = unpack(study / "runs.tar.xz")
    training = chosen.trainings[0]
    name = next(name for name in runs if name.endswith("/record.json") and f".{training}." in name)
    record: dict[str, dict[str, str]] = json.loads(runs[name])
    return record


def _omitted(
    study: Path, recipe: Recipe, chosen: Likelihood, analysis: str | None
) -> tuple[list[str], dict[str, list[Point]]]:
    """The bins of source length of an analysis that looked for omitted sentences, and label -> its shares."""
    content = lzma.decompress((study / "results.csv.xz").read_bytes())
    seeds: dict[str, dict[str, list[float]]] = {}
    for row in _rows(content):
        wanted = (analysis, "omitted_sentences", "0.0")
        if (row["test_condition"], row["measure"], row["swapped"]) == wanted and row["first"] and row["value"]:
            name = recipe.label((row["system"], row["training_condition"]), chosen.trainings)
            if chosen.includes(row["system"], row["training_condition"]):
                seeds.setdefault(name, {}).setdefault(row["bin"], []).append(float(row["value"]))
    bins = list(dict.fromkeys(each for of_system in seeds.values() for each in of_system))
    points = {
        name: [Point(bins.index(each), mean(values), min(values), max(values)) for each, values in of_system.items()]
        for name, of_system in seeds.items()
    }
    return bins, points


def picture(figures: Figures) -> str:
    """The picture as SVG."""
    heights = HEIGHTS if figures.bins else HEIGHTS[:1]
    high = TOP + sum(heights) + GAP * len(heights) + 10
    ends = [each for panel in figures.panels for point in panel.losses for each in (point.low, point.high)]
    losses = _Scale(*_range([*ends, 0.0]), (0, 10 * -(-max(_farthest(figures), figures.beyond + 10) // 10)))
    shares = [point.high for panel in figures.panels for point in panel.omitted] + [p.high for p in figures.omitted]
    omitted = _Scale(0, max([1.0, *shares]), (-0.5, len(figures.bins) - 0.5))
    body = []
    for place, panel in enumerate(figures.panels):
        row, column = divmod(place, COLUMNS)
        x, y = column * WIDTH, 24 + row * high
        body += _losses(figures, panel, losses, x + LEFT, y + TOP, heights[0])
        if figures.bins:
            body += _shares(figures, panel, omitted, x + LEFT, y + TOP + heights[0] + GAP + 6, heights[1])
    rows, columns = -(-len(figures.panels) // COLUMNS), min(COLUMNS, max(2, len(figures.panels)))
    bottom = 24 + rows * high
    head = f"Loss minus that of {figures.baseline}, nats a subword, by position in the reference"
    body.insert(0, label(8, 16, head))
    below = [
        "bands: 95 % over documents and seeds; grey: positions that fewer than 1 in 10 training pairs reach,"
        " dark: fewer than 1 in 1,000"
    ]
    if figures.bins:
        below.append(
            f"below: omitted sentences in %, by source length in subwords ({figures.complete}); bars: seeds;"
            f" grey: {figures.baseline}"
        )
    body += [label(8, bottom + 8 + 18 * line, words, colour=MUTED) for line, words in enumerate(below)]
    return document(columns * WIDTH + 8, bottom + 18 * len(below) + 4, "What happens to long sentences", body)


@dataclass(frozen=True)
class _Scale:
    """The values and places that a part of a panel shows."""

    low: float
    high: float
    x: tuple[float, float]

    def at(self, x: float, value: float, left: float, top: float, height: float) -> tuple[float, float]:
        """The point of the picture."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - 12)
        return left + across, top + (self.high - value) / (self.high - self.low) * height


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The range of values, with a tenth of it on both sides."""
    low, high = min(values), max(values)
    return low - (high - low or 1) / 10, high + (high - low or 1) / 10


def _farthest(figures: Figures) -> int:
    return max((int(point.x) for panel in figures.panels for point in panel.losses), default=0)


def _losses(figures: Figures, panel: Panel, scale: _Scale, left: float, top: float, height: float) -> list[str]:
    """The upper part of a panel."""

    def at(x: float, value: float) -> tuple[float, float]:
        return scale.at(x, value, left, top, height)

    right, bottom = at(scale.x[1], scale.low)
    name = panel.name if panel.seeds > 1 else f"{panel.name} (one seed)"
    parts = [label(left, top - 16, name), label(left, top - 3, _design(panel), colour=MUTED)]
    for start, end, shade in ((figures.sparse, figures.beyond, SHADE), (figures.beyond, scale.x[1], DARK)):
        (first, _), (last, _) = at(start, 0), at(end, 0)
        place = f'x="{number(first)}" y="{number(top)}" width="{number(last - first)}"'
        parts.append(f'<rect {place} height="{height}" fill="{shade}"/>')
    zero = at(0, 0)[1]
    parts.append(f'<path stroke="{MUTED}" stroke-dasharray="2 3" d="M{number(left)} {number(zero)}H{number(right)}"/>')
    parts += [
        label(left - 4, zero + 4, "0", "end", MUTED),
        label(left - 4, bottom, f"{scale.low:.1f}".replace("-", "−"), "end", MUTED),
    ]
    parts += [label(at(x, 0)[0], bottom + 14, str(x), "middle", MUTED) for x in range(0, int(scale.x[1]), 20)]
    band = [at(p.x, p.high) for p in panel.losses] + [at(p.x, p.low) for p in reversed(panel.losses)]
    if band:
        parts.append(f'<path fill="{SERIES[0]}" fill-opacity="0.25" d="{_path(band)}z"/>')
        line = _path([at(p.x, p.value) for p in panel.losses])
        parts.append(f'<path fill="none" stroke="{SERIES[0]}" stroke-width="2" d="{line}"/>')
    return parts


def _design(panel: Panel) -> str:
    """D1 in words."""
    if panel.design is None:
        return "D1: too few sentences"
    value, low, high = (
        f"{each:+.2f}".replace("-", "−") for each in (panel.design.value, panel.design.low, panel.design.high)
    )
    return f"D1 {value} ({low}..{high})"


def _shares(figures: Figures, panel: Panel, scale: _Scale, left: float, top: float, height: float) -> list[str]:
    """The lower part of a panel."""

    def at(x: float, value: float) -> tuple[float, float]:
        return scale.at(x, value, left, top, height)

    bottom = top + height
    parts = [f'<path stroke="{GRID}" d="M{number(left)} {number(bottom)}H{number(at(scale.x[1], 0)[0])}"/>']
    parts += [
        label(left - 4, bottom + 4, "0", "end", MUTED),
        label(left - 4, top + 8, f"{scale.high:.0f} %", "end", MUTED),
    ]
    parts += [label(at(x, 0)[0], bottom + 14, name, "middle", MUTED) for x, name in enumerate(figures.bins)]
    for points, colour, shift in ((figures.omitted, MUTED, -0.08), (panel.omitted, SERIES[1], 0.08)):
        for point in points:
            (x, y), (_, low), (_, high) = (at(point.x + shift, each) for each in (point.value, point.low, point.high))
            parts.append(f'<path stroke="{colour}" stroke-width="2" d="M{number(x)} {number(low)}V{number(high)}"/>')
            parts.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="3" fill="{colour}"/>')
    return parts


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


if __name__ == "__main__":
    main()
