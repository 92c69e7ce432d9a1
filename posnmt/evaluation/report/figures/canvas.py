"""The common parts of all figures: colours, strokes, sizes, the legend, and saving as SVG and PDF.

The layout is fixed, in inches: matplotlib's layout engines take longer than the drawing.
"""

from __future__ import annotations

import io
import tempfile
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posnmt.evaluation.report.charts import Chart, Curve
from posnmt.evaluation.report.figures.style import FAMILIES, Font, Style

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
# Latin letters, punctuation, arrows and operators: a PDF with these alone is made from a font of these alone.
COMMON = frozenset({"\n", UNKNOWN, *map(chr, [*range(0x20, 0x180), *range(0x2010, 0x2045), *range(0x2190, 0x2270)])})

# Sizes in inches: the parts of a figure.
LEFT, RIGHT = 0.44, 0.16
TITLE, LEGEND_ROW, FOOT, COUNTS = 0.2, 0.14, 0.42, 0.12
# Small multiples: height of a plot, and the gaps between them.
SMALL, GAP, BELOW = 0.8, 0.14, 0.08
# With more points in a figure, none has a text of its own on the page; the tables have all.
MOST_POINTS = 800
POINT = 1 / 72
LEGEND_FONT, TICK_FONT = 7.5, 7
# An upper estimate of the mean width of a letter, relative to the font size.
LETTER = 0.62
# In the legend: letters per inch of the figure, and, in points, the width of a letter and of the handle and spacing of
# an entry.
LEGEND_LETTERS, LEGEND_LETTER, LEGEND_HANDLE = 14, 4.4, 35
# The width of a letter of a title, relative to the font size; and the sizes.
TITLE_LETTER = 0.5625
TITLE_FONT, SMALLEST_TITLE = 8.0, 6.0


@dataclass(frozen=True)
class Drawing:
    """One figure in its formats.

    Attributes:
        svg, pdf: the content of the files.
        tex: a picture of PGF, if it was asked for.
        points: for each point its coordinates in the SVG, and the text that says what it is.
    """

    svg: str
    pdf: bytes
    tex: str = ""
    points: Sequence[tuple[float, float, str]] = ()


@contextmanager
def settings(name: str, style: Style) -> Iterator[None]:
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
            "font.family": style.family,
            f"font.{style.family}": list(FAMILIES[style.font]),
            "text.color": COLOURS["ink"],
            "text.parse_math": False,
            "pdf.compression": 6 if style.alone else 0,
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


def columns_of(chart: Chart, style: Style) -> int:
    """The number of panels of a chart that are side by side."""
    return 1 if chart.kind == "lines" else max(1, min(style.columns, len(chart.panels)))


def panel_width(chart: Chart, style: Style) -> float:
    """The width of a panel's axes in inches."""
    columns = columns_of(chart, style)
    return (style.width - LEFT - RIGHT - style.beside - (columns - 1) * GAP) / columns


