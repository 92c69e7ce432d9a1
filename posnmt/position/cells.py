"""Recurrent networks over the tokens of a stack: one direction with a memory, or both over right-padded rows.

Shapes: B rows, T tokens, i input width, d output width.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from posnmt.position.seam import Carry, Span

Cell = Literal["gru", "lstm", "elman", "sru"]
"""The kinds of recurrent network that options may name."""


class SimpleRecurrentUnit(nn.Module):
    """SRU (Lei et al. 2018, "Simple Recurrent Units for Highly Parallelizable Recurrence", eq. 1-4).

        f_t = sigmoid(W_f x_t + v_f * c_{t-1} + b_f)
        c_t = f_t * c_{t-1} + (1 - f_t) * (W x_t)
        r_t = sigmoid(W_r x_t + v_r * c_{t-1} + b_r)
        h_t = r_t * c_t + (1 - r_t) * x_t

    All products with matrices are taken at once for all tokens; what is left to the loop over time is element-wise.
    Where the input is not as wide as the output, the highway term has `W_x x_t`; without `highway` there is none, and
    `h_t = r_t * c_t`. So each of two directions, half as wide as its input, has a W_x; the authors' package has none
    there, but gives one half of the input to each direction.
    """

    def __init__(self, width_in: int, width: int, highway: bool = True) -> None:
        super().__init__()
        self.highway = highway
        self.parts = 4 if highway and width_in != width else 3
        self.project = nn.Linear(width_in, self.parts * width, bias=False)
        self.peephole = nn.Parameter(torch.empty(2, width))  # v_f and v_r
        self.bias = nn.Parameter(torch.zeros(2, width))
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.uniform_(self.peephole, -(width**-0.5), width**-0.5)

    def forward(self, x: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor]:
        """[B,T,i] -> [B,T,d], and the last c [1,B,d], as PyTorch's networks give theirs."""
        parts = self.project(x).to(self.bias.dtype)  # sums over many words stay wide under autocast
        new, forget, reset, *rest = parts.chunk(self.parts, dim=-1)
        (v_f, v_r), (b_f, b_r) = self.peephole, self.bias
        forget = forget + b_f
        c = torch.zeros_like(forget[:, 0]) if carry is None else carry[0]
        memories = [c]
        for each_new, each_forget in zip(new.unbind(1), forget.unbind(1), strict=True):
            c = torch.lerp(each_new, c, torch.addcmul(each_forget, v_f, c).sigmoid())
            memories.append(c)
        states = torch.stack(memories, dim=1)  # [B,T+1,d]
        # the reset gate looks back as well but feeds nothing forward, so it needs no loop
        gate = torch.addcmul(reset + b_r, v_r, states[:, :-1]).sigmoid()
        if not self.highway:
            return gate * states[:, 1:], c[None]
        return torch.lerp(rest[0] if rest else x.to(gate.dtype), states[:, 1:], gate), c[None]


class Recurrence(nn.Module):
    """One layer, forward or in both directions; from the zero state, or from a carry where it is forward.

    In both directions each is half as wide, and the backward one begins at each row's last real token.
    """

    def __init__(self, cell: Cell, width_in: int, width: int, bidirectional: bool, highway: bool = True) -> None:
        super().__init__()
        each = width // 2 if bidirectional else width
        self.forward_network = _network(cell, width_in, each, highway)
        self.backward_network = _network(cell, width_in, each, highway) if bidirectional else None

    def forward(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """[B,T,i] -> [B,T,d], and what to remember (None in both directions)."""
        output, after = self.forward_network(x, _unfold(carry))
        if self.backward_network is None:
            return output, _fold(after)
        turned = span.length - 1 - span.queries
        if span.lengths is None:
            backward, _ = self.backward_network(x[:, turned], None)
            return torch.cat([output, backward[:, turned]], dim=-1), None
        # token t of a row of J stands at J - 1 - t; padding stays where it is
        last = span.lengths[:, None] - 1
        turned = torch.where(span.queries <= last, last - span.queries, span.queries)
        rows = torch.arange(len(x), device=x.device)[:, None]
        backward, _ = self.backward_network(x[rows, turned], None)
        return torch.cat([output, backward[rows, turned]], dim=-1), None


def _network(cell: Cell, width_in: int, width: int, highway: bool) -> nn.Module:
    """A network that takes ([B,T,i], state or None) and gives ([B,T,d], state); `highway` is SRU's."""
    if cell == "sru":
        return SimpleRecurrentUnit(width_in, width, highway)
    kind = {"gru": nn.GRU, "lstm": nn.LSTM, "elman": nn.RNN}[cell]
    made: nn.Module = kind(width_in, width, batch_first=True)
    return made


def _fold(state: Carry) -> Carry:
    """A network's state [1,B,d], or a pair of such, with rows first: [B,d]."""
    return tuple(part[0] for part in state) if isinstance(state, tuple) else state[0]


def _unfold(carry: Carry) -> Carry:
    """The other way round."""
    if carry is None:
        return None
    return tuple(part[None] for part in carry) if isinstance(carry, tuple) else carry[None]
