"""Attention of long inputs on a CPU, a block of queries at a time, with a backward pass of its own.

A block's weights are computed in memory that the next block takes over, and once more in the backward pass, so nothing
of the size of all queries times all keys is held, whatever the position schemes add. Taking over the memory matters as
much as its size: of a product and a softmax of 128 queries and 2,048 keys, fresh pages took more than half of the time.

Shapes: B rows, H heads, G = B x H, D width of a head; Tq queries, Tk keys; n queries of a block, which see s keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from posnmt.position.seam import LayerPosition, LayerPositions, Span

BLOCK = 128
"""Queries of a block at most."""

ROOM = 1 << 20
"""Attention weights of a block, over all rows and heads, unless it has few queries: 2 MiB in bfloat16."""

FEW = 16
"""Queries of a block at least."""


def attend_in_blocks(
    q: Tensor, k: Tensor, v: Tensor, view: LayerPositions, span: Span, mask: Tensor | None, causal: bool
) -> Tensor:
    """Attention with a position view, without dropout: what `posnmt.model.attention.attend` computes.

    Args:
        q: [B,H,Tq,D] scaled queries, those of `span`.
        k, v: [B,H,Tk,D].
        mask: [B,1,1,Tk], True where a key may be seen, or None.
        causal: hide keys to the right of each query. A block computes only those up to its last query.

    Returns:
        [B,H,Tq,D]
    """
    by_offset = view.by_offset(span)
    problem = Problem(view, span, mask, causal, list(by_offset), view.trained())
    attended: Tensor = _InBlocks.apply(problem, q.to(v.dtype), k.to(v.dtype), v, *by_offset.values(), *problem.trained)
    return attended


class Problem(NamedTuple):
    """What attention needs besides queries, keys and values: see `attend_in_blocks`.

    Attributes:
        reading: the views whose logit terms read something of the offsets.
        trained: the parameters that the views read.
    """

    view: LayerPositions
    span: Span
    mask: Tensor | None
    causal: bool
    reading: Sequence[LayerPosition]
    trained: Sequence[nn.Parameter]


class Block(NamedTuple):
    """Some of the queries, and the keys that they see.

    Attributes:
        rows, keys: of all queries and of all keys.
        offsets: of the offsets that occur among all queries and keys, in rising order, those that occur here.
        span: the positions.
    """

    rows: slice
    keys: slice
    offsets: slice
    span: Span


class Blocks:
    """The blocks of a problem and the memory that they share. `q`, `k` and `v` are [G,..] here."""

    def __init__(self, problem: Problem, q: Tensor, k: Tensor, v: Tensor) -> None:
        self.problem, self.shape = problem, q.shape[:2]
        self.q, self.k, self.v = (each.contiguous().flatten(0, 1) for each in (q, k, v))
        room = ROOM // (len(self.q) * self.k.shape[1])
        self.size = min(max(FEW, min(BLOCK, room)), self.q.shape[1])
        self.room = q.new_empty(2, len(self.q) * self.size * self.k.shape[1])
        self.hide = None  # [B,1,1,Tk], added to the scores
        if problem.mask is not None:
            self.hide = q.new_zeros(problem.mask.shape).masked_fill_(~problem.mask, -torch.inf)

    def __iter__(self) -> Iterator[Block]:
        span, queries = self.problem.span, self.q.shape[1]
        for first in range(0, queries, self.size):
            last = min(first + self.size, queries)
            seen = span.start + last if self.problem.causal else self.k.shape[1]
            offsets = slice(queries - last, queries - first + seen - 1)
            here = Span(span.start + first, last - first, span.device, span.lengths, seen)
            yield Block(slice(first, last), slice(seen), offsets, here)

    def by_row(self, tensor: Tensor) -> Tensor:
        """[G,..] as [B,H,..]."""
        return tensor.unflatten(0, self.shape)

    def taken(self, block: Block, place: int) -> Tensor:
        """[G,n,s] in one of the two rooms: what was there is lost."""
        shape = len(self.q), block.span.length, block.span.end
        return self.room[place, : shape[0] * shape[1] * shape[2]].view(shape)

    def weights(self, block: Block, terms: Tensor | None) -> Tensor:
        """Attention weights [G,n,s], in the second room, from the views' logit terms."""
        found = torch.bmm(self.q[:, block.rows], self.k[:, block.keys].mT, out=self.taken(block, 0))
        scores = self.by_row(found)
        if terms is not None:
            scores += terms.to(scores.dtype)
        if self.hide is not None:
            scores += self.hide[..., block.keys]
        allowed = self.problem.view.allows(block.span)
        if allowed is not None:
            scores.masked_fill_(~allowed, -torch.inf)
        if self.problem.causal:  # every key before the first query may be seen
            n = block.span.length
            later = torch.ones(n, n, dtype=torch.bool, device=scores.device).triu_(1)
            scores[..., -n:].masked_fill_(later, -torch.inf)
        return torch.softmax(found, -1, out=self.taken(block, 1))


