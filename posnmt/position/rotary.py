"""Rotary positions: queries and keys are rotated by angles that grow with their positions (RoPE, xPos).

Shapes: B rows, T tokens, H heads, D width of a head.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from posnmt.errors import UserError
from posnmt.position.seam import LayerPosition, Options, Scheme, Span, Stack


class Rotation(LayerPosition):
    """Features 2n and 2n+1 of a query or key at position p are rotated by the angle `p / base^(2n/D)` (Su et al. 2021).

    The product of a rotated query and a rotated key depends only on their distance (eq. 16), so keys are rotated once.
    """

    def __init__(self, width: int, base: float) -> None:
        super().__init__()
        self.width, self.base, self.factor = width, base, 1.0

    def rotate(self, q: Tensor, k: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """[B,H,T,D] each."""
        if self not in span.shared:
            positions = span.queries.to(torch.float64)[:, None] / self.factor
            places = torch.arange(0, self.width, 2, device=span.device, dtype=torch.float64) / self.width
            wide = torch.promote_types(q.dtype, torch.float32)
            turns = self.turns(positions, places).to(wide)
            # torch.compile does not support complex numbers
            span.shared[self] = turns if torch.compiler.is_compiling() else torch.complex(*turns.unbind(1))
        of_queries, of_keys = span.shared[self]
        return _rotated(q, of_queries), _rotated(k, of_keys)

    def turns(self, positions: Tensor, places: Tensor) -> Tensor:
        """[2,2,T,D/2]: for queries and for keys, cosines and sines, from positions [T,1] and places 2n/D [D/2]."""
        angles = positions * self.base**-places
        return torch.stack([angles.cos(), angles.sin()]).expand(2, -1, -1, -1)


class DecayingRotation(Rotation):
    """RoPE with a factor `zeta_n^(p/512)` on queries and its inverse on keys: `zeta_n^(r/512)` at distance r.

    `zeta_n = (2n/D + 0.4) / 1.4` (Sun et al. 2022, eq. 17-18 and their code, where 512 is `scale_base`).
    """

    def rotate(self, q: Tensor, k: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """[B,H,T,D] each.

        Raises:
            UserError: a position whose scale overflows single precision.
        """
        end, longest = span.start + span.length, longest_xpos(self.factor)
        if end > longest:
            raise UserError(
                f"there are {longest} xpos positions, and position {end} is needed",
                todo="translate shorter texts, or choose a system without a longest sentence, such as rope",
            )
        return super().rotate(q, k, span)

    def turns(self, positions: Tensor, places: Tensor) -> Tensor:
        """[2,2,T,D/2]: for queries and for keys, cosines and sines with their scales."""
        scales = ((places + 0.4) / 1.4) ** (positions / SCALE_BASE)
        return super().turns(positions, places) * torch.stack([scales, 1 / scales])[:, None]


SCALE_BASE = 512
"""Distance at which xPos's decay is zeta."""

LONGEST_XPOS = 32_768
"""Positions up to which xPos's scales and their inverses are finite in single precision and bfloat16."""


def longest_xpos(factor: float) -> int:
    """The number of tokens that xPos supports if positions are divided by `factor`."""
    return int(LONGEST_XPOS * factor)


class Rope(Scheme):
    """RoPE: queries and keys are rotated by their positions (Su et al. 2021, eq. 14-16, 34); no parameters.

    `q_i . k_j` becomes `Re sum_n q_i,n conj(k_j,n) e^(i (p_i - p_j) theta_n)`, `theta_n = base^(-2n/D)`, with each pair
    of features (2n, 2n+1) as a complex number. Values are not rotated. Positions can be interpolated at inference.
    """

    view_class: type[Rotation] = Rotation

    class Settings(Options):
        """Options of `rope` and `xpos`."""

        base: float = Field(
            10_000.0, gt=1, description="the slowest pair of features rotates once in 2 pi x base tokens"
        )

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.view = self.view_class(stack.d_head, settings.base)

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """An odd width of a head: features are rotated in pairs."""
        if stack.d_head % 2:
            return [f"needs an even width of a head; d_model / heads = {stack.d_head} is odd"]
        return []

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor` from now on."""
        self.view.factor = factor
        return True

    def layer(self, index: int) -> LayerPosition:
        """The rotation, the same in every layer."""
        return self.view


class Xpos(Rope):
    """xPos: RoPE whose products decay with the distance to the left (Sun et al. 2022, section 3); no parameters.

    They grow to the right, so xPos serves a decoder only.
    """

    view_class = DecayingRotation
    longest = LONGEST_XPOS

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """An odd width of a head, or an encoder."""
        faults = super().refuses(stack, settings, others)
        if not stack.causal:
            faults.append(
                "decays to the left and grows to the right, so it cannot serve the encoder; choose rope there"
            )
        return faults

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor` from now on, and multiply the longest length by it."""
        self.longest = longest_xpos(factor)
        return super().interpolate(factor)


def _rotated(x: Tensor, turns: Tensor) -> Tensor:
    """[B,H,T,D] rotated pair by pair, in float32 or wider.

    Args:
        turns: complex numbers [T,D/2], or their real and imaginary parts [2,T,D/2]. One complex product takes a quarter
            of the time of six real products on a CPU.
    """
    pairs = x.to(torch.promote_types(x.dtype, torch.float32)).unflatten(-1, (-1, 2))
    if turns.is_complex():
        rotated = torch.view_as_real(torch.view_as_complex(pairs) * turns)
    else:
        (even, odd), (cosines, sines) = pairs.unbind(-1), turns
        rotated = torch.stack([even * cosines - odd * sines, even * sines + odd * cosines], dim=-1)
    return rotated.flatten(-2).to(x.dtype)
