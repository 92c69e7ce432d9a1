"""Views that are vectors for the clipped distance and nothing else, which kernels compute without a Tq x Tk tensor.

The seam does not need them: a view of this class still defines `logits` and `values`, and every kernel agrees with
those. A scheme whose terms have another form does not need this module.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from posnmt_position.seam import LayerPosition


class DistanceVectors(NamedTuple):
    """Vectors for the clipped distance r = clip(j - i, -k, k) from query i to key j, in row r + k of each table.

    Attributes:
        keys: [2k+1,D] added to the keys, or None.
        values: [2k+1,D] added to the values, or None.
    """

    keys: Tensor | None
    values: Tensor | None


class ByDistanceVectors(LayerPosition):
    """A view whose `logits` and `values` are the terms of such vectors."""

    def distance_vectors(self) -> DistanceVectors:
        """The vectors. `logits` returns the terms of those on the keys, `values` the terms of those on the values."""
        raise NotImplementedError(f"{type(self).__name__} must define distance_vectors")
