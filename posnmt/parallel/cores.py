"""How many cores there are for this process."""

from __future__ import annotations

import os


def available_cores() -> int:
    """The processor's cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores() -> int:
    """The available cores, and no more than OMP_NUM_THREADS where that is set."""
    count, limit = available_cores(), os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(limit)) if limit.isdecimal() and int(limit) > 0 else count
