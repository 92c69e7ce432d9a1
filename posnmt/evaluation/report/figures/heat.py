"""Heat maps: a row of cells for each curve, in panels side by side, with one scale of colours.

All cells have one colour, which is more opaque for larger values, so that they suit light and dark pages. The least
value is transparent; if some values are negative, 0 is, and negative values have another colour. Opacity grows with the
square root of the value, so that small values are visible beside large ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from posnmt.evaluation.report.charts import Chart, Panel
from posnmt.evaluation.report.figures import canvas
from posnmt.evaluation.report.figures.canvas import COLOURS, SERIES, TITLE, Drawing
from posnmt.evaluation.report.figures.lines import shaded
from posnmt.evaluation.report.figures.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Sizes in inches: margins, the scale above the panels, and bounds of a panel's height.
EDGE, SCALE, GAP, LOW, HIGH = 0.08, 0.3, 0.12, 0.3, 3.0
# With more columns of cells, panels do not stand beside each other.
MOST_BESIDE = 26
# Points: the font of labels, and the least distance between two of them.
FONT, APART = 5.5, 5.6
# Letters of a label; the data have whole words.
LONGEST = 14
# Of cells without a value: grey, hardly opaque.
MISSING = (0.5, 0.5, 0.5, 0.22)
STEPS = 64


def draw_heat(chart: Chart, style: Style) -> Drawing:
    """Draw the panels, with lines where training ends."""
    values = [np.array([_numbers(curve.values) for curve in panel.curves], float) for panel in chart.panels]
    known = np.concatenate([each[np.isfinite(each)] for each in values])
    span = span_of(known)
    with canvas.settings(chart.name, style):
        figure, all_axes = _layout(chart, style.width)
        for number, (axes, panel, cells) in enumerate(zip(all_axes, chart.panels, values, strict=True)):
            axes.imshow(colours(cells, span), aspect="auto", interpolation="none", zorder=2)
            _label(axes, chart, panel, number)
            _mark(axes, chart)
        _scale(figure, chart, span, style.width)
        few = sum(each.size for each in values) <= canvas.MOST_POINTS
        return canvas.save(
            figure, style, canvas.points_of(chart, all_axes, lambda _: range(len(chart.labels))) if few else []
        )


def span_of(known: np.ndarray) -> tuple[float, float]:
    """The ends of the scale of colours: least and largest value; symmetric around 0 if some value is negative."""
    least, largest = float(known.min(initial=np.inf)), float(np.abs(known).max(initial=0)) or 1.0
    if least < 0:
        return -largest, largest
    return (least if least < largest else 0.0), largest


def colours(values: np.ndarray, span: tuple[float, float]) -> np.ndarray:
    """[..,4] red, green, blue and opacity, of values whose ends are `span`."""
    from matplotlib.colors import to_rgb

    clear = max(span[0], 0.0)
    share = np.sqrt(((np.abs(np.nan_to_num(values)) - clear) / (span[1] - clear)).clip(0, 1))
    painted = np.empty((*values.shape, 4))
    painted[..., :3] = np.where((values < 0)[..., None], to_rgb(SERIES[1]), to_rgb(SERIES[0]))
    painted[..., 3] = share
    painted[np.isnan(values)] = MISSING
    return painted


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _layout(chart: Chart, whole: float) -> tuple[Figure, list[Axes]]:
    """An empty figure with axes for each panel, below the scale of colours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = max(len(panel.curves) for panel in chart.panels)
    names = [_cut(curve.name) for panel in chart.panels for curve in panel.curves]
    left = EDGE + _inches(names)
    below = (_inches([_cut(label) for label in chart.labels]) if _are_words(chart) else 0.12) + 0.2
    columns = 1 + _beside(chart)
    width = (whole - left - EDGE - (columns - 1) * GAP) / columns
    plot = width if chart.squared else min(max(rows * APART / 72, LOW), HIGH)
    down = -(-len(chart.panels) // columns)
    titled = TITLE if any(panel.title for panel in chart.panels) else 0.06
    height = SCALE + down * (titled + plot) + below
    figure = Figure(figsize=(whole, height), facecolor=COLOURS["surface"])
    FigureCanvasAgg(figure)
    axes = []
    for number in range(len(chart.panels)):
        row, column = divmod(number, columns)
        bottom = height - SCALE - (row + 1) * (titled + plot)
        place = ((left + column * (width + GAP)) / whole, bottom / height, width / whole, plot / height)
        axes.append(figure.add_axes(place, facecolor="none"))
        axes[-1].set_label("first" if column == 0 else "")  # has row labels
    figure.text(
        (left + whole - EDGE) / 2 / whole, 0.04 / height, chart.axis,
        ha="center", va="bottom", color=COLOURS["muted"], fontsize=7.5,
    )  # fmt: skip
    return figure, axes


def _label(axes: Axes, chart: Chart, panel: Panel, number: int) -> None:
    """A panel's title, as many labels as fit, and no frame."""
    for spine in axes.spines.values():
        spine.set_color(COLOURS["grid"])
    axes.tick_params(colors=COLOURS["muted"], labelsize=FONT, length=0, pad=1.5)
    box = axes.get_window_extent()  # in pixels, 100 an inch
    wide, high = box.width / axes.figure.dpi * 72, box.height / axes.figure.dpi * 72
    names = [_cut(curve.name) for curve in panel.curves]
    every = math.ceil(len(names) * APART / high - 0.01)
    rows = range(0, len(names), every)
    axes.set_yticks(list(rows), [names[row] for row in rows] if axes.get_label() == "first" else [""] * len(rows))
    labels = [_cut(label) for label in chart.labels]
    apart = APART if _are_words(chart) else (max(map(canvas.letters, labels)) + 1) * FONT * canvas.LETTER
    every = math.ceil(len(labels) * apart / wide - 0.01)
    places = range((len(labels) - 1) % every if not _are_words(chart) else 0, len(labels), every)
    lowest = number + 1 + _beside(chart) >= len(chart.panels)
    shown = [labels[place] if lowest else "" for place in places]
    axes.set_xticks(list(places), shown, rotation=90 if _are_words(chart) else 0)
    if panel.title:
        axes.set_title(canvas.shortened(panel.title, wide / 72), loc="left", fontsize=7.5, color=COLOURS["ink"], pad=3)


def _mark(axes: Axes, chart: Chart) -> None:
    """Lines where training ends, and shade beyond."""
    marks = list(chart.training or ())
    unseen = [place for place, mark in enumerate(marks) if mark == "unseen"]
    style: dict[str, Any] = {"facecolor": COLOURS["unseen"], "linewidth": 0, "zorder": 0}
    edge: dict[str, Any] = {"color": COLOURS["muted"], "linewidth": 0.8, "linestyle": (0, (3, 2)), "zorder": 3}
    for place in unseen:
        for shade, line in ((axes.axvspan, axes.axvline), (axes.axhspan, axes.axhline))[: 1 + chart.squared]:
            shade(place - 0.5, place + 0.5, **style)
            for neighbour in (place - 1, place + 1):
                if 0 <= neighbour < len(marks) and marks[neighbour] != "unseen":
                    line((place + neighbour) / 2, **edge)


def _scale(figure: Figure, chart: Chart, span: tuple[float, float], whole: float) -> None:
    """The scale of colours above the panels, and the explanation of the marks."""
    height = figure.get_size_inches()[1]
    measure = chart.panels[0].measure
    axes = figure.add_axes((0.2 / whole, 1 - 0.19 / height, 0.9 / whole, 0.07 / height), facecolor="none")
    axes.imshow(colours(np.linspace(*span, STEPS)[None], span), aspect="auto", interpolation="none")
    axes.set_yticks([])
    axes.set_xticks([0, (STEPS - 1) / 2, STEPS - 1], [measure.show(tick) for tick in (span[0], sum(span) / 2, span[1])])
    axes.tick_params(colors=COLOURS["muted"], labelsize=FONT, length=0, pad=1)
    for spine in axes.spines.values():
        spine.set_color(COLOURS["grid"])
    words = [measure.better, f"beyond the dashes: {chart.trained} not in training" if shaded(chart) else ""]
    figure.text(
        1.26 / whole, 1 - 0.11 / height, "\n".join(filter(None, words)),
        ha="left", va="top", color=COLOURS["muted"], fontsize=6.2, linespacing=1.3,
    )  # fmt: skip


def _beside(chart: Chart) -> bool:
    """Whether two panels stand beside each other."""
    return len(chart.panels) > 1 and len(chart.labels) <= MOST_BESIDE


def _are_words(chart: Chart) -> bool:
    """Whether the labels of columns are words, which are written upwards."""
    return any(not label.lstrip("-").isdigit() for label in chart.labels)


def _inches(labels: Sequence[str]) -> float:
    """The width of the longest label."""
    return (max(map(canvas.letters, labels), default=0) * canvas.LETTER + 0.6) * FONT / 72


def _cut(text: str) -> str:
    """A label that is not too long."""
    return text if canvas.letters(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
