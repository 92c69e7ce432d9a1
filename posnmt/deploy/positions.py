"""Convert a stack's position schemes to the position information of CTranslate2, or state why that is not possible.

CTranslate2 has four kinds (OpenNMT/CTranslate2, src/layers): a table that is added to the embeddings
(`position_encodings`), vectors for clipped distances (`relative_position_keys` and `_values`), a bias by buckets of the
distance, as in T5 (`relative_attention_bias`), and RoPE (`rotary_dim`). It can have a table only if attention has none
of the others, and it takes the bias from the first layer for all layers. The conversion depends on the hooks of a
scheme, not on its name.

Any bias or mask that depends on the distance alone is written as a bias by buckets, with one bucket for each distance.
So are stacks without position information, to which CTranslate2 would otherwise add sinusoids.

Shapes: P positions, d model width, H heads, E distances in one direction, 0 included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posnmt.base.errors import UserError
from posnmt_position.absolute import Learned, Sinusoidal
from posnmt_position.bias import BucketBias
from posnmt_position.directional import DirectionalHeads
from posnmt_position.distance_vectors import ByDistanceVectors, DistanceVectors
from posnmt_position.rotary import Rotation
from posnmt_position.seam import (
    LayerPosition,
    LayerPositions,
    Scheme,
    Span,
    changes_embeddings,
    is_offset_bias,
    join,
    table_of,
)

HIDDEN = -1e4
"""Bias of a masked key: its weight is 0 in single and half precision, and a row without keys has no NaN."""

ELSEWHERE = "translate with --engine torch, or export with --format huggingface"

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Positions:
    """The position information of one stack. If all attributes are None, it has none.

    Attributes:
        table: [P,d] added to the embeddings.
        vectors: the vectors for clipped distances of each layer.
        bias: [2E,H] of a decoder, [4E,H] of an encoder, in T5's order: the distances 0 .. E-1 to the left, E times the
            value of all longer ones, and the same to the right.
        rotation: RoPE, which may be combined with a bias.
        limit: the largest number of tokens; None: no limit.
    """

    table: Tensor | None = None
    vectors: list[DistanceVectors] | None = None
    bias: Tensor | None = None
    rotation: Rotation | None = None
    limit: int | None = None


def express(
    names: Sequence[str], schemes: Sequence[Scheme], layers: int, heads: int, side: str, size: int
) -> Positions:
    """The position information of a stack.

    Args:
        names: the names of the schemes in the configuration.
        schemes: the schemes.
        layers, heads: numbers of layers and heads.
        side: `encoder` or `decoder`.
        size: P, entries of tables that could have any length: sinusoids, and biases that grow with the distance.

    Raises:
        UserError: CTranslate2 cannot express a scheme, or the combination of schemes.
    """
    for name, scheme in zip(names, schemes, strict=True):
        reason = next(filter(None, map(_reason, join([scheme], layers), [scheme] * layers)), None)
        if scheme.placed is not None and len(scheme.placed) < layers:
            reason = "is in some of the layers only"
        if reason is not None:
            raise UserError(f"CTranslate2 cannot express {name}, which {reason}", f"model.{side}.position", ELSEWHERE)
    cannot = f"CTranslate2 cannot express {' + '.join(names)}"
    views = join(schemes, layers)
    tables = [_table(scheme, size) for scheme in schemes if changes_embeddings(type(scheme))]
    vectors, biases = list(map(_vectors, views)), list(map(_biases, views))
    rotations = [view for view in views[0].rotating if isinstance(view, Rotation)]
    if bool(tables) + any(vectors) + bool(rotations or any(biases)) > 1 or any(len(each) > 1 for each in vectors):
        what = f"{cannot} in one stack, which can have one kind of position information"
        raise UserError(what, f"model.{side}.position", ELSEWHERE)
    if tables:
        longest = min(map(len, tables))
        return Positions(table=torch.stack([table[:longest] for table in tables]).sum(0), limit=longest)
    if any(vectors):
        return Positions(vectors=[each for [each] in vectors])
    if rotations and not any(biases):
        return Positions(rotation=rotations[0])
    biased = _biased(biases, heads, size, side == "decoder")
    if biased is None:
        what = "a bias must be the same in every layer, and depend on the distance alone"
        raise UserError(f"{cannot}: {what}", f"model.{side}.position", ELSEWHERE)
    return replace(biased, rotation=next(iter(rotations), None))


def _biased(biases: Sequence[list[LayerPosition]], heads: int, size: int, causal: bool) -> Positions | None:
    """The biases and masks of all layers as one bias; None if there is no such bias."""
    if any(each != biases[0] for each in biases):
        return None
    reaches = [_reach(bias) for bias in biases[0]]
    reach = size - 1 if None in reaches else max((each for each in reaches if each is not None), default=0)
    bias = by_bucket(biases[0], heads, reach, causal)
    return None if bias is None else Positions(bias=bias, limit=size if None in reaches else None)


def by_bucket(views: Sequence[LayerPosition], heads: int, reach: int, causal: bool) -> Tensor | None:
    """The sum of biases and masks as a table of T5's form with a bucket for each distance.

    Args:
        views: each is an offset bias, a mask, or both.
        heads: number of heads.
        reach: E-1, the longest distance with a value of its own.
        causal: whether only distances to the left are needed.

    Returns:
        See `Positions.bias`; None if the sum depends on more than the distance.
    """
    count = reach + 1
    table = _by_offset(views, heads, Span(0, count, CPU))  # [H,2E-1]
    one, few = Span(reach, 1, CPU), Span(0, min(count, 4), CPU)
    for span, first in ((one, 0), (few, count - few.length)):
        part = _by_offset(views, heads, span)
        if not torch.allclose(part, table[:, first : first + part.shape[1]], atol=1e-6):
            return None
    left, right = table[:, :count].flip(1), table[:, reach:]
    directions = [left] if causal else [left, right]
    rows = [torch.cat([each, each[:, -1:].expand(-1, count)], dim=1) for each in directions]
    return torch.cat(rows, dim=1).transpose(0, 1).contiguous()


def _by_offset(views: Sequence[LayerPosition], heads: int, span: Span) -> Tensor:
    """[H,W] the sum of the views' biases and masks."""
    total = torch.zeros(heads, len(span.diagonals))
    for view in views:
        table, allowed = table_of(view, span), view.allows(span)
        if table is not None:
            total = total + table.float()
        if allowed is not None:
            total = total.masked_fill(~allowed, HIDDEN)
    return total


