"""Attention weights in blocks of queries, in buffers that the next block of a thread reuses.

Shapes: B rows, H heads, G = B x H, D width of a head; Tq queries, Tk keys; n queries of a block, which see s keys.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from posnmt.base.parallel.threads import Workers
from posnmt.model.kernels.distances import add_by_distance
from posnmt_position.diagonal import staggered
from posnmt_position.distance_vectors import DistanceVectors
from posnmt_position.seam import LayerPosition, LayerPositions, Span, is_offset_bias

Result = TypeVar("Result")

BLOCK = 256
"""Most queries of a block."""

MAX_BLOCK_WEIGHTS = 1 << 21
"""Most attention weights of a block, over all rows and heads, if it has more than `FEW` queries: 4 MiB in bfloat16."""

FEW = 16
"""Fewest queries of a block."""

HIDDEN = -1e30
"""Added to the scores of keys that views mask; finite, so that a padding query without other keys sees some."""


class Problem(NamedTuple):
    """The operands of attention other than queries, keys and values: see `Attention`.

    Attributes:
        reading: the views that have a table by offset.
        trained: the parameters that the views read.
        vectors: for clipped distances, in addition to the terms of the views.
        unrotated: 0, 1 or 2: whether the logit terms read unrotated queries, and unrotated keys.
    """

    view: LayerPositions
    span: Span
    mask: Tensor | None
    causal: bool
    reading: Sequence[LayerPosition]
    trained: Sequence[nn.Parameter]
    vectors: DistanceVectors = DistanceVectors(None, None)
    unrotated: int = 0


class Block(NamedTuple):
    """A block of queries, and the keys that they see.

    Attributes:
        rows, keys: slices of all queries and of all keys.
        offsets: slice of the ascending offsets of all queries and keys.
        span: the positions of the block.
    """

    rows: slice
    keys: slice
    offsets: slice
    span: Span


class Blocks:
    """The blocks of a problem and the buffers that the blocks of a thread share.

    Args:
        q, k, v: [B,H,Tq,D] and [B,H,Tk,D]; the attributes of these names are [G,..], as are `read_q` and `read_k`.
        unrotated: queries, or queries and keys, [B,H,..], that logit terms read if those of the product are rotated.
        kept: [B,H,Tk,m] what the views kept of all keys.
        by_offset: the tables of `problem.reading`.

    Attributes:
        read_q, read_k: queries and keys that logit terms read.
        biases: view -> table, of the offset biases.
        read: view -> table, of the other views.
        table: [..,rows,W] the sum of offset biases and masks by offset, of which a block adds a window; None: none.
        hide: [B,1,1,Tk] added to the scores, minus infinity at padding; None: no padding.
    """

    def __init__(
        self,
        problem: Problem,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        unrotated: Sequence[Tensor],
        kept: Sequence[Tensor],
        by_offset: Sequence[Tensor],
    ) -> None:
        self.problem, self.shape, self.all_kept = problem, q.shape[:2], kept
        self.q, self.k, self.v, *others = (each.contiguous().flatten(0, 1) for each in (q, k, v, *unrotated))
        self.read_q, self.read_k = *others, *(self.q, self.k)[len(others) :]
        self.size = min(max(FEW, min(BLOCK, MAX_BLOCK_WEIGHTS // (len(self.q) * self.k.shape[1]))), self.q.shape[1])
        self.thread = threading.local()
        tables = dict(zip(problem.reading, by_offset, strict=True))
        self.read = {view: each.to(q.dtype) for view, each in tables.items() if not is_offset_bias(view)}
        self.biases = {view: each for view, each in tables.items() if is_offset_bias(view)}
        self.table = self._joined_table()
        self.hide = None if problem.mask is None else _hiding(q, problem.mask, -torch.inf)

    def _joined_table(self) -> Tensor | None:
        """The sum of the offset biases and the views' mask, staggered for the rows of a block."""
        terms = [each.to(self.q.dtype) for each in self.biases.values()]
        allowed = self.problem.view.allows(self.problem.span)
        if allowed is not None:
            terms.append(_hiding(self.q, allowed, HIDDEN))
        return staggered(sum(terms[1:], terms[0]), self.size) if terms else None

    def __iter__(self) -> Iterator[Block]:
        span, queries = self.problem.span, self.q.shape[1]
        for first in range(0, queries, self.size):
            last = min(first + self.size, queries)
            seen = span.start + last if self.problem.causal else self.k.shape[1]
            offsets = slice(queries - last, queries - first + seen - 1)
            block_span = Span(span.start + first, last - first, span.device, span.lengths, seen, span.origin)
            yield Block(slice(first, last), slice(seen), offsets, block_span)

    def map(self, work: Callable[[Block], Result]) -> Iterator[Result]:
        """The results of `work` for each block, in order and without gradients; blocks run in parallel on the cores."""
        remaining, workers = iter(self), Workers(-(-self.q.shape[1] // self.size))
        try:
            while batch := list(islice(remaining, workers.count)):  # not more, so that results do not accumulate
                yield from workers.map(torch.no_grad()(work), batch)
        finally:
            workers.close()

    def by_row(self, tensor: Tensor) -> Tensor:
        """View a tensor [G,..], one entry a sentence and head, as [B,H,..]."""
        return tensor.unflatten(0, self.shape)

    def words(self, block: Block) -> tuple[Tensor, Tensor]:
        """[B,H,n,D] and [B,H,s,D]: the queries and keys of a block that logit terms read."""
        return self.by_row(self.read_q[:, block.rows]), self.by_row(self.read_k[:, block.keys])

    def kept(self, block: Block) -> list[Tensor]:
        """[B,H,s,m] what the views kept of the keys of a block."""
        return [each[:, :, block.keys] for each in self.all_kept]

    def tables(self, block: Block) -> list[Tensor]:
        """[..,n + s - 1] the part of a block in the tables of `read`."""
        return [each[..., block.offsets] for each in self.read.values()]

    def buffer(self, block: Block, index: int) -> Tensor:
        """[G,n,s] in one of the two buffers, whose content is overwritten."""
        shape = len(self.q), block.span.length, block.span.end
        if not hasattr(self.thread, "buffers"):
            self.thread.buffers = self.q.new_empty(2, len(self.q) * self.size * self.k.shape[1])
        memory: Tensor = self.thread.buffers[index]
        return memory[: shape[0] * shape[1] * shape[2]].view(shape)

    def weights(self, block: Block, terms: Tensor | None) -> Tensor:
        """Attention weights [G,n,s], in the second buffer.

        Args:
            terms: the views' logit terms, which broadcast to [B,H,n,s], except offset biases; None: none.
        """
        logits = torch.bmm(self.q[:, block.rows], self.k[:, block.keys].mT, out=self.buffer(block, 0))
        scores, vectors = self.by_row(logits), self.problem.vectors.keys
        if vectors is not None:
            add_by_distance(logits, self.read_q[:, block.rows] @ vectors.to(logits.dtype).mT, block.span.start)
        if terms is not None:
            scores += terms.to(scores.dtype)
        if self.table is not None:
            first = block.offsets.start + block.span.length - 1
            scores += self.table[..., : block.span.length, first : first + block.span.end]
        if self.hide is not None:
            scores += self.hide[..., block.keys]
        if self.problem.causal:
            n = scores.shape[-2]  # only the last n keys may be to the right of a query
            later = torch.ones(n, n, dtype=torch.bool, device=scores.device).triu_(1)
            scores[..., -n:].masked_fill_(later, -torch.inf)
        return torch.softmax(logits, -1, out=self.buffer(block, 1))


def _hiding(like: Tensor, seen: Tensor, value: float) -> Tensor:
    """A term in the type of `like`: `value` where `seen` is False, else 0."""
    return like.new_zeros(seen.shape).masked_fill_(~seen, value)
