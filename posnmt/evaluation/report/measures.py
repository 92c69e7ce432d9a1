"""The measures in the results of an analysis: their presentation, their order, and which direction is better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from posnmt.evaluation.analyse.measures import COMPLETENESS, LENGTHS, MEASURES, metric_of
from posnmt.metrics.measure import Measure
from posnmt.metrics.metric import Metric
from posnmt.metrics.registry import METRICS


def presentations(results: dict[str, Any]) -> dict[str, Measure]:
    """Measure → its presentation, in order: metrics, completeness, metrics of other programs, lengths."""
    elsewhere = {
        name: Metric(name, higher=about["higher_is_better"], decimals=about["decimals"])
        for name, about in results["settings"].get("scores", {}).items()
    }
    others = [name for name in results["settings"]["metrics"] if name not in {*MEASURES, *elsewhere}]
    return {**METRICS, **{name: metric_of(name) for name in others}, **COMPLETENESS, **elsewhere, **LENGTHS}


def measures_of(results: dict[str, Any]) -> list[str]:
    """The measures in the results: first the main metric, the first one requested, then the others in order."""
    held = [name for name in presentations(results) if name in results["systems"][0]["overall"]]
    main = results["settings"]["metrics"][0]
    return [main, *(name for name in held if name != main)]


def metrics_of(results: dict[str, Any]) -> list[str]:
    """The same without measures of length."""
    return [name for name in measures_of(results) if name in results["settings"]["metrics"]]


def higher_is_better(measure: str, results: dict[str, Any]) -> bool | None:
    """Whether higher values of a measure are better; None for measures of length, which may be too high or too low."""
    return presentations(results)[measure].higher


def difference_of(measure: str, results: dict[str, Any]) -> Measure:
    """The presentation of differences in a measure."""
    shown = presentations(results)[measure]
    about = {True: "above 0 is better", False: "below 0 is better", None: "of the two"}[shown.higher]
    return replace(shown, about=about, signed=True, neutral=0)
