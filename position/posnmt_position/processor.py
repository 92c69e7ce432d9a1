"""The processor of a run: its name, and its support of bfloat16."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import torch


def processor() -> str:
    """The processor's name as the system reports it, or the GPU's."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return _told("model name") or platform.processor()


def _told(key: str) -> str:
    """What Linux tells of the first processor under a key; empty on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n")
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")


@cache
def multiplies_bf16() -> bool:
    """Whether this machine's CPU has bfloat16 instructions that oneDNN may use.

    Without them PyTorch emulates bfloat16 products, which take 3 to 12 times as long as float32 ones (1,024 x 512 times
    512 x 512 on one core), and oneDNN has no bfloat16 LSTM. The environment variable ONEDNN_MAX_CPU_ISA=AVX2 disables
    them, to test the behaviour of a processor without them.
    """
    if hasattr(torch.cpu, "get_capabilities"):
        capabilities = {name for name, has in torch.cpu.get_capabilities().items() if has is True}
    else:  # an older PyTorch
        capabilities = set(_told("flags").split())
    in_hardware = capabilities & {"avx512_bf16", "amx_bf16"}
    return bool(in_hardware and torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())
