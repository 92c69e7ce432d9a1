"""The Triton kernels of `shaw.py`: online softmax over blocks of keys, weights recomputed in the backward pass.

For each query, a term of the clipped distance r = clip(j - i, -k, k) is constant for all keys left of -k and for all
keys right of k, and varies only near the diagonal. So a program iterates over the blocks before, near and after the
diagonal. Before and after, the term is a broadcast column, and a sum by distance is a running sum for each query; near
it, each pair of query and key reads or writes its own element in a row of R = 2k+1. No two pairs write to the same
element, since within the reach each distance has one key. A row has R' columns (`shaw.columns`), of which those beyond
R are neither read nor written.

Queries are i, keys j; a tile is [ROWS, COLUMNS], queries by keys, in float32. Tensors are dense and have tokens before
heads: [B,T,H,D], [B,T,H,R'], [B,T,H]; the mask is [B,T]. Only keys and values may be parts of a projection, whose
tokens are `spacing` times [H,D] apart. A program computes a block of tokens of one of the B x H pairs of row and head.
"""

# Functions that Triton compiles have no Python types.
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

BEFORE, NEAR, AFTER = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Parts of the keys: all at distance -k or further left, around the queries, all at k or further right."""


class Tile(NamedTuple):
    """The size of a tile, and the warps and pipeline stages of a program."""

    rows: int
    columns: int
    warps: int
    stages: int = 3


TILES = {"exact": Tile(16, 16, 4), "small": Tile(32, 32, 4, 1), "large": Tile(64, 32, 4)}
"""exact: for products of float32; large: for narrow types, heads of up to 64 and sentences beyond 32; small: the rest.

