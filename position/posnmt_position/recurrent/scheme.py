"""A recurrent network in place of the positional layer (N19 section 4, R19 section 3.3)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from torch import Tensor, nn

from posnmt_position.dropout import dropout_or_none
from posnmt_position.linear import Linear
from posnmt_position.options import Options, option
from posnmt_position.recurrent.cells import Cell, Recurrence
from posnmt_position.seam import Carry, Scheme, Span, Stack, clashes


class Recurrent(Scheme):
    """`wv'_i = h_i`, `h_i = GRU(wv_i, h_{i-1})` (N19 eq. 8-9), or another recurrent network.

    The states of the network, which starts from zero, replace the word embeddings. R19 section 3.3 has a bidirectional
    LSTM in the encoder and a forward one in the decoder. Several layers are the cascade of Chen M. et al. 2018, with
    residual connections from the third layer on. Parameters are PyTorch's, with two bias vectors for each gate, as the
    counts of N19 require.

    By default the states are as wide as the words: d cells forward, or d/2 cells in each of two directions. With a
    `width` of n cells in each direction, a linear map with a bias projects the n or 2n states of each layer to d. N19's
    published code does so for a bidirectional GRU (`width: full`, n = d); Table 2 of the paper counts the forward one.
    That code also reads padding, so its backward direction starts there; here it starts at the last real word.

    N19's published code applies dropout to the word embeddings that the network reads and not to its states:
    `dropout_before: 0.2, dropout_after: 0`.
    """

    class Settings(Options):
        """Choose the recurrent network of `recurrent`, its width and its dropout."""

        cell: Cell = option("gru", help="gru, lstm, elman or sru")
        bidirectional: bool = option(False, help="both directions; in an encoder only")
        layers: int = option(1, ge=1, help="number of recurrent layers")
        width: Literal["full"] | int | None = option(
            None,
            ge=1,
            help="cells of each direction: a number, or full for d_model; none: d_model in one direction, half of it in"
            " each of two; if the states are not d_model wide, a linear map follows",
        )
        dropout_before: float | None = option(
            None, ge=0, lt=1, help="dropout on the word embeddings that the first layer reads; none: no dropout"
        )
        dropout_after: float | None = option(
            None, ge=0, lt=1, help="dropout on what the stack reads; none: the model's"
        )

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        d, width = stack.d_model, _states(stack, settings)
        self.dropout_before, self.dropout_after = dropout_or_none(settings.dropout_before), settings.dropout_after
        self.networks = nn.ModuleList(
            Recurrence(settings.cell, d, width, settings.bidirectional) for _ in range(settings.layers)
        )
        self.projections = nn.ModuleList(_projection(width, d) for _ in range(settings.layers if width != d else 0))

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """A bidirectional network in a decoder or of odd width, or `recurrent-heads` in the same list."""
        faults = clashes(others, "recurrent-heads")
        if settings.bidirectional and stack.causal:
            faults.append("with bidirectional: true reads words to the right, so it cannot serve the decoder")
        if settings.bidirectional and settings.width is None and stack.d_model % 2:
            faults.append(f"with bidirectional: true needs an even d_model, half for each; {stack.d_model} is odd")
        return faults

    def embed(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """The states [B,T,d] after each word of x [B,T,d], and the last state of each layer."""
        carries = [None] * len(self.networks) if carry is None else carry
        states, carried = self.dropout_before(x), []
        for index, (network, state) in enumerate(zip(self.networks, carries, strict=True)):
            above, state = network(states, span, state)
            above = self.projections[index](above) if self.projections else above
            states = states + above if index >= 2 else above
            carried.append(state)
        return states.to(x.dtype), tuple(carried)  # some networks give bf16 under autocast


def _states(stack: Stack, settings: Recurrent.Settings) -> int:
    """The width of the states of a layer, both directions together."""
    if settings.width is None:
        return stack.d_model
    cells = stack.d_model if settings.width == "full" else settings.width
    return 2 * cells if settings.bidirectional else cells


def _projection(width: int, d_model: int) -> Linear:
    """The linear map from the states of a layer to the width of the stack."""
    linear = Linear(width, d_model)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear
