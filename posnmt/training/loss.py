"""Label-smoothed cross-entropy fused with the output projection, without the logits of the whole batch in memory.

The projection to the vocabulary and the loss are one operation, computed in chunks of tokens: the logits of a chunk
exist only until its loss and gradients are computed, so memory does not grow with batch x vocabulary.

Shapes: n tokens, d model width, V vocabulary entries.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor, nn

from posnmt.data.batch import real_places
from posnmt.model.base import TranslationModel
from posnmt.training import loss_fused
from posnmt_position.linear import ROWS as ROUNDED
from posnmt_position.linear import rounded

CHUNK = 2048
"""Approximate number of tokens in a chunk: 2048 x 32,000 logits in bfloat16 are 131 MB."""

ROWS = 64
"""Tokens whose probabilities are computed at a time on a CPU, so that they stay in its cache."""

_thread = threading.local()


class TrainingLoss(nn.Module):
    """The model and its loss as one module, so that a distributed wrapper covers the entire computation of a step."""

    def __init__(self, model: TranslationModel, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target_in: Tensor,
        target_out: Tensor,
        real: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The smoothed loss and the negative log-likelihood, in nats, each summed over the real target tokens.

        Args:
            source, source_lengths, target_in, target_out: [B,J], [B], [B,T], [B,T]: see `Batch`.
            real: [n], likewise; None: they are found in `target_out`.
        """
        hidden = self.model(source, source_lengths, target_in).flatten(0, 1)
        real = real_places(target_out) if real is None else real
        output, targets = self.model.output, target_out.flatten().index_select(0, real)
        return cross_entropy(hidden.index_select(0, real), output.weight, output.bias, targets, self.smoothing)


def cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The loss `-(1-e) log p(y) - e/V sum_v log p(v)` and the negative log-likelihood `-log p(y)`, summed over tokens.

    Args:
        hidden: [n,d].
        weight, bias: [V,d] and [V], the output projection.
        targets: [n] reference subwords.
        smoothing: e.

    Returns:
        (smoothed loss with gradients, negative log-likelihood without), scalars.
    """
    loss, likelihood = _ProjectedCrossEntropy.apply(hidden, weight, bias, targets, smoothing)
    return loss, likelihood


class _ProjectedCrossEntropy(torch.autograd.Function):
    """The loss, and in the same pass the gradients, from the probabilities of each chunk.

    With logits z, `d loss / d z = softmax(z) - (1-e) [right] - e/V`. The last term is constant, so it needs no matrix
    product: its gradient is a sum over the weights for the hidden states, and over the hidden states for the weights.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        dtype = _compute_dtype(hidden)
        fused = loss_fused.serves(hidden, weight, dtype)
        compute = loss_fused.projected_cross_entropy if fused else projected_cross_entropy
        needs_gradients = any(ctx.needs_input_grad[:3])
        loss, likelihood, ctx.gradients = compute(hidden, weight, bias, targets, smoothing, dtype, needs_gradients)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        d_hidden, d_weight, d_bias = (gradient.mul_(upstream[0]) for gradient in ctx.gradients)
        del ctx.gradients  # they were scaled in place and cannot be used again
        return d_hidden, d_weight, d_bias, None, None


def projected_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    smoothing: float,
    dtype: torch.dtype,
    needs_gradients: bool,
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """`loss_fused.projected_cross_entropy` by operations of PyTorch, for a CPU and for every type."""
    even = smoothing / weight.shape[0]
    wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
    w, b = weight.to(dtype), bias.to(wide)
    rows = ROWS if hidden.device.type == "cpu" else CHUNK
    loss, likelihood = (hidden.new_zeros((), dtype=wide) for _ in range(2))
    states, from_even = hidden.sum(0, dtype=wide), even * weight.sum(0, dtype=wide)
    loss -= (states * from_even).sum() + even * len(hidden) * b.sum()  # e/V times the sum of all logits
    if needs_gradients:
        d_hidden, d_bias = torch.empty_like(hidden), torch.full_like(b, -even * len(hidden))
        d_weight = torch.empty_like(weight, dtype=wide).copy_(-even * states)
    chunks = max(1, round(len(hidden) / CHUNK))
    chunk = -(-len(hidden) // chunks)  # of equal size: a short last chunk would be inefficient
    buffer = _buffer((chunk + ROUNDED) * len(w), w).view(-1, len(w))
    scores, probabilities = (b.new_empty(min(rows, chunk), len(w)) for _ in range(2))
    for start in range(0, len(hidden), max(1, chunk)):
        y_of, h = targets[start : start + chunk, None], rounded(hidden[start : start + chunk], dtype)
        logits = torch.mm(h, w.t(), out=buffer[: len(h)])  # [chunk,V], the bias still to come; 0 beyond the tokens
        for part, y in zip(logits[: len(y_of)].split(rows), y_of.split(rows), strict=True):
            score = scores[: len(part)].copy_(part).add_(b)
            right = score.gather(-1, y)
            probability = torch.softmax(score, -1, out=probabilities[: len(part)])
            log_normaliser = score.amax(-1, keepdim=True) - probability.amax(-1, keepdim=True).log()
            nll = (log_normaliser - right).sum()
            likelihood += nll
            loss += (1 - smoothing) * nll + smoothing * log_normaliser.sum()
            if needs_gradients:  # the gradients overwrite the logits
                slope = probability.scatter_add_(-1, y, torch.full_like(right, smoothing - 1))
                d_bias += slope.sum(0)
                part.copy_(slope)
        if needs_gradients:
            d_hidden[start : start + chunk] = (logits @ w)[: len(y_of)] - from_even
            product = logits.t() @ h
            for place, term in zip(d_weight.split(rows), product.split(rows), strict=True):
                place += term  # by rows, which avoids a wide copy of a narrow product
    if not needs_gradients:
        return loss, likelihood, None
    return loss, likelihood, (d_hidden, d_weight.to(weight.dtype), d_bias.to(bias.dtype))


def _buffer(size: int, like: Tensor) -> Tensor:
    """`size` elements of the type of `like`. On a CPU, the thread reuses a buffer, since new memory pages are slow."""
    if like.device.type != "cpu":
        return like.new_empty(size)
    buffer = getattr(_thread, "buffer", None)
    if buffer is None or buffer.dtype != like.dtype or len(buffer) < size:
        with torch.inference_mode(False):  # so that training can use a buffer that an evaluation allocated
            buffer = _thread.buffer = torch.empty(size, dtype=like.dtype)
    return buffer[:size]


def _compute_dtype(tensor: Tensor) -> torch.dtype:
    """The type of matrix products: autocast's if it is enabled, else the tensor's own."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype
