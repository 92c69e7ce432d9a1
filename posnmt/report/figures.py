"""Figures from the results of an analysis, drawn with matplotlib: the same results give the same bytes."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Every colour of a figure, by role: the page puts its own light and dark colours in their place.
COLOURS = {
    "surface": "#ffffff",
    "ink": "#1b1f24",
    "muted": "#57606a",
    "grid": "#dadee3",
    "unseen": "#e3e6ea",
    "partly": "#f3f4f6",
    "hatch": "#d6dbe1",
}
# Okabe and Ito's colours, which people with any colour vision tell apart, a little darker for lines on white.
SERIES = ("#0072b2", "#d55e00", "#008f68", "#b84f8f", "#b07d00", "#2f8fc4", "#5c5c66")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
# After all colours have been used once, the stroke changes with the next round.
STROKES = ("-", "--", ":", "-.")
# Bins whose labels fit side by side; with more of them, only every second, third … is labelled.
MOST_LABELS = 8


@dataclass(frozen=True)
class Measure:
    """How people read one measure: its name, which way is better, and how many decimals it is shown with."""

    title: str
    better: str
    decimals: int
    signed: bool = False

    def show(self, value: float | None) -> str:
        """The value as text; a dash where there is none."""
        if value is None:
            return "–"
        rounded = round(value, self.decimals)
        sign = "+" if self.signed and rounded > 0 else ""
        return f"{sign}{rounded:z.{self.decimals}f}".replace("-", "\N{MINUS SIGN}")


MEASURES = {
    "bleu": Measure("BLEU", "higher is better", 1),
    "chrf": Measure("chrF", "higher is better", 1),
    "multi-bleu": Measure("multi-bleu", "higher is better", 1),
    "ter": Measure("TER", "lower is better", 1),
    "length_difference": Measure("Length difference", "output minus reference, mean; 0 is best", 2, signed=True),
    "length_ratio": Measure("Length ratio", "output by reference; 1 is best", 3),
}


@dataclass(frozen=True)
class Drawing:
    """One figure in both formats."""

    svg: str
    pdf: bytes


def measures_of(results: dict[str, Any]) -> list[str]:
    """The measures that the results hold, in the order in which they are shown."""
    return [name for name in MEASURES if name in results["systems"][0]["overall"]]


def draw(results: dict[str, Any]) -> dict[str, Drawing]:
    """For each measure of the results, its curve over source length."""
    return {name: length_curve(results, name) for name in measures_of(results)}


def length_curve(results: dict[str, Any], measure: str) -> Drawing:
    """One measure over the bins of source length, one line a system, unseen lengths shaded.

    Args:
        results: what `posnmt.analyse.analyse.analyse` gives.
        measure: a key of `MEASURES` that the results hold.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": f"posnmt {measure}",
        "font.size": 9,
        "text.color": COLOURS["ink"],
        "text.parse_math": False,
        "pdf.fonttype": 42,
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        # Names in other scripts are text in the SVG, which a viewer shows in its own fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        matplotlib.rcdefaults()  # a user's own matplotlib settings would make other bytes
        matplotlib.rcParams.update(settings)
        legend_rows, columns = _legend_shape([system["name"] for system in results["systems"]])
        figure = Figure(figsize=(5.0, 2.9 + 0.2 * legend_rows), layout="constrained", facecolor=COLOURS["surface"])
        FigureCanvasAgg(figure)
        axes = figure.add_subplot(facecolor=COLOURS["surface"])
        shades = _shade(axes, results["bins"])
        for number, system in enumerate(results["systems"]):
            values = [math.nan if each[measure] is None else each[measure] for each in system["bins"]]
            axes.plot(values, **_line_style(number))
        _label_axes(axes, results, measure)
        _legend(figure, axes, results, shades, columns)
        svg, pdf = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    return Drawing(svg.getvalue().decode("utf-8"), pdf.getvalue())


def _line_style(number: int) -> dict[str, Any]:
    """Colour, marker and stroke of the system with this number; no two of the first 77 are alike."""
    return {
        "color": SERIES[number % len(SERIES)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": STROKES[number // len(SERIES) % len(STROKES)],
        "linewidth": 1.6,
        "markersize": 5.5,
        "markeredgecolor": COLOURS["surface"],
        "markeredgewidth": 0.7,
        "clip_on": False,
        "zorder": 3,
    }


def _shade(axes: Axes, bins: list[dict[str, Any]]) -> dict[str, Any]:
    """Shade the bins with lengths that training never saw, under everything else; the legend's patches by text."""
    styles: dict[str, tuple[str, dict[str, Any]]] = {
        "unseen": ("length not in training", {"facecolor": COLOURS["unseen"]}),
        "partly unseen": ("partly in training", {"facecolor": COLOURS["partly"], "hatch": "////"}),
    }
    shades = {}
    for number, each in enumerate(bins):
        if each["training"] in styles:
            text, style = styles[each["training"]]
            shades[text] = axes.axvspan(
                number - 0.5, number + 0.5, edgecolor=COLOURS["hatch"], linewidth=0, zorder=0, **style
            )
    return shades


def _label_axes(axes: Axes, results: dict[str, Any], measure: str) -> None:
    """Title, tick labels with n below each bin, and quiet lines."""
    about, bins = MEASURES[measure], results["bins"]
    step = math.ceil(len(bins) / MOST_LABELS)
    shown = range(0, len(bins), step)
    axes.set_xlim(-0.5, len(bins) - 0.5)
    axes.set_xticks(list(shown), [f"{bins[number]['label']}\nn={bins[number]['n']}" for number in shown])
    axes.set_title(f"{about.title} ({about.better})", loc="left", fontsize=9.5, color=COLOURS["ink"])
    axes.set_xlabel(f"source length in {results['settings']['unit']}", color=COLOURS["muted"])
    axes.tick_params(colors=COLOURS["muted"], labelsize=8, length=0)
    axes.grid(axis="y", color=COLOURS["grid"], linewidth=0.8, zorder=1)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(COLOURS["muted"])
    if measure == "length_difference":
        axes.axhline(0, color=COLOURS["muted"], linewidth=0.8, zorder=2)


def _legend_shape(names: list[str], width: int = 66) -> tuple[int, int]:
    """Rows and columns of the legend: as many columns as the longest name leaves room for."""
    longest = max(max(map(len, _wrapped(name).split("\n"))) for name in names)
    entries = len(names) + 2
    columns = max(1, min(entries, width // (max(longest, 22) + 8)))
    lines = sum(_wrapped(name).count("\n") for name in names)
    return math.ceil(entries / columns) + lines, columns


def _wrapped(name: str) -> str:
    """A system name in lines that fit the figure."""
    return "\n".join(textwrap.wrap(name, 52)) or name


def _legend(figure: Figure, axes: Axes, results: dict[str, Any], shades: dict[str, Any], columns: int) -> None:
    """The legend above the plot: systems first, then what the shades mean."""
    handles = [*axes.get_lines()[: len(results["systems"])], *shades.values()]
    texts = [*(_wrapped(system["name"]) for system in results["systems"]), *shades]
    # matplotlib leaves out a label that starts with "_"; so the names are set after the legend stands.
    legend = figure.legend(
        handles, list(map(str, range(len(texts)))), loc="outside upper left", ncols=columns, frameon=False, fontsize=8.5
    )
    for text, words in zip(legend.get_texts(), texts, strict=True):
        text.set_text(words)
