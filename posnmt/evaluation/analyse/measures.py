"""The measures of an analysis by name: metrics, completeness and lengths."""

from __future__ import annotations

from posnmt.metrics.measure import Measure
from posnmt.metrics.metric import Metric
from posnmt.metrics.registry import METRICS, metric

COMPLETENESS = {
    "aligned_source_words": Metric("Aligned source words", "% of content words; higher is better"),
    "omitted_sentences": Metric("Omitted sentences", "% of source sentences; lower is better", 2, higher=False),
    "sentence_ends": Metric("Sentence ends", "output by source; 1 is usual", 3, neutral=1, higher=None),
}
"""Measured if completeness is asked for. Systems are not tested in a measure of which no direction is better."""
LENGTHS = {
    "length_difference": Measure(
        "Length difference", "mean of output minus reference", 2, signed=True, neutral=0,
        unit="subwords", words="length difference",
    ),
    "length_ratio": Measure(
        "Length ratio", "output by reference; 1 is best", 3, neutral=1,
        unit="of the reference's length", words="length ratio",
    ),
}  # fmt: skip
"""Output length against reference length: the mean difference, and the ratio of the sums."""
MEASURES: dict[str, Measure] = {**METRICS, **COMPLETENESS, **LENGTHS}


def metric_of(name: str) -> Metric:
    """A metric or a measure of completeness.

    Raises:
        UserError: there is none of this name; see `posnmt.metrics.registry.metric`.
    """
    return COMPLETENESS[name] if name in COMPLETENESS else metric(name)


def measure_of(name: str) -> Measure:
    """A measure by its name.

    Raises:
        UserError: as of `metric_of`.
    """
    return LENGTHS[name] if name in LENGTHS else metric_of(name)
