"""Attention of long inputs on a CPU in blocks of queries, with a custom backward pass.

The attention weights of a block are computed in a buffer that the next block reuses, and recomputed in the backward
pass, so no tensor has the size of all queries times all keys, whatever the position schemes add. Reuse matters as much
as size: of a product and a softmax of 128 queries and 2,048 keys, new memory pages took more than half of the time.

Shapes: B rows, H heads, G = B x H, D width of a head; Tq queries, Tk keys; n queries of a block, which see s keys.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from posnmt.model.kernels.distances import add_by_distance, sum_by_distance
from posnmt.model.kernels.operands import Attention
from posnmt.parallel.threads import Workers
from posnmt.position.diagonal import staggered, summed
from posnmt.position.distance_vectors import DistanceVectors
from posnmt.position.seam import LayerPosition, LayerPositions, Span, is_offset_bias

Result = TypeVar("Result")

BLOCK = 256
"""Most queries of a block."""

MAX_BLOCK_WEIGHTS = 1 << 21
"""Most attention weights of a block, over all rows and heads, if it has more than `FEW` queries: 4 MiB in bfloat16."""

FEW = 16
"""Fewest queries of a block."""

HIDDEN = -1e30
"""Added to the scores of keys that views mask; finite, so that a padding query without other keys sees some."""


def attend_in_blocks(attention: Attention) -> Tensor:
    """[B,H,Tq,D] attention with a position view, without dropout.

    A causal block computes only the keys up to its last query.
    """
    q, k, v, view, span, mask, causal, _, unrotated = attention
    vectors = attention.distance_vectors or DistanceVectors(None, None)
    if any(each is not None for each in vectors):
        view = _NOTHING  # the views reduce to the vectors
    tables = view.tables(span)
    problem = Problem(view, span, mask, causal, list(tables), view.trained(), vectors, len(unrotated))
    read = *tables.values(), *problem.trained, *(each for each in vectors if each is not None)
    attended: Tensor = _InBlocks.apply(problem, *(each.to(v.dtype) for each in (q, k, v, *unrotated)), *read)
    return attended


_NOTHING = LayerPositions()


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
    """The blocks of a problem and the buffers that the blocks of a thread share. `q`, `k` and `v` are [G,..] here.

    Attributes:
        read_q, read_k: queries and keys that logit terms read.
        biases: the tables of offset biases; `table` has their sum and the views' masks, and a block reads a window.
        read: the tables of the other views.
    """

    def __init__(
        self,
        problem: Problem,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        unrotated: Sequence[Tensor],
        by_offset: Sequence[Tensor],
    ) -> None:
        self.problem, self.shape = problem, q.shape[:2]
        self.q, self.k, self.v, *others = (each.contiguous().flatten(0, 1) for each in (q, k, v, *unrotated))
        self.read_q, self.read_k = *others, *(self.q, self.k)[len(others) :]
        rows = MAX_BLOCK_WEIGHTS // (len(self.q) * self.k.shape[1])
        self.size = min(max(FEW, min(BLOCK, rows)), self.q.shape[1])
        self.thread = threading.local()
        tables = dict(zip(problem.reading, by_offset, strict=True))
        self.read = {view: each.to(q.dtype) for view, each in tables.items() if not is_offset_bias(view)}
        self.biases = {view: each for view, each in tables.items() if is_offset_bias(view)}
        terms = [each.to(q.dtype) for each in self.biases.values()]
        allowed = problem.view.allows(problem.span)
        if allowed is not None:
            terms.append(q.new_zeros(allowed.shape).masked_fill_(~allowed, HIDDEN))
        self.table = staggered(sum(terms[1:], terms[0]), self.size) if terms else None
        self.hide = None  # [B,1,1,Tk], added to the scores
        if problem.mask is not None:
            self.hide = q.new_zeros(problem.mask.shape).masked_fill_(~problem.mask, -torch.inf)

    def __iter__(self) -> Iterator[Block]:
        span, queries = self.problem.span, self.q.shape[1]
        for first in range(0, queries, self.size):
            last = min(first + self.size, queries)
            seen = span.start + last if self.problem.causal else self.k.shape[1]
            offsets = slice(queries - last, queries - first + seen - 1)
            block_span = Span(span.start + first, last - first, span.device, span.lengths, seen)
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
        """[G,..] as [B,H,..]."""
        return tensor.unflatten(0, self.shape)

    def words(self, block: Block) -> tuple[Tensor, Tensor]:
        """[B,H,n,D] and [B,H,s,D]: the queries and keys of a block that logit terms read."""
        return self.by_row(self.read_q[:, block.rows]), self.by_row(self.read_k[:, block.keys])

    def buffer(self, block: Block, index: int) -> Tensor:
        """[G,n,s] in one of the two buffers, whose content is overwritten."""
        shape = len(self.q), block.span.length, block.span.end
        if not hasattr(self.thread, "buffers"):
            self.thread.buffers = self.q.new_empty(2, len(self.q) * self.size * self.k.shape[1])
        memory: Tensor = self.thread.buffers[index]
        return memory[: shape[0] * shape[1] * shape[2]].view(shape)

    def weights(self, block: Block, terms: Tensor | None) -> Tensor:
        """Attention weights [G,n,s], in the second buffer, from the views' logit terms."""
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
        if self.problem.causal:  # the mask concerns only the last n keys
            n = block.span.length
            later = torch.ones(n, n, dtype=torch.bool, device=scores.device).triu_(1)
            scores[..., -n:].masked_fill_(later, -torch.inf)
        return torch.softmax(logits, -1, out=self.buffer(block, 1))


