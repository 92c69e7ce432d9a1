"""Threads that compute at the same time, each on its share of the processor's cores.

PyTorch by itself splits each operation over the cores and waits for the slowest after every one. Where work falls into
independent pieces a piece a thread is quicker, the more so for small tensors and on a machine that does other things
too: it waits once. PyTorch leaves Python's lock while it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """A fixed number of threads.

    Args:
        count: threads; None is one for each core that PyTorch uses.
    """

    def __init__(self, count: int | None = None) -> None:
        self.cores = torch.get_num_threads()
        self.count = max(1, min(count or self.cores, self.cores))
        self._pool = ThreadPoolExecutor(self.count, "worker") if self.count > 1 else None

    @classmethod
    def of(cls, device: torch.device) -> Workers:
        """One for each core on a CPU; one alone elsewhere, where the device does the work."""
        return cls(None if device.type == "cpu" else 1)

    def map(self, work: Callable[[Item], Result], items: Iterable[Item], alone: bool = False) -> list[Result]:
        """`work` of each item, in order, computed as the caller would: its autocast and its inference mode hold.

        Where there are fewer items than threads, each has more cores, but for a single one with `alone`.

        Args:
            alone: a single item is computed on one core, with the sums that a machine of one core gives.

        Raises:
            Exception: the first that `work` raised.
        """
        if self._pool is None:
            return [work(item) for item in items]
        inference, autocast = torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        dtype = torch.get_autocast_dtype("cpu")
        items = list(items)
        share = 1 if alone and len(items) == 1 else self.cores // min(self.count, max(1, len(items)))

        def alike(item: Item) -> Result:
            torch.set_num_threads(share)  # of the operations of this thread
            with torch.inference_mode(inference), torch.autocast("cpu", dtype, enabled=autocast):
                return work(item)

        return list(self._pool.map(alike, items))

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
