"""The base Transformer of the papers, built from the `model` section of a configuration.

Embeddings, not schemes, scale by sqrt(d), unless `model.scale_embeddings` is false; a stack ends with a layer
normalisation only if `model.norm` is pre; the output projection has a bias. With three separate embedding and
projection matrices the parameter counts are exactly those of N19's Table 2.

Shapes: B rows, J source tokens, T target tokens, V vocabulary entries, d model width; S sentences, N hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posnmt.config.schema import Model
from posnmt.model.attention import CrossAttention, SelfAttention
from posnmt.model.base import output_projection
from posnmt.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual, ResidualLayer
from posnmt.model.ordered import OrderedTranslator
from posnmt.model.start import start_of
from posnmt.model.state import DecoderState, LayerCache, padding_mask
from posnmt_position.seam import CrossSpan, Scheme, Span, Temperature, join


class CrossPositions(nn.Module):
    """The position schemes of attention to the source, with what they know of the training text.

    Attributes:
        lengths: [2] tokens of its sources and targets, end symbols included, as whole numbers. Files keep them.
    """

    lengths: Tensor

    def __init__(self, schemes: Sequence[Scheme]) -> None:
        super().__init__()
        self.schemes = nn.ModuleList(schemes)
        if schemes:
            self.register_buffer("lengths", torch.ones(2, dtype=torch.long))

    def span(self, start: int, tokens: Tensor, keys: Tensor, mask: Tensor | None) -> CrossSpan | None:
        """The positions in the source of target tokens [N,T] after `start` earlier ones; None without schemes.

        Args:
            keys: [S,H,J,D] of the source; mask [S,1,1,J] is True at real tokens.
        """
        if not self.schemes:
            return None
        sources, targets = self.lengths.double()
        lengths = None if mask is None else mask.sum(-1).flatten()
        return CrossSpan(
            start, tokens.shape[1], tokens.device, lengths, keys.shape[2],
            ratio=sources / targets, hypotheses=len(tokens) // len(keys),
        )  # fmt: skip


class Transformer(OrderedTranslator):
    """Encoder, decoder and output projection.

    Args:
        config: the `model` section, with its schemes.
        source_size, target_size: vocabulary entries of each side, the four special symbols included.
    """

    has_transformer_layers = True
    has_cross_positions = True

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        reading = Residual.of(config, causal=False)
        self.encoder = nn.ModuleList(
            EncoderLayer(_self_attention(config, causal=False), self.build_feed_forward(config, causal=False), reading)
            for _ in range(config.encoder.layers)
        )
        self.decoder = nn.ModuleList(self.build_decoder_layer(config, index) for index in range(config.decoder.layers))
        self.encoder_norm, self.decoder_norm = reading.last_norm(), Residual.of(config, causal=True).last_norm()
        self.output = self.build_output(config)
        self.attach_schemes()
        crossing = self.build_schemes("decoder.cross")
        self.cross, self.cross_views = CrossPositions(crossing), join(crossing, config.decoder.layers)
        self.join_positions()

    def join_positions(self, trained: tuple[int, int] | None = None) -> None:
        """Join the views of the position schemes of both sides, which may have changed, at inference.

        Args:
            trained: tokens of the longest source and target of training, for `Temperature`; None: logits stay.
        """
        reading, writing = (None, None) if trained is None else (Temperature(n, i > 0) for i, n in enumerate(trained))
        self.encoder_views = join(self.source.position_schemes(), self.config.encoder.layers, reading)
        self.decoder_views = join(self.target.position_schemes(), self.config.decoder.layers, writing)

    def build_output(self, config: Model) -> nn.Linear:
        """The projection [d] -> [V] to the target vocabulary."""
        return output_projection(config, self.target.table)

    def build_feed_forward(self, config: Model, causal: bool) -> nn.Module:
        """The feed-forward layer of one encoder or decoder layer; an override has the same signature of `forward`."""
        start = start_of(config, causal)
        return FeedForward(config.d_model, config.feed_forward, config.feed_forward_dropout, start, config.activation)

    def build_decoder_layer(self, config: Model, index: int) -> DecoderLayer:
        """The decoder layer of this index."""
        return DecoderLayer(*self.decoder_parts(config))

    def decoder_parts(self, config: Model) -> tuple[SelfAttention, CrossAttention, nn.Module, Residual]:
        """New parts of a decoder layer: attention to the target and to the source, feed-forward layer, residual."""
        return (
            _self_attention(config, causal=True),
            cross_attention(config, causal=True),
            self.build_feed_forward(config, causal=True),
            Residual.of(config, causal=True),
        )

    def read(self, source: Tensor, lengths: Tensor | None) -> Tensor | None:
        """[B] how many tokens of each row of a source [B,J,..], with real lengths [B], are read; None: all.

        Without `model.source_end` the last one is not, except in a row that has no other.
        """
        if self.config.source_end:
            return lengths
        if lengths is None:
            lengths = torch.full(source.shape[:1], source.shape[1], device=source.device)
        return (lengths - 1).clamp(min=1)

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """Source tokens [B,J], right-padded, with real lengths [B] (None: no padding) -> [B,J,d].

        With `model.source_begin` the state of the begin symbol is before theirs.
        """
        source, lengths = self.begun(source, lengths)
        lengths = self.read(source, lengths)
        span = Span(0, source.shape[1], source.device, lengths, origin=self.source.origin)
        x, _ = self.source(source, span, [None] * len(self.source.schemes))
        return self.encode_words(x, span, padding_mask(lengths, source.shape[1]))

    def encode_words(self, x: Tensor, span: Span, mask: Tensor | None) -> Tensor:
        """The encoder's output from the input of its first layer [B,J,d]; mask [B,1,1,J] is True at real tokens."""
        for layer, view in zip(self.encoder, self.encoder_views, strict=True):
            x = layer(x, view, span, mask)
        encoded: Tensor = self.encoder_norm(x)
        return encoded

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """See `TranslationModel`; a target that is read at once needs no caches."""
        state = self.start(self.encode(source, lengths), lengths)
        state.caches = [None] * len(state.caches)
        return self.advance(target, state)

    def compile_training(self, backend: str = "inductor") -> bool:
        """Let torch.compile translate each layer for training: see `ResidualLayer`."""
        for layer in self.modules():
            if isinstance(layer, ResidualLayer):
                layer.compile_training(backend)
        return True

    def learn_lengths(self, source: int, target: int) -> None:
        """Keep the training lengths for schemes in the attention to the source."""
        if self.cross.schemes:
            self.cross.lengths.copy_(torch.tensor([source, target]))

    def start(self, encoded: Tensor, lengths: Tensor | None) -> DecoderState:
        """The decoder's state before the first target token, from the encoder output [S,J,d]."""
        memory = [layer.remember(encoded) for layer in self.decoder if isinstance(layer, DecoderLayer)]
        caches = [LayerCache() for _ in self.decoder]
        if lengths is not None:
            lengths = lengths + self.config.source_begin
        mask = padding_mask(self.read(encoded, lengths), encoded.shape[1])
        return DecoderState(memory, mask, caches, [None] * len(self.target.schemes))

    def advance(self, tokens: Tensor, state: DecoderState, lengths: Tensor | None = None) -> Tensor:
        """Read target tokens [N,T] after those already in `state`, and update the state.

        Returns:
            [N,T,d] at each token the hidden state that predicts the next one.
        """
        span = Span(state.length, tokens.shape[1], tokens.device, lengths, origin=self.target.origin)
        x, state.carry = self.target(tokens, span, state.carry)
        cross_span = self.cross.span(state.length, tokens, state.memory[0][0], state.memory_mask)
        for layer, view, cross_view, cache, memory in zip(
            self.decoder, self.decoder_views, self.cross_views, state.caches, state.memory, strict=True
        ):
            x = layer(x, view, span, cache, memory, state.memory_mask, cross_view, cross_span)
        state.length += tokens.shape[1]
        hidden: Tensor = self.decoder_norm(x)
        return hidden


def _self_attention(config: Model, causal: bool) -> SelfAttention:
    return SelfAttention(config.d_model, config.heads, config.attention_dropout, causal, start_of(config, causal))


def cross_attention(config: Model, causal: bool) -> CrossAttention:
    """A new attention from the decoder (`causal`), or from the encoder, to other states of the source."""
    return CrossAttention(config.d_model, config.heads, config.attention_dropout, start_of(config, causal))
