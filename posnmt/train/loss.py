"""Label-smoothed cross-entropy through the output projection, without logits of the whole batch in memory.

The projection to the vocabulary and the loss are one operation, taken in chunks of tokens: a chunk's logits live only
until its loss and its gradients are known, so memory does not grow with batch x vocabulary, and float32 logits of the
whole batch never exist. `plain_cross_entropy` is the same in two lines, for the tests.

Shapes: n tokens, d model width, V vocabulary entries.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.data.subword import PAD
from posnmt.model.base import TranslationModel

CHUNK = 2048
"""Tokens, about, whose logits exist at a time: 2048 x 32,000 in bfloat16 is 131 MB."""

ROWS = 64
"""Tokens whose probabilities are computed at a time on a CPU, so that they stay in its cache from pass to pass."""

_thread = threading.local()


class TrainingLoss(nn.Module):
    """The model and its loss as one module, so that several GPUs can share the whole computation of a step."""

    def __init__(self, model: TranslationModel, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(
        self, source: Tensor, source_lengths: Tensor, target_in: Tensor, target_out: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The smoothed loss and the plain negative log-likelihood, in nats, each summed over the real target tokens.

        Args:
            source, source_lengths, target_in, target_out: [B,J], [B], [B,T], [B,T]: see `Batch`.
        """
        hidden = self.model(source, source_lengths, target_in)
        real = target_out != PAD
        output = self.model.output
        return cross_entropy(hidden[real], output.weight, output.bias, target_out[real], self.smoothing)


def cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The loss `-(1-e) log p(y) - e/V sum_v log p(v)` and the likelihood `-log p(y)`, summed over tokens.

    Args:
        hidden: [n,d].
        weight, bias: [V,d] and [V], the output projection.
        targets: [n] right subwords.
        smoothing: e.

    Returns:
        (smoothed loss with gradients, negative log-likelihood without), scalars.
    """
    loss, likelihood = _ProjectedCrossEntropy.apply(hidden, weight, bias, targets, smoothing)
    return loss, likelihood


def plain_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """What `cross_entropy` computes, all logits at once: the oracle of its test."""
    logits = functional.linear(hidden, weight, bias)
    loss = functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    return loss, functional.cross_entropy(logits, targets, reduction="sum").detach()


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Gradients are taken with the loss, chunk by chunk, while the chunk's probabilities are at hand.

    With logits z, `d loss / d z = softmax(z) - (1-e) [right] - e/V`. The last term is the same for all, so it never
    enters a matrix product: it is a sum over the weights for the hidden states, and over those for the weights.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        even = smoothing / weight.shape[0]
        wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
        narrow = _compute_dtype(hidden)
        w, b = weight.to(narrow), bias.to(wide)
        needs_gradients = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        rows = ROWS if hidden.device.type == "cpu" else CHUNK
        loss, likelihood = (hidden.new_zeros((), dtype=wide) for _ in range(2))
        states, from_even = hidden.sum(0, dtype=wide), even * weight.sum(0, dtype=wide)
        loss -= (states * from_even).sum() + even * len(hidden) * b.sum()  # e/V times the sum of all logits
        if needs_gradients:
            d_hidden, d_bias = torch.empty_like(hidden), torch.full_like(b, -even * len(hidden))
            d_weight = torch.empty_like(weight, dtype=wide).copy_(-even * states)
        chunk = -(-len(hidden) // max(1, round(len(hidden) / CHUNK)))  # all alike: a short one costs as many sums
        buffer = _buffer(chunk * len(w), w).view(chunk, len(w))
        scores, probabilities = (b.new_empty(min(rows, chunk), len(w)) for _ in range(2))
        for start in range(0, len(hidden), max(1, chunk)):
            h = hidden[start : start + chunk].to(narrow)
            logits = torch.mm(h, w.t(), out=buffer[: len(h)])  # [chunk,V], the bias still to come
            for part, y in zip(logits.split(rows), targets[start : start + chunk, None].split(rows), strict=True):
                score = scores[: len(part)].copy_(part).add_(b)
                right = score.gather(-1, y)
                probability = torch.softmax(score, -1, out=probabilities[: len(part)])
                log_normaliser = score.amax(-1, keepdim=True) - probability.amax(-1, keepdim=True).log()
                nll = (log_normaliser - right).sum()
                likelihood += nll
                loss += (1 - smoothing) * nll + smoothing * log_normaliser.sum()
                if needs_gradients:  # the logits' place becomes that of their gradients
                    slope = probability.scatter_add_(-1, y, torch.full_like(right, smoothing - 1))
                    d_bias += slope.sum(0)
                    part.copy_(slope)
            if needs_gradients:
                d_hidden[start : start + chunk] = logits @ w - from_even
                product = logits.t() @ h
                for place, term in zip(d_weight.split(rows), product.split(rows), strict=True):
                    place += term  # by rows: no wide copy of a narrow product
        if needs_gradients:
            ctx.gradients = d_hidden, d_weight.to(weight.dtype), d_bias.to(bias.dtype)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        d_hidden, d_weight, d_bias = (gradient.mul_(upstream[0]) for gradient in ctx.gradients)
        del ctx.gradients  # scaled in place, so they are good for once
        return d_hidden, d_weight, d_bias, None, None


def _buffer(size: int, like: Tensor) -> Tensor:
    """`size` elements of the type of `like`; on a CPU the thread's own for good: fresh memory costs more than sums."""
    if like.device.type != "cpu":
        return like.new_empty(size)
    buffer = getattr(_thread, "buffer", None)
    if buffer is None or buffer.dtype != like.dtype or len(buffer) < size:
        with torch.inference_mode(False):  # an evaluation may be the first that needs it, a training step the next
            buffer = _thread.buffer = torch.empty(size, dtype=like.dtype)
    return buffer[:size]


def _compute_dtype(tensor: Tensor) -> torch.dtype:
    """The width that matrix products have here: autocast's where it is on, else the tensor's own."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype
