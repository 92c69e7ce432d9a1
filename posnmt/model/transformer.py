"""The base Transformer of the papers, built from the `model` section of a configuration.

Embeddings are scaled by sqrt(d), here and not in a scheme; no final layer normalisation; the output projection has a
bias. With three separate embedding and projection matrices the parameter counts are those of N19's Table 2 to the last
digit.

Shapes: B rows, J source tokens, T target tokens, V vocabulary entries, d model width; S sentences, N hypotheses.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from posnmt.config import Model
from posnmt.model.attention import CrossAttention, SelfAttention
from posnmt.model.base import Faults, TranslationModel, embeddings, output_projection, stacks
from posnmt.model.dropout import Dropout
from posnmt.model.layers import DecoderLayer, EncoderLayer, FeedForward
from posnmt.model.state import DecoderState, LayerCache, padding_mask
from posnmt.position.registry import build, check
from posnmt.position.seam import Carry, Scheme, Span, join


class OrderedEmbedding(nn.Module):
    """Word embeddings times sqrt(d), then what the stack's position schemes make of them, then dropout."""

    def __init__(self, table: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.table = table
        self.scale = math.sqrt(table.embedding_dim)
        self.dropout = Dropout(dropout)
        self.schemes = nn.ModuleList()

    def forward(self, tokens: Tensor, span: Span, carry: list[Carry]) -> tuple[Tensor, list[Carry]]:
        """Tokens [B,T] -> [B,T,d], and what each scheme remembers."""
        x = self.table(tokens) * self.scale
        kept: list[Carry] = []
        for scheme, remembered in zip(self.position_schemes(), carry, strict=True):
            x, remembered = scheme.embed(x, span, remembered)
            kept.append(remembered)
        return self.dropout(x), kept

    @property
    def longest(self) -> int | None:
        """Most tokens that every scheme can place; None where there is no limit."""
        limits = [scheme.longest for scheme in self.position_schemes() if scheme.longest is not None]
        return min(limits, default=None)

    def position_schemes(self) -> list[Scheme]:
        """The stack's schemes, in order."""
        return [scheme for scheme in self.schemes if isinstance(scheme, Scheme)]

    def attach(self, schemes: list[Scheme]) -> None:
        """Give the stack its schemes. Last, so that one seed draws the same other weights under every scheme."""
        self.schemes.extend(schemes)


class Transformer(TranslationModel):
    """Encoder, decoder and output projection.

    Args:
        config: the `model` section, with its schemes.
        source_size, target_size: vocabulary entries of each side, the four special symbols included.
    """

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        super().__init__(config)
        d = config.d_model
        source, target = embeddings(config, source_size, target_size)
        self.source = OrderedEmbedding(source, config.dropout)
        self.target = OrderedEmbedding(target, config.dropout)
        self.encoder = nn.ModuleList(
            EncoderLayer(
                _self_attention(config, causal=False), self.build_feed_forward(config, causal=False), d, config.dropout
            )
            for _ in range(config.encoder.layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(
                _self_attention(config, causal=True),
                CrossAttention(d, config.heads, config.attention_dropout),
                self.build_feed_forward(config, causal=True),
                d,
                config.dropout,
            )
            for _ in range(config.decoder.layers)
        )
        self.output = output_projection(config, target)
        for side, embedding in (("encoder", self.source), ("decoder", self.target)):
            stack = stacks(config)[side]
            embedding.attach([build(choice, stack) for choice in getattr(config, side).position])
        self.encoder_views = join(self.source.position_schemes(), config.encoder.layers)
        self.decoder_views = join(self.target.position_schemes(), config.decoder.layers)

    @classmethod
    def refuses(cls, config: Model, settings: Any) -> Faults:
        """What the position schemes of either side have against their stack."""
        faults: Faults = []
        for side, stack in stacks(config).items():
            for index, fault in check(getattr(config, side).position, stack):
                place = () if index is None else (str(index),)
                faults.append(((side, "position", *place), fault))
        return faults

    def build_feed_forward(self, config: Model, causal: bool) -> nn.Module:
        """The feed-forward layer of one encoder or decoder layer; what takes its place has its signature."""
        return FeedForward(config.d_model, config.feed_forward, config.feed_forward_dropout)

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """Source tokens [B,J], right-padded, with real lengths [B] (None: no padding) -> [B,J,d]."""
        span = Span(0, source.shape[1], source.device, lengths)
        mask = padding_mask(lengths, source.shape[1])
        x, _ = self.source(source, span, [None] * len(self.source.schemes))
        for layer, view in zip(self.encoder, self.encoder_views, strict=True):
            x = layer(x, view, span, mask)
        return x

    def start(self, encoded: Tensor, lengths: Tensor | None) -> DecoderState:
        """The decoder's state before the first target token, from the encoder output [S,J,d]."""
        memory = [layer.cross.remember(encoded) for layer in self.decoder if isinstance(layer, DecoderLayer)]
        caches = [LayerCache() for _ in self.decoder]
        mask = padding_mask(lengths, encoded.shape[1])
        return DecoderState(memory, mask, caches, [None] * len(self.target.schemes))

    def advance(self, tokens: Tensor, state: DecoderState, lengths: Tensor | None = None) -> Tensor:
        """Read target tokens [N,T] after those already in `state`; the state moves on.

        Returns:
            [N,T,d]: at each token, what predicts the next one.
        """
        span = Span(state.length, tokens.shape[1], tokens.device, lengths)
        x, state.carry = self.target(tokens, span, state.carry)
        for layer, view, cache, memory in zip(
            self.decoder, self.decoder_views, state.caches, state.memory, strict=True
        ):
            x = layer(x, view, span, cache, memory, state.memory_mask)
        state.length += tokens.shape[1]
        return x

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor`, in both stacks, where a scheme has such a thing."""
        known = False
        for scheme in (*self.source.position_schemes(), *self.target.position_schemes()):
            known = scheme.interpolate(factor) or known
        return known

    @property
    def longest_source(self) -> int | None:
        """Most source tokens the encoder can place, the end-of-sentence symbol included; None: no limit."""
        return self.source.longest

    @property
    def longest_target(self) -> int | None:
        """Most target tokens the decoder can place, the begin-of-sentence symbol included; None: no limit."""
        return self.target.longest


def _self_attention(config: Model, causal: bool) -> SelfAttention:
    return SelfAttention(config.d_model, config.heads, config.attention_dropout, causal)
