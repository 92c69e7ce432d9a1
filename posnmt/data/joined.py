"""A corpus with further training pairs, each of which joins several of its pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posnmt.data.store import Split

Pair = tuple[NDArray[np.int32], NDArray[np.int32]]


class Joined(ABC):
    """A split, followed by joined pairs: source to source and target to target.

    Args:
        split: the corpus.
        source_lengths, target_lengths: int32, subwords of the joined pairs, without bos and eos.

    Attributes:
        source_lengths, target_lengths: int32, subwords of all pairs.
    """

    between: Sequence[int] = ()
    """Subwords between two sentences."""

    def __init__(self, split: Split, source_lengths: NDArray[np.int32], target_lengths: NDArray[np.int32]) -> None:
        self.split = split
        self.source_lengths = np.concatenate([split.source_lengths, source_lengths])
        self.target_lengths = np.concatenate([split.target_lengths, target_lengths])

    def __len__(self) -> int:
        """The number of pairs, joined ones included."""
        return len(self.source_lengths)

    def pair(self, index: int) -> Pair:
        """Source and target subwords, without bos and eos."""
        sources, targets = zip(*(self.split.pair(part) for part in self._parts(index)), strict=True)
        return self._join(sources), self._join(targets)

    def where(self, index: int) -> str:
        """The origin of a pair, for errors."""
        return " joined with ".join(self.split.where(part) for part in self._parts(index))

    @abstractmethod
    def members(self, number: int) -> Sequence[int]:
        """The pairs of the split that a joined pair consists of; `number` is counted from the first joined one."""

    def _parts(self, index: int) -> Sequence[int]:
        return [index] if index < len(self.split) else self.members(index - len(self.split))

    def _join(self, sentences: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
        if len(sentences) == 1:
            return sentences[0]
        between = np.array(self.between, np.int32)
        return np.concatenate([part for each in sentences for part in (between, each)][1:])