def figure_of(chart: Chart, entries: Sequence[str], style: Style) -> tuple[Figure, list[Axes]]:
    """An empty figure with axes for each panel, and space above them for a legend with these entries.

    The label of the horizontal axis stands below all panels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    above = TITLE if chart.heading else 0
    legend = above + (legend_shape(entries, style)[0] * LEGEND_ROW + 0.06 if entries else 0)
    columns, width = columns_of(chart, style), panel_width(chart, style)
    plot, whole = style.height if chart.kind == "lines" else SMALL, style.width
    rows = -(-len(chart.panels) // columns)
    height = legend + rows * (TITLE + plot) + FOOT + COUNTS * counted(chart) + (rows - 1) * BELOW
    figure = Figure(figsize=(whole, height), facecolor=COLOURS["surface"])
    FigureCanvasAgg(figure)
    axes = []
    for panel in range(len(chart.panels)):
        row, column = divmod(panel, columns)
        bottom = height - legend - (row + 1) * (TITLE + plot) - row * BELOW
        left = LEFT + column * (width + GAP)
        place = (left / whole, bottom / height, width / whole, plot / height)
        axes.append(figure.add_axes(place, facecolor=COLOURS["surface"]))
    if chart.heading:
        heading = shortened(chart.heading, whole - RIGHT)
        figure.text(0.05 / whole, 1 - 0.03 / height, heading, ha="left", va="top", color=COLOURS["ink"], fontsize=8)
    middle = (LEFT + whole - RIGHT - style.beside) / 2
    figure.text(
        middle / whole, 0.05 / height, chart.axis, ha="center", va="bottom", color=COLOURS["muted"], fontsize=7.5
    )
    return figure, axes


def lowest(chart: Chart, panel: int, style: Style) -> bool:
    """Whether a panel is the lowest of its column, and thus has the labels of the horizontal axis."""
    return panel + columns_of(chart, style) >= len(chart.panels)


def quiet(axes: Axes, chart: Chart, panel: int, style: Style) -> None:
    """Style the axes of a panel: title on the left, faint horizontal grid, no frame."""
    alone, width = columns_of(chart, style) == 1, panel_width(chart, style)
    heading, seeds = chart.panels[panel].heading, common_seeds(chart.panels[panel].curves)
    if chart.kind == "lines" and seeds:
        heading += f", means of {seeds} seeds"
    size, title = fitted(heading, style.width - 0.05 if alone else width)
    axes.set_title(
        title,
        loc="left",
        x=(0.05 - LEFT) / width if alone else 0,
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
    if panel % columns_of(chart, style):
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


def head_counts(axes: Axes, text: str) -> None:
    """Write what the second line of the labels counts, on the left of them."""
    from matplotlib.transforms import ScaledTranslation

    assert axes.figure is not None
    place = axes.transAxes + ScaledTranslation(-4 * POINT, -3.5 * POINT, axes.figure.dpi_scale_trans)
    # The first line is that of the labels, so that both texts have the same lines.
    axes.text(
        0, 0, f" \n{text}", transform=place, ha="right", va="top", fontsize=TICK_FONT, color=COLOURS["muted"],
    )  # fmt: skip


def entry(curve: Curve) -> str:
    """The legend's text for a curve."""
    return curve.name if curve.seeds == 1 else f"{curve.name} (mean of {curve.seeds_shown} seeds)"


def entries(curves: Sequence[Curve]) -> list[str]:
    """The legend's texts for curves; if all have the same seeds, the title of the panel says so."""
    return [curve.name for curve in curves] if common_seeds(curves) else [entry(curve) for curve in curves]


def common_seeds(curves: Sequence[Curve]) -> str:
    """The number of seeds of all curves; empty if they differ, or there is one."""
    seeds = {curve.seeds_shown for curve in curves}
    return seeds.pop() if len(seeds) == 1 and curves[0].seeds > 1 else ""


