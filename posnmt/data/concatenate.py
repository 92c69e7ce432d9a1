"""Concatenated-pair augmentation: training lines of two sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posnmt.data.joined import Joined
from posnmt.data.store import Split


class Concatenated(Joined):
    """A split, followed by concatenations of two of its pairs, source to source and target to target.

    Kondo et al. 2021 ("Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation"), without a
    separator: subwords mark the start of a word, so the concatenated ids are those of the concatenated text.

    Args:
        split: the corpus.
        share: number of concatenated pairs relative to the corpus; 1 doubles the number of pairs.
        seed: of the draw; the pairs are the same in every pass.
    """

    def __init__(self, split: Split, share: float, seed: int) -> None:
        generator = np.random.default_rng([seed, len(split)])
        self.drawn: NDArray[np.int64] = generator.integers(len(split), size=(round(share * len(split)), 2))
        source, target = (
            lengths[self.drawn].sum(1, dtype=np.int32) for lengths in (split.source_lengths, split.target_lengths)
        )
        super().__init__(split, source, target)

    def members(self, number: int) -> Sequence[int]:
        """The two pairs of a concatenation."""
        pairs: list[int] = self.drawn[number].tolist()
        return pairs
