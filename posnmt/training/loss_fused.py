"""The loss on a GPU: three products and two kernels a chunk, which move 12 bytes a logit in bfloat16.

Bytes of a logit that the memory of the GPU moves: the product that computes it writes 2. `normalise` reads 2. `slopes`
reads 2, writes 2, and has 0.25 for the sums over groups of 32 tokens, which are written and read. The products for the
hidden states and for the weights read 2 each. Together these are 12.25, and without gradients 4; in float32 twice as
many, but for the 0.25. The gradient of the weights is written and added once a chunk: 0.7 more at d = 512 and 8,533
tokens. Counted likewise, PyTorch's operations one after another, the form for a CPU, move 57.

The vocabulary is padded to a multiple of 256 entries, whose weights are 0 and whose bias is minus infinity. So their
probabilities and gradients are 0, and rows of logits begin where 16 bytes can be read at once.

Legend: n tokens, d model width, V vocabulary entries, V' with padding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from posnmt.model.kernels.trial import WITHIN, WITHIN_TF32, Results, compiles, trusted

LOGITS = 2**28
"""Approximate number of logits of a chunk: 512 MiB in bfloat16, 8,389 tokens at 32,000 vocabulary entries."""


def serves(hidden: Tensor, weight: Tensor, dtype: torch.dtype) -> bool:
    """Whether `projected_cross_entropy` computes it: on a GPU where its kernels work, in bfloat16 or float32.

    Args:
        hidden, weight: see there.
        dtype: of the products.
    """
    return (
        hidden.is_cuda
        and dtype in (torch.bfloat16, torch.float32)
        and weight.dtype != torch.float64
        and compiles(hidden.device)
        and trusts(hidden.device, dtype)
    )


def trusts(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernels agree with the equation in a small case, with products of a type."""
    tf32 = dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    within = WITHIN_TF32 if tf32 else WITHIN[dtype]
    return trusted(
        "the loss by kernels",
        f"{dtype}{' in TF32' if tf32 else ''}",
        device,
        lambda: _by_kernels(device, dtype),
        lambda: _by_equation(device),
        within,
    )


def _case(device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """Hidden states, weights and bias, targets, and the smoothing; some tokens and entries are beyond whole tiles."""
    numbers = torch.arange(300 * 16, device=device)
    weight, bias, targets = numbers.view(300, 16).cos(), numbers[:300].sin(), numbers[:70] * 4
    return (numbers * 0.7)[: 70 * 16].view(70, 16).sin(), weight, bias, targets, 0.1


def _by_kernels(device: torch.device, dtype: torch.dtype) -> Results:
    loss, likelihood, gradients = projected_cross_entropy(*_case(device), dtype, needs_gradients=True)
    assert gradients is not None
    return dict(zip(_RESULTS, (loss, likelihood, *gradients), strict=True))


def _by_equation(device: torch.device) -> Results:
    *narrow, targets, smoothing = _case(device)
    h, w, b = (each.double() for each in narrow)
    logs = (h @ w.t() + b).log_softmax(-1)
    right = functional.one_hot(targets, len(w))
    slopes = logs.exp() - (1 - smoothing) * right - smoothing / len(w)
    likelihood = -(logs * right).sum()
    loss = (1 - smoothing) * likelihood - smoothing / len(w) * logs.sum()
    return dict(zip(_RESULTS, (loss, likelihood, slopes @ w, slopes.t() @ h, slopes.sum(0)), strict=True))


_RESULTS = "loss", "likelihood", "gradient of hidden states", "gradient of weights", "gradient of the bias"


def projected_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    smoothing: float,
    dtype: torch.dtype,
    needs_gradients: bool,
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """The loss of `loss.cross_entropy`, the likelihood, and the gradients of hidden states, weights and bias.

    The host waits for nothing, and the sums have the same order each time.

    Args:
        hidden: [n,d]; n may be 0.
        weight, bias: [V,d] and [V], the output projection.
        targets: [n] reference subwords.
        smoothing: e.
        dtype: of the products.
        needs_gradients: whether to compute them; else they are None.
    """
    from posnmt.training import loss_triton

    count, entries = len(hidden), len(weight)
    w, b = _padded(weight, bias, dtype, loss_triton.COLUMNS)
    even = smoothing / entries
    states, from_even = hidden.sum(0, dtype=torch.float32), even * weight.sum(0, dtype=torch.float32)
    figures = b.new_empty(3, count)
    if needs_gradients:
        d_hidden = torch.empty_like(hidden)
        d_weight = torch.empty_like(weight, dtype=torch.float32).copy_(-even * states)
        d_bias = torch.full_like(b, -even * count)
    chunks = max(1, round(count * len(w) / LOGITS))
    chunk = _rounded(-(-count // chunks), 128)  # of equal size: a short last chunk would be inefficient
    buffer = w.new_empty(min(chunk, count), len(w))
    group_sums = b.new_empty(-(-len(buffer) // loss_triton.GROUP), len(w))
    for start in range(0, count, max(1, chunk)):
        part = slice(start, start + chunk)
        h, y = hidden[part].to(dtype), targets[part]
        logits = torch.mm(h, w.t(), out=buffer[: len(h)])
        loss_triton.normalise(logits, b, y, figures[:, part])
        if needs_gradients:
            sums = group_sums[: -(-len(h) // loss_triton.GROUP)]
            loss_triton.slopes(logits, b, y, figures[:, part], 1 - smoothing, sums)  # overwrites the logits
            d_bias += sums.sum(0)
            torch.sub(logits @ w, from_even, out=d_hidden[part])
            d_weight += (logits.t() @ h)[:entries]
    highest, logarithms, likelihood = figures.sum(1)
    all_logits = (states * from_even).sum() + even * count * bias.sum(dtype=torch.float32)  # e/V times their sum
    loss = (1 - smoothing) * likelihood + smoothing * (highest + logarithms) - all_logits
    if not needs_gradients:
        return loss, likelihood, None
    return loss, likelihood, (d_hidden, d_weight.to(weight.dtype), d_bias[:entries].to(bias.dtype))


def _padded(weight: Tensor, bias: Tensor, dtype: torch.dtype, multiple: int) -> tuple[Tensor, Tensor]:
    """The weights [V',d] in a type, zeros after the last, and the bias [V'] in float32, minus infinity after it."""
    entries = len(weight)
    w = weight.new_empty(_rounded(entries, multiple), weight.shape[1], dtype=dtype)
    b = bias.new_empty(len(w), dtype=torch.float32)
    w[:entries], b[:entries] = weight, bias
    w[entries:], b[entries:] = 0, float("-inf")
    return w, b


def _rounded(count: int, multiple: int) -> int:
    """Round a count up to the next multiple."""
    return -(-count // multiple) * multiple
