"""Attention of long inputs on a CPU in blocks of queries, with a custom backward pass.

The attention weights of a block are computed in a buffer that the next block reuses (`block_weights.py`), and
recomputed in the backward pass (`block_gradients.py`), so no tensor has the size of all queries times all keys,
whatever the position schemes add. Reuse matters as much as size: of a product and a softmax of 128 queries and 2,048
keys, new memory pages took more than half of the time.

Shapes: B rows, H heads, G = B x H, D width of a head; Tq queries, Tk keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from posnmt.model.kernels.block_gradients import BlockGradients, Sums
from posnmt.model.kernels.block_weights import Block, Blocks, Problem
from posnmt.model.kernels.distances import sum_by_distance
from posnmt.model.kernels.operands import Attention
from posnmt_position.distance_vectors import DistanceVectors
from posnmt_position.seam import LayerPositions


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
    kept = [span.kept[each] for each in view.keeping]
    read = *kept, *tables.values(), *problem.trained, *(each for each in vectors if each is not None)
    attended: Tensor = _InBlocks.apply(problem, *(each.to(v.dtype) for each in (q, k, v, *unrotated)), *read)
    return attended


_NOTHING = LayerPositions()


class _InBlocks(torch.autograd.Function):
    """Both passes over the blocks.

    `read` has the unrotated queries and keys, what the views kept, their tables by offset and their parameters, as
    arguments so that they receive gradients.
    """

    @staticmethod
    @custom_fwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def forward(ctx: Any, problem: Problem, q: Tensor, k: Tensor, v: Tensor, *read: Tensor) -> Tensor:
        saved = read[: problem.unrotated + len(problem.view.keeping) + len(problem.reading)]
        blocks = Blocks(problem, q, k, v, *_parts(problem, saved))
        attended = torch.empty_like(blocks.q)
        for _ in blocks.map(partial(_attend, blocks, attended)):
            pass
        ctx.problem = problem
        ctx.save_for_backward(q, k, v, *saved)
        return blocks.by_row(attended)

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        problem, (q, k, v, *saved) = ctx.problem, ctx.saved_tensors
        blocks = Blocks(problem, q, k, v, *_parts(problem, saved))
        sums = Sums(problem, (q, k, v, *saved))
        gradients = BlockGradients(blocks, sums, grads[0].contiguous().flatten(0, 1))
        for terms in blocks.map(gradients.of):  # in order, so that the sums do not depend on the number of cores
            for term in terms:
                term.add()
        return None, *sums.totals()


def _parts(problem: Problem, saved: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]]:
    """The unrotated queries and keys, what the views kept, and their tables by offset."""
    kept = problem.unrotated + len(problem.view.keeping)
    return saved[: problem.unrotated], saved[problem.unrotated : kept], saved[kept:]


def _attend(blocks: Blocks, attended: Tensor, block: Block) -> None:
    """Write the attended values of the queries of a block into `attended` [G,Tq,D]."""
    view, vectors = blocks.problem.view, blocks.problem.vectors.values
    block.span.tables.update(zip(blocks.read, blocks.tables(block), strict=True))
    block.span.kept.update(zip(view.keeping, blocks.kept(block), strict=True))
    queries, keys = blocks.words(block)
    weights = blocks.weights(block, view.logits(queries, keys, block.span, excluded=blocks.biases))
    output = attended[:, block.rows].copy_(torch.bmm(weights, blocks.v[:, block.keys]))
    added = view.values(blocks.by_row(weights), block.span)
    if added is not None:
        blocks.by_row(output).add_(added)
    if vectors is not None:
        counted = sum_by_distance(weights, block.span.start, len(vectors) // 2, 1.0)
        output += counted @ vectors.to(counted.dtype)
