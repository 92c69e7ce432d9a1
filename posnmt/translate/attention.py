"""The attention of a trained Transformer on one pair of sentences: weights, and the logits that positions contribute.

Shapes: L layers, H heads, J source tokens with eos, T target tokens with bos, Tq queries, Tk keys, W distances.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posnmt.base.errors import UserError
from posnmt.data.subword import BOS, EOS
from posnmt.model.attention import CrossAttention, SelfAttention
from posnmt.model.base import TranslationModel
from posnmt.model.kernels.operands import Attention
from posnmt.model.kernels.plain import attention_weights
from posnmt.model.transformer import Transformer
from posnmt.translate.device import in_fp32
from posnmt_position.readable import Counting, Penalising
from posnmt_position.seam import LayerPositions, Span, is_offset_bias


@dataclass
class Recorded:
    """The attention of one kind in all layers.

    Attributes:
        weights: [H,Tq,Tk] of each layer; they sum to 1 over the keys.
        seen: [H,Tq,Tk] of each layer, whether a query may see a key.
        position: [H,Tq,Tk] of each layer, the logits that its position schemes contribute; None: none of them does.
        counted: [H,Tq,Tk] of each layer, what a view counts (`posnmt_position.readable`); None: no view counts tokens.
        penalties: [Tq,d] of each layer, if any has a view that weights position features; None: this one has none.
    """

    weights: list[Tensor] = field(default_factory=list)
    seen: list[Tensor] = field(default_factory=list)
    position: list[Tensor | None] = field(default_factory=list)
    counted: list[Tensor | None] = field(default_factory=list)
    penalties: list[Tensor | None] = field(default_factory=list)

    def add(self, attention: Attention, position: Tensor | None) -> None:
        """Add one layer, of a batch of one row."""
        weights = attention_weights(attention)
        seen = attention.seen
        everything = torch.ones_like(weights, dtype=torch.bool)
        self.weights.append(weights[0])
        self.seen.append((everything if seen is None else everything & seen)[0])
        self.position.append(position)


class Attended(NamedTuple):
    """The attention of the encoder [J,J], of the decoder to itself [T,T] and to the source [T,J]."""

    encoder: Recorded
    decoder: Recorded
    cross: Recorded


@torch.inference_mode()
def attend_pair(model: TranslationModel, source: Sequence[int], target: Sequence[int]) -> Attended:
    """The attention of a forward pass over one pair of sentences, computed by the plain kernel.

    Args:
        source, target: subwords, without special symbols.

    Raises:
        UserError: the model is not a Transformer.
    """
    transformer = _transformer(model)
    with _ONE_AT_A_TIME, in_fp32(transformer.output.weight.device):
        return _attend(transformer, source, target)


_ONE_AT_A_TIME = threading.Lock()


def _attend(transformer: Transformer, source: Sequence[int], target: Sequence[int]) -> Attended:
    """Read and write a pair with every layer recorded, for `attend_pair`."""
    attended = Attended(Recorded(), Recorded(), Recorded())
    device = transformer.output.weight.device
    reading, writing = transformer.encoder_views, transformer.decoder_views
    with _recording(transformer.encoder, reading, attended.encoder, attended.cross):
        encoded = transformer.encode(torch.tensor([[*source, EOS]], device=device), None)
    with _recording(transformer.decoder, writing, attended.decoder, attended.cross):
        transformer.advance(torch.tensor([[BOS, *target]], device=device), transformer.start(encoded, None))
    return attended


@torch.inference_mode()
def offset_bias(model: TranslationModel, side: str, length: int) -> Tensor | None:
    """[L,H,W] what the schemes of a side add to the logits at the distances j - i = 1 - length .. length - 1.

    Only terms that do not depend on the words count; None if the side has none.

    Raises:
        UserError: the model is not a Transformer.
    """
    transformer = _transformer(model)
    views = transformer.encoder_views if side == "encoder" else transformer.decoder_views
    span = Span(0, length, transformer.output.weight.device)
    heads, width = transformer.config.heads, 2 * length - 1
    biasing = [[view for view in joined.biasing if is_offset_bias(view)] for joined in views]
    if not any(biasing):
        return None
    layers = []
    for of_layer in biasing:
        total = torch.zeros(heads, width, device=span.device)
        for view in of_layer:
            total = total + span.table(view)
        layers.append(total.float())
    return torch.stack(layers)


def _transformer(model: TranslationModel) -> Transformer:
    if not isinstance(model, Transformer):
        what = f"attention by layer and head is that of Transformers, and this model is {model.config.architecture}"
        raise UserError(what, None, "load a run whose model.architecture is transformer or sru")
    return model


@contextmanager
def _recording(
    layers: nn.ModuleList, views: Sequence[LayerPositions], own: Recorded, cross: Recorded
) -> Iterator[None]:
    """A context in which the attention of these layers is recorded, as far as this thread computes it."""
    thread = threading.get_ident()

    def record(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if threading.get_ident() != thread:
            return
        if isinstance(module, CrossAttention):
            cross.add(module.operands(*arguments), None)
        elif isinstance(module, SelfAttention):
            x, view, span, mask, *_ = arguments
            attention = module.operands(x, view, span, mask)
            own.add(attention, _contributed(module, x, attention))
            own.counted.append(_counted(module, x, view, span))

    def record_penalties(view: LayerPositions, before: Tensor, after: Tensor, span: Span) -> Tensor:
        penalties = None
        for each in view.refining:
            if isinstance(each, Penalising):
                penalties = each.penalties(before, after)[0]
            after = each.refine(before, after, span)
        if threading.get_ident() == thread:
            own.penalties.append(penalties)
        return after

    attentions = [module for name, module in layers.named_modules() if name.endswith((".attention", ".cross"))]
    hooks = [module.register_forward_pre_hook(record) for module in attentions]
    penalising = views if any(isinstance(each, Penalising) for view in views for each in view.refining) else []
    for view in penalising:
        setattr(view, "refine", partial(record_penalties, view))  # noqa: B010  views are no modules, and have no hooks
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for view in penalising:
            delattr(view, "refine")


def _counted(module: SelfAttention, x: Tensor, view: LayerPositions, span: Span) -> Tensor | None:
    """[H,Tq,Tk] the tokens that a view counts between query and key; None: no view counts."""
    counting = next((each for each in view.biasing if isinstance(each, Counting)), None)
    if counting is None:
        return None
    q, k, _ = module.heads_of(x, view)
    return counting.counted(q, k, span)[0]


def _contributed(module: SelfAttention, x: Tensor, attention: Attention) -> Tensor | None:
    """[H,Tq,Tk] the logits minus the products of unrotated queries and keys; None: no scheme changes the logits."""
    view, span = attention.view, attention.span
    if not (view.rotating or view.biasing):
        return None
    q, k, _ = module.heads_of(x, view)
    products = q @ k.transpose(-1, -2)
    terms = torch.zeros_like(products)
    if view.rotating:
        rotated_q, rotated_k = view.rotate(q, k, span)
        terms = rotated_q @ rotated_k.transpose(-1, -2) - products
    bias = attention.bias
    return (terms if bias is None else terms + bias)[0]
