"""The tables of likelihood by position, on the page and as CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.crossed import Estimate
from posnmt.evaluation.analyse.length_effects import BY_SENTENCE, D1, D2, D5, SPARSE_CONTRAST, LengthEffects, Measured
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, Sheet, csv_text
from posnmt.evaluation.report.likelihood_charts import LOSS, UNDECIDED, difference_measure
from posnmt.metrics.measure import Measure

TITLES = {
    D1: "D1: beyond − dense target positions, the same sentences",
    BY_SENTENCE: "D1, by sentence",
    SPARSE_CONTRAST: "sparse − dense target positions, the same sentences",
    D2: "D2: after one long − after one short sentence",
    D5: "D5: D1 with covariates",
}
"""Design → what the page calls it; others by their names."""
NATS = "nats per subword"
CSV_HEAD = (
    "axis", "bin", "system", "baseline", "sentences", "documents", "G*", "L", "Delta", "SE", "df", "low", "high",
    "seeds", "status",
)  # fmt: skip


def likelihood_sheets(effects: LengthEffects) -> list[Sheet]:
    """The tables that have rows."""
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
    """A row for each figure: that of each system, the differences, and what they rest on, last as a phone is narrow.

    Args:
        corner: what the rows are.
        measured: what the figures of systems are, with the unit.
    """
    measure, (_, *others) = difference_measure(effects), effects.systems
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
    """An estimate with its 95 % interval; in parentheses where it decides nothing for want of text."""
    ends = estimate.interval()
    low, high = ends or (None, None)
    return Cell(
        measure.show(estimate.value), measure.between(ends), few=row.support.status != "decided", mean=estimate.value,
        deviation=_known(estimate.error), seeds=estimate.seeds, low=low, high=high,
    )  # fmt: skip


def _known(value: float) -> float | None:
    """None for NaN."""
    return None if math.isnan(value) else value


def likelihood_csv(effects: LengthEffects) -> str:
    """A row for each figure and system, in full precision; what belongs to a difference is empty for the baseline."""
    rows = (values for row in effects.rows for values in _csv_rows(effects, row))
    return csv_text([CSV_HEAD, *rows])


def _csv_rows(effects: LengthEffects, row: Measured) -> Iterator[list[Any]]:
    """The rows of one figure."""
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
        ]  # fmt: skip
