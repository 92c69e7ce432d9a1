"""Conversions between a table by clipped distance and a matrix of queries by keys, without an index tensor.

A term that depends on the clipped distance `clip(j - i, -k, k)` is constant along diagonals, and constant beyond k on
each side. `spread` distributes [.., Tq, 2k+1] along the diagonals of [.., Tq, Tk]; `collect` is its transpose: it sums
[.., Tq, Tk] by clipped distance. Both use strided views, in which each row starts one value earlier than the row
before, so their gradients are cheap and no tensor is larger than [.., Tq, Tq + Tk].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


def spread(by_distance: Tensor, start: int, keys: int) -> Tensor:
    """Out[.., i, j] = by_distance[.., i, clip(j - (start + i), -k, k) + k].

    Args:
        by_distance: [.., Tq, 2k+1], column r + k holds the value for distance r.
        start: position of the first query; key 0 has position 0.
        keys: Tk.

    Returns:
        [.., Tq, Tk]
    """
    if torch.compiler.is_compiling():
        return by_distance.gather(-1, _columns(by_distance, start, keys, by_distance.shape[-1] // 2))
    if not by_distance.requires_grad:  # avoids the overhead of autograd in a decoding step
        return _spread(by_distance, start, keys)
    spreading: Tensor = _Spread.apply(by_distance, start, keys)
    return spreading


def clipped(by_distance: Tensor, first: int, width: int) -> Tensor:
    """Out[.., o] = by_distance[.., clip(first + o, -k, k) + k] for 0 <= o < width: the values of consecutive distances.

    Args:
        by_distance: [.., 2k+1], column r + k holds the value for distance r.
        first: the lowest distance.

    Returns:
        [.., width]; a view if no distance is clipped.
    """
    reach = by_distance.shape[-1] // 2
    left, right = _outside(first, width, reach)
    last = first + width - 1
    low, high = max(first, -reach) + reach, min(last, reach) + reach
    parts = []
    if left:
        parts.append(by_distance[..., :1].expand(*by_distance.shape[:-1], left))
    if high >= low:
        parts.append(by_distance[..., low : high + 1])
    if right:
        parts.append(by_distance[..., -1:].expand(*by_distance.shape[:-1], right))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def skew(by_offset: Tensor) -> Tensor:
    """Out[.., i, j] = by_offset[.., i, j - i + Tq - 1]: row i is a window that starts at column Tq - 1 - i.

    Args:
        by_offset: [.., Tq, Tq + Tk - 1], in each row the values of the offsets in ascending order.

    Returns:
        [.., Tq, Tk]
    """
    queries, width = by_offset.shape[-2:]
    keys = width - queries + 1
    if queries == 1:
        return by_offset
    if torch.compiler.is_compiling():
        return by_offset.gather(-1, _places(by_offset, keys))
    skewed: Tensor = _Skew.apply(by_offset)
    return skewed


def unskew(weights: Tensor) -> Tensor:
    """Out[b, h, i, j - i + Tq - 1] = weights[b, h, i, j], 0 elsewhere: the transpose of `skew`.

    Args:
        weights: [B,H,Tq,Tk].

    Returns:
        [B,H,Tq,W], W = Tq + Tk - 1; in memory as [B,Tq,H,W], the fastest layout for a product with vectors by offset.
    """
    queries, keys = weights.shape[-2:]
    if queries == 1:
        return weights
    if torch.compiler.is_compiling():
        buffer = weights.new_zeros(*weights.shape[:-1], queries + keys - 1)
        return buffer.scatter(-1, _places(weights, keys), weights)
    unskewed: Tensor = _Unskew.apply(weights)
    return unskewed


def toeplitz(by_offset: Tensor, queries: int) -> Tensor:
    """Out[.., i, j] = by_offset[.., j - i + Tq - 1]: a Toeplitz matrix, with one value for each diagonal.

    Args:
        by_offset: [.., Tq + Tk - 1] values of the offsets in ascending order, as in `Span.diagonals`.
        queries: Tq.

    Returns:
        [.., Tq, Tk]
    """
    return skew(by_offset.unsqueeze(-2).expand(*by_offset.shape[:-1], queries, -1))


def staggered(by_offset: Tensor, rows: int) -> Tensor:
    """Out[.., r, c] = by_offset[.., c - r], or 0 outside: `toeplitz` of up to `rows` queries is a window of it.

    Args:
        by_offset: [.., W].
        rows: largest number of queries of a window.

    Returns:
        [.., rows, W + rows]
    """
    table = by_offset.new_zeros(*by_offset.shape[:-1], rows, by_offset.shape[-1] + rows)
    strides = (*table.stride()[:-2], table.shape[-1] + 1, 1)
    table.as_strided((*table.shape[:-1], by_offset.shape[-1]), strides).copy_(by_offset.unsqueeze(-2))
    return table


def summed(weights: Tensor) -> Tensor:
    """Out[.., o] = the sum of weights[.., i, j] over j - i = o - (Tq - 1): the transpose of `toeplitz`, no gradient.

    Args:
        weights: [.., Tq, Tk], contiguous.

    Returns:
        [.., Tq + Tk - 1]
    """
    queries, keys = weights.shape[-2:]
    if queries == 1 or keys <= queries:
        return _unskewed(weights).sum(-2)
    edge = queries - 1  # columns on each side with diagonals that the edge of the matrix cuts off
    shape, strides = (*weights.shape[:-1], keys - edge), (*weights.stride()[:-2], keys + 1, 1)
    middle = weights.as_strided(shape, strides, weights.storage_offset()).sum(-2)
    left, right = (_unskewed(each).sum(-2) for each in (weights[..., :edge], weights[..., keys - edge :]))
    return torch.cat([left[..., :edge], middle, right[..., edge:]], -1)


def collect(weights: Tensor, start: int, reach: int) -> Tensor:
    """Out[.., i, r + k] = the sum of weights[.., i, j] over the keys j with clip(j - (start + i), -k, k) = r.

    Args:
        weights: [.., Tq, Tk].
        start: position of the first query; key 0 has position 0.
        reach: k.

    Returns:
        [.., Tq, 2k+1]
    """
    if torch.compiler.is_compiling():
        folded = weights.new_zeros(*weights.shape[:-1], 2 * reach + 1)
        return folded.scatter_add(-1, _columns(weights, start, weights.shape[-1], reach), weights)
    if not weights.requires_grad:
        return _collect(weights, start, reach)
    collected: Tensor = _Collect.apply(weights, start, reach)
    return collected


def _spread(by_distance: Tensor, start: int, keys: int) -> Tensor:
    """Compute `spread` on plain tensors, which records no gradient."""
    queries = by_distance.shape[-2]
    strip = clipped(by_distance, -(start + queries - 1), queries + keys - 1)
    return strip if queries == 1 else _diagonals(strip)


def _collect(weights: Tensor, start: int, reach: int) -> Tensor:
    """Compute `collect` on plain tensors, which records no gradient."""
    queries, keys = weights.shape[-2:]
    # keys beyond the reach of all queries, on the left and on the right, are summed without unskewing
    low = min(keys, max(0, start - reach + 1))
    high = max(low, min(keys, start + queries - 1 + reach))
    near = weights[..., low:high]
    folded = _fold(near if queries == 1 else _unskewed(near), low - (start + queries - 1), reach)
    if low:
        folded[..., 0] += weights[..., :low].sum(-1)
    if high < keys:
        folded[..., -1] += weights[..., high:].sum(-1)
    return folded


class _Spread(torch.autograd.Function):
    """`spread` as a function of autograd: its gradient is `collect`."""

    @staticmethod
    def forward(ctx: Any, by_distance: Tensor, start: int, keys: int) -> Tensor:
        ctx.rest = start, by_distance.shape[-1] // 2
        return _spread(by_distance, start, keys)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return collect(grads[0], *ctx.rest), None, None


class _Collect(torch.autograd.Function):
    """`collect` as a function of autograd: its gradient is `spread`."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, start: int, reach: int) -> Tensor:
        ctx.rest = start, weights.shape[-1]
        return _collect(weights, start, reach)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return spread(grads[0], *ctx.rest), None, None


