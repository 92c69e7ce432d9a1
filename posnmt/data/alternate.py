"""A corpus in several segmentations, of which each pass of training has the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from posnmt.data.joined import Joined
    from posnmt.data.store import Split


class Alternating:
    """The pairs of several segmentations of a corpus, numbered one segmentation after the other.

    So a number determines the subwords of a pair, and a batch needs no other sign of its pass.

    Args:
        corpora: the same N pairs in each of K segmentations.

    Attributes:
        source_lengths, target_lengths: int32 [K N].
    """

    def __init__(self, corpora: Sequence[Split | Joined]) -> None:
        self.corpora = corpora
        self.source_lengths = np.concatenate([corpus.source_lengths for corpus in corpora])
        self.target_lengths = np.concatenate([corpus.target_lengths for corpus in corpora])

    def __len__(self) -> int:
        """The number of pairs of one segmentation."""
        return len(self.corpora[0])

    def pair(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Source and target subwords, without bos and eos."""
        number, place = divmod(index, len(self))
        return self.corpora[number].pair(place)

    def where(self, index: int) -> str:
        """The origin of a pair, for errors."""
        return self.corpora[0].where(index % len(self))
