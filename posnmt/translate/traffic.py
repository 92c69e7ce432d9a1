"""What search sends to its device and reads from it. A GPU works ahead of the program, which waits only where it reads.

A step of search reads once, everything that the program must know of it. What it sends is copied from pinned memory,
and nothing waits for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def sent(values: Sequence[Any] | Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers, or a tensor of the CPU, as a tensor on a device."""
    tensor = torch.as_tensor(values, dtype=dtype)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def read(*tensors: Tensor) -> list[NDArray[np.float64]]:
    """The numbers of tensors, in float64, which has every float32 and every whole number below 2^53; in one copy."""
    sizes = [tensor.numel() for tensor in tensors]
    numbers = torch.cat([tensor.flatten().double() for tensor in tensors]).cpu().numpy()
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
