"""Encoder and decoder layers: post-norm, pre-norm or DeepNorm.

Post-norm is `LN(x + Sublayer(x))` (Vaswani et al. 2017, section 3.1); pre-norm is `x + Sublayer(LN(x))`, whose stack
needs one more layer normalisation at its end (tensor2tensor; fairseq's `normalize_before`); DeepNorm is post-norm with
a constant on the residual connection, `LN(alpha x + Sublayer(x))` (Wang et al. 2022, section 3.1).

The arguments of a scheme's `refine` are the inputs of the self-attention and of the next sub-layer, so both are
normalised: in a pre-norm layer they are LN(x) and the next sub-layer's LN(h), and the residual stream keeps x and h.

Shapes: B rows, T tokens, d model width; S sentences, N hypotheses in the decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.config.schema import Activation, Model, Norm
from posnmt.model.attention import CrossAttention, SelfAttention
from posnmt.model.kernels import shaw_trial, trial
from posnmt.model.start import Start, deepnorm
from posnmt.model.state import LayerCache
from posnmt_position.dropout import Dropout
from posnmt_position.linear import Linear
from posnmt_position.seam import CrossSpan, LayerPositions, Span

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}


class FeedForward(nn.Module):
    """`W_2 f(W_1 x + b_1) + b_2`; f is `max(0, z)`, GELU by the error function, or SiLU, `z / (1 + exp(-z))`.

    Attributes:
        activation: f, `model.activation`; None: `fc1` applies it.
    """

    def __init__(self, d_model: int, inner: int, dropout: float, start: Start, activation: Activation = "relu") -> None:
        super().__init__()
        self.fc1, self.fc2 = Linear(d_model, inner), Linear(inner, d_model)
        self.activation: Activation | None = activation
        self.dropout = Dropout(dropout)
        start(self.fc1, "inner")
        start(self.fc2, "feed-forward-output")

    def forward(self, x: Tensor, span: Span, cache: LayerCache | None = None) -> Tensor:
        """[B,T,d] -> [B,T,d], token by token; span and cache are for layers that depend on other tokens."""
        inner = self.fc1(x)
        return self.fc2(self.dropout(inner if self.activation is None else ACTIVATIONS[self.activation](inner)))


@dataclass(frozen=True)
class Residual:
    """How the sub-layers of one stack are connected to its residual stream.

    Attributes:
        width: d, of the stream.
        dropout: on the output of each sub-layer.
        norm: position of layer normalisation, `model.norm`.
        epsilon: of each layer normalisation.
        alpha: factor of residual connections for `norm: deep`.
    """

    width: int
    dropout: float
    norm: Norm
    epsilon: float
    alpha: float

    @classmethod
    def of(cls, config: Model, causal: bool) -> Residual:
        """Of the encoder, or of the decoder (`causal`)."""
        alpha, _ = deepnorm(config, causal)
        return cls(config.d_model, config.dropout, config.norm, config.norm_epsilon, alpha)

    def layer_norm(self) -> nn.LayerNorm:
        """A new layer normalisation of the stream or of the input of a sub-layer."""
        return nn.LayerNorm(self.width, self.epsilon)

    def last_norm(self) -> nn.Module:
        """The normalisation at the end of the stack, if there is one."""
        return self.layer_norm() if self.norm == "pre" else nn.Identity()


class ResidualLayer(nn.Module):
    """Base class of encoder and decoder layers: how sub-layers read from the residual stream and add to it.

    Attributes:
        compiled: `forward` as compiled for training, a function of the layer and its arguments; None: it is not.
        has_tried: whether `forward` was called in training before.
    """

    compiled: Callable[..., Tensor] | None = None
    has_tried = False

    def __init__(self, residual: Residual) -> None:
        super().__init__()
        self.dropout = Dropout(residual.dropout)
        self.pre, self.alpha = residual.norm == "pre", residual.alpha if residual.norm == "deep" else None

    def compile_training(self, backend: str = "inductor") -> None:
        """Let torch.compile translate `forward`, for any number of rows and tokens; inference stays as it is.

        Equal layers of a stack are compiled once. Decoding has many more shapes and states, each a graph of its own.
        The first call is not compiled: it tries kernels, which a graph cannot.

        Args:
            backend: of torch.compile.
        """
        self.compiled, self.has_tried = _compiled(type(self).forward, backend), False

    def __call__(self, *given: Any, **named: Any) -> Tensor:
        """`forward`; the compiled one has no hooks of modules."""
        if self.compiled is not None and self.training:
            if self.has_tried:
                return self.compiled(self, *given, **named)
            self.has_tried = True
        output: Tensor = super().__call__(*given, **named)
        return output

    def read(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        """The input of the sub-layer with this normalisation, from the residual stream x [B,T,d]."""
        normalised: Tensor = norm(x) if self.pre else x
        return normalised

    def add(self, x: Tensor, output: Tensor, norm: nn.LayerNorm) -> Tensor:
        """The residual stream after the sub-layer with this normalisation, from x and its output [B,T,d]."""
        residual = x if self.alpha is None else self.alpha * x
        total: Tensor = residual + self.dropout(output)
        return total if self.pre else norm(total)


class EncoderLayer(ResidualLayer):
    """A Transformer encoder layer: self-attention, then the feed-forward network."""

    def __init__(self, attention: SelfAttention, feed_forward: nn.Module, residual: Residual) -> None:
        super().__init__(residual)
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm, self.feed_forward_norm = residual.layer_norm(), residual.layer_norm()

    def forward(self, x: Tensor, view: LayerPositions, span: Span, mask: Tensor | None) -> Tensor:
        """[B,T,d] -> [B,T,d]; mask [B,1,1,T] is True at real tokens."""
        span = span.in_graph()
        before = self.read(x, self.attention_norm)
        h = self.add(x, self.attention(before, view, span, mask), self.attention_norm)
        refined = view.refine(before, self.read(h, self.feed_forward_norm), span)
        return self.add(h, self.feed_forward(refined, span), self.feed_forward_norm)


class DecoderLayer(ResidualLayer):
    """Masked self-attention, attention to the source, feed-forward."""

    def __init__(
        self, attention: SelfAttention, cross: CrossAttention, feed_forward: nn.Module, residual: Residual
    ) -> None:
        super().__init__(residual)
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.attention_norm, self.cross_norm = residual.layer_norm(), residual.layer_norm()
        self.feed_forward_norm = residual.layer_norm()

    def forward(
        self,
        x: Tensor,
        view: LayerPositions,
        span: Span,
        cache: LayerCache | None,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor | None,
        cross_view: LayerPositions,
        cross_span: CrossSpan | None,
    ) -> Tensor:
        """[N,T,d] -> [N,T,d]. Padding on the right of a target needs no mask: causal attention does not see it."""
        span, cross_span = span.in_graph(), None if cross_span is None else cross_span.in_graph()
        before = self.read(x, self.attention_norm)
        h = self.add(x, self.attention(before, view, span, None, cache), self.attention_norm)
        refined = view.refine(before, self.read(h, self.cross_norm), span)
        h = self.attend(h, refined, memory, memory_mask, cross_view, cross_span)
        return self.add(h, self.feed_forward(self.read(h, self.feed_forward_norm), span, cache), self.feed_forward_norm)

    def remember(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The memory of `forward`, keys and values [S,H,J,D], from the encoder output [S,J,d]."""
        return self.cross.remember(encoded)

    def attend(
        self,
        h: Tensor,
        refined: Tensor,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor | None,
        view: LayerPositions,
        span: CrossSpan | None,
    ) -> Tensor:
        """The residual stream after attention to the source, from the stream h and the queries' input [N,T,d]."""
        return self.add(h, self.cross(refined, memory, memory_mask, view, span), self.cross_norm)


@cache
def _compiled(forward: Callable[..., Tensor], backend: str) -> Callable[..., Tensor]:
    """A `forward` as torch.compile translates it: one for all layers of a class, so that they share its graphs."""
    for choice in (trial.compiles, shaw_trial.in_graph):
        torch.compiler.assume_constant_result(choice)
    torch._dynamo.config.optimize_ddp = False  # it would divide graphs at DDP's buckets; layers are small enough
    compiled: Callable[..., Tensor] = torch.compile(forward, backend=backend, dynamic=True)
    return compiled
