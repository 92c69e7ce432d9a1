"""What a view can show to people (`posnmt show`), beside the hooks, which change the model's output.

These methods are optional, and neither attention nor layers call them. If a scheme of another package has one of them,
it is shown like the schemes of posnmt.

Shapes: B rows, T tokens, Tq queries, Tk keys, H heads, D width of a head, d model width.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from posnmt_position.seam import Span


@runtime_checkable
class Penalising(Protocol):
    """A view whose `refine` multiplies position features by penalties that depend on the words."""

    def penalties(self, before: Tensor, after: Tensor) -> Tensor:
        """[B,T,d] between 0 and 1, from the arguments of `refine`."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A view whose `logits` counts the tokens between query and key, each with a share that depends on the words."""

    def counted(self, q: Tensor, k: Tensor, span: Span) -> Tensor:
        """[B,H,Tq,Tk] how far each key is from each query, in tokens, from the arguments of `logits`."""
        ...
