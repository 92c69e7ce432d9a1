"""DTMT: recurrent networks with several cells in each transition between words (Meng and Zhang 2019).

Shapes: B rows, J source tokens, T target tokens, d model width; S sentences, N hypotheses, n = N / S of each sentence;
H heads, D width of a head; W directions: 2 in the encoder, 1 in the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.config.schema import Model
from posnmt.model.base import output_projection
from posnmt.model.ordered import OrderedTranslator
from posnmt.model.state import padding_mask, select_rows
from posnmt_position.dropout import Dropout
from posnmt_position.options import Options, option
from posnmt_position.seam import Carry, Span


class Settings(Options):
    """Options of the architecture `dtmt` beside the common settings of a model."""

    layer_norm: bool = option(True, help="layer normalisation before each gate, as in the published code")
    cell_dropout: float | None = option(
        None, ge=0, lt=1, help="dropout on the new state that each cell proposes; null: model.dropout"
    )


@dataclass
class TransitionState:
    """The state of the decoder for S sentences and N = S x hypotheses rows.

    Attributes:
        keys: [S,1,J,H,D], the source's side of the attention; one for all hypotheses, as the next two.
        values: [S,H,J,2D], the source states, split into heads.
        mask: [S,1,J,1] bool, True at real source tokens, or None when no row is padded.
        hidden: [N,d], the state after the last word; S rows until the first token.
        carry: the carry of each position scheme.
        length: target tokens consumed.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None
    hidden: Tensor
    carry: list[Carry]
    length: int = 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] if some have left the batch.

        The rows of a sentence are adjacent, the same number for each sentence.
        """
        self.hidden = self.hidden.index_select(0, rows)
        self.carry = [select_rows(carry, rows) for carry in self.carry]
        if sentences is not None:
            self.keys, self.values = self.keys.index_select(0, sentences), self.values.index_select(0, sentences)
            if self.mask is not None:
                self.mask = self.mask.index_select(0, sentences)


class Cell(nn.Module):
    """A T-GRU, a GRU without input:

        r = s(N(U_r h)),   z = s(N(U_z h)),   h~ = tanh(r * (U h + b)),   h' = (1 - z) * h + z * h~

    N is layer normalisation, or only adds an offset. The module has `ways` parallel cells with separate weights.
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
        """[W,N,d] -> [W,N,d]; a T-GRU has no inputs."""
        width = hidden.shape[2]
        gates, own = torch.bmm(hidden, self.own).split([self.gates * width, width], dim=2)
        reset, update = self.gate(gates).unbind(2)
        return self.interpolate(hidden, (reset * (own + self.bias)).tanh(), update)

    def gate(self, sums: Tensor) -> Tensor:
        """The gates [W,N,gates,d] from their pre-activations [W,N,gates x d]."""
        sums = sums.unflatten(2, (self.gates, -1))
        if self.layer_norm:
            sums = functional.layer_norm(sums, sums.shape[-1:], eps=1e-6) * self.gain
        return (sums + self.offset).sigmoid()

    def interpolate(self, hidden: Tensor, new: Tensor, update: Tensor) -> Tensor:
        """`(1 - z) * h + z * h~`; the state stays wide under autocast."""
        return torch.lerp(hidden, self.dropout(new).to(hidden.dtype), update.to(hidden.dtype))


class LinearCell(Cell):
    """An L-GRU, a GRU with a linear path for its input:

    r = s(N(W_r x + U_r h)),   z = s(N(W_z x + U_z h)),   l = s(N(W_l x + U_l h))
    h~ = tanh(W x + r * (U h + b)) + l * (W_H x),   h' = (1 - z) * h + z * h~
    """

    gates = 3  # r, z, l

    def forward(self, hidden: Tensor, inputs: Tensor | None = None) -> Tensor:
        """[W,N,d] -> [W,N,d]; `inputs` [W,N,5d] is the input times W_r, W_z, W_l, W and W_H."""
        assert inputs is not None
        width = hidden.shape[2]
        parts = [self.gates * width, width]
        gates, own = torch.bmm(hidden, self.own).split(parts, dim=2)
        input_gates, read, linear = inputs.split([*parts, width], dim=2)
        reset, update, through = self.gate(gates + input_gates).unbind(2)
        return self.interpolate(hidden, (read + reset * (own + self.bias)).tanh() + through * linear, update)


