"""Concatenated-pair augmentation: longer training sentences, a control for any position scheme."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posnmt.data.store import Split


class Concatenated:
    """A split, followed by concatenations of two of its pairs, source to source and target to target.

    Kondo et al. 2021 ("Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation"), without a
    separator: subwords mark the start of a word, so the concatenated ids are those of the concatenated text.

    Args:
        split: the corpus.
        share: number of concatenated pairs relative to the corpus; 1 doubles the number of pairs.
        seed: of the draw; the pairs are the same in every pass.
    """

    def __init__(self, split: Split, share: float, seed: int) -> None:
        self.split = split
        generator = np.random.default_rng([seed, len(split)])
        self.drawn: NDArray[np.int64] = generator.integers(len(split), size=(round(share * len(split)), 2))
        self.source_lengths, self.target_lengths = (
            np.concatenate([lengths, lengths[self.drawn].sum(1, dtype=np.int32)])
            for lengths in (split.source_lengths, split.target_lengths)
        )

    def __len__(self) -> int:
        """The number of pairs, concatenated ones included."""
        return len(self.source_lengths)

    def pair(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Source and target subwords, without bos and eos."""
        if index < len(self.split):
            return self.split.pair(index)
        (source, target), (more_source, more_target) = (self.split.pair(int(each)) for each in self._parts(index))
        return np.concatenate([source, more_source]), np.concatenate([target, more_target])

    def where(self, index: int) -> str:
        """The origin of a pair, for errors."""
        if index < len(self.split):
            return self.split.where(index)
        return " joined with ".join(self.split.where(int(each)) for each in self._parts(index))

    def _parts(self, index: int) -> NDArray[np.int64]:
        parts: NDArray[np.int64] = self.drawn[index - len(self.split)]
        return parts
