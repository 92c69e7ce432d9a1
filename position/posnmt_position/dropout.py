"""Dropout with cheap random numbers on a CPU.

PyTorch draws one Bernoulli number for each element, which took a seventh of a training step on two cores. Here one
64-bit random integer is used for four elements, 16 bits each, so a probability is rounded to a multiple of 1/65,536;
the elements that are kept are scaled according to the rounded probability, so that the expectation is exact.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt_position.randomness import generator

_STEPS = 1 << 16


class Dropout(nn.Module):
    """Zero each element with a probability in training, and scale the others to preserve the mean."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to a tensor of any shape in training; return the tensor itself at inference."""
        return dropout(x, self.probability) if self.training else x


def dropout_or_none(probability: float | None) -> nn.Module:
    """A `Dropout`, or the identity if the probability is None or 0."""
    return Dropout(probability) if probability else nn.Identity()


def dropout(x: Tensor, probability: float) -> Tensor:
    """`x` with elements zeroed with a probability, and the others scaled by 1 / (1 - probability)."""
    dropped = min(round(probability * _STEPS), _STEPS - 1)
    if dropped == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():  # which draws numbers of its own
        return functional.dropout(x, probability)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator())
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform over -32768 .. 32767
    kept, factor = draws.ge_(dropped - _STEPS // 2), _STEPS / (_STEPS - dropped)
    if x.dtype.itemsize == 2:  # in place: an integer 1 is multiplied to the bits of the factor
        return x * kept.mul_(torch.tensor(factor, dtype=x.dtype).view(torch.int16)).view(x.dtype)
    return x * kept.to(x.dtype).mul_(factor)