def _reach(view: LayerPosition) -> int | None:
    """The distance beyond which a bias is constant; None if there is no such distance or it is not known."""
    if isinstance(view, BucketBias):
        return view.distance if view.reach is None else min(view.reach, view.distance)
    if view.reach is not None:
        return view.reach
    return 1 if type(view) is DirectionalHeads else None


def _reason(view: LayerPositions, scheme: Scheme) -> str | None:
    """The reason why a scheme with this view of a layer cannot be expressed; None if it can be."""
    if changes_embeddings(type(scheme)) and not isinstance(scheme, Sinusoidal | Learned):
        return "computes embeddings from other words"
    if view.refining or view.reading:
        return "changes the input of sub-layers or heads"
    if any(type(each) is not Rotation for each in view.rotating):
        return "changes queries and keys in another way than RoPE"
    odd = [each for each in view.biasing if not isinstance(each, ByDistanceVectors) and not is_offset_bias(each)]
    if odd or any(not isinstance(each, ByDistanceVectors) for each in view.adding):
        return "adds terms to attention that depend on more than the distance"
    return None


def _table(scheme: Scheme, size: int) -> Tensor:
    """The table [P,d] that a scheme adds to the embeddings at inference."""
    if isinstance(scheme, Learned):
        return scheme.table.detach().float()
    assert isinstance(scheme, Sinusoidal)
    return scheme.vectors(Span(0, size, CPU), torch.empty(0)).clone()


def _vectors(view: LayerPositions) -> list[DistanceVectors]:
    """The vectors of the views whose terms are vectors for clipped distances."""
    views = _once([*view.biasing, *view.adding])
    return [each.distance_vectors() for each in views if isinstance(each, ByDistanceVectors)]


def _biases(view: LayerPositions) -> list[LayerPosition]:
    """The views that are offset biases or masks."""
    return [each for each in _once([*view.biasing, *view.hiding]) if not isinstance(each, ByDistanceVectors)]


def _once(views: Iterable[LayerPosition]) -> list[LayerPosition]:
    return list(dict.fromkeys(views))
