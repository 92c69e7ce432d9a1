"""The common parts of all figures: colours, strokes, sizes, the legend, and saving as SVG and PDF.

The layout is fixed, in inches: matplotlib's layout engines take longer than the drawing.
"""

from __future__ import annotations

import io
import tempfile
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posnmt.evaluation.report.charts import Chart, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of figures by role; the page replaces them with its own light and dark colours.
COLOURS = {
    "surface": "#ffffff",
    "ink": "#1b1f24",
    "muted": "#57606a",
    "grid": "#dadee3",
    "unseen": "#e3e6ea",
    "partly": "#f3f4f6",
    "hatch": "#d6dbe1",
    "reference": "#b9c0c8",
}
# The colour-blind safe palette of Okabe and Ito, slightly darker for lines on white.
SERIES = ("#0072b2", "#d55e00", "#008f68", "#b84f8f", "#b07d00", "#2f8fc4", "#5c5c66")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
# In grey print, marker and stroke distinguish the systems; the numbers of the three are pairwise coprime.
STROKES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))

# Replaces letters in a PDF that the font does not have.
UNKNOWN = "\N{WHITE SQUARE}"

# Sizes in inches: the column of a two-column page, and the parts of a figure.
WIDTH, LEFT, RIGHT, PLOT = 3.3, 0.44, 0.16, 1.5
TITLE, LEGEND_ROW, FOOT, COUNTS = 0.2, 0.14, 0.42, 0.12
# Small multiples: height of a plot, the most of them beside each other, and the gaps between them.
SMALL, COLUMNS, GAP, BELOW = 0.8, 2, 0.14, 0.08
# With more points in a figure, none has a text of its own on the page; the tables have all.
MOST_POINTS = 800
POINT = 1 / 72
LEGEND_FONT, TICK_FONT = 7.5, 7
# An upper estimate of the mean width of a letter, relative to the font size.
LETTER = 0.62
# In the legend: letters per line, and, in points, the width of a letter and of the handle and spacing of an entry.
LEGEND_LETTERS, LEGEND_LETTER, LEGEND_HANDLE = 46, 4.4, 35
# The width of a letter of a title, relative to the font size; and the sizes.
TITLE_LETTER = 0.5625
TITLE_FONT, SMALLEST_TITLE = 8.0, 6.0


@dataclass(frozen=True)
class Drawing:
    """One figure in both formats.

    Attributes:
        svg, pdf: the content of the files.
        points: for each point its coordinates in the SVG, and the text that says what it is.
    """

    svg: str
    pdf: bytes
    points: Sequence[tuple[float, float, str]] = ()


@contextmanager
def settings(name: str) -> Iterator[None]:
    """Use fixed matplotlib settings instead of the user's; `name` makes the ids of an SVG unique."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # Letters that the font lacks are text in the SVG, which a viewer shows in its own fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        matplotlib.rcdefaults()
        changed: dict[Any, Any] = {
            "svg.fonttype": "none",
            "svg.hashsalt": f"posnmt {name}",
            "font.size": 8,
            "text.color": COLOURS["ink"],
            "text.parse_math": False,
            "pdf.fonttype": 42,  # TrueType; many venues refuse Type 3
            "hatch.linewidth": 0.6,
        }
        matplotlib.rcParams.update(changed)
        yield


def line_style(number: int) -> dict[str, Any]:
    """Colour and stroke of a system by its number."""
    return {"color": SERIES[number % len(SERIES)], "linestyle": STROKES[number % len(STROKES)], "linewidth": 1.3}


def marker_style(number: int) -> dict[str, Any]:
    """The marker of a system by its number; together with `line_style`, the first 308 systems are distinct."""
    return {
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4.2,
        "markeredgecolor": COLOURS["surface"],
        "markeredgewidth": 0.5,
    }


def columns_of(chart: Chart) -> int:
    """The number of panels of a chart that are side by side."""
    return 1 if chart.kind == "lines" else max(1, min(COLUMNS, len(chart.panels)))


def panel_width(chart: Chart) -> float:
    """The width of a panel's axes in inches."""
    columns = columns_of(chart)
    return (WIDTH - LEFT - RIGHT - (columns - 1) * GAP) / columns


