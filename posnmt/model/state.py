"""The state of the decoder between two steps: an explicit value with one operation, `select`, for beam search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from posnmt_position.seam import Carry


class LayerCache:
    """Self-attention keys and values [N,H,T,D] of one decoder layer, without spare capacity.

    If position views read keys that another view rotates for the product, both forms of the keys are cached, and so is
    what views keep of each token [N,H,T,m].

    Spare capacity would save a copy in each step, but make the batched products slower: they copy matrices that are
    not contiguous.

    Attributes:
        feed_forward: the carry of a recurrent feed-forward layer.
    """

    def __init__(self) -> None:
        self.feed_forward: Carry = None
        self._cached: tuple[Tensor, ...] | None = None

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Append keys, values and more [N,H,Tq,..] of this call; return those of all tokens so far."""
        if self._cached is None:  # an entire target at once is not copied
            self._cached = new
        else:
            self._cached = tuple(torch.cat([cached, each], 2) for cached, each in zip(self._cached, new, strict=True))
        return self._cached

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order, repeats allowed."""
        if self._cached is not None:
            self._cached = tuple(cached.index_select(0, rows) for cached in self._cached)
        self.feed_forward = select_rows(self.feed_forward, rows)


@dataclass
class DecoderState:
    """The state of the decoder for S sentences and N = S x hypotheses rows.

    Attributes:
        memory: for each layer the projected encoder output, keys and values [S,H,J,D]; one for all hypotheses.
        memory_mask: [S,1,1,J] bool, True at real source tokens, or None when no row is padded.
        caches: self-attention keys and values, one a layer; None: nothing is kept, for a target that is read at once.
        carry: the carry of each position scheme.
        length: target tokens consumed.
    """

    memory: list[tuple[Tensor, Tensor]]
    memory_mask: Tensor | None
    caches: Sequence[LayerCache | None]
    carry: list[Carry] = field(default_factory=list)
    length: int = 0

    @property
    def sentences(self) -> int:
        """S, the number of sentences in the batch."""
        return self.memory[0][0].shape[0]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] if some have left the batch.

        The rows of a sentence are adjacent, the same number for each sentence.
        """
        for cache in filter(None, self.caches):
            cache.select(rows)
        self.carry = [select_rows(carry, rows) for carry in self.carry]
        if sentences is not None:
            self.memory = [(k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.memory]
            if self.memory_mask is not None:
                self.memory_mask = self.memory_mask.index_select(0, sentences)


def select_rows(carry: Carry, rows: Tensor) -> Carry:
    """A carry (None, a tensor whose first dimension is rows, or a tuple of carries) with these rows."""
    if carry is None:
        return None
    if isinstance(carry, Tensor):
        return carry.index_select(0, rows)
    return tuple(select_rows(part, rows) for part in carry)


def padding_mask(lengths: Tensor | None, width: int) -> Tensor | None:
    """[B,1,1,width] bool, True at real tokens, from lengths [B]; None without lengths."""
    if lengths is None:
        return None
    return (torch.arange(width, device=lengths.device)[None, :] < lengths[:, None])[:, None, None, :]
