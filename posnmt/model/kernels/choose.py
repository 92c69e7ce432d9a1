"""The choice of a kernel for attention, by the methods that position views override and never by their names.

Shapes: B rows, Tq queries, Tk keys, H heads, D width of a head.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from posnmt.model.kernels import shaw, shaw_trial
from posnmt.model.kernels.block_weights import BLOCK
from posnmt.model.kernels.blocks import attend_in_blocks
from posnmt.model.kernels.operands import Attention
from posnmt.model.kernels.plain import fused, plain
from posnmt_position.seam import LayerPositions

SMALL = 128 * 128
"""Up to this number of queries x keys, attention in training on a CPU is two plain matrix products."""


def attend(attention: Attention) -> Tensor:
    """[B,H,Tq,D] attention with a position view, by the fastest kernel that supports it."""
    return choose_kernel(attention)(attention)


def choose_kernel(attention: Attention) -> Callable[[Attention], Tensor]:
    """The kernel for these operands.

    Long inputs on a CPU are computed in blocks of queries. On a GPU there is a special kernel for entire sequences
    whose views reduce to vectors for distances. Otherwise it is PyTorch's fused kernel, or two matrix products if some
    view reads the attention weights or if they are faster.
    """
    q, k, v, view, span, mask, _, dropout, _ = attention
    if not attention.is_cross and _is_long(q, k, view, dropout):
        return attend_in_blocks
    if span.start == 0 and span.length > 1 and shaw.serves(q, k, v, mask) and shaw_trial.trusts(attention):
        return _by_distance_vectors
    return plain if view.adds_values or _is_plain(q, k, dropout) else fused


def _by_distance_vectors(attention: Attention) -> Tensor:
    """By vectors for clipped distances, to which the views reduce."""
    q, k, v, _, _, mask, causal, dropout, unrotated = attention
    vectors = attention.distance_vectors
    assert vectors is not None
    return shaw.shaw_attention(q, k, v, *vectors, mask, causal, dropout, unrotated[0] if unrotated else q)


def _is_plain(q: Tensor, k: Tensor, dropout: float) -> bool:
    """Whether two matrix products are faster than the fused kernel: on a CPU, for sentences, with gradients or in bf16.

    The fused kernel's backward pass took 41 ms and the products took 4 ms (2 cores, 4,096 tokens, 12 to 50 subwords a
    sentence); in bf16 it took 2 to 3 times as long for a decoding step. It has no dropout kernel for a CPU, and draws
    from PyTorch's global generator instead of the thread's own.
    """
    if q.device.type != "cpu":
        return False
    slow = torch.is_grad_enabled() or q.dtype == torch.bfloat16
    return dropout > 0 or (slow and q.shape[-2] * k.shape[-2] <= SMALL)


def _is_long(q: Tensor, k: Tensor, view: LayerPositions, dropout: float) -> bool:
    """Whether to attend in blocks: on a CPU, if the attention weights of all queries and keys would be too large.

    For views with logit terms, value terms or masks there is no alternative. Without them there is the fused kernel,
    which took 1.1 to 1.4 times as long in bf16 on one core (2,048 tokens, 200 to 2,048 a sequence) and was faster in
    all other cases.
    """
    if q.device.type != "cpu" or dropout or torch.compiler.is_compiling() or q.shape[-2] * k.shape[-2] <= SMALL:
        return False
    if view.biasing or view.adding or view.hiding:
        return q.shape[-2] > BLOCK or torch.is_grad_enabled()
    return q.dtype == torch.bfloat16 and torch.get_num_threads() == 1
