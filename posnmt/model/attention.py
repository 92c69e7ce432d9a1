"""Multi-head attention. The one place that chooses a kernel: by what the position view overrides, never by its name.

Shapes: B rows, T tokens, Tq queries, Tk keys, H heads, D width of a head, d = H x D.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.model.state import LayerCache
from posnmt.position.seam import LayerPositions, Span


class SelfAttention(nn.Module):
    """`softmax(q k^T / sqrt(D)) v` over one sequence (Vaswani et al. 2017, section 3.2), with the position seam.

    Query, key and value projections are one matrix; every projection has a bias.
    """

    def __init__(self, d_model: int, heads: int, dropout: float, causal: bool) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.project = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)
        _initialise(self.project, parts=3)
        _initialise(self.output)

    def forward(
        self, x: Tensor, view: LayerPositions, span: Span, mask: Tensor | None, cache: LayerCache | None = None
    ) -> Tensor:
        """Attend from the tokens computed now to all tokens so far.

        Args:
            x: [B,T,d] the tokens of `span`.
            view: what the position schemes do in this layer.
            mask: [B,1,1,Tk] bool, True at real tokens, or None.
            cache: keys and values of earlier tokens (decoder).

        Returns:
            [B,T,d]
        """
        reads = view.reads()
        weight = self.project.weight
        if reads is not None:  # [H,d] -> [3 x H x D, d]: each head's rows see only its features
            width = weight.shape[1] // self.heads
            weight = weight * reads.to(weight.dtype).repeat_interleave(width, dim=0).repeat(3, 1)
        mixed = functional.linear(x, weight, self.project.bias)  # [B,T,3d]
        q, k, v = mixed.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # 3 x [B,H,T,D]
        if cache is not None:
            k, v = cache.append(k, v)
        causal = self.causal and span.length > 1
        attended = attend(q, k, v, view, span, mask, causal, self.dropout if self.training else 0.0)
        return self.output(attended.transpose(1, 2).flatten(2))  # [B,H,T,D] -> [B,T,d]


class CrossAttention(nn.Module):
    """Attention from target to source; it has no relative term in any of the papers.

    The source's keys and values are projected once a sentence and shared by its hypotheses.
    """

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(d_model, d_model)
        self.memory = nn.Linear(d_model, 2 * d_model)
        self.output = nn.Linear(d_model, d_model)
        _initialise(self.query)
        _initialise(self.memory, parts=2)
        _initialise(self.output)

    def remember(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, each [S,H,J,D], of the encoder output [S,J,d]."""
        keys, values = self.memory(encoded).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return keys, values

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """Attend from x [N,T,d] to the memory of S sentences; N / S hypotheses of a sentence stand together.

        Args:
            mask: [S,1,1,J] bool, True at real source tokens, or None.

        Returns:
            [N,T,d]
        """
        keys, values = memory
        rows, sentences = x.shape[0], keys.shape[0]
        q = self.query(x).reshape(sentences, -1, self.heads, keys.shape[-1])  # [S, N/S x T, H, D]
        dropout = self.dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(q.transpose(1, 2), keys, values, mask, dropout)
        return self.output(attended.transpose(1, 2).reshape(rows, x.shape[1], -1))


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    view: LayerPositions,
    span: Span,
    mask: Tensor | None,
    causal: bool,
    dropout: float,
) -> Tensor:
    """Attention with a position view: fused where no view reads the attention weights, plain otherwise.

    Args:
        q: [B,H,Tq,D] queries, not scaled.
        k, v: [B,H,Tk,D].
        mask: broadcasts to [B,H,Tq,Tk], True where a key may be seen.
        causal: hide keys to the right of each query.
        dropout: probability on the attention weights.

    Returns:
        [B,H,Tq,D]
    """
    q, k = view.rotate(q * q.shape[-1] ** -0.5, k, span)
    bias, allowed = view.logits(q, k, span), view.allows(span)
    mask = _both(mask, allowed)
    if not view.adds_values:
        if bias is None and (mask is None or not causal):
            whole = causal and span.start == 0
            if causal and not whole:
                mask = _both(mask, span.offsets <= 0)
            return functional.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=whole, scale=1.0)
        mask = _both(mask, span.offsets <= 0 if causal else None)
        if bias is None:
            return functional.scaled_dot_product_attention(q, k, v, mask, dropout, scale=1.0)
        bias = bias.to(q.dtype) if mask is None else bias.to(q.dtype).masked_fill(~mask, -torch.inf)
        return functional.scaled_dot_product_attention(q, k, v, bias, dropout, scale=1.0)
    mask = _both(mask, span.offsets <= 0 if causal else None)
    scores = q @ k.transpose(-1, -2)  # [B,H,Tq,Tk]
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = functional.dropout(scores.softmax(-1).to(v.dtype), dropout, dropout > 0)
    added = view.values(weights, span)
    attended = weights @ v
    return attended if added is None else attended + added


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Two masks as one; None hides nothing."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _initialise(linear: nn.Linear, parts: int = 1) -> None:
    """Xavier-uniform for each of the matrices that stand one above the other in a fused projection; biases 0."""
    for block in linear.weight.data.chunk(parts, dim=0):
        nn.init.xavier_uniform_(block)
    nn.init.zeros_(linear.bias)
