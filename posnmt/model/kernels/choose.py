"""The one place that chooses a kernel for attention: by what the position view overrides, never by its name.

Shapes: B rows, Tq queries, Tk keys, H heads, D width of a head.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from posnmt.model.kernels import shaw
from posnmt.model.kernels.blocks import BLOCK, attend_in_blocks
from posnmt.model.kernels.plain import Attention, fused, plain
from posnmt.position.seam import LayerPositions, Span

SMALL = 128 * 128
"""Queries x keys of a head up to which attention in training on a CPU is two plain matrix products."""


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    view: LayerPositions,
    span: Span,
    mask: Tensor | None,
    causal: bool,
    dropout: float,
    unturned: tuple[Tensor, ...] = (),
) -> Tensor:
    """Attention with a position view, by the kernel that serves it fastest.

    Args:
        q, k: [B,H,Tq,D] scaled queries and [B,H,Tk,D] keys of the product, as `view.rotate` gives them.
        v: [B,H,Tk,D].
        mask: [B,1,1,Tk], True where a key may be seen, or None.
        causal: hide keys to the right of each query.
        dropout: probability on the attention weights.
        unturned: the queries, or the queries and keys, that the view's logit terms read where those of the product
            are turned: see `LayerPositions.reads_unturned` and `reads_unturned_keys`. Empty: they are the same.

    Returns:
        [B,H,Tq,D]
    """
    attention = Attention(q, k, v, view, span, mask, causal, dropout, unturned)
    return choose_kernel(attention)(attention)


def choose_kernel(attention: Attention) -> Callable[[Attention], Tensor]:
    """The kernel for an attention.

    Long inputs on a CPU go in blocks of queries. On a GPU, whole sequences with vectors for distances alone have a
    kernel of their own. Otherwise PyTorch's fused kernel serves where no view reads the attention weights, and two
    products where one does or where they are faster.
    """
    q, k, v, view, span, mask, _, dropout, _ = attention
    if _is_long(q, k, view, dropout):
        return _in_blocks
    if span.start == 0 and span.length > 1 and shaw.serves(q, k, v, mask) and view.distance_vectors() is not None:
        return _by_distance_vectors
    return plain if view.adds_values or _is_plain(q, k, dropout) else fused


def _in_blocks(attention: Attention) -> Tensor:
    """In blocks of queries, which has no dropout."""
    q, k, v, view, span, mask, causal, _, unturned = attention
    return attend_in_blocks(q, k, v, view, span, mask, causal, unturned)


def _by_distance_vectors(attention: Attention) -> Tensor:
    """By vectors for clipped distances, which are all that the view adds."""
    q, k, v, view, _, mask, causal, dropout, unturned = attention
    vectors = view.distance_vectors()
    assert vectors is not None
    return shaw.shaw_attention(q, k, v, *vectors, mask, causal, dropout, unturned[0] if unturned else q)


def _is_plain(q: Tensor, k: Tensor, dropout: float) -> bool:
    """Whether two matrix products beat the fused kernel: on a CPU, for sentences, while gradients are taken or in bf16.

    The fused kernel's backward took 41 ms where the products took 4 (2 cores, 4,096 tokens of 12 to 50 subwords); in
    bf16 it took 2 to 3 times as long as they for a step of decoding. With dropout it has no kernel for a CPU, and would
    draw from PyTorch's one generator, whatever the thread.
    """
    if q.device.type != "cpu":
        return False
    slow = torch.is_grad_enabled() or q.dtype == torch.bfloat16
    return dropout > 0 or (slow and q.shape[-2] * k.shape[-2] <= SMALL)


def _is_long(q: Tensor, k: Tensor, view: LayerPositions, dropout: float) -> bool:
    """Whether to attend in blocks: on a CPU, where the weights of all queries and keys are too many to be held.

    A view whose terms or masks are as large has nothing else. Plain attention has the fused kernel, whose passes took
    1.1 to 1.4 times as long in bf16 on one core (2,048 tokens, 200 to 2,048 a sequence), and less in all other cases.
    """
    if q.device.type != "cpu" or dropout or torch.compiler.is_compiling() or q.shape[-2] * k.shape[-2] <= SMALL:
        return False
    if view.biasing or view.adding or view.hiding:
        return q.shape[-2] > BLOCK or torch.is_grad_enabled()
    return q.dtype == torch.bfloat16 and torch.get_num_threads() == 1
