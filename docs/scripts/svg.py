"""Small SVG pictures: a matrix of colours, and curves with axes. Coordinates are rounded, so that any machine gives the
same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

INK, MUTED, GRID, SHADE = "#1b1f24", "#57606a", "#dadee3", "#eceff2"
SERIES = ("#0072b2", "#d55e00", "#008f68", "#b84f8f", "#b07d00", "#5c5c66")
"""Distinguishable with any colour vision."""

STROKES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2")
"""And on grey paper."""


def number(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def document(width: int, height: int, title: str, body: Sequence[str]) -> str:
    """An SVG file with a white ground."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    head += f'role="img" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="12" fill="{INK}">'
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", ground, *body, "</svg>", ""])


def label(x: float, y: float, words: str, anchor: str = "start", colour: str = INK, turn: bool = False) -> str:
    """A line of text."""
    turned = f' transform="rotate(-90 {number(x)} {number(y)})"' if turn else ""
    place = f'x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {place}{turned}>{escape(words)}</text>"


def colour(share: float) -> str:
    """Blue below 0, white at 0, orange above, for a share from -1 to 1."""
    ends = (0, 114, 178) if share < 0 else (213, 94, 0)
    strength = min(1.0, abs(share))
    return "#" + "".join(f"{round(255 + (end - 255) * strength):02x}" for end in ends)


def matrix(values: Sequence[Sequence[float]], x: float, y: float, cell: float, levels: int = 16) -> list[str]:
    """Squares coloured by values from -1 to 1; one path for each of the levels, which keeps the file small."""
    paths: dict[int, list[str]] = {}
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            left, top = number(x + column * cell), number(y + row * cell)
            size = number(cell)
            paths.setdefault(round(value * levels), []).append(f"M{left} {top}h{size}v{size}h-{size}z")
    return [f'<path fill="{colour(level / levels)}" d="{"".join(paths[level])}"/>' for level in sorted(paths)]


@dataclass
class Axes:
    """Curves over a range of x and y, with ticks, and a legend below, so that a phone need not shrink the text much."""

    title: str
    across: str
    up: str
    x: tuple[float, float]
    y: tuple[float, float]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    width: int = 480
    height: int = 320
    body: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The point of the picture for values."""
        left, right, top, bottom = 56, self.width - 16, 16, self.height - 48
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return left + across * (right - left), bottom - up * (bottom - top)

    def curve(self, name: str, points: Sequence[tuple[float, float]]) -> None:
        """Add a curve."""
        index = len(self.names)
        self.names.append(name)
        stroke = SERIES[index % len(SERIES)]
        placed = [self.place(x, y) for x, y in points]
        dash = f' stroke-dasharray="{STROKES[index]}"' if STROKES[index] else ""
        self.body.append(f'<path fill="none" stroke="{stroke}" stroke-width="2"{dash} d="{_path(placed)}"/>')

    def document(self) -> str:
        """The picture."""
        left, bottom = self.place(self.x[0], self.y[0])
        right, top = self.place(self.x[1], self.y[1])
        parts = []
        for value, words in self.y_ticks:
            y = self.place(0, value)[1]
            parts.append(f'<path stroke="{GRID}" d="M{number(left)} {number(y)}H{number(right)}"/>')
            parts.append(label(left - 8, y + 4, words, "end", MUTED))
        for value, words in self.x_ticks:
            parts.append(label(self.place(value, 0)[0], bottom + 18, words, "middle", MUTED))
        parts.append(label((left + right) / 2, self.height - 10, self.across, "middle"))
        parts.append(label(16, (top + bottom) / 2, self.up, "middle", turn=True))
        for index, name in enumerate(self.names):
            row, column = divmod(index, 2)
            x, y = 16 + column * (self.width - 32) / 2, self.height + 8 + 20 * row
            dash = f' stroke-dasharray="{STROKES[index]}"' if STROKES[index] else ""
            line = f'd="M{number(x)} {number(y)}h24"'
            parts.append(f'<path stroke="{SERIES[index]}" stroke-width="2"{dash} {line}/>')
            parts.append(label(x + 30, y + 4, name))
        height = self.height + 20 * -(-len(self.names) // 2)
        return document(self.width, height, self.title, [*parts, *self.body])


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
