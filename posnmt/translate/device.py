"""How search uses its device: the precision of products and the size of batches, where the settings leave them open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock

import torch

from posnmt.config.schema import Decode
from posnmt_position.processor import multiplies_bf16

BATCH = 4096
"""Padded tokens x beam of a batch on a CPU, and everywhere of a batch whose probabilities are all computed at once."""

FEW = 512
"""Least padded tokens x beam of a batch on a CPU, where sentences are distributed evenly over several workers."""

LARGEST = 65_536
"""Padded tokens x beam of a batch on a GPU, if as many MiB are free: a smaller batch leaves it idle."""


def usual_device() -> torch.device:
    """The first GPU that PyTorch sees, or the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def batch_size(decode: Decode, device: torch.device) -> int:
    """Most padded source tokens x beam of a batch: `decode.batch`, or what suits the device."""
    if decode.batch is not None:
        return decode.batch
    return BATCH if device.type != "cuda" else fitting(free_memory(device))


def free_memory(device: torch.device) -> int:
    """Bytes that this process can still use on a GPU, beside a training of its own and other processes."""
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # by PyTorch, for new tensors
    return int(torch.cuda.mem_get_info(device)[0]) + held


def fitting(memory: int) -> int:
    """The size of batches for a GPU with so many free bytes, a power of 2, so that it seldom differs between two runs.

    A MiB a token, ten times what a base model keeps of it in bf16, has room for several outputs of a short line, for
    their logits and for larger models.
    """
    return max(BATCH, min(LARGEST, 1 << max(0, (memory >> 20).bit_length() - 1)))


def has_bf16(device: torch.device) -> bool:
    """Whether a device multiplies bf16 in hardware."""
    return torch.cuda.is_bf16_supported(including_emulation=False) if device.type == "cuda" else multiplies_bf16()


def in_bf16(precision: str, device: torch.device) -> bool:
    """Whether products are in bf16: where it is asked for or, with `auto`, on a GPU; never without the hardware."""
    wanted = precision == "bf16" or (precision == "auto" and device.type == "cuda")
    return wanted and has_bf16(device)


Products = tuple[str, bool]
"""Precision of float32 products on a GPU: of matrices, and whether cuDNN, which computes recurrent layers, has TF32."""

FP32: Products = ("highest", False)
TF32: Products = ("high", True)

_lock = Lock()
_blocks: list[Products] = []
"""Of each block of `in_tf32` and `in_fp32` that is open in some thread."""
_outside: list[Products] = []
"""What PyTorch had before the first of them; empty where none is open."""


def use_fp32() -> None:
    """From now on this process has products of float32 in float32; PyTorch by itself leaves recurrent layers TF32."""
    _use(FP32)


def in_tf32(device: torch.device) -> AbstractContextManager[None]:
    """A block whose products of float32 are in TF32 on a GPU; the setting is that of the process, and is put back."""
    return _block(TF32) if device.type == "cuda" else nullcontext()


def in_fp32(device: torch.device) -> AbstractContextManager[None]:
    """A block whose products of float32 are in float32; so are those of blocks of `in_tf32` in other threads."""
    return _block(FP32) if device.type == "cuda" else nullcontext()


@contextmanager
def _block(products: Products) -> Iterator[None]:
    with _lock:
        if not _blocks:
            _outside.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        _blocks.append(products)
        _use(_agreed())
    try:
        yield
    finally:
        with _lock:
            _blocks.remove(products)
            _use(_agreed())
            if not _blocks:
                _outside.clear()


def _agreed() -> Products:
    """What all open blocks can do with: TF32 if each of them asks for it; without a block, what there was before."""
    return _outside[0] if not _blocks else FP32 if FP32 in _blocks else TF32


def _use(products: Products) -> None:
    # by these two settings alone: PyTorch refuses to read them where a `fp32_precision` of one operation differs
    torch.set_float32_matmul_precision(products[0])
    torch.backends.cudnn.allow_tf32 = products[1]
