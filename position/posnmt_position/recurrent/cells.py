"""Recurrent networks over the tokens of a stack: forward with a carry, or bidirectional over right-padded rows.

Shapes: B rows, T tokens, i input width, d output width.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from posnmt_position.processor import multiplies_bf16
from posnmt_position.recurrent.sru import SimpleRecurrentUnit
from posnmt_position.seam import Carry, Span

Cell = Literal["gru", "lstm", "elman", "sru"]
"""The kinds of recurrent network that options may name."""


class Recurrence(nn.Module):
    """One layer, forward or bidirectional; it starts from the zero state, or from a carry if it is forward.

    Each of two directions has half of the width, and the backward one starts at the last real token of each row.
    """

    def __init__(self, cell: Cell, width_in: int, width: int, bidirectional: bool, highway: bool = True) -> None:
        super().__init__()
        each = width // 2 if bidirectional else width
        self.forward_network = _network(cell, width_in, each, highway)
        self.backward_network = _network(cell, width_in, each, highway) if bidirectional else None

    def forward(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """[B,T,i] -> [B,T,d], and the new carry (None if bidirectional)."""
        output, after = run_network(self.forward_network, x, _unfold(carry))
        if self.backward_network is None:
            return output, _fold(after)
        places = reversed_places(x, span)
        backward, _ = run_network(self.backward_network, permuted(x, places))
        return torch.cat([output, permuted(backward, places)], dim=-1), None


class _Permutation(torch.autograd.Function):
    """The tokens [B,T,i] permuted by indices [B x T] into the tokens of all rows; the permutation is its own inverse.

    The gradient is therefore the same permutation, where that of a general index would be a scatter-add.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.places = places
        return x.flatten(0, 1).index_select(0, places).view(x.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad: Tensor = _Permutation.apply(grads[0], ctx.places)
        return grad, None


def permuted(x: Tensor, places: Tensor) -> Tensor:
    """The tokens of x [B,T,i] at `places` [B x T] of all rows, a permutation that is its own inverse."""
    moved: Tensor = _Permutation.apply(x, places)
    return moved


def reversed_places(x: Tensor, span: Span) -> Tensor:
    """[B x T] the index of each token of x in reversed rows, in which padding keeps its place."""
    last = span.length - 1 if span.lengths is None else span.lengths[:, None] - 1
    reversed_places = torch.where(span.before <= last, last - span.before, span.before)
    rows = torch.arange(len(x), device=x.device)[:, None] * span.length
    return (rows + reversed_places).flatten()


def run_network(network: nn.Module, x: Any, state: Any = None) -> Any:
    """The output of a recurrent network for x, a tensor or a packed sequence, from a state (None: zero).

    Under autocast on a CPU without bfloat16 instructions it runs in float32: oneDNN has no bfloat16 LSTM there.
    """
    if not torch.is_autocast_enabled("cpu") or multiplies_bf16():
        return network(x, state)
    with torch.autocast("cpu", enabled=False):
        return network(x.float(), state)


def _network(cell: Cell, width_in: int, width: int, highway: bool) -> nn.Module:
    """A network from ([B,T,i], state or None) to ([B,T,d], state); `highway` is an option of SRU."""
    if cell == "sru":
        return SimpleRecurrentUnit(width_in, width, highway)
    kind = {"gru": nn.GRU, "lstm": nn.LSTM, "elman": nn.RNN}[cell]
    network: nn.Module = kind(width_in, width, batch_first=True)
    return network


def _fold(state: Carry) -> Carry:
    """A network's state [1,B,d], or a pair of them, as [B,d]."""
    return tuple(part[0] for part in state) if isinstance(state, tuple) else state[0]


def _unfold(carry: Carry) -> Carry:
    if carry is None:
        return None
    return tuple(part[None] for part in carry) if isinstance(carry, tuple) else carry[None]
