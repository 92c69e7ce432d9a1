"""How people read the measures: names, which way is better, and how many decimals are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measure:
    """How people read one measure: its name, which way is better, and how many decimals it is shown with.

    Attributes:
        title: its name.
        better: which values are better, or what it is.
        decimals: how many are shown.
        signed: a plus stands before what is above 0.
        neutral: the value that is neither too much nor too little, drawn as a line; None: there is none.
    """

    title: str
    better: str
    decimals: int
    signed: bool = False
    neutral: float | None = None

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
    "length_difference": Measure("Length difference", "mean of output minus reference", 2, signed=True, neutral=0),
    "length_ratio": Measure("Length ratio", "output by reference; 1 is best", 3, neutral=1),
}


def measures_of(results: dict[str, Any]) -> list[str]:
    """The measures that the results hold, in the order in which they are shown: the main metric comes first.

    The main metric is the one that was named first when the analysis was made.
    """
    held = [name for name in MEASURES if name in results["systems"][0]["overall"]]
    main = results["settings"]["metrics"][0]
    return [main, *(name for name in held if name != main)]


def metrics_of(results: dict[str, Any]) -> list[str]:
    """The measures of quality alone, without those of length, in the same order."""
    return [name for name in measures_of(results) if name in results["settings"]["metrics"]]
