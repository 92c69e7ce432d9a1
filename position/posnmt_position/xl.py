"""The relative terms of Transformer-XL (Dai et al. 2019)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from posnmt_position.absolute import Sinusoidal, sinusoids
from posnmt_position.diagonal import skew
from posnmt_position.linear import Linear
from posnmt_position.options import Options
from posnmt_position.seam import LayeredScheme, LayerPosition, Span, Stack


class DistanceProjection(LayerPosition):
    """The terms (b), (c) and (d) of one layer (Dai et al. 2019, section 3.3); (a) is queries times keys:

        e_ij = (q_i k_j^T + q_i W_R R_{i-j} + u k_j^T + v W_R R_{i-j}) / sqrt(D)

    (a) and (c) are one product, `(q_i + u) k_j^T`, as in the published code; (b) and (d) are added to the logits. R are
    the sinusoids of the signed distance, of width d, never clipped. `W_R R` is computed once for the Tq + Tk - 1
    distances that occur and spread along the diagonals. The layers of a stack share u and v [H,D].
    """

    reads_keys = False

    def __init__(self, stack: Stack, biases: nn.Parameter) -> None:
        super().__init__()
        self.width, self.biases = stack.d_model, biases
        self.project = Linear(stack.d_model, stack.d_model, bias=False)
        nn.init.xavier_uniform_(self.project.weight)

    def by_offset(self, span: Span) -> Tensor:
        """[H,D,W] `W_R R` of each head."""
        # R, the same in every layer
        encoded = span.share(DistanceProjection, lambda: sinusoids(-span.diagonals, self.width).to(self.biases.dtype))
        rows: Tensor = self.project(encoded)
        return rows.unflatten(-1, (self.biases.shape[1], -1)).permute(1, 2, 0)

    def rotate(self, q: Tensor, k: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """The queries of the product plus u, scaled as they are."""
        return q + self._scaled(0, q), k

    def logits(self, q: Tensor, k: Tensor, span: Span) -> Tensor:
        """(b) and (d), [B,H,Tq,Tk], from the scaled queries [B,H,Tq,D]."""
        rows = span.table(self).to(q.dtype)
        # [H,B,Tq,D]: one product for each head; B x H products would copy the rows
        heads = (q + self._scaled(1, q)).transpose(0, 1)
        products = (heads.flatten(1, 2) @ rows).unflatten(1, heads.shape[1:3]).transpose(0, 1)
        return skew(products)

    def _scaled(self, which: int, q: Tensor) -> Tensor:
        """[H,1,D] u (0) or v (1) over sqrt(D), in the type of the queries."""
        return (self.biases[which].to(q.dtype) * q.shape[-1] ** -0.5).unsqueeze(-2)


class TransformerXL(LayeredScheme):
    """Transformer-XL's relative terms in every layer (Dai et al. 2019, section 3.3), with no absolute position.

    Each layer has its own W_R; the layers share u and v, as in the published code. The recurrence over segments of a
    long text is not included: a sentence is one segment. In an encoder the distances have both signs.
    """

    not_cross = "computes a vector for each distance that occurs, and real distances are too many"

    def __init__(self, stack: Stack, settings: Options) -> None:
        super().__init__()
        self.biases = nn.Parameter(torch.empty(2, stack.heads, stack.d_head))
        nn.init.normal_(self.biases, std=0.02)
        self.layers = nn.ModuleList(DistanceProjection(stack, self.biases) for _ in range(stack.layers))

    def clip(self, reach: int, group: int | None = None) -> bool:
        """Clip the distances of R. They have no groups: with `group`, nothing changes (False)."""
        if group is not None:
            return False
        for view in self.layers:
            assert isinstance(view, LayerPosition)
            view.reach = reach
        return True

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """An odd width: sines and cosines are paired."""
        return Sinusoidal.refuses(stack, Sinusoidal.Settings())
