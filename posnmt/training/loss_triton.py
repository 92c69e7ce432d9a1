"""The Triton kernels of `loss_fused.py`: what the loss needs of each row of logits, and the gradients of the logits.

Both read logits without bias and add it in float32. Neither needs the number of vocabulary entries: the rest of a row
is padding, whose bias is minus infinity. A tile is [ROWS, BLOCK], tokens by vocabulary entries, in float32.

Legend: n tokens, V' vocabulary entries with padding, a multiple of `COLUMNS`.
"""

# Functions that Triton compiles have no Python types.
# mypy: disallow-untyped-defs=False

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

COLUMNS = 256
"""Vocabulary entries of a program of `slopes`."""

GROUP = 32
"""Tokens of a program of `slopes`, over which it sums the gradients of the bias."""


def normalise(logits: Tensor, bias: Tensor, targets: Tensor, figures: Tensor) -> None:
    """Compute what the loss needs of each token.

    Args:
        logits: [n,V'] without bias, dense, in float32 or bfloat16.
        bias: [V'] float32, minus infinity in the padding.
        targets: [n] int64.
        figures: [3,n] float32, rows at any distance; becomes the greatest logit z', log sum_v exp(z_v - z'), and the
            negative log-likelihood of the target, in nats.
    """
    count, width = logits.shape
    with torch.cuda.device_of(logits):
        _normalise[(triton.cdiv(count, 4),)](
            logits, bias, targets, figures, count, width, figures.stride(0), ROWS=4, BLOCK=1024, num_warps=4
        )


def slopes(logits: Tensor, bias: Tensor, targets: Tensor, figures: Tensor, right: float, sums: Tensor) -> None:
    """Replace logits by `softmax(z) - right [target]`.

    Args:
        logits, bias, targets, figures: as `normalise` takes and leaves them.
        right: what is subtracted at the target.
        sums: [n / GROUP, V'] float32, rounded up; becomes the sums of these gradients over each group of tokens.
    """
    count, width = logits.shape
    with torch.cuda.device_of(logits):
        _slopes[(width // COLUMNS, triton.cdiv(count, GROUP))](
            logits, bias, targets, figures, sums, count, width, figures.stride(0), right,
            ROWS=GROUP, BLOCK=COLUMNS, num_warps=8,
        )  # fmt: skip


@triton.jit(do_not_specialize=["count", "stride"])  # one compilation serves all numbers of tokens
def _normalise(
    Logits, Bias, Targets, Figures, count, width, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Each row is read once: a greater logit rescales the sum (Milakov and Gimelshein 2018, algorithm 3)."""
    first = tl.program_id(0) * ROWS
    Logits += first.to(tl.int64) * width
    row = tl.arange(0, ROWS)
    inside = first + row < count
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        real = column < width
        bias = tl.load(Bias + column, mask=real, other=float("-inf"))
        places = Logits + row[:, None] * width + column[None, :]
        scores = tl.load(places, mask=inside[:, None] & real[None, :], other=0.0).to(tl.float32) + bias[None, :]
        higher = tl.maximum(highest, tl.max(scores, 1))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(scores - higher[:, None]), 1)
        highest = higher
    target = tl.load(Targets + first + row, mask=inside, other=0)
    score = tl.load(Logits + row * width + target, mask=inside, other=0.0).to(tl.float32) + tl.load(Bias + target)
    logarithm = tl.log(total)
    Figures += first + row
    tl.store(Figures, highest, mask=inside)
    tl.store(Figures + stride, logarithm, mask=inside)
    tl.store(Figures + 2 * stride, logarithm + (highest - score), mask=inside)


@triton.jit(do_not_specialize=["count", "stride"])  # one compilation serves all numbers of tokens
def _slopes(
    Logits, Bias, Targets, Figures, Sums, count, width, stride, right, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One tile, in place; its sums over the tokens are stored, so that the logits are not read again for the bias."""
    group = tl.program_id(1)
    first = group * ROWS
    row = tl.arange(0, ROWS)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = first + row < count
    target = tl.load(Targets + first + row, mask=inside, other=-1)
    highest = tl.load(Figures + first + row, mask=inside, other=0.0)
    # infinite beyond the tokens, whose gradients are then 0
    logarithm = tl.load(Figures + stride + first + row, mask=inside, other=float("inf"))
    places = Logits + first.to(tl.int64) * width + row[:, None] * width + column[None, :]
    scores = tl.load(places, mask=inside[:, None], other=0.0).to(tl.float32) + tl.load(Bias + column)[None, :]
    slope = tl.exp(scores - highest[:, None] - logarithm[:, None])
    slope -= tl.where(column[None, :] == target[:, None], right, 0.0)
    tl.store(places, slope.to(Logits.dtype.element_ty), mask=inside[:, None])
    tl.store(Sums + group.to(tl.int64) * width + column, tl.sum(slope, 0))
