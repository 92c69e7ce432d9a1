"""Rotary positions: queries and keys are rotated by angles that grow with their positions (RoPE, xPos).

Shapes: B rows, T tokens, H heads, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from posnmt_position.errors import PositionError
from posnmt_position.options import Options, option
from posnmt_position.seam import LayerPosition, Scheme, Span, Stack


class Rotation(LayerPosition):
    """Features 2n and 2n+1 of a query or key at position p are rotated by the angle `p / base^(2n/D)` (Su et al. 2021).

    The product of a rotated query and a rotated key depends only on their distance (eq. 16), so keys are rotated once.
    """

    def __init__(self, width: int, base: float) -> None:
        super().__init__()
        self.width, self.base, self.factor = width, base, 1.0

    def rotate(self, q: Tensor, k: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys [B,H,T,D] by their positions; layers that share the view share the turns."""
        if self not in span.shared:
            span.shared[self] = self.turned(span.queries, q.dtype)
        of_queries, of_keys = span.shared[self]
        return rotated(q, of_queries), rotated(k, of_keys)

    def turned(self, positions: Tensor, kind: torch.dtype) -> Tensor:
        """The turns of queries and of keys at positions [T], in the form that `rotated` takes for vectors of a type."""
        places = torch.arange(0, self.width, 2, device=positions.device, dtype=torch.float64) / self.width
        turns = self.turns(positions.to(torch.float64)[:, None] / self.factor, places)
        turns = turns.to(torch.promote_types(kind, torch.float32))
        # torch.compile does not support complex numbers
        return turns if torch.compiler.is_compiling() else torch.complex(*turns.unbind(1))

    def turns(self, positions: Tensor, places: Tensor) -> Tensor:
        """[2,2,T,D/2]: for queries and for keys, cosines and sines, from positions [T,1] and places 2n/D [D/2]."""
        angles = positions * self.rates(places)
        return torch.stack([angles.cos(), angles.sin()]).expand(2, -1, -1, -1)

    def rates(self, places: Tensor) -> Tensor:
        """[D/2] the angle between two tokens, for each pair of features."""
        return self.base**-places


