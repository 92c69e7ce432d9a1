"""Dropout that does not pay for its random numbers on a CPU.

PyTorch draws one Bernoulli number an element, which took a seventh of a training step on two cores. Here one 64-bit
random integer decides four elements, 16 bits each, so a probability is rounded to a multiple of 1/65,536; the kept
elements are scaled by the rounded probability's inverse, so that the expectation is exact.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.randomness import generator

_STEPS = 1 << 16


class Dropout(nn.Module):
    """Zero each element with a probability while training, and scale the others so that the mean stays."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        return dropout(x, self.probability) if self.training else x


def dropout_or_none(probability: float | None) -> nn.Module:
    """A `Dropout`, or a module that gives what it reads where no probability is set."""
    return Dropout(probability) if probability else nn.Identity()


def dropout(x: Tensor, probability: float) -> Tensor:
    """`x` with elements zeroed with a probability, and the others scaled by 1 / (1 - probability)."""
    dropped = round(probability * _STEPS)
    if dropped == 0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, probability)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator())
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform over -32768 .. 32767
    kept, factor = draws.ge_(dropped - _STEPS // 2), _STEPS / (_STEPS - dropped)
    if x.dtype.itemsize == 2:  # an integer 1 becomes the factor's bits: no other memory is touched
        return x * kept.mul_(torch.tensor(factor, dtype=x.dtype).view(torch.int16)).view(x.dtype)
    return x * kept.to(x.dtype).mul_(factor)