As compiled for an H100 (bf16, D = 64, k = 16, dropout), the last two spill no registers, and a multiprocessor holds two
programs or more. Of tiles of 64 x 64 with 8 warps it holds one, and both backward kernels spill.
"""


class Launch:
    """The launch configuration of the kernels for one call of attention: the tile and the compile-time constants."""

    def __init__(self, q: Tensor, spacing: int, reach: int, stride: int, causal: bool, dropout: float) -> None:
        self.spacing = spacing
        batch, self.tokens, self.heads, width = q.shape
        exact = q.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
        small = q.dtype == torch.float32 or width > 64 or self.tokens <= 32
        self.tile = TILES["exact" if exact else "small" if small else "large"]
        self.pairs = batch * self.heads
        self.constants = {
            "REACH": reach,
            "STRIDE": stride,
            "CAUSAL": causal,
            "DROPOUT": dropout,
            "D": width,
            "WIDTH": max(16, triton.next_power_of_2(width)),
            "ROWS": self.tile.rows,
            "COLUMNS": self.tile.columns,
            "PRECISION": "ieee" if exact else "tf32",
            "num_warps": self.tile.warps,
            "num_stages": self.tile.stages,
        }

    def __call__(self, kernel: triton.JITFunction, *tensors: Tensor | None) -> None:
        """Run a kernel on the GPU where the first tensor is."""
        first = tensors[0]
        assert first is not None
        own = self.tile.columns if kernel is backward_keys else self.tile.rows  # tokens of a program
        grid = (self.pairs * triton.cdiv(self.tokens, own),)
        with torch.cuda.device_of(first):
            kernel[grid](*tensors, self.tokens, self.heads, self.spacing, **self.constants)


@triton.jit(do_not_specialize=["spacing"])  # one compilation serves dense tensors and parts
def forward(
    Q, K, V, KeyTerm, Mask, Seed, Attended, ByDistance, Normaliser, tokens, heads, spacing,
    REACH: tl.constexpr, STRIDE: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attended values, the logarithm of each query's normaliser, and the weights summed by distance."""
    pair, first = _program(tokens, ROWS)
    origin, step = _origin(pair, tokens, heads, heads), heads * spacing
    read = _origin(pair, tokens, heads, step)
    Q += origin * D
    K += read * D
    V += read * D
    Attended += origin * D
    Normaliser += origin
    if KeyTerm is not None:
        KeyTerm += origin * STRIDE
    if ByDistance is not None:
        ByDistance += origin * STRIDE
    i = first + tl.arange(0, ROWS)
    at_i = i * heads
    q = _rows(Q, at_i, i, tokens, D, WIDTH)
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    left = tl.zeros((ROWS,), tl.float32)
    right = tl.zeros((ROWS,), tl.float32)
    attended = tl.zeros((ROWS, WIDTH), tl.float32)
    for part in tl.static_range(2 if CAUSAL else 3):
        low, high = _seen(part, first, tokens, REACH, CAUSAL, ROWS, COLUMNS)
        for start in range(low, high, COLUMNS):
            j = start + tl.arange(0, COLUMNS)
            at_j = j * step
            k = _rows(K, at_j, j, tokens, D, WIDTH)
            logits = _logits(
                q, k, KeyTerm, Mask, pair, heads, at_i, i, j, tokens, part, REACH, STRIDE, CAUSAL, PRECISION
            )
            higher = tl.maximum(highest, tl.max(logits, 1))
            base = tl.where(higher == float("-inf"), 0.0, higher)  # no key seen so far
            weights = tl.exp(logits - base[:, None])
            rescale = tl.exp(highest - base)
            highest = higher
            total = total * rescale + tl.sum(weights, 1)
            if DROPOUT > 0:
                weights *= _kept(Seed, pair, i, j, tokens, DROPOUT)
            v = _rows(V, at_j, j, tokens, D, WIDTH)
            attended = attended * rescale[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
            if ByDistance is not None:
                left = left * rescale + _left(weights, i, j, part, REACH)
                right = right * rescale + _right(weights, i, j, part, REACH)
    seen = total > 0
    total = tl.where(seen, total, 1.0)
    # infinite for a query that sees no key, so that every weight computed from it is 0
    normaliser = tl.where(seen, highest + tl.log(total), float("inf"))
    tl.store(Normaliser + at_i, normaliser, mask=i < tokens)
    _store_rows(Attended, attended / total[:, None], at_i, i, tokens, D, WIDTH)
    if ByDistance is not None:
        _store_column(ByDistance, 0, left / total, at_i, i, tokens, STRIDE)
        _store_column(ByDistance, 2 * REACH, right / total, at_i, i, tokens, STRIDE)
        _store_near_weights(
            q, K, KeyTerm, Mask, Seed, ByDistance, normaliser, pair, first, tokens, heads, step, at_i, i,
            REACH, STRIDE, CAUSAL, DROPOUT, D, WIDTH, ROWS, COLUMNS, PRECISION,
        )  # fmt: skip


@triton.jit
def _store_near_weights(
    q, K, KeyTerm, Mask, Seed, ByDistance, normaliser, pair, first, tokens, heads, step, at_i, i,
    REACH: tl.constexpr, STRIDE: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Store the weights within the reach, which are not summed: these few tiles are recomputed, now normalised."""
    low, high = _seen(NEAR, first, tokens, REACH, CAUSAL, ROWS, COLUMNS)
    for start in range(low, high, COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        k = _rows(K, j * step, j, tokens, D, WIDTH)
        logits = _logits(q, k, KeyTerm, Mask, pair, heads, at_i, i, j, tokens, NEAR, REACH, STRIDE, CAUSAL, PRECISION)
        weights = tl.exp(logits - normaliser[:, None])
        if DROPOUT > 0:
            weights *= _kept(Seed, pair, i, j, tokens, DROPOUT)
        _store_near(ByDistance, weights, at_i, i, j, tokens, REACH, STRIDE)


@triton.jit(do_not_specialize=["spacing"])  # one compilation serves dense tensors and parts
def backward_queries(
    Q, K, V, KeyTerm, Mask, Seed, Normaliser, Grad, GradByDistance, Delta, GradQ, GradKeyTerm, tokens, heads, spacing,
    REACH: tl.constexpr, STRIDE: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of queries, and of their key term."""
    pair, first = _program(tokens, ROWS)
    origin, step = _origin(pair, tokens, heads, heads), heads * spacing
    read = _origin(pair, tokens, heads, step)
    Q += origin * D
    K += read * D
    V += read * D
    Grad += origin * D
    GradQ += origin * D
    Normaliser += origin
    Delta += origin
    if KeyTerm is not None:
        KeyTerm += origin * STRIDE
    if GradByDistance is not None:
        GradByDistance += origin * STRIDE
    if GradKeyTerm is not None:
        GradKeyTerm += origin * STRIDE
    i = first + tl.arange(0, ROWS)
    at_i = i * heads
    q = _rows(Q, at_i, i, tokens, D, WIDTH)
    grad = _rows(Grad, at_i, i, tokens, D, WIDTH)
    normaliser = tl.load(Normaliser + at_i, mask=i < tokens, other=float("inf"))
    delta = tl.load(Delta + at_i, mask=i < tokens, other=0.0)
    left = tl.zeros((ROWS,), tl.float32)
    right = tl.zeros((ROWS,), tl.float32)
    grad_q = tl.zeros((ROWS, WIDTH), tl.float32)
    for part in tl.static_range(2 if CAUSAL else 3):
        low, high = _seen(part, first, tokens, REACH, CAUSAL, ROWS, COLUMNS)
        for start in range(low, high, COLUMNS):
            j = start + tl.arange(0, COLUMNS)
            at_j = j * step
            k = _rows(K, at_j, j, tokens, D, WIDTH)
            v = _rows(V, at_j, j, tokens, D, WIDTH)
            logits = _logits(
                q, k, KeyTerm, Mask, pair, heads, at_i, i, j, tokens, part, REACH, STRIDE, CAUSAL, PRECISION
            )
            weights = tl.exp(logits - normaliser[:, None])
            grad_weights = _grad_weights(grad, v, GradByDistance, at_i, i, j, tokens, part, REACH, STRIDE, PRECISION)
            if DROPOUT > 0:
                grad_weights *= _kept(Seed, pair, i, j, tokens, DROPOUT)
            grad_logits = weights * (grad_weights - delta[:, None])
            grad_q += tl.dot(grad_logits.to(k.dtype), k, input_precision=PRECISION)
            if GradKeyTerm is not None:
                left += _left(grad_logits, i, j, part, REACH)
                right += _right(grad_logits, i, j, part, REACH)
                if part == NEAR:
                    _store_near(GradKeyTerm, grad_logits, at_i, i, j, tokens, REACH, STRIDE)
    _store_rows(GradQ, grad_q, at_i, i, tokens, D, WIDTH)
    if GradKeyTerm is not None:
        _store_column(GradKeyTerm, 0, left, at_i, i, tokens, STRIDE)
        _store_column(GradKeyTerm, 2 * REACH, right, at_i, i, tokens, STRIDE)


@triton.jit(do_not_specialize=["spacing"])  # one compilation serves dense tensors and parts
def backward_keys(
    Q, K, V, KeyTerm, Mask, Seed, Normaliser, Grad, GradByDistance, Delta, GradK, GradV, tokens, heads, spacing,
    REACH: tl.constexpr, STRIDE: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys and values."""
    pair, first = _program(tokens, COLUMNS)
    origin, step = _origin(pair, tokens, heads, heads), heads * spacing
    read = _origin(pair, tokens, heads, step)
    Q += origin * D
    K += read * D
    V += read * D
    Grad += origin * D
    GradK += origin * D
    GradV += origin * D
    Normaliser += origin
    Delta += origin
    if KeyTerm is not None:
        KeyTerm += origin * STRIDE
    if GradByDistance is not None:
        GradByDistance += origin * STRIDE
    j = first + tl.arange(0, COLUMNS)
    at_j = j * heads
    k = _rows(K, j * step, j, tokens, D, WIDTH)
    v = _rows(V, j * step, j, tokens, D, WIDTH)
    grad_k = tl.zeros((COLUMNS, WIDTH), tl.float32)
    grad_v = tl.zeros((COLUMNS, WIDTH), tl.float32)
    for part in tl.static_range(2 if CAUSAL else 3):
        low, high = _seeing(part, first, tokens, REACH, CAUSAL, ROWS, COLUMNS)
        for start in range(low, high, ROWS):
            i = start + tl.arange(0, ROWS)
            at_i = i * heads
            q = _rows(Q, at_i, i, tokens, D, WIDTH)
            grad = _rows(Grad, at_i, i, tokens, D, WIDTH)
            normaliser = tl.load(Normaliser + at_i, mask=i < tokens, other=float("inf"))
            delta = tl.load(Delta + at_i, mask=i < tokens, other=0.0)
            logits = _logits(
                q, k, KeyTerm, Mask, pair, heads, at_i, i, j, tokens, part, REACH, STRIDE, CAUSAL, PRECISION
            )
            weights = tl.exp(logits - normaliser[:, None])
            grad_weights = _grad_weights(grad, v, GradByDistance, at_i, i, j, tokens, part, REACH, STRIDE, PRECISION)
            dropped = weights
            if DROPOUT > 0:
                kept = _kept(Seed, pair, i, j, tokens, DROPOUT)
                dropped = weights * kept
                grad_weights *= kept
            grad_logits = weights * (grad_weights - delta[:, None])
            grad_v += tl.dot(tl.trans(dropped.to(grad.dtype)), grad, input_precision=PRECISION)
            grad_k += tl.dot(tl.trans(grad_logits.to(q.dtype)), q, input_precision=PRECISION)
    _store_rows(GradK, grad_k, at_j, j, tokens, D, WIDTH)
    _store_rows(GradV, grad_v, at_j, j, tokens, D, WIDTH)


@triton.jit
def _program(tokens, OWN: tl.constexpr):
    """The pair and the first token of this program. Programs of a pair are adjacent, so its keys stay in the cache."""
    blocks = tl.cdiv(tokens, OWN)
    return tl.program_id(0) // blocks, tl.program_id(0) % blocks * OWN


@triton.jit
def _bounds(part: tl.constexpr, first, tokens, REACH: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr):
    """Start and end of the blocks of OTHER tokens that are before, near or after the OWN tokens from first."""
    near = tl.maximum(first - REACH + 1, 0) // OTHER * OTHER
    after = tl.minimum(tl.cdiv(first + OWN - 1 + REACH, OTHER) * OTHER, tokens)
    if part == BEFORE:
        low, high = near * 0, near
    elif part == NEAR:
        low, high = near, after
    else:
        low, high = after, after * 0 + tokens
    return low, high


@triton.jit
def _seen(
    part: tl.constexpr, first, tokens,
    REACH: tl.constexpr, CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Start and end of the blocks of keys in a part that the ROWS queries from first may see."""
    low, high = _bounds(part, first, tokens, REACH, ROWS, COLUMNS)
    if CAUSAL:
        high = tl.minimum(high, first + ROWS)
    return low, high


@triton.jit
def _seeing(
    part: tl.constexpr, first, tokens,
    REACH: tl.constexpr, CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Start and end of the blocks of queries that may see the COLUMNS keys from first, and have them in a part."""
    low, high = _bounds(2 - part, first, tokens, REACH, COLUMNS, ROWS)  # keys before a query are to its left: mirrored
    if CAUSAL:
        low = tl.maximum(low, first // ROWS * ROWS)
    return low, high


@triton.jit
def _origin(pair, tokens, heads, step):
    """Index of a pair's first token; token t is t x step further, an offset of 32 bits.

    Offsets of 64 bits for each element of a tile would take too many registers.
    """
    return (pair // heads).to(tl.int64) * tokens * step + pair % heads


@triton.jit
def _rows(X, places, t, tokens, D: tl.constexpr, WIDTH: tl.constexpr):
    """[.,WIDTH] vectors of tokens, 0 beyond the sentence and beyond D."""
    d = tl.arange(0, WIDTH)
    return tl.load(X + places[:, None] * D + d[None, :], mask=(t < tokens)[:, None] & (d < D)[None, :], other=0.0)


@triton.jit
def _store_rows(X, rows, places, t, tokens, D: tl.constexpr, WIDTH: tl.constexpr):
    """Store vectors [.,WIDTH] of tokens, within the sentence and within D."""
    d = tl.arange(0, WIDTH)
    inside = (t < tokens)[:, None] & (d < D)[None, :]
    tl.store(X + places[:, None] * D + d[None, :], rows.to(X.dtype.element_ty), mask=inside)


@triton.jit
def _logits(
    q, k, KeyTerm, Mask, pair, heads, at_i, i, j, tokens,
    part: tl.constexpr, REACH: tl.constexpr, STRIDE: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of logits, minus infinity where a query may not see a key."""
    logits = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    if KeyTerm is not None:
        logits += _by_distance(KeyTerm, at_i, i, j, tokens, part, REACH, STRIDE)
    visible = (i < tokens)[:, None] & (j < tokens)[None, :]
    if CAUSAL:
        visible &= j[None, :] <= i[:, None]
    if Mask is not None:
        real = tl.load(Mask + (pair // heads).to(tl.int64) * tokens + j, mask=j < tokens, other=0)
        visible &= (real != 0)[None, :]
    return tl.where(visible, logits, float("-inf"))


@triton.jit
def _grad_weights(
    grad, v, GradByDistance, at_i, i, j, tokens,
    part: tl.constexpr, REACH: tl.constexpr, STRIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of gradients of the weights after dropout."""
    tile = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
    if GradByDistance is not None:
        tile += _by_distance(GradByDistance, at_i, i, j, tokens, part, REACH, STRIDE)
    return tile


@triton.jit
def _kept(Seed, pair, i, j, tokens, DROPOUT: tl.constexpr):
    """A tile of dropout factors: 0, or 1 / (1 - DROPOUT); a function of seed, i and j.

    Philox of 7 rounds passes every test of its authors (Salmon et al. 2011, section 4).
    """
    draws = tl.rand(tl.load(Seed) + pair, i[:, None] * tokens + j[None, :], 7)
    return tl.where(draws >= DROPOUT, 1.0 / (1.0 - DROPOUT), 0.0)


@triton.jit
def _by_distance(Table, at_i, i, j, tokens, part: tl.constexpr, REACH: tl.constexpr, STRIDE: tl.constexpr):
    """A tile of the values in the queries' rows of a table [.,R'] for the distances to the keys."""
    rows = Table + at_i * STRIDE
    inside = (i < tokens)[:, None]
    if part == BEFORE:
        tile = tl.load(rows[:, None], mask=inside, other=0.0)
    elif part == AFTER:
        tile = tl.load(rows[:, None] + 2 * REACH, mask=inside, other=0.0)
    else:
        distances = tl.minimum(tl.maximum(j[None, :] - i[:, None], -REACH), REACH)
        tile = tl.load(rows[:, None] + (distances + REACH), mask=inside, other=0.0)
    return tile.to(tl.float32)


@triton.jit
def _left(tile, i, j, part: tl.constexpr, REACH: tl.constexpr):
    """Sums [ROWS] over the keys at distance -k or further left."""
    if part == BEFORE:
        sums = tl.sum(tile, 1)
    elif part == NEAR:
        sums = tl.sum(tl.where(j[None, :] - i[:, None] <= -REACH, tile, 0.0), 1)
    else:
        sums = tl.zeros((tile.shape[0],), tl.float32)
    return sums


@triton.jit
def _right(tile, i, j, part: tl.constexpr, REACH: tl.constexpr):
    """Sums [ROWS] over the keys at distance k or further right."""
    if part == AFTER:
        sums = tl.sum(tile, 1)
    elif part == NEAR:
        sums = tl.sum(tl.where(j[None, :] - i[:, None] >= REACH, tile, 0.0), 1)
    else:
        sums = tl.zeros((tile.shape[0],), tl.float32)
    return sums


@triton.jit
def _store_column(Table, column, values, at_i, i, tokens, STRIDE: tl.constexpr):
    """Store one column of the queries' rows of a table [.,R']."""
    tl.store(Table + at_i * STRIDE + column, values.to(Table.dtype.element_ty), mask=i < tokens)


@triton.jit
def _store_near(Table, tile, at_i, i, j, tokens, REACH: tl.constexpr, STRIDE: tl.constexpr):
    """Store each value of a tile within the reach at its distance in a table [.,R']."""
    distances = j[None, :] - i[:, None]
    inside = (i < tokens)[:, None] & (j < tokens)[None, :] & (distances > -REACH) & (distances < REACH)
    places = Table + at_i[:, None] * STRIDE + (distances + REACH)
    tl.store(places, tile.to(Table.dtype.element_ty), mask=inside)
