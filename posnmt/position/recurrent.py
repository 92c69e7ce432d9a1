"""A recurrent network in place of the positional layer (N19 section 4, R19 section 3.3)."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from torch import Tensor, nn

from posnmt.position.cells import Cell, Recurrence
from posnmt.position.seam import Carry, Options, Scheme, Span, Stack


class Recurrent(Scheme):
    """`wv'_i = h_i`, `h_i = GRU(wv_i, h_{i-1})` (N19 eq. 8-9), or another recurrent network.

    The word embeddings are replaced by the network's states; it starts from zero. R19 section 3.3 has a bidirectional
    LSTM in the encoder and a forward one in the decoder. Several layers make the cascade of Chen M. et al. 2018, with
    its residual connections from the third layer on. Parameters are as PyTorch has them, with two bias vectors a gate;
    N19's counts need both.
    """

    class Settings(Options):
        """Options of `recurrent`."""

        cell: Cell = Field("gru", description="gru, lstm, elman or sru")
        bidirectional: bool = Field(False, description="both directions, each half as wide; in an encoder alone")
        layers: int = Field(1, ge=1, description="recurrent layers, one above the other")

    excludes = frozenset({"recurrent-heads"})

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.networks = nn.ModuleList(
            Recurrence(settings.cell, stack.d_model, stack.d_model, settings.bidirectional)
            for _ in range(settings.layers)
        )

    @classmethod
    def refuses(cls, stack: Stack, settings: Any) -> list[str]:
        """The backward direction reads what a decoder has not written yet."""
        faults = []
        if settings.bidirectional and stack.causal:
            faults.append("with bidirectional: true reads words to the right, so it cannot serve the decoder")
        if settings.bidirectional and stack.d_model % 2:
            faults.append(f"with bidirectional: true needs an even d_model, half for each; {stack.d_model} is odd")
        return faults

    def embed(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """The states [B,T,d] after each word of x [B,T,d], and those to go on from, one for each layer."""
        before = [None] * len(self.networks) if carry is None else carry
        states, after = x, []
        for index, (network, state) in enumerate(zip(self.networks, before, strict=True)):
            above, state = network(states, span, state)
            states = states + above if index >= 2 else above
            after.append(state)
        return states.to(x.dtype), tuple(after)  # some networks give bf16 under autocast
