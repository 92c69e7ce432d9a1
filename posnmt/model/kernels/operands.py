"""The operands of attention as one value, which every kernel takes.

Shapes: B rows, Tq queries, Tk keys, H heads, D width of a head.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from posnmt_position.distance_vectors import ByDistanceVectors, DistanceVectors
from posnmt_position.seam import CrossSpan, LayerPositions, Span


class Attention(NamedTuple):
    """The operands of attention with a position view.

    Attributes:
        q, k: [B,H,Tq,D] scaled queries and [B,H,Tk,D] keys of the product, as returned by `view.rotate`.
        v: [B,H,Tk,D].
        view: the joined view of the position schemes.
        span: the positions of queries and keys.
        mask: [B,1,1,Tk], True where a key may be seen, or None.
        causal: hide keys to the right of each query.
        dropout: probability on the attention weights.
        unrotated: the queries, or the queries and keys, that the logit terms read if those of the product are rotated:
            see `LayerPositions.reads_unrotated` and `reads_unrotated_keys`. Empty: they are the same.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    view: LayerPositions
    span: Span
    mask: Tensor | None
    causal: bool
    dropout: float
    unrotated: tuple[Tensor, ...] = ()

    @property
    def is_cross(self) -> bool:
        """Whether queries and keys are of two sequences, so that no diagonal has one offset."""
        return isinstance(self.span, CrossSpan)

    @property
    def bias(self) -> Tensor | None:
        """The sum of the views' logit terms."""
        read_q, read_k = *self.unrotated, *(self.q, self.k)[len(self.unrotated) :]
        return self.view.logits(read_q, read_k, self.span)

    @property
    def seen(self) -> Tensor | None:
        """The padding, view and causal masks as one, True where a key may be seen; None: all keys."""
        return _both(_both(self.mask, self.view.mask(self.span)), self.span.offsets <= 0 if self.causal else None)

    @property
    def distance_vectors(self) -> DistanceVectors | None:
        """The vectors for clipped distances, if the views add these and nothing else, and mask no keys; else None."""
        adding = {*self.view.biasing, *self.view.adding}
        if len(adding) != 1 or self.view.hiding or self.view.temperature is not None or self.is_cross:
            return None
        view = adding.pop()
        return view.distance_vectors() if isinstance(view, ByDistanceVectors) else None


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """The conjunction of two masks; None: no mask."""
    if first is None or second is None:
        return second if first is None else first
    return first & second
