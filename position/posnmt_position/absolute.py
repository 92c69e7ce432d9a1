"""Absolute positions, added to the word embeddings: sinusoids and learned vectors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from posnmt_position.dropout import dropout_or_none
from posnmt_position.errors import PositionError
from posnmt_position.options import Options, option
from posnmt_position.seam import Carry, Scheme, Span, Stack


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """The sinusoidal encoding of any positions (Vaswani et al. 2017, section 3.5).

    `PE(p, 2i) = sin(p / 10000^(2i/width))`, `PE(p, 2i+1) = cos(p / 10000^(2i/width))`, computed in float64.

    Args:
        positions: [..], negative and fractional positions allowed.
        width: number of features, even.

    Returns:
        [.., width] float64.
    """
    rates = torch.exp(torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) * (-_LOG_BASE / width))
    angles = positions.to(torch.float64)[..., None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


_LOG_BASE = 9.210340371976184  # log(10000)


class AbsoluteOptions(Options):
    """Options of schemes that add a vector to each word embedding."""

    dropout_before: float | None = option(
        None,
        ge=0,
        lt=1,
        help="dropout on the word embeddings before positions are added, in addition to the model's dropout afterwards"
        " (N19's published code has both); none: no dropout before",
    )


class Sinusoidal(Scheme):
    """`wv'_i = wv_i + pe(i)` (N19 eq. 7) with the sinusoids of Vaswani et al. 2017; no longest position.

    The first word has position 0, as in the published code of Vaswani et al. and of N19; R19, C19a and C19b count words
    from 1 in their equations. The table is computed on demand and cached. Positions can be interpolated at inference.
    """

    class Settings(AbsoluteOptions):
        """Take the option of every absolute scheme; `sinusoidal` adds none."""

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.dropout_before = dropout_or_none(settings.dropout_before)
        self.width = stack.d_model
        self.factor = 1.0
        self._table = torch.empty(0, self.width)

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """An odd width: sines and cosines are paired."""
        return [f"needs an even d_model; {stack.d_model} is odd"] if stack.d_model % 2 else []

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor` from now on."""
        self.factor = factor
        self._table = torch.empty(0, self.width)
        return True

    def vectors(self, span: Span, like: Tensor) -> Tensor:
        """[T,d] the sinusoids of the span's positions, in the type and on the device of `like`."""
        end = span.first + span.length
        table = self._table  # another thread may replace it meanwhile
        if len(table) < end or table.device != like.device or table.dtype != like.dtype:
            size = max(64, 1 << (end - 1).bit_length())
            with torch.inference_mode(False):  # the table is used in training too
                positions = torch.arange(size, device=like.device, dtype=torch.float64) / self.factor
                table = self._table = sinusoids(positions, self.width).to(like.dtype)
        return table[span.first : end]

    def embed(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """`x` [B,T,d] plus the vectors of the span's positions."""
        return self.dropout_before(x) + self.vectors(span, x), carry


class Learned(Scheme):
    """`wv'_i = wv_i + w_i`, a trained vector for each position (Gehring et al. 2017; N19 note 1).

    The table is finite; its first row is that of the first word. A position past its end is an error and is never
    clipped.
    """

    class Settings(AbsoluteOptions):
        """Options of `learned`; the table has `max_length` rows."""

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.dropout_before = dropout_or_none(settings.dropout_before)
        self.longest = stack.max_length
        self.table = nn.Parameter(torch.empty(stack.max_length, stack.d_model))
        nn.init.normal_(self.table, std=stack.d_model**-0.5)

    def embed(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """`x` [B,T,d] plus the rows of the span's positions.

        Raises:
            PositionError: a position past the end of the table.
        """
        end = span.first + span.length
        if end > len(self.table):
            raise PositionError(
                f"there are {len(self.table)} learned positions, and position {end} is needed",
                "max_length",
                "train with a larger max_length, or choose a scheme without a finite table, such as relative",
            )
        return self.dropout_before(x) + self.table[span.first : end], carry
