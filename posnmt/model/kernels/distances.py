"""Terms by clipped distance on a block of attention, where most keys are too far from all of its queries to differ.

A softmax does not see what is added to all of a row, nor do its gradients change by it; and its weights sum to one. So
the larger of the two sides where each key is clipped is left as it is, and only the keys near the block and the other
side are touched: in a decoder those near it alone.

Shapes: G rows x heads, n queries of a block, s keys, k the largest distance that is told apart.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from posnmt.position.diagonal import collect, spread


class _Sides(NamedTuple):
    """Keys `low` to `high` are near; before and behind them all distances are clipped.

    Attributes:
        left, other: the columns of the side that is left as it is and of the other one, by clipped distance.
        far: the keys of the other side.
    """

    low: int
    high: int
    left: int
    other: int
    far: slice


def add_by_distance(scores: Tensor, by_distance: Tensor, start: int) -> None:
    """scores[.., i, j] += by_distance[.., i, clip(j - (start + i), -k, k) + k] + something for each row, in place.

    Args:
        scores: [G,n,s].
        by_distance: [G,n,2k+1], column r + k holds what is added at distance r.
        start: position of the first query; key 0 has position 0.
    """
    sides = _sides(scores, by_distance.shape[-1] // 2, start)
    change = by_distance - by_distance[..., sides.left, None]
    scores[..., sides.low : sides.high] += spread(change, start - sides.low, sides.high - sides.low)
    scores[..., sides.far] += change[..., sides.other, None]


def sum_by_distance(weights: Tensor, start: int, reach: int, total: float) -> Tensor:
    """Out[.., i, r + k] = the sum of weights[.., i, j] over the keys j with clip(j - (start + i), -k, k) = r.

    Args:
        weights: [G,n,s], all of a row together `whole`.
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
