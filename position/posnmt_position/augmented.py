"""Sinusoids at positions that are randomised in training, so that a model does not rely on absolute positions.

Shapes: B rows, T tokens, d model width.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from posnmt_position.absolute import Sinusoidal, sinusoids
from posnmt_position.options import Options, option
from posnmt_position.randomness import generator
from posnmt_position.seam import Carry, Span, Stack, clashes


class MovedSinusoids(Sinusoidal):
    """Sinusoids at `training_positions` in training, and at the usual positions at inference."""

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """An odd width, or a second scheme of absolute positions."""
        faults = clashes(others, "sinusoidal", "learned", "shape", "cape", "randomised")
        return [*super().refuses(stack, settings, others), *faults]

    def training_positions(self, rows: int, span: Span) -> Tensor:
        """Draw positions [B,T] at random, one row a sentence: integers or real numbers. Subclasses override it."""
        raise NotImplementedError

    def embed(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """`x` [B,T,d] plus the sinusoids of its positions."""
        if not self.training:
            return super().embed(x, span, carry)
        return x + sinusoids(self.training_positions(len(x), span), self.width).to(x.dtype), carry


class Shape(MovedSinusoids):
    """Shifted absolute positions: in training `pe(i + k)`, k drawn from 0 .. K for each sentence (Kiyono et al. 2021).

    Source and target have independent shifts. At inference there is no shift.
    """

    class Settings(Options):
        """Set how far `shape` moves the positions of a training sentence."""

        shift: int = option(500, ge=1, help="K: the largest shift")

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__(stack, Sinusoidal.Settings())
        self.shift = settings.shift

    def training_positions(self, rows: int, span: Span) -> Tensor:
        """Draw one shift for each sentence; return the shifted positions [B,T], integers."""
        shifts = torch.empty(rows, 1, dtype=torch.int64, device=span.device)
        return span.queries + shifts.random_(0, self.shift + 1, generator=generator())


class Cape(MovedSinusoids):
    """Continuous augmented positions: in training `pe(l (i + D + e_i))` (Likhomanenko et al. 2021, section 3).

    D is drawn from -`global_shift` .. `global_shift` and log l from -log `scaling` .. log `scaling` for each sentence,
    e_i from -`local_shift` .. `local_shift` for each word, all uniform; up to 1/2 the words keep their order. Source
    and target are independent. At inference the positions are 0, 1, 2 ...
    """

    class Settings(Options):
        """Set how far `cape` shifts and stretches the positions of a training sentence."""

        global_shift: float = option(5.0, ge=0, help="largest shift of a sentence, in words")
        local_shift: float = option(0.5, ge=0, help="largest shift of each word, in words")
        scaling: float = option(1.03, ge=1, help="largest factor by which a sentence is stretched or compressed")

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__(stack, Sinusoidal.Settings())
        self.settings = settings

    def training_positions(self, rows: int, span: Span) -> Tensor:
        """Draw a shift and a stretch for each sentence and a shift for each word; return positions [B,T] in float64."""
        shift, local, scale = (
            _uniform(rows, width, span.device, torch.float64) * 2 - 1 for width in (1, span.length, 1)
        )
        moved = span.queries + shift * self.settings.global_shift + local * self.settings.local_shift
        return moved * (scale * math.log(self.settings.scaling)).exp()


class Randomised(MovedSinusoids):
    """Randomised positions: in training the n words of a sentence have n of L positions (Ruoss et al. 2023).

    They are drawn from 0 .. L-1 without replacement and sorted (section 3), so that training covers every position and
    many gaps at every length. The paper draws positions at inference too. Here word i has position `step * i` at
    inference, because a translation should be reproducible and a decoder does not know the final length. These
    positions occur in training up to L / step words (256 by default). For a padded target, training draws as many
    positions as the batch is wide, which makes little difference in batches of similar lengths.
    """

    class Settings(Options):
        """Set how many positions `randomised` draws from, and the gap between them at inference."""

        positions: int = option(2048, ge=2, help="L: positions to draw from, and the longest training sentence")
        step: int = option(8, ge=1, help="gap between two words at inference")

    limited_by = "positions"

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__(stack, Sinusoidal.Settings())
        self.positions, self.step = settings.positions, settings.step
        self.interpolate(1.0)

    @property
    def longest(self) -> int | None:  # type: ignore[override]
        """The largest number of words of a training sentence; at inference there is no limit."""
        return self.positions if self.training else None

    def interpolate(self, factor: float) -> bool:
        """Divide every position at inference, which are `step` apart, by `factor` from now on."""
        return super().interpolate(factor / self.step)

    def training_positions(self, rows: int, span: Span) -> Tensor:
        """[B,T]; the positions of padding have no meaning."""
        drawn = _uniform(rows, self.positions, span.device).topk(span.length, dim=1).indices
        if span.lengths is not None:  # as many positions as words, before the padding
            drawn = drawn.masked_fill(span.before >= span.lengths[:, None], self.positions)
        return drawn.sort(dim=1).values


def _uniform(rows: int, width: int, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """[rows,width] numbers drawn from 0 .. 1, as `torch.rand` does, which torch.compile refuses with a generator."""
    return torch.empty(rows, width, device=device, dtype=dtype).uniform_(generator=generator())
