"""The presentation of measures: titles, which direction is better, and decimals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from posnmt.evaluation.analyse.additive import LENGTH_MEASURES
from posnmt.metrics.scores import HIGHER_IS_BETTER, TITLES


@dataclass(frozen=True)
class Measure:
    """The presentation of one measure.

    Attributes:
        title: its name.
        better: which values are better, or what it is.
        decimals: number of decimals.
        signed: whether positive values have a plus sign.
        neutral: the ideal value of a measure that can be too high or too low, drawn as a line; None: there is none.
    """

    title: str
    better: str
    decimals: int
    signed: bool = False
    neutral: float | None = None

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


MEASURES = {
    **{
        name: Measure(title, "higher is better" if HIGHER_IS_BETTER[name] else "lower is better", 1)
        for name, title in TITLES.items()
    },
    "omitted_sentences": Measure(TITLES["omitted_sentences"], "% of source sentences; lower is better", 2),
    "aligned_source_words": Measure(TITLES["aligned_source_words"], "% of content words; higher is better", 1),
    "sentence_ends": Measure("Sentence ends", "output by source; 1 is usual", 3, neutral=1),
    "length_difference": Measure("Length difference", "mean of output minus reference", 2, signed=True, neutral=0),
    "length_ratio": Measure("Length ratio", "output by reference; 1 is best", 3, neutral=1),
}


def presentations(results: dict[str, Any]) -> dict[str, Measure]:
    """How each measure of the results is presented, in order: metrics, those with scores from elsewhere, lengths."""
    elsewhere = {
        name: Measure(name, f"{'higher' if about['higher_is_better'] else 'lower'} is better", about["decimals"])
        for name, about in results["settings"].get("scores", {}).items()
    }
    lengths = {name: MEASURES[name] for name in LENGTH_MEASURES}
    return {name: each for name, each in MEASURES.items() if name not in lengths} | elsewhere | lengths


def measures_of(results: dict[str, Any]) -> list[str]:
    """The measures in the results in the order of presentation, from the main metric on: the first one requested."""
    held = [name for name in presentations(results) if name in results["systems"][0]["overall"]]
    main = results["settings"]["metrics"][0]
    return [main, *(name for name in held if name != main)]


def metrics_of(results: dict[str, Any]) -> list[str]:
    """The same without measures of length."""
    return [name for name in measures_of(results) if name in results["settings"]["metrics"]]


def higher_is_better(measure: str, results: dict[str, Any]) -> bool | None:
    """Whether higher values of a measure are better; None for measures of length, whose ideal lies between."""
    elsewhere = results["settings"].get("scores", {})
    if measure in elsewhere:
        better: bool = elsewhere[measure]["higher_is_better"]
        return better
    return HIGHER_IS_BETTER.get(measure)


def difference_of(measure: str, results: dict[str, Any]) -> Measure:
    """The presentation of differences in a measure."""
    better = {True: "above 0 is better", False: "below 0 is better", None: "of the two"}[
        higher_is_better(measure, results)
    ]
    return replace(presentations(results)[measure], better=better, signed=True, neutral=0)
