"""What a view may state of itself for people to read (`posnmt show`), beside the hooks, which say what it adds.

No view needs these methods, and neither attention nor layers call them. A scheme of any package that has one of them is
shown like those of posnmt.

Shapes: B rows, T tokens, Tq queries, Tk keys, H heads, D width of a head, d model width.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from posnmt_position.seam import Span


@runtime_checkable
class Penalising(Protocol):
    """A view whose `refine` weights position features by what it reads of the words."""

    def penalties(self, before: Tensor, after: Tensor) -> Tensor:
        """[B,T,d] between 0 and 1, from the arguments of `refine`."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A view whose `logits` counts tokens between query and key by what it reads of the words."""

    def counted(self, q: Tensor, k: Tensor, span: Span) -> Tensor:
        """[B,H,Tq,Tk] how far each key is from each query, in tokens, from the arguments of `logits`."""
        ...
