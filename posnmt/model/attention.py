"""Multi-head attention. The one place that chooses a kernel: by what the position view overrides, never by its name.

Shapes: B rows, T tokens, Tq queries, Tk keys, H heads, D width of a head, d = H x D.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.dropout import dropout as drop
from posnmt.model.kernels import shaw
from posnmt.model.kernels.blocks import BLOCK, attend_in_blocks
from posnmt.model.start import XAVIER, Start
from posnmt.model.state import LayerCache
from posnmt.position.seam import LayerPositions, Span

SMALL = 128 * 128
"""Queries x keys of a head up to which attention in training on a CPU is two plain matrix products."""

_NO_POSITIONS = LayerPositions()


class HeadProjection(nn.Linear):
    """Queries, keys and values of all heads in one matrix [3d,d], each d rows of it H times D."""

    def forward(self, x: Tensor, reads: Tensor | None = None) -> Tensor:
        """[B,T,d] -> [B,T,3d]; reads [H,d] are the features that each head may project, None all."""
        return functional.linear(x, self.restricted(reads), self.bias)

    def restricted(self, reads: Tensor | None) -> Tensor:
        """[3d,d] the matrix, zero where a head may not read."""
        if reads is None:
            return self.weight
        width = self.in_features // len(reads)
        return self.weight * reads.to(self.weight.dtype).repeat_interleave(width, dim=0).repeat(3, 1)


class SelfAttention(nn.Module):
    """`softmax(q k^T / sqrt(D)) v` over one sequence (Vaswani et al. 2017, section 3.2), with the position seam.

    Query, key and value projections are one matrix; every projection has a bias.
    """

    def __init__(self, d_model: int, heads: int, dropout: float, causal: bool, start: Start = XAVIER) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.project = HeadProjection(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)
        start(self.project, "query", "key", "value")
        start(self.output, "attention-output")

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
        mixed = self.project(x, view.reads())  # [B,T,3d]
        q, k, v = mixed.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # 3 x [B,H,T,D]
        q = q * q.shape[-1] ** -0.5
        unturned: tuple[Tensor, ...] = (q, k) if view.reads_unturned_keys else (q,) if view.reads_unturned else ()
        q, k = view.rotate(q, k, span)
        if cache is not None:
            k, v, *unturned_keys = cache.append(k, v, *unturned[1:])
            unturned = (*unturned[:1], *unturned_keys)
        causal = self.causal and span.length > 1
        attended = attend(q, k, v, view, span, mask, causal, self.dropout if self.training else 0.0, unturned)
        return self.output(attended.transpose(1, 2).flatten(2))  # [B,H,T,D] -> [B,T,d]


class CrossAttention(nn.Module):
    """Attention from target to source; it has no relative term in any of the papers.

    The source's keys and values are projected once a sentence and shared by its hypotheses.
    """

    def __init__(self, d_model: int, heads: int, dropout: float, start: Start = XAVIER) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(d_model, d_model)
        self.memory = nn.Linear(d_model, 2 * d_model)
        self.output = nn.Linear(d_model, d_model)
        start(self.query, "query")
        start(self.memory, "key", "value")
        start(self.output, "attention-output")

    def remember(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, each [S,H,J,D], of the encoder output [S,J,d]."""
        # copied once, where the products of each step would copy them
        keys, values = self.memory(encoded).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).contiguous()
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
        q = self.query(x).reshape(sentences, -1, self.heads, keys.shape[-1]).transpose(1, 2)  # [S,H,N/S x T,D]
        dropout = self.dropout if self.training else 0.0
        q = q * q.shape[-1] ** -0.5
        if _is_long(q, keys, _NO_POSITIONS, dropout):
            span = Span(0, q.shape[-2], q.device, None, keys.shape[-2])
            attended = attend_in_blocks(q, keys, values, _NO_POSITIONS, span, mask, False)
        else:
            attended = _weighted_values(q, keys, values, None, mask, dropout)
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
    unturned: tuple[Tensor, ...] = (),
) -> Tensor:
    """Attention with a position view: fused where no view reads the attention weights, plain otherwise.

    On a GPU, whole sequences with vectors for distances alone have a kernel of their own; on a CPU, long ones are
    attended from in blocks of queries.

    Args:
        q, k: [B,H,Tq,D] scaled queries and [B,H,Tk,D] keys of the product, as `view.rotate` gives them.
        v: [B,H,Tk,D].
        mask: broadcasts to [B,H,Tq,Tk], True where a key may be seen.
        causal: hide keys to the right of each query.
        dropout: probability on the attention weights.
        unturned: the queries, or the queries and keys, that the view's logit terms read where those of the product
            are turned: see `LayerPositions.reads_unturned` and `reads_unturned_keys`. Empty: they are the same.

    Returns:
        [B,H,Tq,D]
    """
    if _is_long(q, k, view, dropout):
        return attend_in_blocks(q, k, v, view, span, mask, causal, unturned)
    read_q, read_k = *unturned, *(q, k)[len(unturned) :]
    if span.start == 0 and span.length > 1 and shaw.serves(q, k, v, mask):
        vectors = view.distance_vectors()
        if vectors is not None:
            return shaw.shaw_attention(q, k, v, *vectors, mask, causal, dropout, read_q)
    bias = view.logits(read_q, read_k, span)
    mask = _both(mask, view.mask(span))
    if (
        bias is None
        and mask is None
        and causal
        and span.start == 0
        and not view.adds_values
        and not _is_plain(q, k, dropout)
    ):
        return functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=1.0)
    mask = _both(mask, span.offsets <= 0 if causal else None)
    if not view.adds_values:
        return _weighted_values(q, k, v, bias, mask, dropout)
    weights = _weights(q, k, bias, mask, dropout)
    added = view.values(weights, span)
    attended = weights.to(v.dtype) @ v
    return attended if added is None else added + attended  # in this order: the sum lies as the next product wants it


def _weighted_values(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None, dropout: float
) -> Tensor:
    """Attention [B,H,Tq,D] without a term on the values, by the kernel that is fastest here; `q` is scaled."""
    if _is_plain(q, k, dropout):
        return _weights(q, k, bias, mask, dropout).to(v.dtype) @ v
    term = mask
    if bias is not None:
        term = bias.to(q.dtype) if mask is None else bias.to(q.dtype).masked_fill(~mask, -torch.inf)
    return functional.scaled_dot_product_attention(q, k, v, term, dropout, scale=1.0)


def _weights(q: Tensor, k: Tensor, bias: Tensor | None, mask: Tensor | None, dropout: float) -> Tensor:
    """Attention weights [B,H,Tq,Tk] as a tensor."""
    scores = q @ k.transpose(-1, -2)
    if bias is not None:  # in place unless that would round a wider bias
        scores = scores.add_(bias) if bias.dtype == scores.dtype else scores + bias
    scores = scores if mask is None else scores.masked_fill_(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return drop(weights, dropout) if dropout else weights


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


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Two masks as one; None hides nothing."""
    if one is None or other is None:
        return other if one is None else one
    return one & other
