"""Measures: their names, and how their values are written for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """The properties of a measure, apart from its values.

    Attributes:
        title: its name, as people write it.
        about: the text beside the title; default: which values are better.
        decimals: number of decimals.
        signed: whether positive values have a plus sign.
        neutral: the ideal value of a measure that can be too high or too low, drawn as a line; None if there is none.
        higher: whether higher values are better; None if neither are.
        unit: of a difference of two values; default: the title.
        words: its name within a sentence; default: the title.
    """

    title: str
    about: str = ""
    decimals: int = 1
    signed: bool = False
    neutral: float | None = None
    higher: bool | None = None
    unit: str = ""
    words: str = ""

    @property
    def better(self) -> str:
        """Return the text beside the title: `about`, or else whether higher or lower values are better."""
        return self.about or {True: "higher is better", False: "lower is better", None: ""}[self.higher]

    def show(self, value: float | None) -> str:
        """Format a value; a dash for None."""
        if value is None:
            return "–"
        rounded = round(value, self.decimals)
        sign = "+" if self.signed and rounded > 0 else ""
        return f"{sign}{rounded:z.{self.decimals}f}".replace("-", "\N{MINUS SIGN}")

    def between(self, interval: Sequence[float] | None) -> str:
        """Format an interval; empty for None."""
        return "" if interval is None else f"{self.show(interval[0])} to {self.show(interval[1])}"
