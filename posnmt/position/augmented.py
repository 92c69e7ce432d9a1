"""Sinusoids at positions that training moves at random, so that a model does not cling to absolute ones.

Shapes: B rows, T tokens, d model width.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from posnmt.position.absolute import Sinusoidal, sinusoids
from posnmt.position.seam import Carry, Options, Span, Stack, clashes
from posnmt.randomness import generator


class MovedSinusoids(Sinusoidal):
    """Sinusoids at `training_positions` in training; at inference where they always stand."""

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """As the sinusoids; one absolute position is enough."""
        faults = clashes(others, "sinusoidal", "learned", "shape", "cape", "randomised")
        return [*super().refuses(stack, settings, others), *faults]

    def training_positions(self, rows: int, span: Span) -> Tensor:
        """[B,T] positions, drawn at random."""
        raise NotImplementedError

    def embed(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """`x` [B,T,d] plus the sinusoids of its positions."""
        if not self.training:
            return super().embed(x, span, carry)
        return x + sinusoids(self.training_positions(len(x), span), self.width).to(x.dtype), carry


class Shape(MovedSinusoids):
    """Shifted absolute positions: in training `pe(i + k)`, k drawn from 0 .. K a sentence (Kiyono et al. 2021).

    Source and target draw for themselves. At inference there is no shift.
    """

    class Settings(Options):
        """Options of `shape`."""

        shift: int = Field(500, ge=1, description="K: the largest shift")

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__(stack, Sinusoidal.Settings())
        self.shift = settings.shift

    def training_positions(self, rows: int, span: Span) -> Tensor:
        """[B,T]."""
        return span.queries + torch.randint(self.shift + 1, (rows, 1), device=span.device, generator=generator())


class Cape(MovedSinusoids):
    """Continuous augmented positions: in training `pe(l (i + D + e_i))` (Likhomanenko et al. 2021, section 3).

    D is drawn from -`global_shift` .. `global_shift` and log l from -log `scaling` .. log `scaling` for each sentence,
    e_i from -`local_shift` .. `local_shift` for each word, all uniform; up to 1/2 the words keep their order. Source
    and target draw for themselves. At inference the positions are 0, 1, 2 ... as they are.
    """

    class Settings(Options):
        """Options of `cape`."""

        global_shift: float = Field(5.0, ge=0, description="how far a sentence moves at most, in words")
        local_shift: float = Field(0.5, ge=0, description="how far each word moves at most, in words")
        scaling: float = Field(1.03, ge=1, description="how far a sentence is stretched or squeezed at most, a factor")

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__(stack, Sinusoidal.Settings())
        self.settings = settings

    def training_positions(self, rows: int, span: Span) -> Tensor:
        """[B,T]."""
        shift, local, scale = (
            torch.rand(rows, width, device=span.device, dtype=torch.float64, generator=generator()) * 2 - 1
            for width in (1, span.length, 1)
        )
        moved = span.queries + shift * self.settings.global_shift + local * self.settings.local_shift
        return moved * (scale * math.log(self.settings.scaling)).exp()


class Randomised(MovedSinusoids):
    """Randomised positions: in training the n words of a sentence stand at n of L positions (Ruoss et al. 2023).

    Those are drawn from 0 .. L-1 without replacement and sorted (section 3), so that the model meets every position and
    many gaps whatever the length. The paper draws at inference too; a translation should not change from run to run,
    and a decoder does not know its length, so here word i stands at `step * i` at inference: a place that training has
    met up to L / step words (256 unless told), and unseen positions beyond. A padded target in training draws as many
    positions as its batch is wide, which matters little where sentences of like length stand together.
    """

    class Settings(Options):
        """Options of `randomised`."""

        positions: int = Field(2048, ge=2, description="L: positions to draw from, and the longest training sentence")
        step: int = Field(8, ge=1, description="gap between two words at inference")

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__(stack, Sinusoidal.Settings())
        self.positions, self.step = settings.positions, settings.step
        self.interpolate(1.0)

    @property
    def longest(self) -> int | None:  # type: ignore[override]
        """Most words of a training sentence; at inference there is no limit."""
        return self.positions if self.training else None

    def interpolate(self, factor: float) -> bool:
        """Divide every position at inference, `step` between two of them, by `factor` from now on."""
        return super().interpolate(factor / self.step)

    def training_positions(self, rows: int, span: Span) -> Tensor:
        """[B,T]; what stands on padding has no meaning."""
        drawn = (
            torch.rand(rows, self.positions, device=span.device, generator=generator()).topk(span.length, dim=1).indices
        )
        if span.lengths is not None:  # only as many as there are words, and those in order
            drawn = drawn.masked_fill(span.queries >= span.lengths[:, None], self.positions)
        return drawn.sort(dim=1).values
