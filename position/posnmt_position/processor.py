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
    try:
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


@cache
def multiplies_bf16() -> bool:
    """Whether this machine's CPU has bfloat16 instructions that oneDNN may use.

    Without them PyTorch emulates bfloat16 products, which take 3 to 12 times as long as float32 ones (1,024 x 512 times
    512 x 512 on one core), and oneDNN has no bfloat16 LSTM. The environment variable ONEDNN_MAX_CPU_ISA=AVX2 disables
    them, to test the behaviour of a processor without them.
    """
    capabilities = torch.cpu.get_capabilities()
    in_hardware = capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
    return bool(in_hardware and torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())
