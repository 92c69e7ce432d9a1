"""Multi-head attention: projections around a kernel (`posnmt.model.kernels.choose`).

Shapes: B rows, T tokens, Tq queries, Tk keys, H heads, D width of a head, d = H x D.
"""

from __future__ import annotations

from torch import Tensor, nn

from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt.model.start import XAVIER, Start
from posnmt.model.state import LayerCache
from posnmt_position.linear import Linear, linear
from posnmt_position.seam import CrossSpan, LayerPositions, Span

_NO_POSITIONS = LayerPositions()


class HeadProjection(nn.Linear):
    """Queries, keys and values of all heads in one matrix [3d,d]: d rows for each of the three, D for each head."""

    def forward(self, x: Tensor, reads: Tensor | None = None) -> Tensor:
        """[B,T,d] -> [B,T,3d]; `reads` [H,d] are the features that each head may project; None: all."""
        return linear(x, self.restricted(reads), self.bias)

    def restricted(self, reads: Tensor | None) -> Tensor:
        """[3d,d] the matrix, with zeros for features that a head may not read."""
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
        self.output = Linear(d_model, d_model)
        start(self.project, "query", "key", "value")
        start(self.output, "attention-output")

    def forward(
        self, x: Tensor, view: LayerPositions, span: Span, mask: Tensor | None, cache: LayerCache | None = None
    ) -> Tensor:
        """Attend from the tokens of this call to all tokens so far.

        Args:
            x: [B,T,d] the tokens of `span`.
            view: the joined view of the position schemes.
            mask: [B,1,1,Tk] bool, True at real tokens, or None.
            cache: keys and values of earlier tokens (decoder).

        Returns:
            [B,T,d]
        """
        attended = attend(self.operands(x, view, span, mask, cache))
        return self.output(attended.transpose(1, 2).flatten(2))  # [B,H,T,D] -> [B,T,d]

    def operands(
        self, x: Tensor, view: LayerPositions, span: Span, mask: Tensor | None, cache: LayerCache | None = None
    ) -> Attention:
        """The operands of the kernel, from the arguments of `forward`; the tokens of `span` are added to the cache."""
        q, k, v = self.heads_of(x, view)
        unrotated: tuple[Tensor, ...] = (q, k) if view.reads_unrotated_keys else (q,) if view.reads_unrotated else ()
        q, k = view.rotate(q, k, span)
        kept = view.keep(x, span)
        if cache is not None:
            k, v, *others = cache.append(k, v, *kept.values(), *unrotated[1:])
            kept, unrotated = dict(zip(kept, others, strict=False)), (*unrotated[:1], *others[len(kept) :])
        span.kept.update(kept)
        causal = self.causal and span.length > 1
        return Attention(q, k, v, view, span, mask, causal, self.dropout if self.training else 0.0, unrotated)

    def heads_of(self, x: Tensor, view: LayerPositions) -> tuple[Tensor, Tensor, Tensor]:
        """Scaled queries, keys and values [B,H,T,D] of all heads, before rotation."""
        mixed = self.project(x, view.reads())  # [B,T,3d]
        q, k, v = mixed.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # 3 x [B,H,T,D]
        return q * q.shape[-1] ** -0.5, k, v


class CrossAttention(nn.Module):
    """Attention from target to source, without position terms in all of the papers; `decoder.cross` adds some.

    The keys and values of the source are projected once for each sentence and shared by its hypotheses.
    """

    def __init__(self, d_model: int, heads: int, dropout: float, start: Start = XAVIER) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = Linear(d_model, d_model)
        self.memory = Linear(d_model, 2 * d_model)
        self.output = Linear(d_model, d_model)
        start(self.query, "query")
        start(self.memory, "key", "value")
        start(self.output, "attention-output")

    def remember(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, each [S,H,J,D], of the encoder output [S,J,d]."""
        # contiguous, so that the products of a decoding step need not copy them
        keys, values = self.memory(encoded).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).contiguous()
        return keys, values

    def forward(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        mask: Tensor | None,
        view: LayerPositions = _NO_POSITIONS,
        span: CrossSpan | None = None,
    ) -> Tensor:
        """Attend from x [N,T,d] to the memory of S sentences; the N / S hypotheses of a sentence are adjacent.

        Args:
            mask: [S,1,1,J] bool, True at real source tokens, or None.
            view: the joined view of the position schemes of this attention.
            span: the positions of the target tokens in the source, for such schemes.

        Returns:
            [N,T,d]
        """
        attended = attend(self.operands(x, memory, mask, view, span))
        return self.output(attended.transpose(1, 2).reshape(*x.shape[:2], -1))

    def operands(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        mask: Tensor | None,
        view: LayerPositions = _NO_POSITIONS,
        span: CrossSpan | None = None,
    ) -> Attention:
        """The operands of the kernel, from the arguments of `forward`."""
        keys, values = memory
        q = (
            self.query(x).reshape(len(keys), -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)
        )  # [S,H,N/S x T,D]
        q, dropout = q * q.shape[-1] ** -0.5, self.dropout if self.training else 0.0
        if span is None:
            unplaced = Span(0, q.shape[-2], q.device, None, keys.shape[-2])
            return Attention(q, keys, values, view, unplaced, mask, False, dropout)
        unrotated = (q, keys) if view.reads_unrotated else ()
        q = view.rotate(q, q, span)[0]
        keys = view.rotate(keys, keys, Span(0, keys.shape[-2], keys.device))[1]
        return Attention(q, keys, values, view, span, mask, False, dropout, unrotated)
