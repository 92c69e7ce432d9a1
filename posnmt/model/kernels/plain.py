"""Attention by PyTorch's operations: two matrix products with a softmax between them, or the fused kernel.

Shapes: B rows, Tq queries, Tk keys, H heads, D width of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from posnmt.model.kernels.operands import Attention
from posnmt_position.dropout import dropout as drop


def attention_weights(a: Attention) -> Tensor:
    """[B,H,Tq,Tk] the softmax of the logits over the keys that each query may see, without dropout."""
    bias, seen = a.bias, a.seen
    scores = a.q @ a.k.transpose(-1, -2)
    if bias is not None:  # in place, unless the bias is wider than the scores
        scores = scores.add_(bias) if bias.dtype == scores.dtype else scores + bias
    scores = scores if seen is None else scores.masked_fill_(~seen, -torch.inf)
    return scores.softmax(-1)


def plain(a: Attention) -> Tensor:
    """[B,H,Tq,D] by two matrix products, with the attention weights as a tensor that the views may read."""
    weights = attention_weights(a)
    weights = drop(weights, a.dropout) if a.dropout else weights
    added = a.view.values(weights, a.span)
    attended = weights.to(a.v.dtype) @ a.v
    if added is None:
        return attended
    return added + attended  # in this order, for the memory layout that the output projection reads


def fused(a: Attention) -> Tensor:
    """[B,H,Tq,D] by PyTorch's fused kernel, if no view reads the attention weights."""
    bias = a.bias
    if a.causal and bias is None and a.mask is None and not a.view.hiding and a.span.start == 0:
        return functional.scaled_dot_product_attention(a.q, a.k, a.v, None, a.dropout, is_causal=True, scale=1.0)
    term = seen = a.seen
    if bias is not None:
        term = bias.to(a.q.dtype) if seen is None else bias.to(a.q.dtype).masked_fill(~seen, -torch.inf)
    return functional.scaled_dot_product_attention(a.q, a.k, a.v, term, a.dropout, scale=1.0)
