"""The additive statistics of several systems in one table.

A measure of any set of sentences (all of them, a bin or a resample) is a function of the sum of their rows; one sum
gives all measures of all systems.

Legend: N sentences, M systems, K statistics of all measures side by side, `...` any shape.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posnmt.metrics.scores import HIGHER_IS_BETTER, corpus_scores

if TYPE_CHECKING:
    import numpy as np

# Output length against reference length: the mean difference, and the ratio of the sums.
LENGTH_MEASURES = ("length_difference", "length_ratio")
NEUTRAL = ("sentence_ends",)
"""Columns whose best value lies between high and low ones, so that no system is tested to be better in them."""


@dataclass(frozen=True)
class Additive:
    """The table and its columns.

    Attributes:
        rows: `[N, M, K]` float64 counts, whose sums are exact up to 2^53; sentence scores from elsewhere are multiples
            of 2^-24, with sums that are exact up to 2^29.
        columns: metric → its columns; the last three columns are sentences, output length and reference length.
        lower: metrics with sentence scores from elsewhere of which lower ones are better.
    """

    rows: np.ndarray
    columns: dict[str, slice]
    lower: Collection[str] = ()

    @classmethod
    def of(
        cls,
        statistics: dict[str, list[np.ndarray]],
        output_lengths: list[np.ndarray],
        reference_lengths: np.ndarray,
        lower: Collection[str] = (),
    ) -> Additive:
        """Build the table of M systems.
        Args:
            statistics: metric → for each system its statistics `[N, K of the metric]`.
            output_lengths: for each system the lengths of its outputs `[N]`.
            reference_lengths: `[N]`, in the same unit.
            lower: as in the attributes.
        """
        import numpy as np

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
        return cls(rows, columns, lower)

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of all measures: the metrics, then `LENGTH_MEASURES`."""
        return (*self.columns, *LENGTH_MEASURES)

    def score(self, metric: str, sums: np.ndarray) -> np.ndarray:
        """The score of one metric: sums `[..., K]` → `[...]`; without sentences, that of an empty sentence."""
        return corpus_scores(metric, sums[..., self.columns[metric]])

    def measure(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """All measures: sums `[..., K]` → `[...]`; NaN without sentences, or for a ratio to 0."""
        import numpy as np

        count, output, reference = (sums[..., column] for column in (-3, -2, -1))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = {metric: np.where(count > 0, self.score(metric, sums), np.nan) for metric in self.columns}
            return values | {
                "length_difference": (output - reference) / count,
                "length_ratio": np.where(reference > 0, output / reference, np.nan),
            }


def plain(values: np.ndarray) -> list[Any]:
    """An array as nested lists, with None for NaN, as JSON has it."""
    import numpy as np

    listed = values.astype(object)
    listed[np.isnan(values)] = None
    return listed.tolist()


def better(metric: str, differences: np.ndarray, lower: Collection[str] = ()) -> np.ndarray:
    """Differences of scores, with their sign changed if lower is better: that of TER, and of the metrics in `lower`."""
    return differences if HIGHER_IS_BETTER.get(metric, metric not in lower) else -differences
