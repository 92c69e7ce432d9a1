"""Charts by distance: attention, terms that are added to the logits, and the tokens that a scheme counts.

One chart has the means of all runs; each run also has a heat map with a row for each head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posnmt.evaluation.report.charts import Chart, Curve, Panel
from posnmt.evaluation.show.sections import SIDES, Group, Section, Shown, Side, curve, marks, on, within
from posnmt.metrics.measure import Measure
from posnmt.translate.distances import ByDistance
from posnmt.translate.values import DistanceBias, TrainedTokens

DISTANCE = "distance in subwords, key minus query"
CROSS = "source position minus target position"
ATTENTION = Measure("Attention", "share of a query's attention", 3)
LOGIT = Measure("Logit", "what positions add to it", 2)
COUNTED = Measure("Counted", "tokens from query to key", 1)


def attention(shown: Sequence[Shown]) -> Section:
    """Attention mass by distance, of both stacks and from target to source."""
    title, groups = "Attention by distance", []
    for side in SIDES:
        values = {each.number: each.stack(side).attention for each in shown}
        groups += _groups(shown, values, "attention", f"{title}, {side}", ATTENTION, side)
    values = {each.number: each.positions.cross for each in shown}
    groups += _groups(shown, values, "attention", f"{title}, target to source", ATTENTION, None)
    return Section(
        "attention-by-distance",
        title,
        [
            "The attention that a query gives to the key at each distance, the mean over the queries of all lines. Over"
            " all distances it is 1. Far distances have little of it also because few queries have a key so far away:"
            " the data of each run have how many. In heat maps a row is a layer and a head, as L1 H2."
        ],
        groups,
    )


def logits(shown: Sequence[Shown]) -> Section:
    """Biases, which do not depend on the words, and the means of terms that do."""
    title = "What positions add to the logits"
    groups = _of_each_run(shown, "bias", bias_chart, "bias by distance")
    for side in SIDES:
        values = {each.number: _beyond_bias(each, side) for each in shown}
        groups += _groups(shown, values, "logits", f"Mean added to the logits, {side}", LOGIT, side)
    return Section(
        "logits",
        title,
        [
            "The term of a logit that is there because of positions. A bias is the same for all words and is drawn as"
            " it is. What depends on the words (relative vectors, a rotation) is the mean over all queries and keys of"
            " the lines; for a rotation it is the change of the product of query and key."
        ],
        groups,
    )


def counted(shown: Sequence[Shown]) -> Section:
    """The tokens that a scheme counts between query and key (CoPE)."""
    return Section(
        "counted",
        "Tokens that are counted",
        [
            "The sum of the gates from query to key (CoPE, Golovneva et al. 2024): how far a head takes a key to be."
            " The grey curve is what it would be if every token counted."
        ],
        _of_each_run(shown, "counted", _counted_chart, "tokens counted by distance"),
    )


def _of_each_run(
    shown: Sequence[Shown], name: str, chart: Callable[[Shown, Any, Side], Chart], title: str
) -> list[Group]:
    """For each run, the charts of one kind of values of its stacks; runs without such values are left out."""
    groups = []
    for each in shown:
        values = ((getattr(each.stack(side), name), side) for side in SIDES)
        charts = [chart(each, value, side) for value, side in values if value is not None]
        groups += [Group(f"{each.name}: {title}", charts)] if charts else []
    return groups


def bias_chart(shown: Shown, bias: DistanceBias, side: Side) -> Chart:
    """A curve for each head; layers whose biases are equal share a panel."""
    keep = bias.distances <= 0 if side == "decoder" else np.full(len(bias.distances), True)
    distances, values = bias.distances[keep], bias.bias[..., keep]
    panels = []
    for layers in _equal_layers(values):
        which = "all layers" if len(layers) == len(values) else f"layer {', '.join(str(layer + 1) for layer in layers)}"
        panels.append(Panel(LOGIT, _by_head(values[layers[0]]), f"Bias, {which}"))
    return _chart(f"bias-{side}-{shown.number + 1}", f"{shown.name}: bias by distance, {side}", distances.tolist(),
                  panels, [shown.stack(side).trained])  # fmt: skip


def _counted_chart(shown: Shown, values: ByDistance, side: Side) -> Chart:
    distances = within(values.distances.tolist(), shown.positions.length)
    panels = []
    for layer, heads in enumerate(values.values):
        curves = _by_head(np.array([on(distances, values.distances, head) for head in heads]))
        everything = curve("every token", -1, [abs(distance) + 1.0 for distance in distances])
        panels.append(Panel(COUNTED, [*curves, everything], f"Layer {layer + 1}"))
    name, title = f"counted-{side}-{shown.number + 1}", f"{shown.name}: tokens counted, {side}"
    return _chart(name, title, distances, panels, [shown.stack(side).trained])


def _beyond_bias(shown: Shown, side: Side) -> ByDistance | None:
    """The mean that is added to the logits; None if this is the bias, which has a chart already."""
    stack = shown.stack(side)
    if stack.logits is None or stack.bias is None:
        return stack.logits
    distances = within(stack.logits.distances.tolist(), shown.positions.length)
    of_bias = stack.bias.bias[..., np.isin(stack.bias.distances, distances)]
    measured = stack.logits.values[..., np.isin(stack.logits.distances, distances)]
    same = np.allclose(np.where(np.isnan(measured), 0, measured - of_bias), 0, atol=1e-3)
    return None if same else stack.logits


def _groups(
    shown: Sequence[Shown],
    values: dict[int, ByDistance | None],
    name: str,
    title: str,
    measure: Measure,
    side: Side | None,
) -> list[Group]:
    """The means of all runs in a chart, and a heat map of each run; empty if no run has such values."""
    having = [each for each in shown if values[each.number] is not None]
    if not having:
        return []
    stem = f"{name}-{side or 'cross'}"
    drawn = {each.number: values[each.number] for each in having}
    charts = [_overview(having, drawn, stem, title, measure, side)]
    charts += [_heads(each, value, stem, title, measure, side) for each in having if (value := drawn[each.number])]
    return [Group(title, charts)]


def _overview(
    shown: Sequence[Shown],
    values: dict[int, ByDistance | None],
    stem: str,
    title: str,
    measure: Measure,
    side: Side | None,
) -> Chart:
    """For each run, the mean over the layers and heads that have a value at a distance."""
    every = {place for each in values.values() if each for place in each.distances.tolist()}
    distances = within(every, max(each.positions.length for each in shown))
    curves = [
        curve(each.name, each.number, on(distances, value.distances, np.nanmean(value.values, axis=(0, 1))))
        for each in shown
        if (value := values[each.number])
    ]
    trained = [_trained(each, side) for each in shown]
    other = [each.positions.encoder.trained for each in shown] if side is None else []
    chart = _chart(stem, f"{title}: mean of all heads", distances, [Panel(measure, curves)], trained, other)
    return chart if side else replace(chart, axis=CROSS)


def _heads(shown: Shown, values: ByDistance, stem: str, title: str, measure: Measure, side: Side | None) -> Chart:
    """A row for each head of each layer."""
    distances = within(values.distances.tolist(), shown.positions.length)
    rows = [
        curve(f"L{layer + 1} H{head + 1}", layer * len(heads) + head, on(distances, values.distances, each))
        for layer, heads in enumerate(values.values)
        for head, each in enumerate(heads)
    ]
    other = [shown.positions.encoder.trained] if side is None else []
    panels = [Panel(measure, rows)]
    name = f"{stem}-heads-{shown.number + 1}"
    heading = f"{shown.name}: {title[0].lower()}{title[1:]}"
    chart = _chart(name, heading, distances, panels, [_trained(shown, side)], other, "heat")
    chart = replace(chart, counts=("Queries", [int(count) for count in on(distances, values.distances, values.pairs)]))
    return chart if side else replace(chart, axis=CROSS)


def _chart(
    name: str,
    title: str,
    distances: Sequence[int],
    panels: Sequence[Panel],
    trained: Sequence[TrainedTokens | None],
    other: Sequence[TrainedTokens | None] = (),
    kind: str = "lines",
) -> Chart:
    assert kind in ("lines", "heat")
    return Chart(
        name, title, DISTANCE, [str(distance) for distance in distances], panels,
        kind=kind, training=marks(distances, trained, other), trained="distances",  # type: ignore[arg-type]
    )  # fmt: skip


def _trained(shown: Shown, side: Side | None) -> TrainedTokens | None:
    """The lengths of queries in training."""
    return shown.stack(side or "decoder").trained


def _by_head(values: NDArray[np.float32]) -> list[Curve]:
    """A curve for each head, from values [H,W]."""
    return [curve(f"head {head + 1}", head, each) for head, each in enumerate(values)]


def _equal_layers(values: NDArray[np.float32]) -> list[list[int]]:
    """The layers of values [L,H,W], grouped by equal values."""
    groups: list[list[int]] = []
    for layer, each in enumerate(values):
        same = next((group for group in groups if np.array_equal(values[group[0]], each)), None)
        if same is None:
            groups.append([layer])
        else:
            same.append(layer)
    return groups
