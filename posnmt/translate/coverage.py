"""The coverage penalty of search: translations that leave words of the source out rank lower.

    cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1))    (Wu et al. 2016, equation 14)

`p_ij` is the attention of step j to source subword i: of the last decoder layer, the mean over its heads, and over the
models of an ensemble. The steps include that of eos; the source's own end symbol is no subword. The penalty is added to
the scores of finished hypotheses, as Wu et al. rank them and OpenNMT-py does without `stepwise_penalty`; the order of
those that go on is that of their probabilities.

Shapes: S sentences, N hypotheses (N / S of a sentence), J source tokens, k hypotheses of a sentence, H heads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from posnmt.errors import UserError
from posnmt.model.base import TranslationModel
from posnmt.model.kernels.plain import attention_weights
from posnmt.model.layers import DecoderLayer
from posnmt.model.transformer import Transformer
from posnmt.translate.graphs import GraphedDecoder


class SourceAttention(threading.local):
    """The attention of a model to the source in the last step that a thread computed.

    Attributes:
        weights: [N,J] the mean over heads; J counts states before those of the tokens, if the model has any.
    """

    weights: Tensor

    def record(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        """Compute the weights from the arguments of a `CrossAttention`, of one token a hypothesis."""
        weights = attention_weights(module.operands(*arguments))  # type: ignore[operator]  # [S,H,k,J]
        self.weights = weights.float().mean(1).flatten(0, 1)


@contextmanager
def watching(models: Sequence[TranslationModel]) -> Iterator[list[SourceAttention]]:
    """A context in which the attention of each model to the source is known after each step.

    Raises:
        UserError: a model that is not a Transformer, or whose steps are CUDA graphs.
    """
    with ExitStack() as stack:
        watched = []
        for model in models:
            layer = model.decoder[-1] if isinstance(model, Transformer) else None
            if not isinstance(layer, DecoderLayer):
                what = f"a coverage penalty needs the attention of a Transformer, and this is {_kind(model)}"
                raise UserError(what, "decode.coverage_penalty", "leave it out")
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


def _kind(model: TranslationModel) -> str:
    return "one with CUDA graphs" if isinstance(model, GraphedDecoder) else model.config.architecture


class Coverage:
    """How far the hypotheses of a batch cover their sources; a `State` of search.

    Args:
        weight: beta.
        watched: of the models; see `watching`.
        source: [S,J] subwords with eos, right-padded.
        lengths: [S] real source tokens.
    """

    def __init__(self, weight: float, watched: Sequence[SourceAttention], source: Tensor, lengths: Tensor) -> None:
        self.weight, self.watched = weight, watched
        places = torch.arange(source.shape[1], device=source.device)
        self._words = places < lengths[:, None] - 1  # [S,J]
        self._attended = torch.zeros(source.shape, device=source.device)  # [N,J]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] if some have left the batch."""
        self._attended = self._attended.index_select(0, rows)
        if sentences is not None:
            self._words = self._words.index_select(0, sentences)

    def add(self) -> None:
        """Add the attention of the step that the models have computed."""
        width = self._attended.shape[1]
        each = [attention.weights[:, -width:] for attention in self.watched]
        self._attended = self._attended + torch.stack(each).mean(0)

    def penalty(self, row: int) -> float:
        """cp of a hypothesis, 0 or less."""
        words = self._words[row // (len(self._attended) // len(self._words))]
        attended = self._attended[row][words].clamp(torch.finfo(torch.float32).tiny, 1.0)
        return self.weight * attended.log().sum().item()
