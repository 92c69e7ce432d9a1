"""Attention with vectors for the clipped distance (Shaw et al. 2018) on a GPU, without a Tq x Tk tensor.

The kernels (`shaw_triton.py`) do not read the tables of vectors. They take the key term by distance, `q . w^K_r` for
the 2k+1 distances, and return the attention weights summed by distance, which are then multiplied by `w^V_r`. PyTorch
computes both products, and so the gradients of the tables.

Rows by distance have R' columns, a multiple of 8, and the tables as many rows, zeros beyond R = 2k+1. So they begin at
multiples of 16 bytes, without which a product takes a slow kernel.

Shapes: B rows, T tokens, H heads, D width of a head, R distances, R' with padding. Internal tensors have tokens before
heads ([B,T,H,..]), the layout of the projections, so that little is copied: the kernels read keys and values where the
projection wrote them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from posnmt.model.kernels.trial import compiles

WIDEST = 128
"""The widest head supported: tiles of wider heads would not fit a GPU's registers."""


def columns(reach: int) -> int:
    """R', the columns of a row by distance: 2k+1, rounded up to a multiple of 8."""
    return -(-(2 * reach + 1) // 8) * 8


def serves(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    """Whether `shaw_attention` serves these arguments: on a GPU that Triton supports, in a type that it multiplies."""
    return (
        q.is_cuda
        and q.shape == k.shape == v.shape
        and q.shape[-1] <= WIDEST
        and q.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and q.dtype == k.dtype == v.dtype
        and (mask is None or mask.shape[1:] == (1, 1, k.shape[-2]))
        and compiles(q.device)
    )


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
    read, k, v = read.transpose(1, 2).contiguous(), k.transpose(1, 2), v.transpose(1, 2)  # [B,T,H,D]
    q = read if unrotated is None or unrotated is q else q.transpose(1, 2).contiguous()
    key_term = None if keys is None else read @ _padded(keys, q.dtype).transpose(0, 1)  # [B,T,H,R']
    if mask is not None:
        mask = mask.reshape(mask.shape[0], -1).expand(q.shape[0], -1).to(torch.uint8).contiguous()
    # an operator of PyTorch costs tens of microseconds for each call; a graph needs one, and calls it without Python
    attention: Any = _operator if torch.compiler.is_compiling() else _Attention.apply
    attended, by_distance, *_ = attention(
        q, k, v, key_term, mask, len(table) // 2, causal, float(dropout), values is not None
    )
    if values is not None:
        attended = attended + by_distance @ _padded(values, q.dtype)
    return attended.transpose(1, 2)


def _padded(table: Tensor, dtype: torch.dtype) -> Tensor:
    """[R',D] vectors in a type, zeros beyond R."""
    return functional.pad(table.to(dtype), (0, 0, 0, columns(len(table) // 2) - len(table)))


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_term: Tensor | None,
    mask: Tensor | None,
    reach: int,
    causal: bool,
    dropout: float,
    weighs: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attended values [B,T,H,D], and with `weighs` the attention weights summed by clipped distance [B,T,H,R'].

    Returns:
        Both; the logarithm of each query's normaliser [B,T,H]; the seed of the dropout. What was not asked for is
        empty.
    """
    from posnmt.model.kernels import shaw_triton

    q, (k, v, spacing) = q.contiguous(), _spaced(k, v)
    attended, by_distance, normaliser, seed = _outputs(q, k, v, key_term, mask, reach, causal, dropout, weighs)
    # the kernel does not write distances beyond the sentence, or to the right in a causal stack, or the padding
    by_distance.zero_()
    if dropout:
        seed.random_(2**62)
    shaw_triton.Launch(q, spacing, reach, columns(reach), causal, dropout)(
        shaw_triton.forward,
        *(q, k, v, key_term, mask, seed if dropout else None),
        *(attended, by_distance if weighs else None, normaliser),
    )
    return attended, by_distance, normaliser, seed


def _spaced(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, int]:
    """Keys and values where a projection has them, and how many times [H,D] its tokens are apart; else dense, and 1.

    Both begin at multiples of 16 bytes, as dense tensors do, so that the same compiled kernels serve them.
    """
    _, tokens, heads, width = k.shape
    spacing = k.stride(1) // (heads * width)
    wanted = tokens * spacing * heads * width, spacing * heads * width, width, 1
    if k.stride() == v.stride() == wanted and k.data_ptr() % 16 == v.data_ptr() % 16 == 0:
        return k, v, spacing
    return k.contiguous(), v.contiguous(), 1


def _outputs(q: Tensor, *given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The tensors that `_forward` returns for these arguments, not yet computed."""
    *_, reach, _, dropout, weighs = given
    return (
        q.new_empty(q.shape),
        q.new_empty(*q.shape[:-1], columns(reach) if weighs else 0),
        q.new_empty(q.shape[:-1], dtype=torch.float32),
        q.new_empty(1 if dropout else 0, dtype=torch.int64),
    )


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_term: Tensor | None,
    mask: Tensor | None,
    seed: Tensor,
    normaliser: Tensor,
    grad: Tensor,
    grad_by_distance: Tensor,
    delta: Tensor,
    reach: int,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v and of the key term, which is empty if there is none.

    Args:
        grad, grad_by_distance: of the first two results of `_forward`.
        delta: [B,T,H] the softmax term of each query's gradients, `sum_j a_ij (dL/da_ij)`.
    """
    from posnmt.model.kernels import shaw_triton

    q, grad, grad_by_distance, delta = (x.contiguous() for x in (q, grad, grad_by_distance, delta))
    k, v, spacing = _spaced(k, v)
    grad_q, grad_k, grad_v, grad_key_term = _gradients_of(q, k, v, key_term)
    launch = shaw_triton.Launch(q, spacing, reach, columns(reach), causal, dropout)
    arguments = (
        *(q, k, v, key_term, mask, seed if dropout else None),
        *(normaliser, grad, grad_by_distance if grad_by_distance.shape[-1] else None, delta),
    )
    launch(shaw_triton.backward_queries, *arguments, grad_q, None if key_term is None else grad_key_term.zero_())
    launch(shaw_triton.backward_keys, *arguments, grad_k, grad_v)
    return grad_q, grad_k, grad_v, grad_key_term


def _gradients_of(
    q: Tensor, k: Tensor, v: Tensor, key_term: Tensor | None, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The tensors that `_backward` returns, not yet computed."""
    of_term = q.new_empty(0) if key_term is None else key_term.new_empty(key_term.shape)
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape), of_term


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Save what the backward pass reads."""
    *tensors, reach, causal, dropout, _ = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.rest = reach, causal, dropout
    ctx.mark_non_differentiable(*output[2:])


def _gradients(backward: Callable[..., tuple[Tensor, ...]], ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of the arguments of `_forward`.

    The backward pass recomputes the weights from the normaliser, and the dropout from its seed. The softmax term needs
    no pass over the keys.
    """
    q, k, v, key_term, mask, attended, by_distance, normaliser, seed = ctx.saved_tensors
    delta = (grads[0].float() * attended.float()).sum(-1)
    if by_distance.shape[-1]:
        delta = delta + (grads[1].float() * by_distance.float()).sum(-1)
    *of_words, of_term = backward(
        q, k, v, key_term, mask, seed, normaliser, grads[0].contiguous(), grads[1].contiguous(), delta, *ctx.rest
    )
    return *of_words, None if key_term is None else of_term, *[None] * 5


class _Attention(torch.autograd.Function):
    """The kernel as a function of autograd."""

    forward = staticmethod(_forward)
    setup_context = staticmethod(_keep)
    backward = staticmethod(partial(_gradients, _backward))


_NAMES = "Tensor q, Tensor k, Tensor v, Tensor? key_term, Tensor? mask"
_FOUR = "(Tensor, Tensor, Tensor, Tensor)"
# the same as an operator, which torch.compile calls without looking into it
_operator = torch.library.custom_op(
    "posnmt::shaw",
    _forward,
    mutates_args=(),
    schema=f"({_NAMES}, int reach, bool causal, float dropout, bool weighs) -> {_FOUR}",
    tags=[torch.Tag.nondeterministic_seeded],
)
_backward_operator = torch.library.custom_op(
    "posnmt::shaw_backward",
    _backward,
    mutates_args=(),
    schema=f"({_NAMES}, Tensor seed, Tensor normaliser, Tensor grad, Tensor grad_by_distance, Tensor delta,"
    f" int reach, bool causal, float dropout) -> {_FOUR}",
)
_operator.register_fake(_outputs)
_backward_operator.register_fake(_gradients_of)
_operator.register_autograd(partial(_gradients, _backward_operator), setup_context=_keep)
