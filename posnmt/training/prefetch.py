"""Batches that a thread makes before they are needed, so that a GPU does not wait for them.

The thread only guesses which batches come next: the caller names those that it needs, and a guess is used if it is the
same pairs. So the order of batches is that of the caller, also after a return to a checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from posnmt.data.batch import BatchPlan, Cursor

AHEAD = 2
"""Updates whose batches are made before they are needed."""


class Prefetch:
    """Makes the batches of the next updates in a thread.

    Args:
        plan: the order of batches; the thread has a copy of it, since a plan remembers one pass.
        count: batches of an update, over all processes and accumulation rounds.
        mine: which of these are computed by this process.
        make: makes a batch from the numbers of its pairs.
        device: of this process.
    """

    def __init__(
        self,
        plan: BatchPlan,
        count: int,
        mine: slice,
        make: Callable[[NDArray[np.int64]], Any],
        device: torch.device,
    ) -> None:
        self._plan, self._count, self._mine, self._make = copy(plan), count, mine, make
        self._pool = ThreadPoolExecutor(1, "batches", initializer=_use, initargs=(device,))
        self._coming = deque[Future[tuple[list[NDArray[np.int64]], list[Any]]]]()
        self._cursor = Cursor()  # of the thread

    def get(self, batches: Sequence[NDArray[np.int64]], after: Cursor) -> list[Any]:
        """This process's batches of an update.

        Args:
            batches: the numbers of the pairs of each batch of the update.
            after: where the batches of the next update begin.

        Raises:
            Exception: what `make` raised, in the thread or here.
        """
        guessed, made = self._coming.popleft().result() if self._coming else ([], [])
        if len(guessed) != len(batches) or not all(map(np.array_equal, guessed, batches)):
            self._drop()
            self._cursor = after
            made = [self._make(numbers) for numbers in batches[self._mine]]
        while len(self._coming) < AHEAD:
            self._coming.append(self._pool.submit(self._next))
        return made

    def close(self) -> None:
        """End the thread, and forget what it has made."""
        self._drop()
        self._pool.shutdown()

    def _next(self) -> tuple[list[NDArray[np.int64]], list[Any]]:
        """In the thread: the numbers of the next update's batches, and this process's batches of it."""
        batches, self._cursor = self._plan.take(self._cursor, self._count)
        return batches, [self._make(numbers) for numbers in batches[self._mine]]

    def _drop(self) -> None:
        for future in self._coming:
            future.cancel()
        wait(self._coming)
        self._coming.clear()


def _use(device: torch.device) -> None:
    """Let this thread use a GPU; pinned memory would otherwise belong to the first one."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
