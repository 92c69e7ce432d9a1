"""What training with Transformers and PEFT asks of layers: activations computed again, and matrices left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from posnmt.model.attention import HeadProjection
from posnmt.model.base import TranslationModel
from posnmt.model.layers import DecoderLayer, ResidualLayer
from posnmt.model.state import LayerCache
from posnmt.model.transformer import Transformer
from posnmt_position.linear import Matrix


class Held(nn.Module):
    """A linear layer that PEFT does not replace, because it is no `nn.Linear`.

    PEFT adds a term to what a layer returns when it is called, and later adds it to the matrix. Both are the same only
    for a layer that is called with its whole matrix.
    """

    forward = HeadProjection.forward
    restricted = HeadProjection.restricted

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias


def hold(model: TranslationModel) -> None:
    """Replace, in place, the linear layers whose matrix their owner reads, or of which a head reads some features."""
    views = [*model.encoder_views, *model.decoder_views] if isinstance(model, Transformer) else []
    restricted = {
        layer.attention.project  # type: ignore[union-attr]
        for layer, view in zip(layers(model), views, strict=True)
        if view.reads() is not None
    }
    for owner in [*model.modules()]:
        for name, child in [*owner.named_children()]:
            if isinstance(child, nn.Linear) and (isinstance(child, Matrix) or child in restricted):
                setattr(owner, name, Held(child))


def layers(model: TranslationModel) -> list[ResidualLayer]:
    """The layers of a Transformer, first those of the encoder; none of another architecture."""
    both = [*model.encoder, *model.decoder] if isinstance(model, Transformer) else []
    return [layer for layer in both if isinstance(layer, ResidualLayer)]


def recompute(model: TranslationModel, checkpoint: Callable[..., Any] | None, every: int = 1) -> None:
    """Let every so many layers keep their inputs alone in training, and compute the rest again for the gradients.

    Args:
        checkpoint: a function such as `torch.utils.checkpoint.checkpoint`; None: layers keep what they compute.
    """
    for index, layer in enumerate(layers(model)):
        layer.__dict__.pop("forward", None)
        if checkpoint is not None and index % every == 0:
            layer.forward = partial(_recomputed, layer, checkpoint)


def _recomputed(layer: ResidualLayer, checkpoint: Callable[..., Any], x: Tensor, *others: Any) -> Tensor:
    """The output of a layer from the arguments of its `forward`.

    Each computation has spans and a cache of its own, since the layer writes into them. So the cache that was given
    stays empty.
    """
    forward = partial(type(layer).forward, layer)
    if not (layer.training and torch.is_grad_enabled()):
        return forward(x, *others)
    if not isinstance(layer, DecoderLayer):
        view, span, mask = others
        return checkpoint(lambda x: forward(x, view, replace(span), mask), x)
    view, span, _, (keys, values), mask, cross_view, cross_span = others

    def decode(x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        fresh = None if cross_span is None else replace(cross_span)
        return forward(x, view, replace(span), LayerCache(), (keys, values), mask, cross_view, fresh)

    return checkpoint(decode, x, keys, values)  # tensors apart: reentrant checkpoints look into no tuple