class _Skew(torch.autograd.Function):
    """`skew`: a view of its argument if rows do not overlap; the gradient has the memory layout of the argument."""

    @staticmethod
    def forward(ctx: Any, by_offset: Tensor) -> Tensor:
        ctx.like = by_offset.stride()
        return _diagonals(by_offset)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _unskewed(grads[0], ctx.like)


class _Unskew(torch.autograd.Function):
    """`unskew`, whose gradient is a view."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor) -> Tensor:
        return _unskewed(weights, like=(4, 2, 3, 1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _diagonals(grads[0])


def _unskewed(weights: Tensor, like: Sequence[int] = ()) -> Tensor:
    """[.., Tq, Tk] -> [.., Tq, Tq + Tk - 1], the transpose of `skew`: each value at its offset, 0 elsewhere.

    Args:
        like: strides of as many dimensions, whose order the memory layout of the result has.
    """
    queries, keys = weights.shape[-2:]
    shape = (*weights.shape[:-1], queries + keys - 1)
    order = sorted(range(len(shape) - 1), key=lambda dim: -like[dim] if like else dim)
    buffer = weights.new_zeros([shape[dim] for dim in (*order, -1)])
    by_offset = buffer.permute(*(order.index(dim) for dim in range(len(order))), -1)
    _diagonals(by_offset).copy_(weights)
    return by_offset


def _diagonals(by_offset: Tensor) -> Tensor:
    """[.., Tq, Tk] as a view of [.., Tq, W], W = Tq + Tk - 1: row i starts one value before row i - 1."""
    queries, width = by_offset.shape[-2:]
    if by_offset.stride(-1) != 1 or by_offset.stride(-2) < width:
        by_offset = by_offset.contiguous()
    shape = (*by_offset.shape[:-1], width - queries + 1)
    strides = (*by_offset.stride()[:-2], by_offset.stride(-2) - 1, 1)
    return by_offset.as_strided(shape, strides, by_offset.storage_offset() + queries - 1)


def _places(rows: Tensor, keys: int) -> Tensor:
    """[.., Tq, Tk] the index of each key among the offsets of its query, for rows [.., Tq, _]; see `_columns`."""
    queries = torch.arange(rows.shape[-2], device=rows.device)
    offsets = torch.arange(keys, device=rows.device) - queries[:, None]
    return (offsets + rows.shape[-2] - 1).expand(*rows.shape[:-1], keys)


def _columns(rows: Tensor, start: int, keys: int, reach: int) -> Tensor:
    """[.., Tq, Tk] the column r + k of each query and key, for rows [.., Tq, _].

    Used under torch.compile alone, which computes this index inside the kernel and cannot trace strided views.
    """
    queries = torch.arange(start, start + rows.shape[-2], device=rows.device)
    offsets = torch.arange(keys, device=rows.device)[None, :] - queries[:, None]
    return (offsets.clamp(-reach, reach) + reach).expand(*rows.shape[:-1], keys)


def _fold(strip: Tensor, first: int, reach: int) -> Tensor:
    """[.., Tq, 2k+1]: the transpose of `clipped`, sums by clipped distance; without a gradient."""
    width = strip.shape[-1]
    left, right = _outside(first, width, reach)
    low = max(first, -reach) + reach
    middle = strip[..., left : width - right]
    rest = 2 * reach + 1 - low - middle.shape[-1]
    if not (left or right or low or rest):
        return strip
    folded = functional.pad(middle, (low, rest))
    if left:
        folded[..., 0] += strip[..., :left].sum(-1)
    if right:
        folded[..., -1] += strip[..., width - right :].sum(-1)
    return folded


def _outside(first: int, width: int, reach: int) -> tuple[int, int]:
    """How many of the distances first .. first + width - 1 are below -k, and how many above k."""
    last = first + width - 1
    return min(width, max(0, -reach - first)), min(width, max(0, last - reach))