class DecayingRotation(Rotation):
    """RoPE with a factor `zeta_n^(p/512)` on queries and its inverse on keys: `zeta_n^(r/512)` at distance r.

    `zeta_n = (2n/D + 0.4) / 1.4` (Sun et al. 2022, eq. 17-18 and their code, where 512 is `scale_base`).
    """

    def rotate(self, q: Tensor, k: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """[B,H,T,D] each.

        Raises:
            PositionError: a position whose scale overflows single precision.
        """
        end, longest = span.first + span.length, longest_xpos(self.factor)
        if end > longest:
            raise PositionError(
                f"there are {longest} xpos positions, and position {end} is needed",
                todo="use shorter texts, or choose a scheme without a longest sentence, such as rope",
            )
        return super().rotate(q, k, span)

    def turns(self, positions: Tensor, places: Tensor) -> Tensor:
        """[2,2,T,D/2]: for queries and for keys, cosines and sines with their scales."""
        scales = ((places + 0.4) / 1.4) ** (positions / SCALE_BASE)
        return super().turns(positions, places) * torch.stack([scales, 1 / scales])[:, None]


class PartlyInterpolatedRotation(Rotation):
    """YaRN (Peng et al. 2023, section 3): frequencies with few turns in the trained length L are divided, by s at most.

    `r = L theta / (2 pi)` is the number of turns; `theta' = (1 - g) theta / s + g theta`, g = 0 for r < 1, 1 for r > 32
    and linear between (eq. 17-20; alpha and beta as published). Queries and keys are multiplied by `0.1 ln s + 1`, so
    logits by its square (eq. 22).

    Args:
        rotation: whose frequencies are divided.
        scale: s.
        trained: L, in tokens.
    """

    def __init__(self, rotation: Rotation, scale: float, trained: int) -> None:
        super().__init__(rotation.width, rotation.base)
        self.scale, self.trained = scale, trained

    def turns(self, positions: Tensor, places: Tensor) -> Tensor:
        """[2,2,T,D/2]: for queries and for keys, cosines and sines times `0.1 ln s + 1`."""
        return super().turns(positions, places) * (0.1 * math.log(self.scale) + 1)

    def rates(self, places: Tensor) -> Tensor:
        """Return the angles [D/2] between two tokens, each divided by a number from 1 to s."""
        rates = super().rates(places)
        kept = ((self.trained * rates / (2 * math.pi) - SELDOM) / (OFTEN - SELDOM)).clamp(0, 1)
        return rates * (1 - (1 - kept) * (1 - 1 / self.scale))


SELDOM, OFTEN = 1, 32
"""Turns in the trained length: YaRN divides a frequency by s if it has fewer than SELDOM, by 1 if more than OFTEN."""


class ClippedRotation(LayerPosition):
    """A rotation whose distances are clipped to a reach w: `q_i R(clip(j - i, -w, w)) k_j`.

    The distances up to w are those of training; a longer one counts as w (ReRoPE: Su 2023, "Rectified Rotary Position
    Embeddings"). With groups of G tokens, a longer one counts as w - w // G plus the distance of the groups of the two
    tokens, `|i // G - j // G|` (SelfExtend: Jin et al. 2024, section 3.2). Both were published for decoders; to the
    right of a query an encoder has the mirror image.

    The product of unrotated queries and keys, which attention adds, is subtracted here. What remains are products of
    rotated queries and keys: one for near keys, and one for the far keys of each side.

    Args:
        rotation: of the distances.
        reach: w.
        group: G; None: far distances do not grow.
        causal: no keys to the right are seen.
    """

    def __init__(self, rotation: Rotation, reach: int, group: int | None, causal: bool) -> None:
        super().__init__()
        self.rotation, self.reach_of_tokens, self.group, self.causal = rotation, reach, group, causal

    def logits(self, q: Tensor, k: Tensor, span: Span) -> Tensor:
        """[B,H,Tq,Tk] from the scaled queries [B,H,Tq,D] and all keys [B,H,Tk,D], neither of them rotated."""
        distances, reach = span.offsets, self.reach_of_tokens
        products = self._product(q, k, span.queries, span.keys)
        if span.end > reach + 1:
            queries, keys, shift = self._far(span)
            left = self._product(q, k, queries + shift, keys)
            products = torch.where(distances < -reach, left, products)
            if not self.causal:
                right = self._product(q, k, queries, keys + shift)
                products = torch.where(distances > reach, right, products)
        return products - q @ k.transpose(-1, -2)

    def _far(self, span: Span) -> tuple[Tensor, Tensor, int]:
        """Positions of queries [Tq] and keys [Tk] for far pairs, and the number to add to those that come later."""
        if self.group is None:
            return torch.zeros_like(span.queries), torch.zeros_like(span.keys), self.reach_of_tokens
        queries, keys = span.queries // self.group, span.keys // self.group
        return queries, keys, self.reach_of_tokens - self.reach_of_tokens // self.group

    def _product(self, q: Tensor, k: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """Products of the queries and keys, rotated to these positions."""
        of_queries, of_keys = self.rotation.turned(queries, q.dtype)[0], self.rotation.turned(keys, k.dtype)[1]
        return rotated(q, of_queries) @ rotated(k, of_keys).transpose(-1, -2)


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

    not_cross: str | None = None
    view_class: type[Rotation] = Rotation

    class Settings(Options):
        """Set the base of the frequencies of `rope` and `xpos`."""

        base: float = option(10_000.0, gt=1, help="the slowest pair of features rotates once in 2 pi x base tokens")

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.causal = stack.causal
        self.rotation = self.view_class(stack.d_head, settings.base)
        self.view: LayerPosition = self.rotation

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """An odd width of a head: features are rotated in pairs."""
        if stack.d_head % 2:
            return [f"needs an even width of a head; d_model / heads = {stack.d_head} is odd"]
        return []

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor` from now on."""
        self.rotation.factor = factor
        return True

    def ntk(self, factor: float) -> bool:
        """Multiply the base by `factor^(D / (D - 2))`, which divides the lowest frequency by `factor`, from now on.

        The highest frequency stays, so that neighbours keep their distances ("NTK-aware scaled RoPE", bloc97 2023; Peng
        et al. 2023, eq. 13-16). A head of two features has one frequency, which is divided.
        """
        width = self.rotation.width
        if width > 2:
            self.rotation.base *= factor ** (width / (width - 2))
        else:
            self.rotation.factor *= factor
        return True

    def yarn(self, factor: float, trained: int) -> bool:
        """Divide frequencies from now on, each by a number of its own: see `PartlyInterpolatedRotation`."""
        self.view = self.rotation = PartlyInterpolatedRotation(self.rotation, factor, trained)
        return True

    def clip(self, reach: int, group: int | None = None) -> bool:
        """Clip distances from now on: see `ClippedRotation`. Scaling comes first."""
        self.view = ClippedRotation(self.rotation, reach, group, self.causal)
        return True

    def layer(self, index: int) -> LayerPosition:
        """The rotation, the same in every layer."""
        return self.view


class Xpos(Rope):
    """xPos: RoPE whose products decay with the distance to the left (Sun et al. 2022, section 3); no parameters.

    They grow to the right, so xPos serves a decoder only.
    """

    not_cross = "decays to the left and grows to the right"
    view_class = DecayingRotation
    longest = LONGEST_XPOS
    limited_by = None

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

    def yarn(self, factor: float, trained: int) -> bool:
        """Return False and change nothing: YaRN is defined for RoPE alone."""
        return False


def rotated(x: Tensor, turns: Tensor) -> Tensor:
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
