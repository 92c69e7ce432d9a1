"""How search uses its device: the precision of products and the size of batches, where the settings leave them open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

from posnmt.config.schema import Decode
from posnmt_position.processor import multiplies_bf16

BATCH = 4096
"""Padded tokens x beam of a batch on a CPU, and everywhere of a batch whose probabilities are all computed at once."""

LARGEST = 65_536
"""Padded tokens x beam of a batch on a GPU, if its memory has as many MiB: a smaller batch leaves it idle."""


def usual_device() -> torch.device:
    """The first GPU that PyTorch sees, or the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def batch_size(decode: Decode, device: torch.device) -> int:
    """Most padded source tokens x beam of a batch: `decode.batch`, or what suits the device."""
    if decode.batch is not None:
        return decode.batch
    return BATCH if device.type != "cuda" else fitting(torch.cuda.get_device_properties(device).total_memory)


def fitting(memory: int) -> int:
    """The size of batches for a GPU with so many bytes.

    A MiB a token, ten times what a base model keeps of it in bf16, has room for several outputs of a short line, for
    their logits and for larger models.
    """
    return max(BATCH, min(LARGEST, memory >> 20))


def has_bf16(device: torch.device) -> bool:
    """Whether a device multiplies bf16 in hardware."""
    return torch.cuda.is_bf16_supported(including_emulation=False) if device.type == "cuda" else multiplies_bf16()


def in_bf16(precision: str, device: torch.device) -> bool:
    """Whether products are in bf16: where it is asked for or, with `auto`, on a GPU; never without the hardware."""
    wanted = precision == "bf16" or (precision == "auto" and device.type == "cuda")
    return wanted and has_bf16(device)


_lock = Lock()
_blocks: list[str] = []
"""For each block of `in_tf32` that is open in some thread, the precision that PyTorch had before the first."""


@contextmanager
def in_tf32() -> Iterator[None]:
    """A block whose products of float32 are in TF32 on a GPU; the setting is that of the process, and is put back."""
    with _lock:
        _blocks.append(_blocks[0] if _blocks else torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        with _lock:
            before = _blocks.pop()
            if not _blocks:
                torch.set_float32_matmul_precision(before)
