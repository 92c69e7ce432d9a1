"""Terms by clipped distance on a block of attention, in which the distances to most keys are clipped.

A constant added to a row changes neither its softmax nor the gradient of its softmax, and the weights of a row sum to
one. So the terms are computed relative to the larger of the two sides on which all distances are clipped: only the keys
near the block and those of the other side are changed, and in a decoder only those near the block.

Shapes: G rows x heads, n queries of a block, s keys, k the clipping distance.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from posnmt_position.diagonal import collect, spread


class _Sides(NamedTuple):
    """Keys `low` to `high` are near; before and after them all distances are clipped.

    Attributes:
        left, other: the columns, by clipped distance, of the side that is left unchanged and of the other side.
        far: the keys of the other side.
    """

    low: int
    high: int
    left: int
    other: int
    far: slice


def add_by_distance(scores: Tensor, by_distance: Tensor, start: int) -> None:
    """scores[.., i, j] += by_distance[.., i, clip(j - (start + i), -k, k) + k] + a constant for each row, in place.

    Args:
        scores: [G,n,s].
        by_distance: [G,n,2k+1], column r + k holds the term for distance r.
        start: position of the first query; key 0 has position 0.
    """
    sides = _sides(scores, by_distance.shape[-1] // 2, start)
    change = by_distance - by_distance[..., sides.left, None]
    scores[..., sides.low : sides.high] += spread(change, start - sides.low, sides.high - sides.low)
    scores[..., sides.far] += change[..., sides.other, None]


def sum_by_distance(weights: Tensor, start: int, reach: int, total: float) -> Tensor:
    """Out[.., i, r + k] = the sum of weights[.., i, j] over the keys j with clip(j - (start + i), -k, k) = r.

    Args:
        weights: [G,n,s], each row with the sum `total`.
        start: position of the first query; key 0 has position 0.
        reach: k.

    Returns:
        [G,n,2k+1]
    """
    sides = _sides(weights, reach, start)
    sums = collect(weights[..., sides.low : sides.high], start - sides.low, reach)
    sums[..., sides.other] += weights[..., sides.far].sum(-1)
    wide = torch.promote_types(sums.dtype, torch.float32)
    sums[..., sides.left] += (total - sums.sum(-1, dtype=wide)).to(sums.dtype)
    return sums


def _sides(scores: Tensor, reach: int, start: int) -> _Sides:
    queries, keys = scores.shape[-2:]
    low = min(keys, max(0, start - reach + 1))
    high = max(low, min(keys, start + queries - 1 + reach))
    if low >= keys - high:
        return _Sides(low, high, 0, 2 * reach, slice(high, keys))
    return _Sides(low, high, 2 * reach, 0, slice(low))
