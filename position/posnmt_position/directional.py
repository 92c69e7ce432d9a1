"""Directional self-attention: some heads see only the left context, others only the right (Shen et al. 2018)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from posnmt_position.options import Options
from posnmt_position.seam import LayerPosition, Scheme, Span, Stack


class DirectionalHeads(LayerPosition):
    """The first half of the heads sees the keys j <= i, the second half j >= i."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def allows(self, span: Span) -> Tensor:
        """Let the first half of the heads see the keys j <= i, and the second half j >= i: [H,W] bool."""
        forward = torch.arange(self.heads, device=span.device) < self.heads // 2
        return torch.where(forward[:, None], span.diagonals <= 0, span.diagonals >= 0)


class Directional(Scheme):
    """Forward and backward masks on the heads of an encoder, as DiSAN's (Shen et al. 2018; a baseline of C19b).

    DiSAN's mask hides each token from itself; here each token sees itself, so that the first and the last token of a
    sentence see some key. The masks distinguish left from right only, so the system keeps its sinusoids.
    """

    not_cross = "hides keys on one side of each query, and a translation may go on past the end of its source"

    def __init__(self, stack: Stack, settings: Options) -> None:
        super().__init__()
        self.view = DirectionalHeads(stack.heads)

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """A decoder, or an odd number of heads."""
        faults = []
        if stack.causal:
            faults.append("reads words to the right, so it cannot serve the decoder")
        if stack.heads % 2:
            faults.append(f"needs an even number of heads, half for each direction; {stack.heads} is odd")
        return faults

    def layer(self, index: int) -> LayerPosition:
        """The masks, the same in every layer."""
        return self.view
