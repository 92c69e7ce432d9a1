"""Threads that compute in parallel, each on its share of the processor's cores.

PyTorch splits each operation over the cores and synchronises after every operation. If work consists of independent
pieces, one piece for each thread is faster, in particular for small tensors and on a busy machine, since it
synchronises once. PyTorch releases Python's global lock while it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """A fixed number of threads.

    Args:
        count: number of threads; None: one for each core that PyTorch uses.
    """

    def __init__(self, count: int | None = None) -> None:
        self.cores = torch.get_num_threads()
        self.count = max(1, min(count or self.cores, self.cores))
        self._pool = ThreadPoolExecutor(self.count, "worker") if self.count > 1 else None

    @classmethod
    def of(cls, device: torch.device) -> Workers:
        """Workers for a device: one for each core on a CPU, a single one elsewhere."""
        return cls(None if device.type == "cpu" else 1)

    def map(self, work: Callable[[Item], Result], items: Iterable[Item], alone: bool = False) -> list[Result]:
        """The results of `work` for each item, in order, with the caller's context, autocast and inference mode.

        If there are fewer items than threads, each item has several cores.

        Args:
            alone: compute a single item on one core, so that rounding is the same as on a machine with one core.

        Raises:
            Exception: the first exception of `work`.
        """
        if self._pool is None:
            return [work(item) for item in items]
        inference, autocast = torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        dtype, context = torch.get_autocast_dtype("cpu"), copy_context()
        items = list(items)
        share = 1 if alone and len(items) == 1 else self.cores // min(self.count, max(1, len(items)))

        def alike(item: Item) -> Result:
            torch.set_num_threads(share)  # applies to this thread
            with torch.inference_mode(inference), torch.autocast("cpu", dtype, enabled=autocast):
                return context.copy().run(work, item)

        return list(self._pool.map(alike, items))

    def close(self) -> None:
        """End the threads: drop items that have not begun, and wait for those that have."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
