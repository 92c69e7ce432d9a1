"""Attention with vectors for the clipped distance (Shaw et al. 2018) on a GPU, without a Tq x Tk tensor.

The kernels (`shaw_triton.py`) do not read the tables of vectors. They take the key term by distance, `q . w^K_r` for
the 2k+1 distances, and return the attention weights summed by distance, which are then multiplied by `w^V_r`. PyTorch
computes both products, and so the gradients of the tables.

Shapes: B rows, T tokens, H heads, D width of a head, R = 2k+1 distances. Internal tensors have tokens before heads
([B,T,H,..], dense), the layout of the projections, so that little is copied.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import torch
from torch import Tensor

WIDEST = 128
"""The widest head supported: tiles of wider heads would not fit a GPU's registers."""


def serves(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    """Whether `shaw_attention` supports these arguments: on a GPU that Triton supports, in a type that it multiplies.

    Not under torch.compile, which compiles the plain form.
    """
    return (
        q.is_cuda
        and q.shape == k.shape == v.shape
        and q.shape[-1] <= WIDEST
        and q.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and q.dtype == k.dtype == v.dtype
        and (mask is None or mask.shape[1:] == (1, 1, k.shape[-2]))
        and not torch.compiler.is_compiling()
        and _compiles(q.device)
    )


@cache
def _compiles(device: torch.device) -> bool:
    """Whether Triton is installed and supports bfloat16 on this generation of GPU."""
    return importlib.util.find_spec("triton") is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def shaw_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor | None,
    values: Tensor | None,
    mask: Tensor | None,
    causal: bool,
    dropout: float,
    unrotated: Tensor | None = None,
) -> Tensor:
    """`sum_j a_ij (v_j + w^V_r)` with `a = dropout(softmax(q_i k_j + q'_i w^K_r))`, r = clip(j - i, -k, k).

    Args:
        q: [B,H,T,D] scaled queries of the product with the keys.
        k, v: [B,H,T,D].
        keys: [R,D] the vectors w^K, or None.
        values: [R,D] the vectors w^V, or None; at least one of the two is required.
        mask: [B,1,1,T] or [1,1,1,T] bool, True where a key may be seen, or None.
        causal: hide keys to the right of each query.
        dropout: probability on the attention weights, drawn from the device's generator.
        unrotated: [B,H,T,D] the queries q' of the product with w^K, if another view rotates q; None: q.

    Returns:
        [B,H,T,D]; zeros for a query that sees no key.

    Raises:
        ValueError: neither vectors on the keys nor on the values.
    """
    table = keys if keys is not None else values
    if table is None:
        raise ValueError("shaw_attention needs vectors on the keys, on the values, or on both")
    read = q if unrotated is None else unrotated
    read, k, v = (x.transpose(1, 2).contiguous() for x in (read, k, v))  # [B,T,H,D]
    q = read if unrotated is None or unrotated is q else q.transpose(1, 2).contiguous()
    key_term = None if keys is None else read @ keys.to(q.dtype).transpose(0, 1)  # [B,T,H,R]
    if mask is not None:
        mask = mask.reshape(mask.shape[0], -1).expand(q.shape[0], -1).to(torch.uint8).contiguous()
    seed = torch.randint(2**62, (1,), device=q.device) if dropout else None
    reach = len(table) // 2
    attended, by_distance = _Attention.apply(q, k, v, key_term, mask, seed, reach, causal, dropout, values is not None)
    if values is not None:
        attended = attended + by_distance @ values.to(q.dtype)
    return attended.transpose(1, 2)


class _Attention(torch.autograd.Function):
    """Attended values [B,T,H,D], and on request the attention weights summed by clipped distance [B,T,H,R].

    The backward pass recomputes the weights from the normaliser, and the dropout from its seed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_term: Tensor | None,
        mask: Tensor | None,
        seed: Tensor | None,
        reach: int,
        causal: bool,
        dropout: float,
        weighs: bool,
    ) -> tuple[Tensor, Tensor | None]:
        from posnmt.model.kernels import shaw_triton

        attended = torch.empty_like(q)
        # zeros: the kernel does not write distances beyond the sentence, or to the right in a causal stack
        by_distance = q.new_zeros(*q.shape[:-1], 2 * reach + 1) if weighs else None
        normaliser = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
        launch = shaw_triton.Launch(q, reach, causal, dropout)
        launch(shaw_triton.forward, q, k, v, key_term, mask, seed, attended, by_distance, normaliser)
        ctx.save_for_backward(q, k, v, key_term, mask, seed, normaliser, attended, by_distance)
        ctx.launch = launch
        return attended, by_distance

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from posnmt.model.kernels import shaw_triton

        *inputs, attended, by_distance = ctx.saved_tensors
        q, k, v, key_term = inputs[:4]
        grad = grads[0].contiguous()
        # the softmax term of each query's gradients, sum_j a_ij (dL/da_ij), without a pass over the keys
        delta = (grad.float() * attended.float()).sum(-1)
        grad_by_distance = None
        if by_distance is not None:
            grad_by_distance = grads[1].contiguous()
            delta += (grad_by_distance.float() * by_distance.float()).sum(-1)
        grad_q, grad_k, grad_v = (torch.empty_like(x) for x in (q, k, v))
        grad_key_term = None if key_term is None else torch.zeros_like(key_term)
        arguments = (*inputs, grad, grad_by_distance, delta)
        ctx.launch(shaw_triton.backward_queries, *arguments, grad_q, grad_key_term)
        ctx.launch(shaw_triton.backward_keys, *arguments, grad_k, grad_v)
        return grad_q, grad_k, grad_v, grad_key_term, *[None] * 6
