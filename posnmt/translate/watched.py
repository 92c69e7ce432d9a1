"""The attention of models to the source, read while they translate.

Shapes: S sentences, N hypotheses (N / S of a sentence), T target tokens, J source tokens, H heads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from posnmt.base.errors import UserError
from posnmt.model.base import TranslationModel
from posnmt.model.kernels.plain import attention_weights
from posnmt.model.layers import DecoderLayer
from posnmt.model.transformer import Transformer
from posnmt.translate.graphs import GraphedDecoder


class SourceAttention(threading.local):
    """The attention of a model's last decoder layer to the source in the last pass that a thread computed.

    Attributes:
        weights: [N,T,J] the mean over heads; J counts states before those of the tokens, if the model has any.
    """

    weights: Tensor

    def record(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        """Compute the weights from the arguments of a `CrossAttention`."""
        x, *_ = arguments
        weights = attention_weights(module.operands(*arguments))  # type: ignore[operator]  # [S,H,N/S x T,J]
        self.weights = weights.float().mean(1).reshape(*x.shape[:2], -1)


@contextmanager
def watching(models: Sequence[TranslationModel], what: str, where: str) -> Iterator[list[SourceAttention]]:
    """A context in which the attention of each model to the source can be read after each forward pass.

    Args:
        what, where: who asks for it, and by which option, for error messages.

    Raises:
        UserError: a model that is not a Transformer, or whose steps are CUDA graphs.
    """
    with ExitStack() as stack:
        watched = []
        for model in models:
            layer = _last_layer(model)
            if layer is None:
                fault = f"{what} needs the attention of a Transformer, and this is {_kind(model)}"
                raise UserError(fault, where, "leave it out")
            attention = SourceAttention()
            stack.enter_context(_hooked(layer.cross, attention))
            watched.append(attention)
        yield watched


@contextmanager
def _hooked(module: nn.Module, attention: SourceAttention) -> Iterator[None]:
    hook = module.register_forward_pre_hook(attention.record)
    try:
        yield
    finally:
        hook.remove()


def can_be_watched(model: TranslationModel) -> bool:
    """Whether a model has attention that `watching` reads."""
    return _last_layer(model) is not None


def _last_layer(model: TranslationModel) -> DecoderLayer | None:
    layer = model.decoder[-1] if isinstance(model, Transformer) else None
    return layer if isinstance(layer, DecoderLayer) else None


def _kind(model: TranslationModel) -> str:
    return "one with CUDA graphs" if isinstance(model, GraphedDecoder) else model.config.architecture
