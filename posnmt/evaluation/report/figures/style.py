"""How figures look on paper: their width and their font."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

COLUMN = 3.3
"""The width of a column of a two-column page, in inches."""

NARROWEST, WIDEST = 2.0, 20.0
"""The limits of a width, in inches."""

Font = Literal["sans", "serif"]
# The first of each comes with matplotlib, so that figures are the same on all machines; STIX has the widths of Times.
# The others are for viewers of an SVG.
FAMILIES: dict[Font, tuple[str, ...]] = {
    "sans": ("DejaVu Sans", "Verdana", "Arial", "Helvetica"),
    "serif": ("STIXGeneral", "Times New Roman", "Times"),
}


@dataclass(frozen=True)
class Style:
    """How a figure looks.

    Attributes:
        width: in inches.
        font: of all its words.
        bands: whether intervals are drawn around the points of lines.
        beside: space at the right of the plots in inches, which labels of lines take.
        alone: whether the figure leaves its report: it is then made for LaTeX as well, and its PDF is compressed. A
            report packs all of its PDF files together, by which they become smaller.
    """

    width: float = COLUMN
    font: Font = "sans"
    bands: bool = True
    beside: float = 0.0
    alone: bool = False

    @property
    def family(self) -> str:
        """The generic family of the font."""
        return {"sans": "sans-serif", "serif": "serif"}[self.font]

    @property
    def height(self) -> float:
        """The height of a plot of lines in inches."""
        return min(1.5 * self.width / COLUMN, 2.2)

    @property
    def columns(self) -> int:
        """The most small multiples beside each other."""
        return max(1, int(self.width / 1.6))
