"""The additive statistics of several systems in one table.

A measure of any set of sentences (all of them, a bin or a resample) is a function of the sum of their rows. One sum
gives all measures of all systems.

Legend: N sentences, M systems, K statistics of all measures side by side, `...` any shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posnmt.evaluation.analyse.measures import LENGTHS, metric_of
from posnmt.metrics.metric import Metric


@dataclass(frozen=True)
class Additive:
    """The table and its columns.

    Attributes:
        rows: `[N, M, K]` float64 counts, whose sums are exact up to 2^53. Sentence scores from other programs are
            multiples of 2^-24, whose sums are exact up to 2^29.
        columns: metric → its columns; the last three columns are sentences, output length and reference length.
        elsewhere: metrics with sentence scores from other programs, by name.
        documents: `[N]` the number of the document of each sentence, which resampling draws whole; None: not known.
    """

    rows: np.ndarray
    columns: dict[str, slice]
    elsewhere: Mapping[str, Metric] = field(default_factory=dict)
    documents: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        statistics: dict[str, list[np.ndarray]],
        output_lengths: list[np.ndarray],
        reference_lengths: np.ndarray,
        elsewhere: Mapping[str, Metric] | None = None,
        documents: np.ndarray | None = None,
    ) -> Additive:
        """Build the table of M systems.

        Args:
            statistics: metric → for each system its statistics `[N, K of the metric]`.
            output_lengths: for each system the lengths of its outputs `[N]`.
            reference_lengths: `[N]`, in the same unit.
            elsewhere, documents: as in the attributes.
        """
        columns, first = {}, 0
        for metric, of_systems in statistics.items():
            last = first + of_systems[0].shape[1]
            columns[metric], first = slice(first, last), last
        rows = np.empty((len(reference_lengths), len(output_lengths), first + 3))
        for metric, of_systems in statistics.items():
            rows[..., columns[metric]] = np.stack(of_systems, axis=1)
        rows[..., -3] = 1
        rows[..., -2] = np.stack(output_lengths, axis=1)
        rows[..., -1] = reference_lengths[:, None]
        return cls(rows, columns, elsewhere or {}, documents)

    def of_outputs(self, count: int, columns: dict[str, slice] | None = None) -> Additive:
        """The same of the first `count` outputs, and of some metrics; None: of all."""
        return replace(self, rows=self.rows[:, :count], columns=columns or self.columns)

    def of_sentences(self, chosen: np.ndarray, metric: str) -> Additive:
        """One metric of some sentences `[N]` bool, without lengths."""
        documents = None if self.documents is None else self.documents[chosen]
        rows = self.rows[chosen, :, self.columns[metric]]
        return replace(self, rows=rows, columns={metric: slice(0, rows.shape[2])}, documents=documents)

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of all measures: the metrics, then those of lengths."""
        return (*self.columns, *LENGTHS)

    @property
    def tested(self) -> list[str]:
        """The metrics that say which of two scores is better."""
        return [name for name in self.columns if self.metric(name).higher is not None]

    def metric(self, name: str) -> Metric:
        """The metric of a name in `columns`."""
        return self.elsewhere[name] if name in self.elsewhere else metric_of(name)

    def score(self, metric: str, sums: np.ndarray) -> np.ndarray:
        """The score of one metric: sums `[..., K]` → `[...]`; sums of no sentences score like an empty sentence."""
        return self.metric(metric).score(sums[..., self.columns[metric]])

    def measure(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """All measures: sums `[..., K]` → `[...]`; NaN for no sentences, or for a ratio to 0."""
        count, output, reference = (sums[..., column] for column in (-3, -2, -1))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = {metric: np.where(count > 0, self.score(metric, sums), np.nan) for metric in self.columns}
            return values | {
                "length_difference": (output - reference) / count,
                "length_ratio": np.where(reference > 0, output / reference, np.nan),
            }


def plain(values: np.ndarray) -> list[Any]:
    """An array as nested lists, with None for NaN, as JSON has it."""
    listed = values.astype(object)
    listed[np.isnan(values)] = None
    return listed.tolist()
