"""Linear layers of a trained model for translating on a CPU.

Weights are kept in the layout that oneDNN's products want, so that nothing is rearranged at each step, and bias and
ReLU are part of the product: in float32, or in bfloat16 for a CPU that multiplies it (AVX-512 BF16, AMX). In bfloat16,
sums inside a product are float32, and so is the residual stream.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posnmt.model.attention import HeadProjection
from posnmt.model.base import TranslationModel
from posnmt.model.layers import DecoderLayer, EncoderLayer, RectifiedLinear
from posnmt.model.transformer import Transformer

ROWS = 512
"""Rows that the layout is chosen for; other numbers work too."""

SMALLEST = 8
"""Rows and columns that a position scheme's matrix has at least to be packed."""


class PackedLinear(nn.Module):
    """`x W^T + b`, with ReLU where the layer has it.

    Args:
        linear: the layer that it takes the place of.
        dtype: float32 or bfloat16, of the product.
        wide: give float32 all the same, for what is added to the residual stream.
        reads: see `HeadProjection`; what heads may not read is left out of the weights once and for all.
    """

    def __init__(self, linear: nn.Linear, dtype: torch.dtype, wide: bool = False, reads: Tensor | None = None) -> None:
        super().__init__()
        weight = linear.restricted(reads) if isinstance(linear, HeadProjection) else linear.weight
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype), ROWS)
        self.packed_bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        self.dtype, self.wide, self.activation = dtype, wide, "relu" if isinstance(linear, RectifiedLinear) else "none"

    def forward(self, x: Tensor, reads: Tensor | None = None) -> Tensor:
        """[..,d] -> [..,d'], of `dtype` unless `wide`; `reads` has been seen to."""
        given = x.to(self.dtype)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            given, self.packed, self.packed_bias, self.activation, [], ""
        )
        return product.float() if self.wide else product


def pack(model: TranslationModel, dtype: torch.dtype) -> None:
    """Pack the output projection, and of a Transformer the matrices of sub-layers and schemes, in place.

    The model can train no more. One in bfloat16 is to be run under autocast, as in training: what is not packed then is
    as wide as there.
    """
    if isinstance(model, Transformer):
        _pack_layers(model, dtype)
    packed = PackedLinear(model.output, dtype)
    packed.weight, packed.bias = model.output.weight, model.output.bias  # for `logits_of`
    model.output = packed  # type: ignore[assignment]  # declared as what it is in training


def _pack_layers(model: Transformer, dtype: torch.dtype) -> None:
    """Pack the matrices of sub-layers and schemes."""

    def replace(owner: nn.Module, name: str, wide: bool = False, reads: Tensor | None = None) -> None:
        setattr(owner, name, PackedLinear(getattr(owner, name), dtype, wide, reads))

    def replace_all(module: nn.Module, added: str = "") -> None:
        for part in [part for part in module.modules() if not isinstance(part, nn.Linear)]:
            for name, child in list(part.named_children()):
                if isinstance(child, nn.Linear) and min(child.weight.shape) >= SMALLEST:
                    replace(part, name, wide=name == added)

    sides = ((model.encoder, model.encoder_views), (model.decoder, model.decoder_views))
    for layer, view in ((layer, view) for side in sides for layer, view in zip(*side, strict=True)):
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        replace(layer.attention, "project", reads=view.reads())
        replace(layer.attention, "output", wide=True)
        if isinstance(layer, DecoderLayer):
            replace(layer.cross, "query")
            replace(layer.cross, "memory")
            replace(layer.cross, "output", wide=True)
        replace_all(layer.feed_forward, added="fall")
    for embedding in (model.source, model.target):
        replace_all(embedding.schemes)
