"""Where a subword stands relative to the lengths of training: zones, bins, and how many sentences support a figure.

Exposure e(p) is the share of training pairs that have a subword at position p. It distinguishes positions that are rare
in training from those that never occur. Legend: T subwords, N sentences, P positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posnmt.evaluation.analyse.bins import Bin

ZONES = ("dense", "sparse", "beyond")
DENSE, SPARSE, BEYOND = range(3)
LEAST_DENSE = 0.1
"""The least exposure of dense positions."""

LEAST_REACHED = 0.001
"""Training does not reach a position with less exposure: a single odd line of training can be far longer than anything
that a model has learned."""

WIDTH = 10
"""Of the bins, in subwords."""


@dataclass(frozen=True)
class Support:
    """The amount of text that a figure rests on.

    Attributes:
        sentences: number of sentences with a subword there.
        documents: number of documents of these sentences.
        effective: G* = (sum of w_g)^2 / sum of w_g^2, where w_g are the subwords of document g: the number of documents
            of equal size that would say as much; 0 without documents.
    """

    sentences: int
    documents: int
    effective: float

    @classmethod
    def of(cls, sentences: np.ndarray, documents: np.ndarray) -> Support:
        """The support of some subwords, from the sentence and the document `[T]` of each."""
        return cls(len(np.unique(sentences)), *_sizes(np.unique(documents, return_counts=True)[1]))

    @classmethod
    def of_weights(cls, sentences: int, weights: np.ndarray) -> Support:
        """The support of documents with these weights `[G]`."""
        return cls(sentences, *_sizes(weights[weights > 0]))

    @property
    def status(self) -> str:
        """`decided`: enough to decide something; `pale`: enough to be shown; `few`: too little for both."""
        if self.sentences >= 100 and self.documents >= 20 and self.effective >= 10:
            return "decided"
        return "pale" if self.sentences >= 50 and self.documents >= 10 else "few"


def _sizes(weights: np.ndarray) -> tuple[int, float]:
    """The number of documents, and the effective number."""
    return len(weights), effective_number(weights)


def effective_number(weights: np.ndarray) -> float:
    """Kish's effective number: (sum of w)^2 / sum of w^2; 0 without weight."""
    squares = float((weights.astype(float) ** 2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def exposure_at(exposure: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The exposure of positions `[T]`; 0 after the end of `exposure` `[P]`."""
    return np.append(exposure, 0.0)[np.minimum(positions, len(exposure))]


def zones_of(exposure: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The index in `ZONES` of each position `[T]`: e >= 0.1, 0.001 <= e < 0.1, e < 0.001."""
    at = exposure_at(exposure, positions)
    return np.where(at >= LEAST_DENSE, DENSE, np.where(at >= LEAST_REACHED, SPARSE, BEYOND))


def longest_reached(exposure: np.ndarray) -> int:
    """The greatest length that training reaches; it reaches position p if p is below this length."""
    return int((exposure >= LEAST_REACHED).sum())


def merged_bins(places: np.ndarray, support: Callable[[np.ndarray], str], start: int = 0) -> list[Bin]:
    """Bins of `WIDTH` places, each merged with the bins below it until its status is above `few`.

    The lowest bin has none below it and is merged with the bin above. Places below `start` are in no bin.

    Args:
        places: `[T]` of each subword.
        support: the status of a mask `[T]` of subwords.
        start: the first place of the first bin.
    """
    last = int(places.max(initial=start - 1))
    bins: list[Bin] = []
    for first in range(start + (last - start) // WIDTH * WIDTH, start - 1, -WIDTH):
        if first == start or support((places >= first) & (places <= last)) != "few":
            bins.insert(0, Bin(first, last))
            last = first - 1
    if len(bins) > 1 and support((places >= start) & (places <= (bins[0].last or 0))) == "few":
        bins[:2] = [Bin(start, bins[1].last)]
    return bins
