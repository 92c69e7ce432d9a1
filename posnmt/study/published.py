"""Published figures as the paper prints them, and ours in the same format."""

from __future__ import annotations

import re
from collections.abc import Sequence

from posnmt.study.layout import Published
from posnmt.study.measures import SPEEDS
from posnmt.study.measures import measure as measure_of

SUFFIXES = {1.0: "", 1e3: "K", 1e6: "M", 1e9: "G"}
NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.(\d+))?")


def texts(figures: Sequence[Published], unit: float = 1) -> list[str]:
    """Format published figures: numbers with equally many decimals, texts unchanged, empty for None.

    Args:
        figures: of one column; None where the paper has none.
        unit: `published_unit` of the column.
    """
    shown = decimals(figures) or 0
    return ["" if each is None else each if isinstance(each, str) else _number(each, shown, unit) for each in figures]


def decimals(figures: Sequence[Published]) -> int | None:
    """The maximum number of decimals of published figures; None without figures."""
    counts = [_decimals(each) for each in figures if each is not None]
    return max((each for each in counts if each is not None), default=None)


def value(figure: Published, unit: float = 1) -> float | None:
    """A published figure as a number, without marks of significance; None if it is not a number."""
    if figure is None:
        return None
    if not isinstance(figure, str):
        return figure * unit
    match = NUMBER.match(figure.strip())
    return float(match[0].replace(",", "")) * unit if match else None


def show(figure: float, measure: str, unit: float = 1, published_decimals: int | None = None) -> str:
    """Format our figure, with at least as many decimals as the published ones.

    Numbers of parameters are in the published unit. Speeds are not, since that of a slow machine would be 0 thousand.
    """
    if measure in SPEEDS:
        return _number(figure, 0, 1)
    if measure == "parameters":
        return _number(figure / unit, 0 if unit == 1 else published_decimals or 0, unit)
    about = measure_of(measure)
    least = max(about.decimals, published_decimals or 0)
    sign = "+" if about.signed and round(figure, least) > 0 else ""
    return sign + _number(figure, least, 1)


def show_spread(deviation: float, measure: str, unit: float = 1, published_decimals: int | None = None) -> str:
    """Format a standard deviation like the figure that it belongs to."""
    return "±" + show(deviation, measure, unit, published_decimals).lstrip("+")


def _decimals(figure: float | str) -> int | None:
    """The number of decimals of a figure; None if it is not a number."""
    match = NUMBER.match(f"{figure:.10f}".rstrip("0") if isinstance(figure, float | int) else figure.strip())
    return len(match[1] or "") if match else None


def _number(figure: float, shown: int, unit: float) -> str:
    """Format a number with thousands separators and the suffix of its unit."""
    suffix = SUFFIXES.get(unit, f"×{unit:g}")
    return f"{figure:z,.{shown}f}".replace("-", "\N{MINUS SIGN}") + suffix
