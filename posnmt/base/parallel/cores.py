"""The number of cores that this process may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """The number of cores in this process's affinity mask."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores() -> int:
    """The number of available cores, at most OMP_NUM_THREADS if that is set."""
    count, limit = available_cores(), os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(limit)) if limit.isdecimal() and int(limit) > 0 else count
