"""The interface of a translation model for training, search and scoring, and parts that architectures share.

Shapes: B rows, J source tokens, T target tokens, V vocabulary entries, d model width; S sentences, N hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.config.schema import Model
from posnmt.data.subword import BOS, EOS
from posnmt_position.options import Options
from posnmt_position.seam import Stack

Faults = list[tuple[tuple[str, ...], str]]
"""The faults of a `model` section: (keys inside it, sentence) for each."""


class State(Protocol):
    """The state of a decoder between two steps."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] if some have left the batch."""
        ...


class TranslationModel(nn.Module):
    """A translation model: from source and target subwords to a hidden state that predicts the next target subword.

    An architecture takes (config, source_size, target_size), sets `output`, and defines its options as `Settings`.

    Attributes:
        output: the projection to the target vocabulary.
        reads_pairs: whether its fourth argument is the pairs of subwords of `posnmt.data.word_pairs`.
    """

    Settings: type[Options] = Options
    reads_pairs: ClassVar[bool] = False
    output: nn.Linear

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def refuses(cls, config: Model, settings: Any) -> Faults:
        """The faults of a `model` section for this architecture, determined before the model is built."""
        return []

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """Source tokens [B,J], right-padded, with real lengths [B] (None: no padding) -> [B,J,d]."""
        raise NotImplementedError

    def begun(self, source: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """A source [B,J] with real lengths [B], after the begin symbol if `model.source_begin` asks for it."""
        if not self.config.source_begin:
            return source, lengths
        return functional.pad(source, (1, 0), value=BOS), None if lengths is None else lengths + 1

    def source_tokens(self, subwords: Sequence[int]) -> list[int]:
        """The tokens of a source as `encode` reads them, end symbol included."""
        return [*([BOS] if self.config.source_begin else []), *subwords, EOS]

    def start(self, encoded: Tensor, lengths: Tensor | None) -> Any:
        """The decoder's `State` before the first target token, from the encoder output [S,J,d]."""
        raise NotImplementedError

    def advance(self, tokens: Tensor, state: Any, lengths: Tensor | None = None) -> Tensor:
        """Read target tokens [N,T] after those already in `state`, and update the state.

        Returns:
            [N,T,d] at each token the hidden state that predicts the next one.
        """
        raise NotImplementedError

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Source [B,J] and target input [B,T] (bos first) -> [B,T,d]; `project` gives logits."""
        return self.advance(target, self.start(self.encode(source, lengths), lengths))

    def project(self, hidden: Tensor) -> Tensor:
        """[.., d] -> logits [.., V]."""
        logits: Tensor = self.output(hidden)
        return logits

    def logits_of(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """The logits [N,c] of some subwords [N,c] after `hidden` [N,d], in the precision of the weights.

        `project` may return bfloat16, in which a logit of 16 has an error of up to 1/32: enough to change the best
        subword.
        """
        output = self.output
        with torch.autocast(hidden.device.type, enabled=False):
            weight = functional.embedding(tokens, output.weight)  # [N,c,d]
            bias = functional.embedding(tokens, output.bias[:, None])  # [N,c,1]
            return torch.baddbmm(bias, weight, hidden[..., None].to(weight.dtype)).squeeze(-1)

    def compile_training(self, backend: str = "inductor") -> bool:
        """Let torch.compile translate parts of the model for training; False if it has none for that.

        Args:
            backend: of torch.compile.
        """
        return False

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor` from now on; False if no part of the model supports it."""
        return False

    def shift(self, source: int, target: int) -> bool:
        """Let positions begin at these numbers from now on, at inference; False if the model counts no positions.

        Nothing else changes, so any other output is the effect of these numbers alone. With a scheme of distances the
        output is the same but for rounding.
        """
        return False

    def learn_lengths(self, source: int, target: int) -> None:
        """Take over how many tokens the training text has on each side, end symbols included.

        A model with positions in its attention to the source reads their ratio; others ignore them.
        """

    @property
    def longest_source(self) -> int | None:
        """The longest source in tokens, the end symbol included and a begin symbol not; None: no limit."""
        return None

    @property
    def longest_target(self) -> int | None:
        """The longest target in tokens, the begin-of-sentence symbol included; None: no limit."""
        return None


def embeddings(config: Model, source_size: int, target_size: int) -> tuple[nn.Embedding, nn.Embedding]:
    """Source and target word embeddings: the same module if `model.tie_embeddings` is all."""
    source = _embedding(source_size, config)
    return source, source if config.tie_embeddings == "all" else _embedding(target_size, config)


def output_projection(config: Model, target: nn.Embedding) -> nn.Linear:
    """The projection [d] -> [V] with a bias; its matrix is the target embedding if the configuration ties them."""
    output = nn.Linear(config.d_model, target.num_embeddings)
    nn.init.zeros_(output.bias)
    if config.tie_embeddings == "none":
        nn.init.normal_(output.weight, std=config.d_model**-0.5)
    else:
        output.weight = target.weight
    return output


def stacks(config: Model) -> dict[str, Stack]:
    """The properties of the stack of each list of position schemes in `Model.schemes`."""
    common = config.d_model, config.heads
    rest = config.max_length, config.norm_epsilon
    return {
        "encoder.position": Stack(*common, config.encoder.layers, False, *rest),
        "decoder.position": Stack(*common, config.decoder.layers, True, *rest),
        "decoder.cross": Stack(*common, config.decoder.layers, False, *rest, cross=True),
    }


_ALLOWED = {"init": ("xavier",)}
"""Values beside the default that any architecture allows, without effect: a recipe gives them to all its systems."""


def foreign_settings(config: Model) -> Faults:
    """Faults for settings of a `model` section that only apply to a Transformer."""
    faults: Faults = [
        ((key,), f"{config.architecture} has no such dropout; set 0, got {getattr(config, key)}")
        for key in ("attention_dropout", "feed_forward_dropout")
        if getattr(config, key)
    ]
    purposes = {"norm": "normalise", "norm_epsilon": "normalise", "init": "initialise", "activation": "activate"}
    for key, purpose in purposes.items():
        value = getattr(config, key)
        if value not in (Model.model_fields[key].default, *_ALLOWED.get(key, ())):
            what = f"{config.architecture} has no Transformer layers to {purpose}; leave it out"
            faults.append(((key,), f"{what}, got {value}"))
    if config.source_begin:
        what = f"{config.architecture} reads no symbol before the source; leave source_begin out"
        faults.append((("source_begin",), what))
    if not config.source_end:
        faults.append((("source_end",), f"{config.architecture} reads the end of the source; leave source_end out"))
    return faults


def _embedding(size: int, config: Model) -> nn.Embedding:
    table = nn.Embedding(size, config.d_model)
    nn.init.normal_(table.weight, std=embedding_deviation(config))
    return table


def embedding_deviation(config: Model) -> float:
    """The standard deviation of new word embeddings: `model.embedding_init`."""
    scaled = config.d_model**-0.5
    return {"scaled-normal": scaled, "small-normal": scaled / 2, "normal": 1.0}[config.embedding_init]
