"""RNN-NMT: a bidirectional LSTM encoder, and an LSTM decoder with attention and input feeding (Luong et al. 2015).

It is N19's recurrent baseline, whose order information is its recurrence. The parameter counts are exactly those of
N19's Table 2.

Shapes: B rows, J source tokens, T target tokens, d model width; S sentences, N hypotheses; L encoder layers, M decoder
layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from posnmt.config.schema import Model
from posnmt.model.base import Faults, TranslationModel, embeddings, foreign_settings, output_projection
from posnmt.model.state import padding_mask
from posnmt_position.dropout import Dropout
from posnmt_position.linear import Matrix
from posnmt_position.recurrent.cells import run_network


@dataclass
class RecurrentState:
    """The state of the decoder for S sentences and N = S x hypotheses rows.

    Attributes:
        keys: [S,J,M x d], `W_a` times each source token; one for all hypotheses.
        values: [S,J,d], what each source token adds to `W_c [h; c]`; one for all hypotheses.
        mask: [S,1,J] bool, True at real source tokens, or None when no row is padded.
        hidden, cell: [N,M,d], the state of each LSTM layer.
        attentional: [N,d], `h~` of the last token, an input of the next step. These three have S rows until the first
            token, whose rows determine the number of hypotheses.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None
    hidden: Tensor
    cell: Tensor
    attentional: Tensor

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] if some have left the batch.

        The rows of a sentence are adjacent, the same number for each sentence.
        """
        self.hidden, self.cell = self.hidden.index_select(0, rows), self.cell.index_select(0, rows)
        self.attentional = self.attentional.index_select(0, rows)
        if sentences is not None:
            self.keys, self.values = self.keys.index_select(0, sentences), self.values.index_select(0, sentences)
            if self.mask is not None:
                self.mask = self.mask.index_select(0, sentences)


class BidirectionalEncoder(nn.Module):
    """Layers of bidirectional recurrent networks; each direction is d wide.

    Each layer is a module: the dropout inside a stacked network of PyTorch has its own random state on a GPU, which a
    resumed run would not reproduce.

    Args:
        kind: nn.LSTM or nn.GRU.
        dropout: between the layers.
    """

    def __init__(self, kind: type[nn.RNNBase], d_model: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            kind(2 * d_model if layer else d_model, d_model, batch_first=True, bidirectional=True)  # type: ignore[call-arg,arg-type]
            for layer in range(layers)
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, list[Any]]:
        """Words [B,J,d], right-padded, with real lengths [B] (None: no padding).

        Returns:
            ([B,J,2d] forward and backward states concatenated, 0 at padding; for each layer its last state [2,B,d], or
            the pair of hidden state and cell, after the last real word of each direction).
        """
        real = torch.full((x.shape[0],), x.shape[1]) if lengths is None else lengths.cpu()
        packed = pack_padded_sequence(x, real, batch_first=True, enforce_sorted=False)
        last = []
        for index, layer in enumerate(self.layers):
            if index:
                packed = packed._replace(data=self.dropout(packed.data))
            packed, state = run_network(layer, packed)
            last.append(state)
        return pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])[0], last


class RecurrentTranslator(TranslationModel):
    """`p(y_t) = softmax(W_s h~_t)` with `h~_t = tanh(W_c [h_t; c_t])` (Luong et al. 2015, eq. 5-6).

    `h_t` is the concatenation of the M layers' hidden states, `c_t = sum_j a_tj s_j` the mean of the source states
    `s_j` [2d] with weights `a_t = softmax_j(h_t^T W_a s_j)` (eq. 7-8), and the first LSTM layer reads `[y_t; h~_{t-1}]`
    (section 3.3).

    N19 describes it in two sentences ("dot-attention and input-feeding"; 4 bidirectional and 3 forward LSTM layers of
    512). Without three embedding and output matrices and the output bias, its Table 2 has 175 d^2 + 94 d
    parameters. The following details, which are those of the authors' published code, give exactly this number (LSTM
    cells have PyTorch's two bias vectors):

    - encoder: each direction is d wide, so layers above the first read 2d: 16 + 3 x 24 d^2, 4 x 16 d;
    - bridge: the decoder starts from `tanh(W s + b)` of the last states of all encoder layers and directions, one
      `W` [M x d, 2L x d] for the hidden states and one for the cells: 2 x 24 d^2, 2 x 3 d;
    - decoder: the first layer reads 2d (word and `h~`): 12 + 2 x 8 d^2, 3 x 8 d;
    - attention: the decoder's side is all M hidden states, the source's is mapped to their width before the dot
      product (Luong's `general` score): `W_a` 6 d^2, `W_c` 5 d^2, both without a bias.

    Dropout is applied to the word embeddings and between the LSTM layers, as in that code.
    """

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        super().__init__(config)
        d, layers, written = config.d_model, config.encoder.layers, config.decoder.layers
        self.source, self.target = embeddings(config, source_size, target_size)
        self.dropout = Dropout(config.dropout)
        self.encoder = BidirectionalEncoder(nn.LSTM, d, layers, config.dropout)
        self.bridge_hidden = nn.Linear(2 * layers * d, written * d)
        self.bridge_cell = nn.Linear(2 * layers * d, written * d)
        self.decoder = nn.ModuleList(nn.LSTMCell(d if layer else 2 * d, d) for layer in range(written))
        self.score = nn.Linear(2 * d, written * d, bias=False)
        self.combine = Matrix(written * d + 2 * d, d, bias=False)
        self.output = output_projection(config, self.target)

    @classmethod
    def refuses(cls, config: Model, settings: Any) -> Faults:
        """Position schemes, and settings that only apply to a Transformer; it may read a begin symbol as that does."""
        return [fault for fault in foreign_parts(config) if fault[0] != ("source_begin",)]

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """Source tokens [B,J], right-padded, with real lengths [B] (None: no padding) -> [B,2L+J,2d].

        Before the J source states are the last hidden state and cell of each layer, both directions in one row, from
        which the decoder starts. With `model.source_begin` the state of the begin symbol is before theirs.
        """
        source, lengths = self.begun(source, lengths)
        outputs, last = self.encoder(self.dropout(self.source(source)), lengths)
        rows = [state.transpose(0, 1).flatten(1) for states in last for state in states]  # [2,B,d] -> [B,2d]
        return torch.cat([torch.stack(rows, dim=1), outputs], dim=1)

    def start(self, encoded: Tensor, lengths: Tensor | None) -> RecurrentState:
        """The decoder's state before the first target token, from the encoder output [S,2L+J,2d]."""
        last, outputs = encoded.tensor_split([2 * len(self.encoder.layers)], dim=1)
        hidden, cell = (
            bridge(last[:, kind::2].flatten(1)).tanh().unflatten(1, (len(self.decoder), -1))
            for kind, bridge in enumerate((self.bridge_hidden, self.bridge_cell))
        )
        if lengths is not None:
            lengths = lengths + self.config.source_begin
        mask = padding_mask(lengths, outputs.shape[1])
        # W_c [h; c] = W_h h + sum_j a_j (W_v s_j): the source's part is computed once for each sentence
        values = functional.linear(outputs, self.combine.weight[:, -outputs.shape[2] :])
        return RecurrentState(
            keys=self.score(outputs),
            values=values,
            mask=None if mask is None else mask[:, 0],
            hidden=hidden,
            cell=cell.to(self.target.weight.dtype),  # stays wide under autocast, since it accumulates over many steps
            attentional=torch.zeros_like(hidden[:, 0]),
        )

    def advance(self, tokens: Tensor, state: RecurrentState, lengths: Tensor | None = None) -> Tensor:
        """Read target tokens [N,T] after those already in `state`, and update the state.

        Returns:
            [N,T,d] `h~` at each token, which predicts the next one.
        """
        d = self.config.d_model
        cells = [layer for layer in self.decoder if isinstance(layer, nn.LSTMCell)]
        biases = [layer.bias_ih + layer.bias_hh for layer in cells]
        # the words' part of the first layer's gates: all tokens at once, outside the loop of input feeding
        words = functional.linear(self.dropout(self.target(tokens)), cells[0].weight_ih[:, :d], biases[0])  # [N,T,4d]
        narrow = words.dtype  # the type of matrix products: weights are cast once, not for each token
        reading = [cells[0].weight_ih[:, d:], *(layer.weight_ih for layer in cells[1:])]
        weights = [
            torch.cat([weight, layer.weight_hh], dim=1).to(narrow).t()
            for weight, layer in zip(reading, cells, strict=True)
        ]  # [2d,4d] each: the input of the layer and its own hidden state
        biases = [bias.to(narrow) for bias in biases]
        combine = self.combine.weight[:, : -2 * d].to(narrow).t()
        each = (
            tokens.shape[0] // state.hidden.shape[0]
        )  # 1 except for the first token: the hypotheses of a sentence start with the same state
        hidden = [*state.hidden.to(narrow).repeat_interleave(each, 0).unbind(1)]
        cell = [*state.cell.repeat_interleave(each, 0).unbind(1)]
        attentional = state.attentional.to(narrow).repeat_interleave(each, 0)
        written: list[Tensor] = []
        for word in words.unbind(1):
            for index, weight in enumerate(weights):
                read = self.dropout(hidden[index - 1]) if index else attentional
                gates = torch.addmm(biases[index] if index else word, torch.cat([read, hidden[index]], dim=1), weight)
                cell[index], after = lstm_step(gates, cell[index])
                hidden[index] = after.to(narrow)
            query = torch.cat(hidden, dim=1)
            attentional = (query @ combine + self._attend(query, state)).tanh()
            written.append(attentional)
        state.hidden, state.cell = torch.stack(hidden, dim=1), torch.stack(cell, dim=1)
        state.attentional = attentional
        return torch.stack(written, dim=1)

    def _attend(self, query: Tensor, state: RecurrentState) -> Tensor:
        """The context's part [N,d] of `W_c [h; c]`; the N / S hypotheses of a sentence are adjacent in `query`."""
        scores = query.unflatten(0, (state.keys.shape[0], -1)) @ state.keys.transpose(1, 2)  # [S,N/S,J]
        if state.mask is not None:
            scores = scores.masked_fill(~state.mask, -torch.inf)
        return (scores.softmax(-1).to(state.values.dtype) @ state.values).flatten(0, 1)


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The next cell and hidden state [N,d] from the sums [N,4d] before the gates i, f, g, o (PyTorch's order)."""
    i, f, g, o = gates.chunk(4, dim=1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return cell, o.sigmoid() * cell.tanh()


def foreign_parts(config: Model) -> Faults:
    """Faults for settings of a `model` section that a recurrent model does not support."""
    what = f"{config.architecture} has order information by its recurrence and takes no position schemes; write []"
    positions = [(tuple(place.split(".")), what) for place, schemes in config.schemes.items() if schemes]
    return [*positions, *foreign_settings(config)]
