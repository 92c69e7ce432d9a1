"""Recurrent positional embeddings: a part of each word embedding passes through a recurrent network (C19b).

Shapes: B rows, T tokens, H heads, d model width = d_p + d_r.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import torch
from torch import Tensor, nn

from posnmt_position.absolute import Sinusoidal
from posnmt_position.linear import Linear
from posnmt_position.options import Options, option
from posnmt_position.recurrent.cells import Cell, Recurrence
from posnmt_position.recurrent.feedback import FeedbackRecurrence, projection
from posnmt_position.seam import Carry, LayerPosition, Scheme, Span, Stack, clashes

SHARE = {"rpe": 5 / 8, "mpr": 1 / 2}
"""d_r as a share of d_model: 320 and 256 of 512, the best of C19b's Figure 2."""


class OwnSlice(LayerPosition):
    """Head h projects only the features h D .. (h+1) D - 1 of its input."""

    own: Tensor

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        own = torch.eye(stack.heads, dtype=torch.bool).repeat_interleave(stack.d_head, dim=1)
        self.register_buffer("own", own, persistent=False)

    def reads(self) -> Tensor:
        """Return the block-diagonal mask [H,d], bool: each head reads its own D features."""
        return self.own


class RecurrentHeads(Scheme):
    """Recurrent positional embeddings (C19b): a part of each word embedding goes through a recurrent network.

    The embedding x is split into x^p and x^r, of widths d_p and d_r (section 3):

        P = x^p + PE,   h_j = RNN(x^r_j, h_{j-1}),   r_j = tanh(h_j W_r + b_r),   h_0 = 0

    with sinusoids of width d_p; the network is bidirectional in the encoder (d_r / 2 each) and forward in the decoder.
    The paper prints eq. 6 as `r_j = tanh(f_RNN(x^r_j, r_{j-1}) W_r + b_r)`, which feeds r_{j-1}, the output of the
    projection, back. Here the network recurs on its own hidden state, with the projection on top: otherwise GRU, LSTM
    and SRU, which the paper names for f_RNN, would not be the networks of their papers. `feedback: output` is eq. 6 as
    printed (`FeedbackRecurrence`).

    Layout `rpe`: the stack reads [P ; R], so that entire heads are recurrent (section 4.1); d_r is a multiple of the
    width of a head. Layout `mpr`: P and R are cut into H pieces each, and the stack reads [P^1 R^1 ... P^H R^H] (eq.
    9-10), so that each head has both parts.

    The paper is inconsistent about the input of a head. Its text says that "one type of head only contains RPE and
    other type of head only contains the original reduced dimension input representation": in the first layer each head
    projects its own slice of the input (`head_projection: separate`, the default). Its eq. 4, 7 and 11 have projections
    of the whole input instead, W_h of d_model x d_k (`full`). With those, the two layouts with the same d_r are the
    same model up to a permutation of the stack's features, which contradicts the difference that the paper measures
    between them.

    The scheme has its own sinusoids, so a list may not also have another scheme of absolute positions; `recurrent`
    would replace the word embeddings that it splits.
    """

    class Settings(Options):
        """Choose the layout, the width and the recurrent network of `recurrent-heads`."""

        layout: Literal["rpe", "mpr"] = option("mpr", help="rpe: entire heads are recurrent; mpr: a part of each head")
        width: int | None = option(
            None,
            ge=1,
            help="d_r; none: 5/8 of d_model for rpe, rounded to whole heads (1/2 with 4 heads), 1/2 for mpr, as "
            "in C19b",
        )
        cell: Cell = option("elman", help="elman, gru, lstm or sru")
        feedback: Literal["state", "output"] = option(
            "state",
            help="what each step of the network reads from the previous step: state is its own hidden state; output is "
            "r, as C19b eq. 6 is printed, with a W_r for each direction; sru cannot use output",
        )
        head_projection: Literal["separate", "full"] = option(
            "separate", help="what a head of the first layer projects: separate is its own slice, full is all features"
        )

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.heads, self.layout = stack.heads, settings.layout
        self.width = recurrent_width(stack, settings)
        placed = stack.d_model - self.width
        self.positions = Sinusoidal(Stack(placed, 1, 1, stack.causal, stack.max_length), Sinusoidal.Settings())
        self.network: nn.Module
        self.project: Linear | None = None  # which a network that reads its output has inside
        if settings.feedback == "output" and settings.cell != "sru":
            self.network = FeedbackRecurrence(settings.cell, self.width, bidirectional=not stack.causal)
        else:
            self.network = Recurrence(settings.cell, self.width, self.width, bidirectional=not stack.causal)
            self.project = projection(self.width)
        self.first = OwnSlice(stack) if settings.head_projection == "separate" else None

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """Widths that do not divide into heads and directions, or another scheme of absolute positions."""
        width, d, heads = recurrent_width(stack, settings), stack.d_model, stack.heads
        faults = clashes(others, "sinusoidal", "learned", "shape", "cape", "randomised", "recurrent")
        if not 0 < width < d:
            return [f"needs a width between 0 and d_model = {d}, exclusive; got {width}", *faults]
        if settings.layout == "rpe" and width % stack.d_head:
            faults.append(
                f"in layout rpe needs a width that is a multiple of {stack.d_head}, the width of a head; got {width}"
            )
        if settings.layout == "mpr" and width % heads:
            faults.append(f"in layout mpr needs a width that {heads} heads share evenly; got {width}")
        if settings.cell == "sru" and settings.feedback == "output":
            faults.append("cannot feed the output of sru back: it reads no hidden state; leave feedback: output out")
        if (d - width) % 2:
            faults.append(f"needs an even d_model - width for the sinusoids; {d} - {width} = {d - width} is odd")
        if not stack.causal and width % 2:
            faults.append(f"needs an even width in the encoder, half for each direction; {width} is odd")
        return faults

    def embed(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """[P ; R] or [P^1 R^1 ... P^H R^H], [B,T,d], from the word embeddings [B,T,d]; and the network's state."""
        words, recurrent = x.split([x.shape[-1] - self.width, self.width], dim=-1)
        placed, _ = self.positions.embed(words, span, None)
        states, carry = self.network(recurrent, span, carry)
        states = (states if self.project is None else self.project(states).tanh()).to(placed.dtype)
        if self.layout == "rpe":
            return torch.cat([placed, states], dim=-1), carry
        pieces = [part.unflatten(-1, (self.heads, -1)) for part in (placed, states)]
        return torch.cat(pieces, dim=-1).flatten(-2), carry

    def interpolate(self, factor: float) -> bool:
        """Divide every position of the sinusoids by `factor` from now on; the network has no positions."""
        return self.positions.interpolate(factor)

    def layer(self, index: int) -> LayerPosition | None:
        """The separate projections of the first layer."""
        return self.first if index == 0 else None


def recurrent_width(stack: Stack, settings: Any) -> int:
    """d_r: as set, or C19b's share of d_model, for `rpe` rounded to a multiple of the width of a head."""
    if settings.width is not None:
        return int(settings.width)
    unit = stack.d_head if settings.layout == "rpe" else 1
    return max(1, round(SHARE[settings.layout] * stack.d_model / unit)) * unit
