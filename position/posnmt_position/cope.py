"""CoPE: the distance from query to key in tokens that the query selects (Golovneva et al. 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posnmt_position.options import Options, option
from posnmt_position.seam import LayeredScheme, LayerPosition, Span, Stack, project_onto


class ContextualPositions(LayerPosition):
    """The logit term `q_i . e[p_ij]`, where p_ij is a sum of gates (Golovneva et al. 2024, section 4).

    `g_ij = sigmoid(q_i . k_j)` and `p_ij = sum_{k=j}^{i} g_ik`, at most P - 1; between two integers e is interpolated.
    q is scaled by 1/sqrt(D), in the gates and in the term, as in the published code without `--cope-nodiv`; the paper's
    equations have no scale, and the listing in its appendix scales the gates alone. The published code initialises e
    with 0; here the initial values are random, so that the first update already has order information.

    In an encoder a key to the right has `p_ij = sum_{k=i}^{j} g_ik` and separate vectors: `vectors` is [1,P,D] in a
    decoder and [2,P,D], left and right, in an encoder. The sum covers the tokens between query and key only, so padding
    at the end of a row changes nothing.
    """

    def __init__(self, positions: int, width: int, causal: bool) -> None:
        super().__init__()
        self.positions, self.causal = positions, causal
        self.vectors = nn.Parameter(torch.empty(1 if causal else 2, positions, width))
        nn.init.normal_(self.vectors, std=width**-0.5)

    def counted(self, q: Tensor, k: Tensor, span: Span) -> Tensor:
        """[B,H,Tq,Tk] p_ij, the sums of gates, at most P - 1, in float32 or wider."""
        gates = (q @ k.transpose(-1, -2)).to(torch.promote_types(q.dtype, torch.float32)).sigmoid()
        sums = gates.cumsum(-1)
        own_sum, own = (each.diagonal(span.start, -2, -1).unsqueeze(-1) for each in (sums, gates))  # the query's
        # a decoder masks keys to the right
        nearest = gates if self.causal else torch.where(span.offsets > 0, own, gates)
        return ((sums - own_sum).abs() + nearest).clamp(max=self.positions - 1)

    def logits(self, q: Tensor, k: Tensor, span: Span) -> Tensor:
        """[B,H,Tq,Tk] from the scaled queries [B,H,Tq,D] and all keys [B,H,Tk,D]."""
        places = self.counted(q, k, span)
        below = places.detach().floor()
        share, index = places - below, below.long()
        counted = self.vectors[:, : k.shape[-2] + 1]  # a sum of gates is at most the number of keys
        rows = torch.cat([counted, counted[:, -1:]], dim=1)  # the last row twice, so that each row has a successor
        if not self.causal:
            index += rows.shape[1] * (span.offsets > 0)
        by_position = project_onto(q, rows.flatten(0, 1)).to(places.dtype)
        return by_position.gather(-1, index).lerp(by_position.gather(-1, index + 1), share).to(q.dtype)


class Cope(LayeredScheme):
    """CoPE (Golovneva et al. 2024): trained vectors for the number of words that a query selects up to a key.

    The heads of a layer share the vectors; `ContextualPositions` has the equations.
    """

    not_cross = "counts the words between a query and a key, which are in one sentence"

    class Settings(Options):
        """Set how many positions of `cope` have a vector."""

        positions: int = option(64, ge=2, help="vectors of each direction, for positions 0 to positions - 1")

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            ContextualPositions(settings.positions, stack.d_head, stack.causal) for _ in range(stack.layers)
        )
