"""A recurrence that reads its own projected output of the word before, as C19b prints it in eq. 6.

Shapes: B rows, T tokens, d width.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from posnmt_position.linear import Linear
from posnmt_position.recurrent.cells import permuted, reversed_places
from posnmt_position.seam import Carry, Span

FedBack = Literal["gru", "lstm", "elman"]
"""The cells that read a hidden state; SRU reads none, so nothing can take its place."""


class FeedbackRecurrence(nn.Module):
    """`r_j = tanh(f(x_j, r_{j-1}) W_r + b_r)`, `r_0 = 0` (C19b eq. 6), f one step of a recurrent network.

    An LSTM has its own memory cell besides.

    Bidirectional, r_j of both directions as one vector would need r_{j-1} of the direction that comes from behind, and
    so all words at once. So each direction has half of the width, and its own `W_r` and `b_r`.
    """

    def __init__(self, cell: FedBack, width: int, bidirectional: bool) -> None:
        super().__init__()
        each = width // 2 if bidirectional else width
        directions = 2 if bidirectional else 1
        self.cells = nn.ModuleList(_cell(cell, width, each) for _ in range(directions))
        self.projections = nn.ModuleList(projection(each) for _ in range(directions))

    def forward(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """[B,T,d] -> r [B,T,d], and the new carry (None if bidirectional)."""
        with torch.autocast(x.device.type, enabled=False):  # errors of narrow types would add up over the words
            x = x.to(next(self.parameters()).dtype)
            output, after = self._run(0, x, carry)
            if len(self.cells) == 1:
                return output, after
            places = reversed_places(x, span)
            backward, _ = self._run(1, permuted(x, places), None)
            return torch.cat([output, permuted(backward, places)], dim=-1), None

    def _run(self, direction: int, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The outputs [B,T,e] of one direction, and what it reads of the last word: r, and an LSTM's memory cell."""
        cell, project = self.cells[direction], self.projections[direction]
        state: Any = carry
        outputs = []
        for word in x.unbind(1):
            if isinstance(cell, nn.LSTMCell):
                hidden, memory = cell(word, state)
                output = project(hidden).tanh().to(x.dtype)
                state = output, memory
            else:
                output = state = project(cell(word, state)).tanh().to(x.dtype)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state


def _cell(cell: FedBack, width_in: int, width: int) -> nn.Module:
    kind = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "elman": nn.RNNCell}[cell]
    return kind(width_in, width)


def projection(width: int) -> Linear:
    """W_r and b_r as they start: Xavier's uniform distribution, and 0."""
    linear = Linear(width, width)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear
