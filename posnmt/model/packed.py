"""Linear layers of a trained model for translating on a CPU.

Weights are stored in oneDNN's packed layout, so that they are not reordered in each step, and bias and activation are
fused with the product: in float32, or in bfloat16 on a CPU with instructions for it (AVX-512 BF16, AMX). In bfloat16,
products accumulate in float32, and the residual stream is float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from posnmt.config.schema import Activation
from posnmt.model.attention import CrossAttention, HeadProjection
from posnmt.model.base import TranslationModel
from posnmt.model.layers import DecoderLayer, EncoderLayer, FeedForward
from posnmt.model.transformer import Transformer
from posnmt_position.linear import Linear

ROWS = 512
"""The number of rows that the layout is optimised for; others work too."""

FUSED = {"relu": ("relu", ""), "gelu": ("gelu", "none"), "silu": ("swish", "")}
"""An activation -> its name and algorithm in oneDNN."""

SMALLEST = 8
"""Fewest rows and columns of a position scheme's matrix that is packed."""


class PackedLinear(nn.Module):
    """`f(x W^T + b)`.

    Args:
        linear: the layer that it replaces.
        dtype: float32 or bfloat16, of the product.
        wide: return float32 in any case, for terms of the residual stream.
        reads: see `HeadProjection`; the restriction is applied to the packed weights.
        activation: f; None: the identity.
    """

    def __init__(
        self,
        linear: nn.Linear,
        dtype: torch.dtype,
        wide: bool = False,
        reads: Tensor | None = None,
        activation: Activation | None = None,
    ) -> None:
        super().__init__()
        weight = linear.restricted(reads) if isinstance(linear, HeadProjection) else linear.weight
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype), ROWS)
        self.packed_bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        self.dtype, self.wide = dtype, wide
        self.activation = ("none", "") if activation is None else FUSED[activation]

    def forward(self, x: Tensor, reads: Tensor | None = None) -> Tensor:
        """[..,d] -> [..,d'], of `dtype` unless `wide`; `reads` is ignored, since the weights are already restricted."""
        given = x.to(self.dtype)
        name, algorithm = self.activation
        product: Tensor = torch.ops.mkldnn._linear_pointwise(given, self.packed, self.packed_bias, name, [], algorithm)
        return product.float() if self.wide else product


def pack(model: TranslationModel, dtype: torch.dtype) -> None:
    """Pack the output projection, and of a Transformer the matrices of sub-layers and schemes, in place.

    The model can no longer be trained. A model in bfloat16 must run under autocast, so that layers that are not packed
    have the precision of training.
    """
    if isinstance(model, Transformer):
        _pack_layers(model, dtype)
    packed = PackedLinear(model.output, dtype)
    packed.weight, packed.bias = model.output.weight, model.output.bias  # for `logits_of`
    model.output = packed  # type: ignore[assignment]  # the attribute is declared as in training


def _pack_layers(model: Transformer, dtype: torch.dtype) -> None:
    """Pack the matrices of sub-layers and schemes."""

    def replace(owner: nn.Module, name: str, wide: bool = False, **others: Any) -> None:
        setattr(owner, name, PackedLinear(getattr(owner, name), dtype, wide, **others))

    def replace_all(module: nn.Module, added: str = "") -> None:
        # PyTorch's own nn.Linear is kept: its owner may read the weights, or compute in a precision of its own
        for part in [part for part in module.modules() if not isinstance(part, nn.Linear)]:
            for name, child in list(part.named_children()):
                if isinstance(child, Linear) and min(child.weight.shape) >= SMALLEST:
                    replace(part, name, wide=name == added)

    sides = ((model.encoder, model.encoder_views), (model.decoder, model.decoder_views))
    for layer, view in ((layer, view) for side in sides for layer, view in zip(*side, strict=True)):
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        replace(layer.attention, "project", reads=view.reads())
        replace(layer.attention, "output", wide=True)
        for attention in [part for part in layer.children() if isinstance(part, CrossAttention)]:
            replace(attention, "query")
            replace(attention, "memory")
            replace(attention, "output", wide=True)
        if isinstance(layer.feed_forward, FeedForward):
            replace(layer.feed_forward, "fc1", activation=layer.feed_forward.activation)
            layer.feed_forward.activation = None
        replace_all(layer.feed_forward, added="fc2")
    for part in (model.source, model.target, model.cross):
        replace_all(part.schemes)
