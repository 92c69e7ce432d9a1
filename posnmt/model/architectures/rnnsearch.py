"""RNNsearch with a distortion model: attention that depends on the previous attention weights (Zhang et al. 2017).

Shapes: B rows, J source tokens, T target tokens, d model width; S sentences, N hypotheses; M decoder layers, l the
farthest jump, K = 2l + 1 jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.config.schema import Model
from posnmt.model.architectures.rnn import BidirectionalEncoder, foreign_parts
from posnmt.model.base import Faults, TranslationModel, embeddings, output_projection
from posnmt.model.state import padding_mask
from posnmt_position.dropout import Dropout
from posnmt_position.linear import Matrix
from posnmt_position.options import Options, option


@dataclass
class SearchState:
    """The state of the decoder for S sentences and N = S x hypotheses rows.

    Attributes:
        source: [S,J,2d], the source states; one for all hypotheses, as the next three.
        keys: [S,J,d], `U_a` times each source state.
        values: [S,J,3d+K], what each source state adds to the gates of the GRU that reads the context, and to the
            scores of the jumps if they depend on the last context.
        mask: [S,1,J] bool, True at real source tokens, or None when no row is padded.
        hidden: [N,M,d], the state of each GRU layer.
        alignment: [N,J], the last token's attention weights; 0 before the first. These two have S rows until the first
            token, whose rows determine the number of hypotheses.
    """

    source: Tensor
    keys: Tensor
    values: Tensor
    mask: Tensor | None
    hidden: Tensor
    alignment: Tensor

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] if some have left the batch.

        The rows of a sentence are adjacent, the same number for each sentence.
        """
        self.hidden, self.alignment = self.hidden.index_select(0, rows), self.alignment.index_select(0, rows)
        if sentences is not None:
            self.source, self.keys, self.values = (
                part.index_select(0, sentences) for part in (self.source, self.keys, self.values)
            )
            if self.mask is not None:
                self.mask = self.mask.index_select(0, sentences)


class Settings(Options):
    """Options of the architecture `rnnsearch+distortion` beside the common settings."""

    context: Literal["hidden", "source", "target", "none"] = option(
        "hidden", help="what the jump depends on: decoder state, last context, last word; none: plain RNNsearch"
    )
    jump: int = option(3, ge=1, help="l: the largest jump of attention from one word to the next")
    share: float = option(0.5, gt=0, lt=1, help="lambda: the distortion model's share of the attention weights")


