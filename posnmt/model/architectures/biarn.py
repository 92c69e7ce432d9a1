"""A Transformer with a second, recurrent encoder, BiARN (Hao et al. 2019): a reconstruction.

Shapes: B rows, J source tokens, N hypotheses, S sentences, T target tokens, d model width; R states of the recurrent
encoder; H heads, D width of a head.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from posnmt.config.schema import Model
from posnmt.model.layers import DecoderLayer, FeedForward, Residual, ResidualLayer
from posnmt.model.start import start_of
from posnmt.model.state import DecoderState
from posnmt.model.transformer import Transformer, cross_attention
from posnmt_position.linear import Linear
from posnmt_position.options import Options, option
from posnmt_position.seam import CrossSpan, LayerPositions, Span

CELLS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "elman": nn.RNNCell}
"""The kinds of recurrent cell by the names of the option."""


class Settings(Options):
    """Options of the architecture `biarn` beside the common settings of a model."""

    steps: int = option(8, ge=1, help="T: recurrent steps of each direction, whatever the sentence's length")
    cell: Literal["lstm", "gru", "elman"] = option("lstm", help="f, the recurrent cell")
    directions: Literal["apart", "joined"] = option(
        "apart",
        help="apart: the decoder sees 2T states, T of each direction; joined: it sees T states, each a linear map "
        "of the states of both directions",
    )
    join: Literal["stack", "gate"] = option(
        "stack",
        help="stack: attention to the recurrent encoder reads the output of attention to the other one; gate: a "
        "gated sum of both",
    )
    reach: Literal["top", "all"] = option(
        "top", help="decoder layers that attend to the recurrent encoder: the last one, or all"
    )


class AttentiveRecurrence(nn.Module):
    """One direction: `c_t = ATT(h_{t-1}, H)`, `h_t = f(h_{t-1}, c_t)`, from `h_0 = 0`."""

    def __init__(self, config: Model, settings: Settings) -> None:
        super().__init__()
        self.steps = settings.steps
        self.attention = cross_attention(config, causal=False)
        self.cell: nn.Module = CELLS[settings.cell](config.d_model, config.d_model)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Words [B,J,d] with a mask [B,1,1,J], True at real tokens -> the states h_1 .. h_T [B,T,d]."""
        memory = self.attention.remember(x)
        # wide under autocast, since it accumulates
        hidden = self.attention.query.weight.new_zeros(len(x), x.shape[2])
        state: Tensor | tuple[Tensor, Tensor] = (hidden, hidden) if isinstance(self.cell, nn.LSTMCell) else hidden
        states = []
        for _ in range(self.steps):
            context = self.attention(hidden[:, None], memory, mask)[:, 0]
            state = self.cell(context.to(hidden.dtype), state)
            hidden = state[0] if isinstance(state, tuple) else state
            states.append(hidden)
        return torch.stack(states, dim=1)


class RecurrentEncoder(ResidualLayer):
    """`C = LN(REC(H))`, `H_r = LN(FFN(C) + C)`; REC is an attentive recurrent network in two directions.

    Its T states are not those of words, so REC has no residual connection from H. The steps do not follow the words
    either: both directions compute the same function with weights of their own, and the second one's states count from
    the last to the first.
    """

    def __init__(self, config: Model, settings: Settings) -> None:
        residual = Residual.of(config, causal=False)
        super().__init__(residual)
        self.forward_network = AttentiveRecurrence(config, settings)
        self.backward_network = AttentiveRecurrence(config, settings)
        self.joint = Linear(2 * config.d_model, config.d_model) if settings.directions == "joined" else None
        self.feed_forward = FeedForward(
            config.d_model,
            config.feed_forward,
            config.feed_forward_dropout,
            start_of(config, causal=False),
            config.activation,
        )
        self.recurrence_norm, self.feed_forward_norm = residual.layer_norm(), residual.layer_norm()
        self.last_norm = residual.last_norm()

    def forward(self, x: Tensor, span: Span, mask: Tensor | None) -> Tensor:
        """Words [B,J,d] with a mask [B,1,1,J], True at real tokens -> [B,R,d]."""
        directions = [self.forward_network(x, mask), self.backward_network(x, mask).flip(1)]
        states = torch.cat(directions, dim=1) if self.joint is None else self.joint(torch.cat(directions, dim=2))
        c = self.recurrence_norm(self.dropout(states))
        encoded: Tensor = self.last_norm(
            self.add(c, self.feed_forward(self.read(c, self.feed_forward_norm), span), self.feed_forward_norm)
        )
        return encoded


