"""DTMT: recurrent networks that go through several cells from one word to the next (Meng and Zhang 2019).

Shapes: B rows, J source tokens, T target tokens, d model width; S sentences, N hypotheses, n = N / S of each sentence;
H heads, D width of a head; W ways to read: 2 in the encoder, 1 in the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from posnmt.config.schema import Model
from posnmt.dropout import Dropout
from posnmt.model.base import output_projection
from posnmt.model.ordered import OrderedTranslator
from posnmt.model.state import padding_mask, select_rows
from posnmt.position.seam import Carry, Options, Span


class Settings(Options):
    """Options of dtmt."""

    layer_norm: bool = Field(True, description="layer normalisation in front of each gate, as in the published code")
    cell_dropout: float | None = Field(
        None, ge=0, lt=1, description="on the new state that each cell proposes; null: model.dropout"
    )


@dataclass
class TransitionState:
    """Everything that the decoder remembers of S sentences and N = S x hypotheses rows.

    Attributes:
        keys: [S,1,J,H,D], the source's side of the attention; one for all hypotheses, as the next two.
        values: [S,H,J,2D], the source states, cut into heads.
        mask: [S,1,J,1] bool, True at real source tokens, or None when no row is padded.
        hidden: [N,d], the state after the last word; S rows until the first token says how many hypotheses there are.
        carry: what each position scheme remembers.
        length: target tokens consumed.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None
    hidden: Tensor
    carry: list[Carry]
    length: int = 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] where some have left the batch.

        The rows of a sentence stand together, equally many for each sentence.
        """
        self.hidden = self.hidden.index_select(0, rows)
        self.carry = [select_rows(carry, rows) for carry in self.carry]
        if sentences is not None:
            self.keys, self.values = self.keys.index_select(0, sentences), self.values.index_select(0, sentences)
            if self.mask is not None:
                self.mask = self.mask.index_select(0, sentences)


class Cell(nn.Module):
    """A T-GRU, the GRU that reads nothing but a state:

        r = s(N(U_r h)),   z = s(N(U_z h)),   h~ = tanh(r * (U h + b)),   h' = (1 - z) * h + z * h~

    N is layer normalisation, or adds an offset alone; `ways` cells with weights of their own stand side by side.
    """

    gates = 2  # r, z

    def __init__(self, d_model: int, ways: int, layer_norm: bool, dropout: float) -> None:
        super().__init__()
        self.layer_norm = layer_norm
        self.dropout = Dropout(dropout)
        self.own = nn.Parameter(_blocks(torch.empty(ways, d_model, (self.gates + 1) * d_model)))
        self.bias = nn.Parameter(torch.zeros(ways, 1, d_model))
        self.offset = nn.Parameter(torch.zeros(ways, 1, self.gates, d_model))
        if layer_norm:
            self.gain = nn.Parameter(torch.ones(ways, 1, self.gates, d_model))

    def forward(self, hidden: Tensor, inputs: Tensor | None = None) -> Tensor:
        """[W,N,d] -> [W,N,d]; a T-GRU is given nothing."""
        width = hidden.shape[2]
        gates, own = torch.bmm(hidden, self.own).split([self.gates * width, width], dim=2)
        reset, update = self.gate(gates).unbind(2)
        return self.interpolate(hidden, (reset * (own + self.bias)).tanh(), update)

    def gate(self, sums: Tensor) -> Tensor:
        """The gates [W,N,gates,d] from the sums [W,N,gates x d] in front of them."""
        sums = sums.unflatten(2, (self.gates, -1))
        if self.layer_norm:
            sums = functional.layer_norm(sums, sums.shape[-1:], eps=1e-6) * self.gain
        return (sums + self.offset).sigmoid()

    def interpolate(self, hidden: Tensor, new: Tensor, update: Tensor) -> Tensor:
        """`(1 - z) * h + z * h~`; the state stays wide under autocast."""
        return torch.lerp(hidden, self.dropout(new).to(hidden.dtype), update.to(hidden.dtype))


class LinearCell(Cell):
    """An L-GRU, the GRU with a linear path for what it reads:

    r = s(N(W_r x + U_r h)),   z = s(N(W_z x + U_z h)),   l = s(N(W_l x + U_l h))
    h~ = tanh(W x + r * (U h + b)) + l * (W_H x),   h' = (1 - z) * h + z * h~
    """

    gates = 3  # r, z, l

    def forward(self, hidden: Tensor, inputs: Tensor | None = None) -> Tensor:
        """[W,N,d] -> [W,N,d]; `given` [W,N,5d] is what it reads, times W_r, W_z, W_l, W and W_H."""
        assert inputs is not None
        width = hidden.shape[2]
        parts = [self.gates * width, width]
        gates, own = torch.bmm(hidden, self.own).split(parts, dim=2)
        input_gates, read, linear = inputs.split([*parts, width], dim=2)
        reset, update, through = self.gate(gates + input_gates).unbind(2)
        return self.interpolate(hidden, (read + reset * (own + self.bias)).tanh() + through * linear, update)


class DeepTransition(nn.Module):
    """From one state to the next through an L-GRU and then T-GRUs, `ways` of them side by side.

    Args:
        inputs: width of what it reads.
        cells: the L-GRU and the T-GRUs.
    """

    def __init__(self, inputs: int, d_model: int, cells: int, ways: int, layer_norm: bool, dropout: float) -> None:
        super().__init__()
        self.ways = ways
        self.read = nn.Linear(inputs, ways * 5 * d_model, bias=False)
        for block in self.read.weight.data.chunk(5 * ways, dim=0):
            nn.init.xavier_uniform_(block)
        kinds = [LinearCell, *[Cell] * (cells - 1)]
        self.cells = nn.ModuleList(kind(d_model, ways, layer_norm, dropout) for kind in kinds)

    def project(self, x: Tensor) -> Tensor:
        """What each step is given, [W,..,5d], of what it reads [..,inputs]."""
        return self.read(x).unflatten(-1, (self.ways, -1)).movedim(-2, 0)

    def step(self, inputs: Tensor, hidden: Tensor) -> Tensor:
        """The state [W,N,d] after what it is given [W,N,5d]."""
        first, *others = self.cells
        hidden = first(hidden, inputs)
        for cell in others:
            hidden = cell(hidden)
        return hidden


class DeepTransitionTranslator(OrderedTranslator):
    """DTMT (Meng and Zhang 2019): deep transitions read in both directions; a query transition, multi-head attention
    and a decoder transition write.

    With x_j the source words and y_t the target words, with their positions, and each transition an L-GRU and then
    T-GRUs, `h -> T(..T(L(x, h)))`:

        h_j = [T_forward(x_j, h_{j-1}); T_backward(x_j, h_{j+1})],     s_0 = tanh(W_0 mean_j(h_j) + b_0)
        q_t = T_query(y_{t-1}, s_{t-1}),    c_t = W_o [.. sum_j a_tj^i h_j^i ..] + b_o,    s_t = T_decoder(c_t, q_t)
        a_t^i = softmax_j(v . tanh((W_q q_t)^i + (W_k h_j)^i)),    o_t = tanh(W_s s_t + W_c c_t + W_y y_{t-1} + b)

    `^i` is the part of head i; o_t predicts the next word. `model.encoder.layers` counts the cells that a state goes
    through from one source word to the next, the L-GRU among them; `model.decoder.layers` counts those of the query
    transition, and of the decoder transition as well. 5, with 4 T-GRUs, is what the authors' published code has.

    Readings, from that code: the attention is additive, one v for all heads, and weighs the source
    states themselves; each gate has layer normalisation and no bias, and dropout falls on the new state h~ of every
    cell, on the words and on o_t; s_0 comes from the mean of the source states; sinusoids are added to the words of
    either side (the named system says so, and they can be left out). The word embeddings have no common bias here, and
    before the first word y_0 is the symbol that begins a sentence, where that code has zeros.
    """

    Settings = Settings

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        settings = Settings.model_validate(config.options)
        d, self.heads = config.d_model, config.heads
        rate = config.dropout if settings.cell_dropout is None else settings.cell_dropout
        read, written = config.encoder.layers, config.decoder.layers
        self.encoder = DeepTransition(d, d, read, 2, settings.layer_norm, rate)
        self.bridge = nn.Linear(2 * d, d)
        self.query_transition = DeepTransition(d, d, written, 1, settings.layer_norm, rate)
        self.query = nn.Linear(d, d, bias=False)
        self.key = nn.Linear(2 * d, d, bias=False)
        self.score = nn.Linear(d // self.heads, 1, bias=False)
        self.context = nn.Linear(2 * d, d)
        self.decoder_transition = DeepTransition(d, d, written, 1, settings.layer_norm, rate)
        self.readout = nn.Linear(3 * d, d)
        for linear in (self.bridge, self.query, self.key, self.score, self.context, self.readout):
            nn.init.xavier_uniform_(linear.weight)
        for linear in (self.bridge, self.context, self.readout):
            nn.init.zeros_(linear.bias)
        self.dropout = Dropout(config.dropout)
        self.output = output_projection(config, self.target.table)
        self.attach_schemes()

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """Source tokens [B,J], right-padded, with real lengths [B] (None: no padding) -> [B,J,2d], 0 at padding."""
        rows, width = source.shape
        words, _ = self.source(source, Span(0, width, source.device, lengths), [None] * len(self.source.schemes))
        forward, backward = self.encoder.project(words).unbind(0)
        inputs = torch.stack([forward, _reversed(backward, lengths)]).unbind(2)
        hidden = self.bridge.weight.new_zeros(2, rows, self.config.d_model)
        states = []
        for word in inputs:
            hidden = self.encoder.step(word, hidden)
            states.append(hidden)
        forward, backward = torch.stack(states, dim=2).unbind(0)
        outputs = torch.cat([forward, _reversed(backward, lengths)], dim=-1)
        mask = padding_mask(lengths, width)
        return outputs if mask is None else outputs.masked_fill(~mask[:, 0, 0, :, None], 0.0)

    def start(self, encoded: Tensor, lengths: Tensor | None) -> TransitionState:
        """The decoder's state before the first target token, from the encoder output [S,J,2d]."""
        width = encoded.shape[1]
        mean = encoded.sum(1) / (width if lengths is None else lengths[:, None])
        mask = padding_mask(lengths, width)
        return TransitionState(
            keys=self.key(encoded).unflatten(2, (self.heads, -1))[:, None],
            values=encoded.unflatten(2, (self.heads, -1)).transpose(1, 2),
            mask=None if mask is None else mask[:, 0, :, :, None],
            hidden=self.bridge(mean).tanh().to(self.bridge.weight.dtype),
            carry=[None] * len(self.target.schemes),
        )

    def advance(self, tokens: Tensor, state: TransitionState, lengths: Tensor | None = None) -> Tensor:
        """Read target tokens [N,T] after those already in `state`; the state moves on.

        Returns:
            [N,T,d]: `o_t`, what predicts the next token.
        """
        rows, width = tokens.shape
        words, state.carry = self.target(tokens, Span(state.length, width, tokens.device, lengths), state.carry)
        # 1 hypothesis a row but for the first token: a sentence's hypotheses start alike
        hidden = state.hidden.repeat_interleave(rows // len(state.hidden), 0)[None]
        hiddens, contexts = [], []
        for word in self.query_transition.project(words).unbind(2):
            hidden = self.query_transition.step(word, hidden)
            context = self._attend(hidden[0], state)
            hidden = self.decoder_transition.step(self.decoder_transition.project(context), hidden)
            hiddens.append(hidden[0])
            contexts.append(context)
        state.hidden = hidden[0]
        state.length += width
        seen = torch.cat([torch.stack(hiddens, dim=1), torch.stack(contexts, dim=1), words], dim=-1)
        return self.dropout(self.readout(seen).tanh())

    def _attend(self, hidden: Tensor, state: TransitionState) -> Tensor:
        """`c_t` [N,d] for the states `q_t` [N,d]; the hypotheses of a sentence stand together."""
        query = self.query(hidden).unflatten(1, (self.heads, -1)).unflatten(0, (len(state.keys), -1))[:, :, None]
        scores = self.score((query + state.keys).tanh())[..., 0]  # [S,n,J,H]
        if state.mask is not None:
            scores = scores.masked_fill(~state.mask, -torch.inf)
        weights = scores.softmax(2).permute(0, 3, 1, 2).to(state.values.dtype)  # [S,H,n,J]
        return self.context((weights @ state.values).transpose(1, 2).flatten(2).flatten(0, 1))


def _blocks(weight: Tensor) -> Tensor:
    """Xavier-uniform for each of the square matrices that stand beside each other in [W,d,k x d]."""
    for way in weight:
        for block in way.split(weight.shape[1], dim=1):
            nn.init.xavier_uniform_(block)
    return weight


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """[B,J,X] with the real words of each row in reverse; padding stays where it is."""
    if lengths is None:
        return x.flip(1)
    places = torch.arange(x.shape[1], device=x.device)[None]
    back = lengths[:, None] - 1 - places
    return x.gather(1, torch.where(back < 0, places, back)[..., None].expand_as(x))
