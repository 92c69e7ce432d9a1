"""Encoder and decoder layers: post-norm, `h = LN(x + Sublayer(x))` (Vaswani et al. 2017, section 3.1).

Shapes: B rows, T tokens, d model width; S sentences, N hypotheses in the decoder.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from posnmt.model.attention import CrossAttention, SelfAttention
from posnmt.model.dropout import Dropout
from posnmt.model.start import Start
from posnmt.model.state import LayerCache
from posnmt.position.seam import LayerPositions, Span


class RectifiedLinear(nn.Linear):
    """`max(0, W x + b)`."""

    def forward(self, x: Tensor) -> Tensor:
        """[..,d] -> [..,d']."""
        return functional.relu(super().forward(x))


class FeedForward(nn.Module):
    """`W_2 max(0, W_1 x + b_1) + b_2`."""

    def __init__(self, d_model: int, inner: int, dropout: float, start: Start) -> None:
        super().__init__()
        self.rise, self.fall = RectifiedLinear(d_model, inner), nn.Linear(inner, d_model)
        self.dropout = Dropout(dropout)
        start(self.rise, "inner")
        start(self.fall, "feed-forward-output")

    def forward(self, x: Tensor, span: Span, cache: LayerCache | None = None) -> Tensor:
        """[B,T,d] -> [B,T,d], each token by itself: span and cache are for layers that look around."""
        return self.fall(self.dropout(self.rise(x)))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(
        self, attention: SelfAttention, feed_forward: nn.Module, d_model: int, dropout: float, epsilon: float
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm, self.feed_forward_norm = (nn.LayerNorm(d_model, epsilon) for _ in range(2))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, view: LayerPositions, span: Span, mask: Tensor | None) -> Tensor:
        """[B,T,d] -> [B,T,d]; mask [B,1,1,T] is True at real tokens."""
        h = self.attention_norm(x + self.dropout(self.attention(x, view, span, mask)))
        refined = view.refine(x, h, span)
        return self.feed_forward_norm(h + self.dropout(self.feed_forward(refined, span)))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the source, feed-forward."""

    def __init__(
        self,
        attention: SelfAttention,
        cross: CrossAttention,
        feed_forward: nn.Module,
        d_model: int,
        dropout: float,
        epsilon: float,
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.attention_norm, self.cross_norm = (nn.LayerNorm(d_model, epsilon) for _ in range(2))
        self.feed_forward_norm = nn.LayerNorm(d_model, epsilon)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        view: LayerPositions,
        span: Span,
        cache: LayerCache,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor | None,
    ) -> Tensor:
        """[N,T,d] -> [N,T,d]. Padding on the right of a target needs no mask: causal attention never looks there."""
        h = self.attention_norm(x + self.dropout(self.attention(x, view, span, None, cache)))
        refined = view.refine(x, h, span)
        h = self.cross_norm(h + self.dropout(self.cross(refined, memory, memory_mask)))
        return self.feed_forward_norm(h + self.dropout(self.feed_forward(h, span, cache)))