class DoubleDecoderLayer(DecoderLayer):
    """A decoder layer of which the first R states of its memory are those of the recurrent encoder.

    stack: `R_e = LN(ATT(C, H_e) + C)`, `R_r = LN(ATT(R_e, H_r) + R_e)`; gate: `LN(g A_e + (1 - g) A_r + C)` with
    `A_e = ATT(C, H_e)`, `A_r = ATT(C, H_r)` and `g = sigmoid(W [A_e; A_r] + b)`. The feed-forward layer reads the
    result.

    Args:
        states: R.
        join: stack or gate; None: the layer does not read the recurrent encoder.
    """

    def __init__(self, transformer: Transformer, config: Model, states: int, join: str | None) -> None:
        parts = transformer.decoder_parts(config)
        super().__init__(*parts)
        self.states = states
        self.recurrent = None if join is None else cross_attention(config, causal=True)
        self.recurrent_norm = parts[-1].layer_norm() if join == "stack" else None
        self.gate = Linear(2 * config.d_model, config.d_model) if join == "gate" else None

    def remember(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [S,H,R+J,D] from the outputs of both encoders [S,R+J,d]."""
        if self.recurrent is None:
            return super().remember(encoded)
        recurrent, words = (encoded[:, : self.states], encoded[:, self.states :])
        (keys, values), (word_keys, word_values) = self.recurrent.remember(recurrent), self.cross.remember(words)
        return torch.cat([keys, word_keys], dim=2), torch.cat([values, word_values], dim=2)

    def attend(
        self,
        h: Tensor,
        refined: Tensor,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor | None,
        view: LayerPositions,
        span: CrossSpan | None,
    ) -> Tensor:
        """See `DecoderLayer`; the memory is that of `remember`."""
        keys, values = memory
        words = keys[:, :, self.states :], values[:, :, self.states :]
        mask = None if memory_mask is None else memory_mask[..., self.states :]
        if self.recurrent is None:
            return super().attend(h, refined, words, mask, view, span)
        states = keys[:, :, : self.states], values[:, :, : self.states]
        if self.gate is not None:
            attended, recurrent = self.cross(refined, words, mask), self.recurrent(refined, states, None)
            share = self.gate(torch.cat([attended, recurrent], dim=-1)).sigmoid()
            return self.add(h, share * attended + (1 - share) * recurrent, self.cross_norm)
        assert self.recurrent_norm is not None
        h = super().attend(h, refined, words, mask, view, span)
        return self.add(h, self.recurrent(self.read(h, self.recurrent_norm), states, None), self.recurrent_norm)


class DoublyEncodedTransformer(Transformer):
    """The Transformer with a recurrent encoder beside its own, BiARN (Hao et al. 2019): a reconstruction.

    The recurrent encoder reads what the first layer of the other one reads, the words with their positions, and the
    decoder attends to both. `encode` returns the R recurrent states before those of the words.

    Established are the second encoder with an attentive recurrent network, and the short-cut, a single recurrent layer
    that reaches the top of the decoder (the abstract). The equations and the two ways to join are recalled. Chosen
    here, since nothing was available: the cells start from 0, both directions are d wide, and their states stand side
    by side in the memory, which gives the 9.4 M parameters by which the model is said to be larger (36 d^2).
    """

    Settings = Settings
    has_cross_positions = False

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        self.settings = settings = Settings(**config.options)
        self.states = settings.steps * (2 if settings.directions == "apart" else 1)
        super().__init__(config, source_size, target_size)

    def build_decoder_layer(self, config: Model, index: int) -> DecoderLayer:
        """A layer that reads the recurrent encoder, or only skips its states."""
        reads = self.settings.reach == "all" or index == config.decoder.layers - 1
        return DoubleDecoderLayer(self, config, self.states, self.settings.join if reads else None)

    def attach_schemes(self) -> None:
        """Build the recurrent encoder, and the position schemes last."""
        self.recurrence = RecurrentEncoder(self.config, self.settings)
        super().attach_schemes()

    def encode_words(self, x: Tensor, span: Span, mask: Tensor | None) -> Tensor:
        """[B,R+J,d] the outputs of both encoders from the words [B,J,d]."""
        return torch.cat([self.recurrence(x, span, mask), super().encode_words(x, span, mask)], dim=1)

    def start(self, encoded: Tensor, lengths: Tensor | None) -> DecoderState:
        """The decoder's state before the first target token, from the outputs of both encoders [S,R+J,d]."""
        return super().start(encoded, None if lengths is None else lengths + self.states)