def legend_shape(entries: Sequence[str], style: Style) -> tuple[int, int]:
    """Rows and columns of the legend, which is read across: as many columns as fit."""
    lines = [wrapped(text, style).split("\n") for text in entries]
    widths = [max(map(letters, of_entry)) * LEGEND_LETTER + LEGEND_HANDLE for of_entry in lines]
    columns = 1
    while columns < len(entries):
        if sum(max(widths[column :: columns + 1]) for column in range(columns + 1)) > style.width / POINT:
            break
        columns += 1
    return -(-len(entries) // columns) + sum(len(of_entry) - 1 for of_entry in lines), columns


def wrapped(text: str, style: Style) -> str:
    """Wrap a legend's text into lines that fit the figure."""
    fitting = int(LEGEND_LETTERS * style.width) // (2 if letters(text) > len(text) else 1)
    return "\n".join(textwrap.wrap(text, fitting)) or text


def letters(text: str) -> int:
    """The width of a text in letters; wide East Asian characters count as two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def add_legend(figure: Figure, chart: Chart, handles: Sequence[Any], entries: Sequence[str], style: Style) -> None:
    """Add the legend above the plots, below the heading, if any."""
    if not entries:
        return
    top = 1 - (TITLE if chart.heading else 0) / figure.get_size_inches()[1]
    columns = legend_shape(entries, style)[1]
    # matplotlib fills one column after the other
    order = [place for column in range(columns) for place in range(column, len(entries), columns)]
    handles, entries = [handles[place] for place in order], [entries[place] for place in order]
    # matplotlib leaves out labels that start with "_", so the texts are set afterwards.
    legend = figure.legend(
        handles, list(map(str, range(len(entries)))), loc="upper left", ncols=columns,
        frameon=False, fontsize=LEGEND_FONT, borderaxespad=0, borderpad=0.3, handlelength=2.6,
        columnspacing=1.2, labelspacing=0.3, bbox_to_anchor=(0, top),
    )  # fmt: skip
    for text, words in zip(legend.get_texts(), entries, strict=True):
        text.set_text(wrapped(words, style))


@cache
def _known_letters(font: Font) -> frozenset[str]:
    """The letters of a font, and the newline."""
    from matplotlib.font_manager import get_font

    return frozenset({"\n", *map(chr, get_font(_plain_font(font)).get_charmap())})


@cache
def _plain_font(name: Font, common: bool = False) -> Path:
    """The file of a font without the tables for complex scripts and formulas, with all letters or those of `COMMON`.

    Matplotlib does not use these tables, and it reads and reduces the whole font for each PDF, which takes most of the
    time of a figure.
    """
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont
    from matplotlib.font_manager import findfont

    font = TTFont(findfont(FAMILIES[name][0]), recalcTimestamp=False)
    for table in {"FFTM", "GDEF", "GPOS", "GSUB", "MATH"} & set(font.keys()):
        del font[table]
    if common:
        subsetter = Subsetter(Options(glyph_names=True, recommended_glyphs=True, legacy_kern=True))
        subsetter.populate(unicodes=map(ord, COMMON))
        subsetter.subset(font)
    path = Path(_fonts().name, f"{FAMILIES[name][0].replace(' ', '')}{'-common' * common}.ttf")
    font.save(path)
    return path


@cache
def _fonts() -> tempfile.TemporaryDirectory[str]:
    """A folder that is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="posnmt-font-")


def points_of(
    chart: Chart, axes: Sequence[Axes], places: Callable[[int], Sequence[float]]
) -> list[tuple[float, float, str]]:
    """The points of a finished figure, without the reference, as `Drawing` has them.

    Args:
        chart: what is drawn.
        axes: of its panels.
        places: number of a curve in its panel -> the coordinates of the positions.
    """
    points: list[tuple[float, float, str]] = []
    for each, panel in zip(axes, chart.panels, strict=True):
        each.get_xlim(), each.get_ylim()  # computes limits that are due
        to_figure = each.transData - each.figure.transSubfigure
        figure = each.get_figure(root=True)
        assert figure is not None
        width, height = figure.get_size_inches() / POINT
        for row, curve in enumerate(panel.curves):
            for number, (place, value) in enumerate(zip(places(row), curve.values, strict=True)):
                if value is not None and curve.number >= 0:
                    x, y = to_figure.transform((place, row if chart.kind == "heat" else value))
                    points.append((float(x * width), float((1 - y) * height), chart.tip(panel, curve, number)))
    return points if len(points) <= MOST_POINTS else []


def save(figure: Figure, style: Style, points: Sequence[tuple[float, float, str]]) -> Drawing:
    """The figure in its formats, without dates: an SVG with text as text, a PDF with boxes for unknown letters."""
    from matplotlib.text import Text

    from posnmt.evaluation.report.figures.pgf import picture

    svg, pdf = io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    tex = picture(figure) if style.alone else ""
    known, texts = _known_letters(style.font), figure.findobj(Text)
    for text in texts:
        # Otherwise matplotlib would embed a fallback font of boxes, which takes a second.
        text.set_text("".join(letter if letter in known else UNKNOWN for letter in text.get_text()))
    font = _plain_font(style.font, all(COMMON.issuperset(text.get_text()) for text in texts))
    for text in texts:
        text.get_fontproperties().set_file(font)
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    return Drawing(svg.getvalue().decode("utf-8"), pdf.getvalue(), tex, points)
