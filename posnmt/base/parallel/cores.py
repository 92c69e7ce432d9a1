"""The cores that this process may use, and the environment variables for its threads."""

from __future__ import annotations

import mmap
import os

STACK = 8 << 20
"""Bytes of address space that a thread takes, at Linux's default."""

ENVIRONMENT = {
    # Idle threads sleep: on a busy machine, spinning threads would take cores from working ones.
    "OMP_WAIT_POLICY": "passive",
    # Large tensors use huge pages if Linux offers them, for fewer page faults and address look-ups.
    "THP_MEM_ALLOC_ENABLE": "1",
}
"""Defaults for a CPU, which PyTorch and OpenMP read when they are loaded; what the user has set is kept."""


def available_cores() -> int:
    """The number of cores in this process's affinity mask."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores() -> int:
    """The number of available cores, at most OMP_NUM_THREADS if that is set."""
    count, limit = available_cores(), os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(limit)) if limit.isdecimal() and int(limit) > 0 else count


def refuse_without_room(threads: int) -> None:
    """Check that the address space has room for threads of a library in C++, which ends the process where it has not.

    Args:
        threads: their number; -1: one for each core of the machine.

    Raises:
        MemoryError: it has not.
    """
    try:
        mmap.mmap(-1, STACK * (1 + ((os.cpu_count() or 1) if threads < 0 else threads))).close()
    except OSError:
        raise MemoryError from None
