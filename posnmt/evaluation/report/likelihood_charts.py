"""The figures of likelihood by position: loss and difference over target position, source length and distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from posnmt.config.writing import isolated
from posnmt.evaluation.analyse.crossed import LEVEL, Estimate
from posnmt.evaluation.analyse.length_effects import LengthEffects, Measured
from posnmt.evaluation.report.charts import Chart, Curve, Panel
from posnmt.evaluation.report.figures.lines import MOST_BANDS
from posnmt.metrics.measure import Measure

LOSS = Measure("Loss", "nats per subword, lower is better", 3)
SHARE = Measure("Share of training", "pairs that reach the position, %", 1, neutral=0)
UNREACHED = "reached by fewer than 1 in 1,000 training pairs"
UNDECIDED = "too few sentences or documents to decide"


def difference_measure(effects: LengthEffects) -> Measure:
    """The presentation of differences from the baseline."""
    better = f"from {isolated(effects.baseline)}, below 0 is better"
    return Measure("Difference in loss", better, 3, signed=True, neutral=0)


def likelihood_charts(effects: LengthEffects) -> list[Chart]:
    """For each curve with several bins, the losses, and the differences from the baseline if others are there."""
    curves = {
        "target position": effects.positions,
        "source length": effects.source_lengths,
        "distance beyond training": effects.distances,
    }
    return [chart for axis, rows in curves.items() if len(rows) > 1 for chart in _charts(effects, axis, rows)]


def _charts(effects: LengthEffects, axis: str, rows: Sequence[Measured]) -> list[Chart]:
    """The losses, with the exposure of target positions below, and the differences."""
    name, others = axis.replace(" ", "-"), list(enumerate(effects.systems))[1:]
    panels = [Panel(LOSS, [_curve(system, place, rows) for place, system in enumerate(effects.systems)])]
    if all(row.exposure is not None for row in rows):
        shares = [100 * (row.exposure or 0) for row in rows]
        panels.append(Panel(SHARE, [Curve("training", -1, shares, [None] * len(rows))]))
    charts = [_chart(f"loss-by-{name}", f"Loss by {axis}", axis, rows, panels)]
    if not others:
        return charts
    title, measure = f"Difference in loss by {axis}", difference_measure(effects)
    if len(others) <= MOST_BANDS:
        panels = [Panel(measure, [_curve(system, place, rows, difference=True) for place, system in others])]
        return [*charts, _chart(f"difference-by-{name}", title, axis, rows, panels)]
    shown = [effects.overall[0], *rows]
    panels = [Panel(measure, [_curve(system, place, shown, difference=True)], system) for place, system in others]
    chart = _chart(f"difference-by-{name}", title, axis, shown, panels, kind="whiskers")
    return [*charts, chart]


def _chart(
    name: str,
    title: str,
    axis: str,
    rows: Sequence[Measured],
    panels: Sequence[Panel],
    kind: Literal["lines", "whiskers"] = "lines",
) -> Chart:
    """A chart over bins."""
    label = f"{axis} (subwords before it)" if axis == "target position" else f"{axis}, in subwords"
    marks = [row.training for row in rows] if axis != "distance beyond training" else None  # all are beyond
    pale = [place for place, row in enumerate(rows) if row.support.status != "decided"]
    return Chart(
        name, title, label, [row.bin if row.axis != "all" else "all" for row in rows], panels,
        counts=("n", [row.support.sentences for row in rows]), training=marks,
        unreached=UNREACHED, undecided=(pale, UNDECIDED), kind=kind,
    )  # fmt: skip


def _curve(system: str, number: int, rows: Sequence[Measured], difference: bool = False) -> Curve:
    """The curve of one system, with a simultaneous band."""
    estimates = [row.differences[system] if difference else row.levels[system] for row in rows]
    ends = simultaneous(estimates)
    return Curve(system, number, [each.value for each in estimates], ends, [each.seeds for each in estimates])


def simultaneous(estimates: Sequence[Estimate]) -> list[tuple[float, float] | None]:
    """Intervals that all hold at once with 95 % confidence (Bonferroni)."""
    return [each.interval(1 - (1 - LEVEL) / len(estimates)) for each in estimates]
