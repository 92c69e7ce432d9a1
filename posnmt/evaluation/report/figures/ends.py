"""Names of systems beside the ends of their lines, with the marker of each and a thin line that leads to it.

Names stand one below the other, none over another, each as near to the end of its line as the others allow (Pool
Adjacent Violators gives the least squared distances).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posnmt.evaluation.report.charts import Chart, Curve
from posnmt.evaluation.report.figures import canvas
from posnmt.evaluation.report.figures.canvas import LEGEND_FONT, LEGEND_LETTER, POINT, RIGHT
from posnmt.evaluation.report.figures.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points: from one name to the next, from the plot to the marker of a name, and to the name.
LINE, MARKER, NAME = 10.0, 12.0, 17.0
# The most points that a name may stand above or below the end of its line, and the largest share of a figure's width.
FARTHEST, WIDEST = 25.0, 0.3


@dataclass(frozen=True)
class Names:
    """Where the names of systems stand.

    Attributes:
        place: number of the position at which the lines end.
        width: of the space beside the plot in inches, without the margin that all figures have.
        heights: for each panel the height of the middle of each name above the bottom of the plot, in points.
    """

    place: int
    width: float
    heights: Sequence[Sequence[float]]


def names_of(chart: Chart, style: Style) -> Names | None:
    """The names of a chart of lines; None if they do not fit beside the ends of all lines in all panels."""
    lasts = {_last(curve) for panel in chart.panels for curve in panel.curves}
    letters = max((canvas.letters(name) for name in canvas.entries(chart.panels[0].curves)), default=0)
    width = (NAME + letters * LEGEND_LETTER) * POINT - RIGHT
    if (
        len(lasts) != 1
        or -1 in lasts
        or width > WIDEST * style.width
        or len({len(panel.curves) for panel in chart.panels}) > 1
    ):
        return None
    [place], high, heights = lasts, style.height / POINT, []
    for panel in chart.panels:
        bottom, top = chart.span(panel, style.bands)
        ends = [(_end(curve, place) - bottom) / (top - bottom) * high for curve in panel.curves]
        apart = spread_out(ends, LINE, (LINE / 2, high - LINE / 2))
        if apart is None or max(abs(one - other) for one, other in zip(apart, ends, strict=True)) > FARTHEST:
            return None
        heights.append(apart)
    return Names(place, width, heights)


def _last(curve: Curve) -> int:
    """The number of the last position at which a curve has a value; -1: it has none."""
    return max((place for place, value in enumerate(curve.values) if value is not None), default=-1)


def _end(curve: Curve, place: int) -> float:
    value = curve.values[place]
    assert value is not None
    return value


def spread_out(ends: Sequence[float], apart: float, limits: tuple[float, float]) -> list[float] | None:
    """The heights nearest to these ends, in the same order, that are at least so far apart; None: they have no room."""
    low, high = limits[0], limits[1] - (len(ends) - 1) * apart
    if high < low:
        return None
    order = sorted(range(len(ends)), key=ends.__getitem__)
    blocks: list[list[float]] = []  # of heights, each lowered by those below it, that stand together at their mean
    for rank, number in enumerate(order):
        blocks.append([ends[number] - rank * apart])
        while len(blocks) > 1 and _mean(blocks[-2]) >= _mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    together = [min(max(_mean(block), low), high) for block in blocks for _ in block]
    heights = [0.0] * len(ends)
    for rank, number in enumerate(order):
        heights[number] = together[rank] + rank * apart
    return heights


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def draw_names(
    axes: Axes, curves: Sequence[Curve], names: Names, places: Sequence[float], heights: Sequence[float]
) -> None:
    """Draw the names of a panel, once its axes have their limits.

    Args:
        axes: of the panel.
        curves: in it.
        names: where they stand.
        places: coordinate of the end of each curve.
        heights: of the names in this panel, see `Names`.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    figure = axes.get_figure(root=True)
    assert figure is not None
    inches, (width, high), plot = figure.dpi_scale_trans, figure.get_size_inches(), axes.get_position()
    right, bottom = plot.x1 * width, plot.y0 * high
    for curve, text, place, height in zip(curves, canvas.entries(curves), places, heights, strict=True):
        colour, value = canvas.line_style(curve.number)["color"], _end(curve, names.place)
        ends = axes.transData.transform([(x, value) for x in (place, axes.get_xlim()[1])])
        at = right + MARKER * POINT, bottom + height * POINT
        path = Path([*inches.inverted().transform(ends), at])
        axes.add_artist(
            PathPatch(path, transform=inches, fill=False, color=colour, linewidth=0.5, clip_on=False, zorder=2.2)
        )
        marker = {**canvas.marker_style(curve.number), "color": colour, "linestyle": "none", "transform": inches}
        figure.add_artist(Line2D([at[0]], [at[1]], **marker))
        figure.text(right + NAME * POINT, at[1], text, transform=inches, ha="left", va="center", fontsize=LEGEND_FONT)
