"""Figures of every model that are differences of ratios of sums: of all documents, and with each document left out.

Each ratio is computed anew from the sums of the remaining documents, so that a statistic may be any function of sums
(the jackknife of MacKinnon et al. 2023). Legend: M models, U units (subwords or sentences), G documents, K cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from posnmt.evaluation.analyse.losses import Losses
from posnmt.evaluation.analyse.zones import Support


@dataclass(frozen=True)
class Statistic:
    """A figure of every model.

    Attributes:
        whole: `[M]`; NaN where it is undefined.
        without: `[G, M]` with each document left out.
        weights: `[G]` units of each document in the last cell.
        sentences: number of sentences with a unit in the last cell.
    """

    whole: np.ndarray
    without: np.ndarray
    weights: np.ndarray
    sentences: int

    @property
    def support(self) -> Support:
        """The sentences and documents that it rests on: those of the units in the last cell."""
        return Support.of_weights(self.sentences, self.weights)


@dataclass(frozen=True)
class Units:
    """The units that figures are computed from: a ratio is a sum of values over a sum of sizes.

    Attributes:
        values: `[M, U]`.
        sizes: `[U]` whole numbers, so that the sums without a document are exact.
        sentences: `[U]` index of the sentence.
        documents: `[U]` number of the document.
    """

    values: np.ndarray
    sizes: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray

    def chosen(self, mask: np.ndarray) -> Units:
        """The units of a mask `[U]`."""
        return Units(self.values[:, mask], self.sizes[mask], self.sentences[mask], self.documents[mask])

    @property
    def support(self) -> Support:
        """Return how many sentences and documents all units together rest on."""
        return Support.of(self.sentences, self.documents)


def subwords(losses: Losses) -> Units:
    """A unit for each subword, so that means are by token."""
    sizes = np.ones(len(losses.sentence), dtype=int)
    return Units(losses.losses, sizes, losses.sentence, losses.documents[losses.sentence])


def sentence_means(units: Units, cells: np.ndarray) -> tuple[Units, np.ndarray]:
    """A unit for each sentence and cell: the mean of its subwords there, so that means are by sentence.

    Args:
        units: of subwords.
        cells: `[U]` from 0; -1: the unit is in no cell.

    Returns:
        The units, and their cells.
    """
    kept = cells >= 0
    count = int(cells.max(initial=0)) + 1
    keys, first, place = np.unique(units.sentences[kept] * count + cells[kept], return_index=True, return_inverse=True)
    sizes = np.bincount(place)
    values = np.stack([np.bincount(place, row) for row in units.values[:, kept]]) / sizes
    means = Units(values, np.ones(len(keys), dtype=int), keys // count, units.documents[kept][first])
    return means, keys % count


def difference_of_ratios(units: Units, cells: np.ndarray, coefficients: Sequence[float]) -> Statistic:
    """The sum over cells k of c_k (sum of the values in k) / (sum of the sizes in k).

    Args:
        units: of all documents.
        cells: `[U]` the cell of each unit, 0 to K - 1, or -1 for no cell. The weights are those of the last cell.
        coefficients: c, `[K]`.
    """
    count = len(coefficients)
    kept = units.chosen(cells >= 0)
    cells = cells[cells >= 0]
    names, document = np.unique(kept.documents, return_inverse=True)
    slots, shape = document * count + cells, (len(names), count)
    sizes = np.bincount(slots, kept.sizes, minlength=len(names) * count).reshape(shape)
    sums = np.stack([np.bincount(slots, row, minlength=sizes.size).reshape(shape) for row in kept.values])
    total, divisor = sums.sum(axis=1), sizes.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = _combined(total / divisor, coefficients)
        without = _combined((total[:, None] - sums) / (divisor - sizes), coefficients)  # [M, G]
    last = cells == count - 1
    return Statistic(whole, without.T, sizes[:, -1], len(np.unique(kept.sentences[last])))


def mean(units: Units) -> Statistic:
    """The sum of the values by that of the sizes."""
    return difference_of_ratios(units, np.zeros(len(units.sizes), dtype=int), [1])


def _combined(ratios: np.ndarray, coefficients: Sequence[float]) -> np.ndarray:
    """The sum over cells, the last axis; NaN where a ratio with a coefficient is undefined."""
    combined = ratios @ np.asarray(coefficients, dtype=float)
    return np.where(np.isfinite(combined), combined, np.nan)


def joined(*parts: Units) -> tuple[Units, np.ndarray]:
    """Several parts as one, and for each unit the number of its part as its cell.

    Sentences and documents of all parts have the same numbers.
    """
    cells = np.repeat(np.arange(len(parts)), [len(part.sizes) for part in parts])
    values = np.concatenate([part.values for part in parts], axis=1)
    return replace(
        parts[0],
        values=values,
        sizes=np.concatenate([part.sizes for part in parts]),
        sentences=np.concatenate([part.sentences for part in parts]),
        documents=np.concatenate([part.documents for part in parts]),
    ), cells