class RecurrentSearch(TranslationModel):
    """RNNsearch (Bahdanau et al. 2015) whose attention weights are `a_t = lambda d_t + (1 - lambda) a^_t`.

    The content part is `a^_t = softmax_j(v_a^T tanh(W_a s~_t + U_a h_j))`, `h_j` the states [2d] of a bidirectional
    GRU. The distortion part (Zhang et al. 2017, section 3) predicts a jump from the previous attention weights:

        d_t = sum_{k=-l}^{l} P(k | context) shift(a_{t-1}, k),    P(. | context) = softmax(W_d context + b_d)

    `shift` moves the weights k source words to the right; weights that leave the sentence are lost. The context is the
    decoder state `s~_t` (H-Distortion), the last source context `c_{t-1}` (S-Distortion) or the last target word
    `y_{t-1}` (T-Distortion).

    The decoder's first layer is two GRUs, as in that paper's RNNsearch: `s~_t = GRU(s_{t-1}, y_{t-1})`, and
    `s_t = GRU(s~_t, c_t)`, `c_t = sum_j a_tj h_j`. Further layers read the layer below. The decoder starts
    from `tanh(W h + b)` of the backward state at the first source word. The next word is predicted from
    `t_t = max` over pairs of `U_o s_t + V_o y_{t-1} + C_o c_t` (Bahdanau et al. 2015, appendix A.2.2).

    Details that the sources do not specify: weights before the first word are 0; lambda is 1/2 and l = 3; the default
    context is hidden; the paper has one layer.
    """

    Settings = Settings

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        super().__init__(config)
        d, layers = config.d_model, config.decoder.layers
        self.settings = settings = Settings(**config.options)
        self.source, self.target = embeddings(config, source_size, target_size)
        self.dropout = Dropout(config.dropout)
        self.encoder = BidirectionalEncoder(nn.GRU, d, config.encoder.layers, config.dropout)
        self.bridge = nn.Linear(d, layers * d)
        self.word_cell, self.context_cell = nn.GRUCell(d, d), nn.GRUCell(2 * d, d)
        self.upper_cells = nn.ModuleList(nn.GRUCell(d, d) for _ in range(layers - 1))
        self.query = nn.Linear(d, d, bias=False)
        self.key = nn.Linear(2 * d, d, bias=False)
        self.score = nn.Linear(d, 1, bias=False)
        self.readout = nn.Linear(d + d + 2 * d, 2 * d)
        self.output = output_projection(config, self.target)
        if settings.context != "none":
            self.jumps = Matrix(2 * d if settings.context == "source" else d, 2 * settings.jump + 1)

    @classmethod
    def refuses(cls, config: Model, settings: Any) -> Faults:
        """Position schemes, and settings that only apply to a Transformer."""
        return foreign_parts(config)

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """Source tokens [B,J], right-padded, with real lengths [B] (None: no padding) -> [B,J,2d]."""
        outputs: Tensor = self.encoder(self.dropout(self.source(source)), lengths)[0]
        return outputs

    def start(self, encoded: Tensor, lengths: Tensor | None) -> SearchState:
        """The decoder's state before the first target token, from the encoder output [S,J,2d]."""
        rows, width, _ = encoded.shape
        hidden = self.bridge(encoded[:, 0, self.config.d_model :]).tanh().unflatten(1, (self.config.decoder.layers, -1))
        # linear maps of the context are sums over the source: computed for each sentence, weighted for each token
        weight = self.context_cell.weight_ih
        if self.settings.context == "source":
            weight = torch.cat([weight, self.jumps.weight])
        mask = padding_mask(lengths, width)
        wide = self.target.weight.dtype  # stays wide under autocast, since it accumulates over many steps
        return SearchState(
            source=encoded,
            keys=self.key(encoded),
            values=functional.linear(encoded, weight),
            mask=None if mask is None else mask[:, 0],
            hidden=hidden.to(wide),
            alignment=torch.zeros(rows, width, dtype=wide, device=encoded.device),
        )

    def advance(self, tokens: Tensor, state: SearchState, lengths: Tensor | None = None) -> Tensor:
        """Read target tokens [N,T] after those already in `state`, and update the state.

        Returns:
            [N,T,d] `t_t`, which predicts the next token.
        """
        each = (
            tokens.shape[0] // state.hidden.shape[0]
        )  # 1 except for the first token: the hypotheses of a sentence start with the same state
        upper = [cell for cell in self.upper_cells if isinstance(cell, nn.GRUCell)]
        hidden = [*state.hidden.repeat_interleave(each, 0).unbind(1)]
        alignment = state.alignment.repeat_interleave(each, 0)
        words = self.dropout(self.target(tokens))  # [N,T,d]
        # what depends on the words only: all tokens at once, outside the loop
        gates = functional.linear(words, self.word_cell.weight_ih, self.word_cell.bias_ih)  # [N,T,3d]
        jumps = self.jumps(words) if self.settings.context == "target" else None
        tops: list[Tensor] = []
        alignments: list[Tensor] = []
        for place in range(tokens.shape[1]):
            reading = gru_step(self.word_cell, gates[:, place], hidden[0])  # s~_t
            content = self._content(reading, state)
            if self.settings.context == "none":
                alignment = content
            else:
                moves = self._moves(reading, alignment, state) if jumps is None else jumps[:, place]
                moved = self._moved(alignment, moves, state.mask)
                alignment = self.settings.share * moved + (1 - self.settings.share) * content
            context = over_source(alignment[:, None], state.values)[:, 0, : gates.shape[2]] + self.context_cell.bias_ih
            hidden[0] = gru_step(self.context_cell, context, reading)
            for index, cell in enumerate(upper, start=1):
                below = functional.linear(self.dropout(hidden[index - 1]), cell.weight_ih, cell.bias_ih)
                hidden[index] = gru_step(cell, below, hidden[index])
            tops.append(hidden[-1])
            alignments.append(alignment)
        state.hidden, state.alignment = torch.stack(hidden, dim=1), alignment
        contexts = over_source(torch.stack(alignments, dim=1), state.source)  # [N,T,2d]
        pairs = self.readout(torch.cat([torch.stack(tops, dim=1), words, contexts], dim=-1)).unflatten(-1, (-1, 2))
        return self.dropout(pairs.amax(-1))

    def _content(self, reading: Tensor, state: SearchState) -> Tensor:
        """`a^_t` [N,J] from the decoder state `s~_t` [N,d]."""
        query = self.query(reading).unflatten(0, (state.keys.shape[0], -1))  # [S,N/S,d]
        scores = self.score((query[:, :, None] + state.keys[:, None]).tanh())[..., 0]  # [S,N/S,J]
        if state.mask is not None:
            scores = scores.masked_fill(~state.mask, -torch.inf)
        return scores.softmax(-1).flatten(0, 1)

    def _moves(self, reading: Tensor, alignment: Tensor, state: SearchState) -> Tensor:
        """The scores [N,K] of the jumps -l .. l, from the decoder state [N,d] or the last attention weights [N,J]."""
        if self.settings.context == "hidden":
            moves: Tensor = self.jumps(reading)
            return moves
        scores = state.values[..., -self.jumps.out_features :]
        return over_source(alignment[:, None], scores)[:, 0] + self.jumps.bias

    def _moved(self, alignment: Tensor, moves: Tensor, mask: Tensor | None) -> Tensor:
        """`d_t` [N,J]: the last weights [N,J] moved by the jumps whose scores are `moves` [N,K]."""
        farthest = self.settings.jump
        around = functional.pad(alignment, (farthest, farthest)).unfold(1, 2 * farthest + 1, 1)  # [N,J,K]: a_{j-l..j+l}
        # a jump k moves the weight at j - k to j
        moved = (around * moves.softmax(-1).to(around.dtype).flip(-1)[:, None]).sum(-1)
        if mask is None:
            return moved
        return moved.unflatten(0, (mask.shape[0], -1)).masked_fill(~mask, 0.0).flatten(0, 1)


def gru_step(cell: nn.GRUCell, inputs: Tensor, hidden: Tensor) -> Tensor:
    """The next hidden state [N,d]; `inputs` [N,3d] is the input's part of r, z, n, with its bias."""
    reset, update, new = inputs.chunk(3, dim=1)
    own_reset, own_update, own_new = functional.linear(hidden, cell.weight_hh, cell.bias_hh).chunk(3, dim=1)
    new = (new + (reset + own_reset).sigmoid() * own_new).tanh()
    return new + (update + own_update).sigmoid() * (hidden - new)


def over_source(weights: Tensor, values: Tensor) -> Tensor:
    """Sums [N,T,X] of the values [S,J,X] with weights [N,T,J]; the N / S hypotheses of a sentence are adjacent."""
    rows, length, width = weights.shape
    return (weights.reshape(values.shape[0], -1, width) @ values).view(rows, length, -1)