def figure_of(chart: Chart, entries: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """An empty figure with axes for each panel, and space above them for a legend with these entries.

    The label of the horizontal axis stands below all panels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    above = TITLE if chart.heading else 0
    legend = above + (legend_shape(entries)[0] * LEGEND_ROW + 0.06 if entries else 0)
    columns, plot, width = columns_of(chart), PLOT if chart.kind == "lines" else SMALL, panel_width(chart)
    rows = -(-len(chart.panels) // columns)
    height = legend + rows * (TITLE + plot) + FOOT + COUNTS * counted(chart) + (rows - 1) * BELOW
    figure = Figure(figsize=(WIDTH, height), facecolor=COLOURS["surface"])
    FigureCanvasAgg(figure)
    axes = []
    for panel in range(len(chart.panels)):
        row, column = divmod(panel, columns)
        bottom = height - legend - (row + 1) * (TITLE + plot) - row * BELOW
        left = LEFT + column * (width + GAP)
        place = (left / WIDTH, bottom / height, width / WIDTH, plot / height)
        axes.append(figure.add_axes(place, facecolor=COLOURS["surface"]))
    if chart.heading:
        heading = shortened(chart.heading, WIDTH - RIGHT)
        figure.text(0.05 / WIDTH, 1 - 0.03 / height, heading, ha="left", va="top", color=COLOURS["ink"], fontsize=8)
    middle = (LEFT + WIDTH - RIGHT) / 2
    figure.text(
        middle / WIDTH, 0.05 / height, chart.axis, ha="center", va="bottom", color=COLOURS["muted"], fontsize=7.5
    )
    return figure, axes


def lowest(chart: Chart, panel: int) -> bool:
    """Whether a panel is the lowest of its column, and thus has the labels of the horizontal axis."""
    return panel + columns_of(chart) >= len(chart.panels)


def quiet(axes: Axes, chart: Chart, panel: int) -> None:
    """Style the axes of a panel: title on the left, faint horizontal grid, no frame."""
    alone = columns_of(chart) == 1
    size, title = fitted(chart.panels[panel].heading, WIDTH - 0.05 if alone else panel_width(chart))
    axes.set_title(
        title,
        loc="left",
        x=(0.05 - LEFT) / panel_width(chart) if alone else 0,
        fontsize=size,
        color=COLOURS["ink"],
        pad=4,
    )
    axes.tick_params(colors=COLOURS["muted"], labelsize=TICK_FONT, length=0)
    axes.grid(axis="y", color=COLOURS["grid"], linewidth=0.6, zorder=1)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(COLOURS["muted"])
    if panel % columns_of(chart):
        axes.tick_params(labelleft=False)


def fitted(title: str, width: float) -> tuple[float, str]:
    """The font size at which a title fits into a width in inches, and the title, shortened if the size is too small."""
    size = min(TITLE_FONT, width / POINT / (letters(title) * TITLE_LETTER))
    size = max(size, SMALLEST_TITLE)
    return size, shortened(title, width, size)


def shortened(text: str, width: float, size: float = TITLE_FONT) -> str:
    """A title that fits into a width in inches at a font size."""
    fitting = int(width / (TITLE_LETTER * size * POINT) + 1e-6)
    if letters(text) <= fitting:
        return text
    kept = text
    while letters(kept) >= fitting:
        kept = kept[:-1]
    return f"{kept}…"


def counted(chart: Chart) -> bool:
    """Whether the number of sentences is drawn below each label."""
    return chart.counts is not None and chart.counts[0] == "n"


def entry(curve: Curve) -> str:
    """The legend's text for a curve."""
    return curve.name if curve.seeds == 1 else f"{curve.name} (mean of {curve.seeds_shown} seeds)"


def legend_shape(entries: Sequence[str]) -> tuple[int, int]:
    """Rows and columns of the legend: as many columns as fit, filled one after the other."""
    lines = [wrapped(text).split("\n") for text in entries]
    widths = [max(map(letters, of_entry)) * LEGEND_LETTER + LEGEND_HANDLE for of_entry in lines]
    rows, columns = len(entries), 1
    for fewer in range(len(entries) - 1, 0, -1):
        parts = [slice(first, first + fewer) for first in range(0, len(entries), fewer)]
        if sum(max(widths[part]) for part in parts) > WIDTH / POINT:
            break
        rows, columns = fewer, len(parts)
    return rows + sum(len(of_entry) - 1 for of_entry in lines), columns


def wrapped(text: str) -> str:
    """Wrap a legend's text into lines that fit the figure."""
    return "\n".join(textwrap.wrap(text, LEGEND_LETTERS // (2 if letters(text) > len(text) else 1))) or text


def letters(text: str) -> int:
    """The width of a text in letters; wide East Asian characters count as two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def add_legend(figure: Figure, chart: Chart, handles: Sequence[Any], entries: Sequence[str]) -> None:
    """Add the legend above the plots, below the heading, if any."""
    if not entries:
        return
    top = 1 - (TITLE if chart.heading else 0) / figure.get_size_inches()[1]
    # matplotlib leaves out labels that start with "_", so the texts are set afterwards.
    legend = figure.legend(
        handles, list(map(str, range(len(entries)))), loc="upper left", ncols=legend_shape(entries)[1], frameon=False,
        fontsize=LEGEND_FONT, borderaxespad=0, borderpad=0.3, handlelength=2.6, columnspacing=1.2, labelspacing=0.3,
        bbox_to_anchor=(0, top),
    )  # fmt: skip
    for text, words in zip(legend.get_texts(), entries, strict=True):
        text.set_text(wrapped(words))


def _known_letters() -> set[str]:
    """The letters of the figures' font, and the newline."""
    from matplotlib.font_manager import get_font

    return {"\n", *map(chr, get_font(_plain_font()).get_charmap())}


@cache
def _plain_font() -> Path:
    """The file of DejaVu Sans without the tables for complex scripts and formulas.

    Matplotlib does not use these tables, but reduces them for each PDF, which takes half of the time of a figure.
    """
    from fontTools.ttLib import TTFont
    from matplotlib.font_manager import findfont

    font = TTFont(findfont("DejaVu Sans"), recalcTimestamp=False)
    for table in {"GDEF", "GPOS", "GSUB", "MATH"} & set(font.keys()):
        del font[table]
    path = Path(_fonts().name, "DejaVuSans.ttf")
    font.save(path)
    return path


@cache
def _fonts() -> tempfile.TemporaryDirectory[str]:
    """A folder that is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="posnmt-font-")


def points_of(chart: Chart, axes: Sequence[Axes], places: Sequence[float]) -> list[tuple[float, float, str]]:
    """The points of a finished figure, without the reference, as `Drawing` has them.

    Args:
        chart: what is drawn.
        axes: of its panels.
        places: coordinates of the positions.
    """
    points: list[tuple[float, float, str]] = []
    for each, panel in zip(axes, chart.panels, strict=True):
        each.get_xlim(), each.get_ylim()  # computes limits that are due
        to_figure = each.transData - each.figure.transSubfigure
        figure = each.get_figure(root=True)
        assert figure is not None
        width, height = figure.get_size_inches() / POINT
        for row, curve in enumerate(panel.curves):
            for number, (place, value) in enumerate(zip(places, curve.values, strict=True)):
                if value is not None and curve.number >= 0:
                    x, y = to_figure.transform((place, row if chart.kind == "heat" else value))
                    points.append((float(x * width), float((1 - y) * height), chart.tip(panel, curve, number)))
    return points if len(points) <= MOST_POINTS else []


def save(figure: Figure, points: Sequence[tuple[float, float, str]]) -> Drawing:
    """The figure as SVG, with text as text, and as PDF, with boxes for letters that the font lacks; without dates."""
    from matplotlib.text import Text

    svg, pdf = io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    known = _known_letters()
    for text in figure.findobj(Text):
        # Otherwise matplotlib would embed a fallback font of boxes, which takes a second.
        text.set_text("".join(letter if letter in known else UNKNOWN for letter in text.get_text()))
        text.get_fontproperties().set_file(_plain_font())
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    return Drawing(svg.getvalue().decode("utf-8"), pdf.getvalue(), points)