class DeepTransition(nn.Module):
    """A transition from one state to the next through an L-GRU and then T-GRUs, in `ways` parallel copies.

    Args:
        inputs: width of the input.
        cells: number of cells, the L-GRU included.
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
        """The inputs of each step [W,..,5d] from x [..,inputs]."""
        return self.read(x).unflatten(-1, (self.ways, -1)).movedim(-2, 0)

    def step(self, inputs: Tensor, hidden: Tensor) -> Tensor:
        """The next state [W,N,d] from the inputs [W,N,5d]."""
        first, *others = self.cells
        hidden = first(hidden, inputs)
        for cell in others:
            hidden = cell(hidden)
        return hidden


class DeepTransitionTranslator(OrderedTranslator):
    """DTMT (Meng and Zhang 2019): a bidirectional encoder of deep transitions; a decoder of a query transition,
    multi-head attention and a decoder transition.

    x_j are the source words and y_t the target words, with their positions. Each transition is an L-GRU and then
    T-GRUs, `h -> T(..T(L(x, h)))`:

        h_j = [T_forward(x_j, h_{j-1}); T_backward(x_j, h_{j+1})],     s_0 = tanh(W_0 mean_j(h_j) + b_0)
        q_t = T_query(y_{t-1}, s_{t-1}),    c_t = W_o [.. sum_j a_tj^i h_j^i ..] + b_o,    s_t = T_decoder(c_t, q_t)
        a_t^i = softmax_j(v . tanh((W_q q_t)^i + (W_k h_j)^i)),    o_t = tanh(W_s s_t + W_c c_t + W_y y_{t-1} + b)

    `^i` is the part of head i; o_t predicts the next word. `model.encoder.layers` is the number of cells between two
    source words, the L-GRU included; `model.decoder.layers` is that of the query transition, and also that of the
    decoder transition. The authors' published code has 5, with 4 T-GRUs.

    Details from that code: the attention is additive, with one v for all heads, and averages the source states
    themselves; each gate has layer normalisation and no bias; dropout is applied to the new state h~ of every cell, to
    the words and to o_t; s_0 is computed from the mean of the source states; sinusoids are added to the words of both
    sides (in the named system, which can be changed). Unlike there, the word embeddings have no common bias, and y_0 is
    the begin-of-sentence symbol instead of zeros.
    """

    Settings = Settings

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        settings = Settings(**config.options)
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
        span = Span(0, width, source.device, lengths, origin=self.source.origin)
        words, _ = self.source(source, span, [None] * len(self.source.schemes))
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
        """Read target tokens [N,T] after those already in `state`, and update the state.

        Returns:
            [N,T,d] `o_t`, which predicts the next token.
        """
        rows, width = tokens.shape
        span = Span(state.length, width, tokens.device, lengths, origin=self.target.origin)
        words, state.carry = self.target(tokens, span, state.carry)
        # repeats rows for the first token only: the hypotheses of a sentence start with the same state
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
        """`c_t` [N,d] for the states `q_t` [N,d]; the hypotheses of a sentence are adjacent."""
        query = self.query(hidden).unflatten(1, (self.heads, -1)).unflatten(0, (len(state.keys), -1))[:, :, None]
        scores = self.score((query + state.keys).tanh())[..., 0]  # [S,n,J,H]
        if state.mask is not None:
            scores = scores.masked_fill(~state.mask, -torch.inf)
        weights = scores.softmax(2).permute(0, 3, 1, 2).to(state.values.dtype)  # [S,H,n,J]
        return self.context((weights @ state.values).transpose(1, 2).flatten(2).flatten(0, 1))


def _blocks(weight: Tensor) -> Tensor:
    """Xavier-uniform initialisation of each of the k square matrices in [W,d,k x d]."""
    for way in weight:
        for block in way.split(weight.shape[1], dim=1):
            nn.init.xavier_uniform_(block)
    return weight


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """[B,J,X] with the real words of each row in reverse; padding keeps its place."""
    if lengths is None:
        return x.flip(1)
    places = torch.arange(x.shape[1], device=x.device)[None]
    back = lengths[:, None] - 1 - places
    return x.gather(1, torch.where(back < 0, places, back)[..., None].expand_as(x))
