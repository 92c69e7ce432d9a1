"""Relative positions inside self-attention (Shaw et al. 2018)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import torch
from torch import Tensor, nn

from posnmt_position.absolute import sinusoids
from posnmt_position.diagonal import clipped, collect, skew, spread, unskew
from posnmt_position.distance_vectors import ByDistanceVectors, DistanceVectors
from posnmt_position.options import Options, option
from posnmt_position.seam import CrossSpan, LayeredScheme, Span, Stack, nearest, project_onto, weighted_sum

SHORT = 128
"""Up to this number of distances that occur, each gets its own vector, even if distances are clipped."""


class RelativeKeys(ByDistanceVectors):
    """The key term: `e_ij = x_i W^Q (x_j W^K + w^K_r)^T / sqrt(d_k)`, `r = clip(j - i, -k, k)` (N19 eq. 6, R19 eq. 6).

    `q . w^K_r` is computed once for the 2k+1 vectors and then spread along the diagonals; no Tq x Tk x D tensor exists.

    Args:
        distance: k, the clipping distance.
        width: D, the width of a head.
        trained: whether the vectors are parameters; otherwise they are sinusoids.
        init: initialisation of trained vectors, as in `Relative.Settings`.
        encoding: width of the sinusoidal encoding whose first D features are taken; None: D.
    """

    keys: Tensor
    reads_keys = False

    def __init__(
        self, distance: int, width: int, trained: bool, init: str = "xavier", encoding: int | None = None
    ) -> None:
        super().__init__()
        self._set_vectors("keys", distance, width, trained, init, encoding)

    def _set_vectors(
        self, name: str, distance: int, width: int, trained: bool, init: str, encoding: int | None
    ) -> None:
        """Set the vectors [2k+1,D]: a parameter, or a buffer of sinusoids that is not saved in checkpoints."""
        if trained:
            draw = nn.init.normal_ if init == "normal" else nn.init.xavier_uniform_
            setattr(self, name, nn.Parameter(draw(torch.empty(2 * distance + 1, width))))
        else:
            encoded = sinusoids(torch.arange(-distance, distance + 1), encoding or width)
            self.register_buffer(name, encoded[:, :width].contiguous(), persistent=False)

    def logits(self, q: Tensor, k: Tensor, span: Span) -> Tensor:
        """[B,H,Tq,Tk] from the scaled queries [B,H,Tq,D]."""
        if isinstance(span, CrossSpan):
            products = project_onto(q, self.keys)
            return products.gather(-1, _rows(span, products, len(self.keys) // 2))
        if _is_short(span):
            return skew(project_onto(q, _by_offset(self.keys, span)))
        return spread(project_onto(q, self.keys), span.start, k.shape[-2])

    def distance_vectors(self) -> DistanceVectors:
        """The vectors of the key term."""
        return DistanceVectors(self.keys, None)


class RelativeKeysAndValues(RelativeKeys):
    """The key term and the value term `z_i = sum_j a_ij (x_j W^V + w^V_r)` (N19 eq. 4, R19 eq. 7)."""

    additions: Tensor

    def __init__(
        self, distance: int, width: int, trained: bool, init: str = "xavier", encoding: int | None = None
    ) -> None:
        super().__init__(distance, width, trained, init, encoding)
        self._set_vectors("additions", distance, width, trained, init, encoding)

    def values(self, weights: Tensor, span: Span) -> Tensor:
        """[B,H,Tq,D] from the attention weights [B,H,Tq,Tk], summed by clipped distance."""
        if isinstance(span, CrossSpan):
            sums = weights.new_zeros(*weights.shape[:-1], len(self.additions))
            rows = _rows(span, weights, len(self.additions) // 2)
            return weighted_sum(sums.scatter_add(-1, rows, weights), self.additions)
        if _is_short(span):
            return weighted_sum(unskew(weights), _by_offset(self.additions, span))
        return weighted_sum(collect(weights, span.start, len(self.additions) // 2), self.additions)

    def distance_vectors(self) -> DistanceVectors:
        """Return the vectors of the term on the keys and of the term on the values."""
        return DistanceVectors(self.keys, self.additions)


class Relative(LayeredScheme):
    """Vectors for the clipped distance from query to key, shared by the heads of a layer, separate for each layer.

    They are trained, or the sinusoids of the distance, without parameters: `gamma^K_r = gamma^V_r = [PE_r,1 ..
    PE_r,d_k]` (R19 eq. 8-9), the first d_k features of the encoding of width d, whose frequencies fall from 1 to about
    10000^(-d_k/d) (`frequencies: model`). `frequencies: head` takes an encoding of width d_k, whose frequencies fall to
    about 1/10000. R19 counts features from 1, which leaves the first undefined in its eq. 1-2; here they are counted
    from 0, as in Vaswani et al. 2017: sin(r), cos(r), ...

    In attention to the source, r is the nearest whole offset.
    """

    not_cross = None

    class Settings(Options):
        """Set the clipping distance of `relative`, and what its vectors are and where they act."""

        distance: int = option(16, ge=1, help="clipping distance k: 2k+1 vectors")
        values: bool = option(True, help="vectors on the values as well as on the keys (R19: gamma^V)")
        vectors: Literal["trained", "sinusoidal"] = option(
            "trained", help="trained vectors, or fixed sinusoidal ones (R19 eq. 8-9)"
        )
        frequencies: Literal["model", "head"] = option(
            "model",
            help="frequencies of sinusoidal vectors: model takes the first features of the encoding of width d_model "
            "(R19 eq. 8), head takes an encoding as wide as a head",
        )
        init: Literal["xavier", "normal"] = option(
            "xavier", help="how trained vectors start: xavier is uniform (Glorot), normal is N(0, 1)"
        )

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        view = RelativeKeysAndValues if settings.values else RelativeKeys
        trained = settings.vectors == "trained"
        encoding = stack.d_model if settings.frequencies == "model" else stack.d_head
        self.layers = nn.ModuleList(
            view(settings.distance, stack.d_head, trained, settings.init, encoding) for _ in range(stack.layers)
        )

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """An odd width of sinusoids, and options that the kind of vectors does not have."""
        faults = []
        if settings.vectors == "sinusoidal" and stack.d_head % 2:
            what = "needs an even width of a head for sinusoidal vectors"
            faults.append(f"{what}; d_model / heads = {stack.d_head} is odd")
        if settings.vectors == "sinusoidal" and settings.init != "xavier":
            faults.append(f"initialises no vectors if they are sinusoidal; leave init: {settings.init} out")
        if settings.vectors == "trained" and settings.frequencies != "model":
            faults.append("has no frequencies if vectors are trained; leave frequencies: head out")
        return faults


def _rows(span: CrossSpan, like: Tensor, reach: int) -> Tensor:
    """[B,H,Tq,Tk] the row r + k of each query and key, for a tensor [B,H,..]."""
    return (nearest(span.offsets).clamp(-reach, reach) + reach).expand(*like.shape[:2], -1, -1)


def _is_short(span: Span) -> bool:
    """Whether a vector for each distance that occurs is faster than spreading the terms of clipped distances."""
    return span.length + span.end - 1 <= SHORT


def _by_offset(vectors: Tensor, span: Span) -> Tensor:
    """[W,D] the vectors of the distances `span.diagonals`, from the vectors [2k+1,D] of the clipped distances."""
    return clipped(vectors.mT, 1 - span.start - span.length, span.length + span.end - 1).mT