class Sum:
    """A sum over blocks, in float32 at least."""

    def __init__(self, like: Tensor) -> None:
        self.total = torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
        self.wide = torch.empty_like(self.total)


class Term(NamedTuple):
    """The term of a block for a part of a sum, or None."""

    to: Sum
    term: Tensor | None
    part: Any

    def add(self) -> None:
        """Add it, after a conversion: adding to a tensor of another type takes ten times as long."""
        if self.term is not None:
            self.to.total[self.part] += self.to.wide[self.part].copy_(self.term)


class _InBlocks(torch.autograd.Function):
    """Both passes over the blocks.

    `read` has the unrotated queries and keys, the views' tables by offset and their parameters, as arguments so that
    they receive gradients.
    """

    @staticmethod
    @custom_fwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def forward(ctx: Any, problem: Problem, q: Tensor, k: Tensor, v: Tensor, *read: Tensor) -> Tensor:
        unrotated, by_offset = read[: problem.unrotated], read[problem.unrotated :][: len(problem.reading)]
        view, vectors = problem.view, problem.vectors.values
        blocks = Blocks(problem, q, k, v, unrotated, by_offset)
        attended = torch.empty_like(blocks.q)

        def attend(block: Block) -> None:
            block.span.tables.update({reader: each[..., block.offsets] for reader, each in blocks.read.items()})
            queries, keys = blocks.words(block)
            weights = blocks.weights(block, view.logits(queries, keys, block.span, excluded=blocks.biases))
            output = attended[:, block.rows].copy_(torch.bmm(weights, blocks.v[:, block.keys]))
            added = view.values(blocks.by_row(weights), block.span)
            if added is not None:
                blocks.by_row(output).add_(added)
            if vectors is not None:
                counted = sum_by_distance(weights, block.span.start, len(vectors) // 2, 1.0)
                output += counted @ vectors.to(counted.dtype)

        for _ in blocks.map(attend):
            pass
        ctx.problem = problem
        ctx.save_for_backward(q, k, v, *unrotated, *by_offset)
        return blocks.by_row(attended)

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        problem, (q, k, v, *saved) = ctx.problem, ctx.saved_tensors
        unrotated, by_offset = saved[: problem.unrotated], saved[problem.unrotated :]
        blocks = Blocks(problem, q, k, v, unrotated, by_offset)
        view, trained, (on_keys, on_values) = problem.view, problem.trained, problem.vectors
        d_attended = grads[0].contiguous().flatten(0, 1)

        inputs = (q, k, v, *saved, *trained, *(each for each in problem.vectors if each is not None))
        sums = d_q, d_k, d_v, *d_read = [Sum(each) for each in inputs]
        d_unrotated, d_read = d_read[: problem.unrotated], d_read[problem.unrotated :]
        d_read_q, d_read_k = *d_unrotated, *(d_q, d_k)[problem.unrotated :]
        d_by_offset = dict(zip(problem.reading, d_read, strict=False))
        d_trained, d_vectors = d_read[len(by_offset) :][: len(trained)], d_read[len(by_offset) + len(trained) :]

        def terms_of(block: Block) -> list[Term]:
            rows, keys = (..., block.rows, slice(None)), (..., block.keys, slice(None))
            words = blocks.words(block)
            read = [each[..., block.offsets] for each in blocks.read.values()]
            leaves = [each.detach().requires_grad_() for each in (*words, *read)]
            block.span.tables.update(zip(blocks.read, leaves[2:], strict=True))
            with torch.enable_grad():
                terms = view.logits(leaves[0], leaves[1], block.span, excluded=blocks.biases)
            weights, d_block = blocks.weights(block, terms), d_attended[:, block.rows]
            gradients = [Term(d_v, blocks.by_row(torch.bmm(weights.mT, d_block)), keys)]
            change = torch.bmm(d_block, blocks.v[:, block.keys].mT, out=blocks.buffer(block, 0))  # of the weights
            if view.adds_values:
                seen = blocks.by_row(weights).detach().requires_grad_()
                with torch.enable_grad():
                    added = view.values(seen, block.span)
                d_seen, *more = _gradients(added, blocks.by_row(d_block), [seen, *trained])
                if d_seen is not None:
                    blocks.by_row(change).add_(d_seen)
                gradients += map(Term, d_trained, more, [...] * len(trained))
            if on_values is not None:
                counted = sum_by_distance(weights, block.span.start, len(on_values) // 2, 1.0)
                gradients.append(Term(d_vectors[-1], _gathered(counted, d_block), ...))
                add_by_distance(change, d_block @ on_values.to(d_block.dtype).mT, block.span.start)
            torch._softmax_backward_data(change, weights, -1, weights.dtype, grad_input=change)  # now of the scores
            gradients.append(Term(d_q, blocks.by_row(torch.bmm(change, blocks.k[:, block.keys])), rows))
            gradients.append(Term(d_k, blocks.by_row(torch.bmm(change.mT, blocks.q[:, block.rows])), keys))
            if on_keys is not None:
                d_products = sum_by_distance(change, block.span.start, len(on_keys) // 2, 0.0)
                gradients.append(Term(d_read_q, blocks.by_row(d_products @ on_keys.to(d_products.dtype)), rows))
                gradients.append(Term(d_vectors[0], _gathered(d_products, blocks.read_q[:, block.rows]), ...))
            into = [d_read_q, d_read_k, *(d_by_offset[reader] for reader in blocks.read), *d_trained]
            parts = [rows, keys, *[(..., block.offsets)] * len(read), *[...] * len(trained)]
            gradients += map(Term, into, _gradients(terms, blocks.by_row(change), [*leaves, *trained]), parts)
            for reader, each in blocks.biases.items():
                if each.requires_grad:
                    grads = summed(blocks.by_row(change))
                    term = grads.sum_to_size((*each.shape[:-1], grads.shape[-1]))
                    gradients.append(Term(d_by_offset[reader], term, (..., block.offsets)))
            return gradients

        for gradients in blocks.map(terms_of):  # in order, so that the sums do not depend on the number of cores
            for term in gradients:
                term.add()
        return None, *(accumulated.total.to(each.dtype) for accumulated, each in zip(sums, inputs, strict=True))


def _gradients(output: Tensor | None, gradient: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """The gradients of `inputs` from the gradient of the output; None for inputs that it does not depend on."""
    if output is None or not output.requires_grad:
        return [None] * len(inputs)
    return torch.autograd.grad(output, inputs, gradient.sum_to_size(output.shape).to(output.dtype), allow_unused=True)


def _gathered(by_distance: Tensor, tokens: Tensor) -> Tensor:
    """[2k+1,D] the gradients of vectors for distances: sums of tokens [G,n,D] with weights [G,n,2k+1]."""
    return by_distance.flatten(0, 1).mT @ tokens.flatten(0, 1)
