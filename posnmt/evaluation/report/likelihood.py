"""The report of likelihood by position: conclusions, tables, figures, a CSV file and a page of its own."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.crossed import LEVEL, Estimate
from posnmt.evaluation.analyse.length_claims import SCOPE, claims
from posnmt.evaluation.analyse.length_effects import (
    BY_SENTENCE,
    D1,
    D2,
    D5,
    SPARSE_CONTRAST,
    LengthEffects,
    Measured,
    length_effects,
)
from posnmt.evaluation.analyse.losses import AFTER_LONG, AFTER_SHORT, PLAIN, SHIFTED, Losses, read_losses
from posnmt.evaluation.report.charts import Chart, Curve, Panel
from posnmt.evaluation.report.figures.lines import MOST_BANDS
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, Sheet, csv_text
from posnmt.metrics.measure import Measure

LOSS = Measure("Loss", "nats per subword, lower is better", 3)
SHARE = Measure("Share of training", "pairs that reach the position, %", 1, neutral=0)
UNREACHED = "reached by fewer than 1 in 1,000 training pairs"
UNDECIDED = "too few sentences or documents to decide"
BANDS = "95 % intervals over documents and seeds, for all bins of a curve at once (Bonferroni)"


class Curves(Protocol):
    """The curves of a report: of `LengthEffects`, or read from a table."""

    @property
    def systems(self) -> Sequence[str]:
        """Return the names of the systems, the baseline first."""

    @property
    def overall(self) -> Sequence[Measured]:
        """The mean loss of all subwords."""

    @property
    def positions(self) -> Sequence[Measured]:
        """Return the losses by target position, an item a bin."""

    @property
    def source_lengths(self) -> Sequence[Measured]:
        """Return the losses by source length, an item a bin."""

    @property
    def distances(self) -> Sequence[Measured]:
        """By the number of subwords beyond the lengths that training reaches."""


def difference_measure(baseline: str) -> Measure:
    """The presentation of differences from the baseline."""
    better = f"from {isolated(baseline)}, below 0 is better"
    return Measure("Difference in loss", better, 3, signed=True, neutral=0)


def likelihood_charts(effects: Curves) -> list[Chart]:
    """For each curve with several bins, the losses, and the differences from the baseline if there are others."""
    curves = {
        "target position": effects.positions,
        "source length": effects.source_lengths,
        "distance beyond training": effects.distances,
    }
    return [chart for axis, rows in curves.items() if len(rows) > 1 for chart in _charts(effects, axis, rows)]


def _charts(effects: Curves, axis: str, rows: Sequence[Measured]) -> list[Chart]:
    """The losses, below them the exposure of target positions, and the differences."""
    name, others = axis.replace(" ", "-"), list(enumerate(effects.systems))[1:]
    panels = [Panel(LOSS, [_curve(system, place, rows) for place, system in enumerate(effects.systems)])]
    if all(row.exposure is not None for row in rows):
        shares = [100 * (row.exposure or 0) for row in rows]
        panels.append(Panel(SHARE, [Curve("training", -1, shares, [None] * len(rows))]))
    charts = [_chart(f"loss-by-{name}", f"Loss by {axis}", axis, rows, panels)]
    if not others:
        return charts
    baseline = effects.systems[0]
    title, measure = f"Difference in loss from {isolated(baseline)} by {axis}", difference_measure(baseline)
    if len(others) <= MOST_BANDS:
        panels = [Panel(measure, [_curve(system, place, rows, difference=True) for place, system in others])]
        return [*charts, _chart(f"difference-by-{name}", title, axis, rows, panels)]
    shown = [effects.overall[0], *rows]
    panels = [Panel(measure, [_curve(system, place, shown, difference=True)], system) for place, system in others]
    return [*charts, _chart(f"difference-by-{name}", title, axis, shown, panels, kind="whiskers")]


def _chart(
    name: str,
    title: str,
    axis: str,
    rows: Sequence[Measured],
    panels: Sequence[Panel],
    kind: Literal["lines", "whiskers"] = "lines",
) -> Chart:
    """A chart over bins that marks the bins within training, and shows undecided figures pale."""
    label = f"{axis} (subwords before it)" if axis == "target position" else f"{axis}, in subwords"
    marks = [row.training for row in rows] if axis != "distance beyond training" else None  # all are beyond
    pale = [place for place, row in enumerate(rows) if row.support.status != "decided"]
    return Chart(
        name, title, label, [row.bin if row.axis != "all" else "all" for row in rows], panels,
        counts=("n", [row.support.sentences for row in rows]), training=marks,
        unreached=UNREACHED, undecided=(pale, UNDECIDED), kind=kind, about_bands=BANDS,
    )  # fmt: skip


def _curve(system: str, number: int, rows: Sequence[Measured], difference: bool = False) -> Curve:
    """The curve of one system, with a simultaneous band."""
    estimates = [row.differences[system] if difference else row.levels[system] for row in rows]
    # Bonferroni: all intervals together hold with 95 % confidence.
    ends = [each.interval(1 - (1 - LEVEL) / len(estimates)) for each in estimates]
    return Curve(system, number, [each.value for each in estimates], ends, [each.seeds for each in estimates])


TITLES = {
    D1: "D1: beyond − dense target positions, the same sentences",
    BY_SENTENCE: "D1, by sentence",
    SPARSE_CONTRAST: "sparse − dense target positions, the same sentences",
    D2: "D2: after one long − after one short sentence",
    D5: "D5: D1 with covariates",
}
"""Design → its title on the page; other designs have their names."""
NATS = "nats per subword"
CSV_HEAD = (
    "axis", "bin", "system", "baseline", "sentences", "documents", "G*", "L", "Delta", "SE", "df", "low", "high",
    "seeds", "status", "training",
)  # fmt: skip


def likelihood_sheets(effects: LengthEffects) -> list[Sheet]:
    """Build the tables of the figures, without tables that would be empty."""
    zones = [*effects.zones, *effects.by_source]
    ends = ("End symbol", "Mean over sentences")
    tables = [
        ("designs", "Designs", "Change in loss, by design", ("Design", f"Change in {NATS}"), effects.designs.values()),
        ("zones", "Zones", "Loss by zone of the target position, and by source", ("Zone", f"Loss, {NATS}"), zones),
        (
            "same-positions", "D4", "Change in loss at the same target positions: sources beyond − within",
            ("Target position", f"Change in {NATS}"), effects.same_positions,
        ),
        ("ends", "Ends", "The end symbol, by sentence", ends, effects.ends),
        ("shifted-ends", "Shifted", "The end symbol with shifted positions, by sentence", ends, effects.shifted_ends),
        ("all", "All", "Loss over all subwords", ("Unit", "Loss"), effects.overall),
    ]  # fmt: skip
    return [
        Sheet(name, title, about, [_grid(effects, list(rows), *heads)], about_few=UNDECIDED)
        for name, title, about, heads, rows in tables
        if rows
    ]


def _grid(effects: LengthEffects, rows: Sequence[Measured], corner: str, measured: str) -> Grid:
    """A row for each figure: that of each system, the differences, and last (a phone is narrow) what they rest on.

    Args:
        corner: the heading of the rows.
        measured: the heading of the figures of systems, with the unit.
    """
    measure, (_, *others) = difference_measure(effects.baseline), effects.systems
    group = f"Difference from {isolated(effects.baseline)}"
    heads = [
        *(Head(system, measured) for system in effects.systems),
        *(Head(system, group) for system in others),
        *(Head(title, "Rests on") for title in ("Sentences", "Documents", "G*")),
    ]
    several = len({row.axis for row in rows} - {"zone, source"}) > 1
    return Grid(
        heads,
        [
            Row(
                f"{row.axis}, {row.bin}".replace("-ln", "−ln") if several else TITLES.get(row.bin, row.bin),
                [
                    *(_cell(row, row.levels[system], LOSS) for system in effects.systems),
                    *(_cell(row, row.differences[system], measure) for system in others),
                    *_support(row),
                ],
            )
            for row in rows
        ],
        corner=corner,
        ordered=True,
    )


def _support(row: Measured) -> Iterator[Cell]:
    """Sentences, documents and their effective number."""
    support = row.support
    for value in (support.sentences, support.documents):
        yield Cell(f"{value:,}", mean=value)
    yield Cell(f"{support.effective:.1f}", mean=support.effective)


def _cell(row: Measured, estimate: Estimate, measure: Measure) -> Cell:
    """An estimate with its 95 % interval; in parentheses if there is too little text to decide anything."""
    ends = estimate.interval()
    low, high = ends or (None, None)
    return Cell(
        measure.show(estimate.value), measure.between(ends), few=row.support.status != "decided", mean=estimate.value,
        deviation=_known(estimate.error), seeds=estimate.seeds, low=low, high=high,
    )  # fmt: skip


def _known(value: float) -> float | None:
    """Replace NaN by None, which JSON can hold."""
    return None if math.isnan(value) else value


def likelihood_csv(effects: LengthEffects) -> str:
    """A row for each figure and system, in full precision; the columns of differences are empty for the baseline."""
    return csv_text([CSV_HEAD, *(values for row in effects.rows for values in _csv_rows(effects, row))])


def _csv_rows(effects: LengthEffects, row: Measured) -> Iterator[list[Any]]:
    """A row of the CSV for each system: its loss, and its difference from the baseline."""
    support = row.support
    for system in effects.systems:
        level, difference = row.levels[system], row.differences.get(system)
        figures: list[Any] = [None] * 5
        if difference:
            ends = difference.interval() or (None, None)
            figures = [difference.value, _known(difference.error), _known(difference.freedom), *ends]
        yield [
            row.axis, row.bin, system, effects.baseline if difference else None, support.sentences, support.documents,
            support.effective, level.value, *figures, (difference or level).seeds, support.status,
            row.training,
        ]  # fmt: skip


PAGE, TABLE = "likelihood.html", "likelihood.csv"


@dataclass(frozen=True)
class LikelihoodReport:
    """The content of the report.

    Attributes:
        effects: every figure with its interval.
        sentences: the conclusion about each system except the baseline, and last the limits of all figures.
        notes: what was left out or could not be computed.
        sheets, charts: tables and figures.
    """

    effects: LengthEffects
    sentences: Sequence[str]
    notes: Sequence[str]
    sheets: Sequence[Sheet]
    charts: Sequence[Chart]

    @property
    def csv(self) -> str:
        """Return every figure as CSV, in full precision; see `likelihood_csv`."""
        return likelihood_csv(self.effects)

    def named(self, prefix: str) -> LikelihoodReport:
        """The same report with names of sheets and charts that are unique on a page with others."""
        sheets = [replace(sheet, name=f"{prefix}-{sheet.name}") for sheet in self.sheets]
        charts = [replace(chart, name=f"{prefix}-{chart.name}") for chart in self.charts]
        return replace(self, sheets=sheets, charts=charts)


def likelihood_report(
    losses: Losses,
    after_short: Losses | None = None,
    after_long: Losses | None = None,
    shifted: Mapping[str, Losses] | None = None,
    baseline: str | None = None,
    notes: Sequence[str] = (),
) -> LikelihoodReport:
    """Compute all figures and lay them out; arguments and errors as in `length_effects`.

    Args:
        notes: remarks about the input, such as that lines have no documents.
    """
    effects = length_effects(losses, after_short, after_long, shifted, baseline)
    sentences, notes = [*claims(effects), SCOPE], [*notes, *effects.notes]
    return LikelihoodReport(effects, sentences, notes, likelihood_sheets(effects), likelihood_charts(effects))


def read_report(folder: Path) -> LikelihoodReport:
    """The report of losses that `posnmt score --by-position --out` wrote, with the baseline of the folder's table.

    Raises:
        UserError: there are no losses, they are damaged, or the systems have different subwords.
    """

    def losses_of(name: str) -> Losses | None:
        return read_losses(path) if (path := folder / f"{name}.npz").exists() else None

    losses = read_losses(folder / f"{PLAIN}.npz")
    shifted = {path.stem.removeprefix(SHIFTED): read_losses(path) for path in sorted(folder.glob(f"{SHIFTED}*.npz"))}
    return likelihood_report(losses, losses_of(AFTER_SHORT), losses_of(AFTER_LONG), shifted, _baseline(folder / TABLE))


def _baseline(table: Path) -> str | None:
    """The baseline that a table names; None if it names none or does not exist."""
    if not table.exists():
        return None
    with table.open(encoding="utf-8", newline="") as file:
        return next((row["baseline"] for row in csv.DictReader(file) if row.get("baseline")), None)
