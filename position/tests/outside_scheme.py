"""A scheme that the package does not know, for tests of its checks."""

from __future__ import annotations

import torch
from torch import nn

from posnmt_position import LayeredScheme, LayerPosition, Options, option


class Nearness(LayerPosition):
    """A trained number a head times the distance, and a trained vector added to what attention gives."""

    reads_keys = False

    def __init__(self, heads, width):
        super().__init__()
        self.slope, self.offset = nn.Parameter(torch.rand(heads, 1, 1)), nn.Parameter(torch.rand(width))

    def logits(self, q, k, span):
        return (-self.slope * span.offsets.abs()).to(q.dtype)

    def values(self, weights, span):
        return weights.sum(-1, keepdim=True) * self.offset


class Outside(LayeredScheme):
    """A scheme that the package does not know: a bias in each layer, and a running mean of the words."""

    view: type[LayerPosition] = Nearness

    class Settings(Options):
        rate: float = option(0.5, gt=0, lt=1)

    def __init__(self, stack, settings):
        super().__init__()
        self.rate = settings.rate
        self.layers = nn.ModuleList(self.view(stack.heads, stack.d_head) for _ in range(stack.layers))

    @classmethod
    def refuses(cls, stack, settings, others=()):
        return [] if stack.causal else ["forgets what comes late, so it cannot serve the encoder"]

    def embed(self, x, span, carry):
        kept, means = (torch.zeros_like(x[:, 0]) if carry is None else carry[0]), []
        for word in x.unbind(1):
            kept = kept.lerp(word, self.rate)
            means.append(kept)
        return x + torch.stack(means, 1), (kept,)