class Sum:
    """A sum over blocks, in float32 at least; a term is for a part of it."""

    def __init__(self, like: Tensor) -> None:
        self.total = torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
        self.wide = torch.empty_like(self.total)

    def add(self, term: Tensor | None, part: Any) -> None:
        """Add to a part; widened first, since adding to a tensor of another type takes ten times as long."""
        if term is not None:
            self.total[part] += self.wide[part].copy_(term)


class _InBlocks(torch.autograd.Function):
    """Both passes over the blocks.

    `read` is what the views read of the offsets, and their parameters: arguments, so that they get gradients.
    """

    @staticmethod
    @custom_fwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def forward(ctx: Any, problem: Problem, q: Tensor, k: Tensor, v: Tensor, *read: Tensor) -> Tensor:
        blocks, view, by_offset = Blocks(problem, q, k, v), problem.view, read[: len(problem.reading)]
        attended = torch.empty_like(blocks.q)
        for block in blocks:
            for reader, each in zip(problem.reading, by_offset, strict=True):
                block.span.given[reader] = each[..., block.offsets]
            queries, keys = blocks.by_row(blocks.q[:, block.rows]), blocks.by_row(blocks.k[:, block.keys])
            weights = blocks.weights(block, view.logits(queries, keys, block.span))
            here = attended[:, block.rows].copy_(torch.bmm(weights, blocks.v[:, block.keys]))
            added = view.values(blocks.by_row(weights), block.span)
            if added is not None:
                blocks.by_row(here).add_(added)
        ctx.problem = problem
        ctx.save_for_backward(q, k, v, *by_offset)
        return blocks.by_row(attended)

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, *by_offset = ctx.saved_tensors
        problem, blocks = ctx.problem, Blocks(ctx.problem, q, k, v)
        slope = slopes[0].contiguous().flatten(0, 1)
        d_q, d_k, d_v, *d_read = (Sum(each) for each in (q, k, v, *by_offset, *problem.trained))
        for block in blocks:
            rows, keys = (..., block.rows, slice(None)), (..., block.keys, slice(None))
            parts = [rows, keys, *[(..., block.offsets)] * len(by_offset), *[...] * len(problem.trained)]
            words = (blocks.by_row(each) for each in (blocks.q[:, block.rows], blocks.k[:, block.keys]))
            leaves = [each.detach().requires_grad_() for each in (*words, *(x[..., block.offsets] for x in by_offset))]
            block.span.given.update(zip(problem.reading, leaves[2:], strict=True))
            with torch.enable_grad():
                terms = problem.view.logits(leaves[0], leaves[1], block.span)
            weights = blocks.weights(block, terms)
            here = slope[:, block.rows]
            d_v.add(blocks.by_row(torch.bmm(weights.mT, here)), keys)
            change = torch.bmm(here, blocks.v[:, block.keys].mT, out=blocks.taken(block, 0))  # of the weights
            if problem.view.adds_values:
                seen = blocks.by_row(weights).detach().requires_grad_()
                with torch.enable_grad():
                    added = problem.view.values(seen, block.span)
                d_seen, *more = _pull(added, blocks.by_row(here), [seen, *problem.trained])
                if d_seen is not None:
                    blocks.by_row(change).add_(d_seen)
                for total, term in zip(d_read[len(by_offset) :], more, strict=True):
                    total.add(term, ...)
            torch._softmax_backward_data(change, weights, -1, weights.dtype, grad_input=change)  # now of the scores
            d_q.add(blocks.by_row(torch.bmm(change, blocks.k[:, block.keys])), rows)
            d_k.add(blocks.by_row(torch.bmm(change.mT, blocks.q[:, block.rows])), keys)
            found = _pull(terms, blocks.by_row(change), [*leaves, *problem.trained])
            for total, term, part in zip((d_q, d_k, *d_read), found, parts, strict=True):
                total.add(term, part)
        inputs = zip((d_q, d_k, d_v, *d_read), (q, k, v, *by_offset, *problem.trained), strict=True)
        return None, *(total.total.to(each.dtype) for total, each in inputs)


def _pull(made: Tensor | None, slope: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """The gradients of `inputs` from that of what was `made` of them, None for those that it did not read."""
    if made is None or not made.requires_grad:
        return [None] * len(inputs)
    return torch.autograd.grad(made, inputs, slope.sum_to_size(made.shape).to(made.dtype), allow_unused=True)
