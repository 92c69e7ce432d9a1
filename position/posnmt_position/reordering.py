"""Positions added after the self-attention of every layer: additional and reordering embeddings (C19a)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import Tensor, nn

from posnmt_position.absolute import Sinusoidal
from posnmt_position.linear import Linear
from posnmt_position.options import Options
from posnmt_position.seam import LayeredScheme, LayerPosition, Span, Stack, clashes


class AdditionalPositions(LayerPosition):
    """`C = LN(H' + PE)`: the input of the next sub-layer, whose residual connection keeps H'."""

    def __init__(self, stack: Stack, positions: Sinusoidal) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(stack.d_model, stack.norm_epsilon)
        self.positions = positions

    def refine(self, before: Tensor, after: Tensor, span: Span) -> Tensor:
        """Add the position vectors to H' [B,T,d], and normalise the sum: C [B,T,d]."""
        return self.norm(after + self.positions.vectors(span, after))


class ReorderingEmbeddings(AdditionalPositions):
    """`C = LN(H' + PE * PP)`, `PP = sigmoid(V tanh(W H + W' H'))` (C19a eq. 6-8).

    W (`word`), W' (`context`) and V (`penalty`) are d x d without bias, separate for each layer.
    """

    def __init__(self, stack: Stack, positions: Sinusoidal) -> None:
        super().__init__(stack, positions)
        d = stack.d_model
        self.word, self.context, self.penalty = (Linear(d, d, bias=False) for _ in range(3))
        for linear in (self.word, self.context, self.penalty):
            nn.init.xavier_uniform_(linear.weight)

    def penalties(self, before: Tensor, after: Tensor) -> Tensor:
        """PP [B,T,d], between 0 and 1, from H and H'."""
        raw: Tensor = self.penalty((self.word(before) + self.context(after)).tanh())
        return raw.sigmoid()

    def refine(self, before: Tensor, after: Tensor, span: Span) -> Tensor:
        """C [B,T,d] from the layer's input H and its normalised self-attention output H', both [B,T,d]."""
        return self.norm(after + self.positions.vectors(span, after) * self.penalties(before, after))


class Additional(LayeredScheme):
    """Sinusoids added again after the self-attention of each layer: `C = LN(H' + PE)` (C19a section 6.2, a control)."""

    not_cross = "adds positions to the output of self-attention"
    view: type[AdditionalPositions] = AdditionalPositions

    def __init__(self, stack: Stack, settings: Options) -> None:
        super().__init__()
        self.positions = Sinusoidal(stack, Sinusoidal.Settings())  # one table for all layers
        self.layers = nn.ModuleList(self.view(stack, self.positions) for _ in range(stack.layers))

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """Return why there are no sinusoids for the stack; every other scheme may be combined with this one."""
        return Sinusoidal.refuses(stack, Sinusoidal.Settings())

    def interpolate(self, factor: float) -> bool:
        """Divide every position that the layers add by `factor` from now on."""
        return self.positions.interpolate(factor)


class Reordering(Additional):
    """Reordering embeddings `RE = PE * PP` added after the self-attention of every layer (C19a eq. 6-9).

    PP is a penalty between 0 and 1 for each feature of each position, computed from the input and the output of the
    layer's self-attention. In a decoder it follows the masked self-attention, and attention to the source reads C.

    C19a's layers are post-norm. If `model.norm` is pre, H is the normalised input of the self-attention and H' the
    normalised input of the next sub-layer, so that both have the same scale as in C19a; the residual connection keeps
    the sum before the normalisation of H'.
    """

    view = ReorderingEmbeddings

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """An odd width, or `additional` in the same list, which adds the same sinusoids."""
        return [*super().refuses(stack, settings, others), *clashes(others, "additional")]
