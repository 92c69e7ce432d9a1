"""The most memory that this process has on its device while something is computed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """A measurement.

    Attributes:
        bytes: the most that was in use, what was there before included; None where the system does not tell.
    """

    bytes: int | None = None


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Peak]:
    """Measure the block: of a GPU what PyTorch has allocated, otherwise what the process has in memory (Linux)."""
    peak = Peak()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield peak
        peak.bytes = torch.cuda.max_memory_allocated(device)
        return
    with suppress(OSError):  # without the right to reset it, the peak is that since the start
        _RESET.write_text("5")
    yield peak
    with suppress(OSError):
        line = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
        peak.bytes = int(line[1]) * 1024 if line else None
