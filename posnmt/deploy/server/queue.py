"""The bounded queue of a model: jobs wait here, and lines of several jobs are translated in one batch.

All lines of a batch have the same search, and searches take turns. Half of a batch belongs to the oldest job of its
search, so that each job is finished in bounded time; the rest is shared line by line. So a short job does not wait for
the end of a long one.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

from posnmt.translate.requests import Request, Search
from posnmt.translate.terms import units
from posnmt.translate.translations import Translation

OVERHEAD = 20
"""Characters that each line counts for in addition to its own."""

NEWEST = 0.2
"""The weight of the newest batch in the mean speed."""


class Full(Exception):
    """The queue is full; it may accept jobs again in `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


@dataclass(eq=False)
class Job:
    """The lines of one client's request; `future` has their translations in order.

    Attributes:
        together: so many consecutive lines are in the same batch; they are one unit of the queue.
    """

    requests: Sequence[Request]
    search: Search
    together: int = 1
    future: Future[list[Translation]] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.waiting = deque(range(0, len(self.requests), self.together))
        self._costs = {first: self._cost(first) for first in self.waiting}
        self.results: dict[int, Translation] = {}

    def numbers(self, first: int) -> range:
        """The numbers of the lines of the unit that begins with a line."""
        return range(first, first + self.together)

    def cost(self, first: int) -> int:
        """The characters that the unit that begins with a line counts for.

        A line counts once more for each word of the terms that its translation must have: search has a beam for each of
        their subwords.
        """
        return self._costs[first]

    @property
    def largest(self) -> int:
        """The largest cost of a unit."""
        return max(self._costs.values(), default=0)

    def _cost(self, first: int) -> int:
        terms = self.search.terms
        lines = [self.requests[number].line for number in self.numbers(first)]
        words = 0 if terms is None else sum(len(units(term)) for line in lines for term in terms.required(line))
        return (sum(map(len, lines)) + OVERHEAD * self.together) * (1 + words)

    def finish(self, numbers: Sequence[int], translations: Sequence[Translation]) -> None:
        """Add the translations of some lines."""
        self.results.update(zip(numbers, translations, strict=True))
        if len(self.results) == len(self.requests):
            self._end(self.future.set_result, [self.results[number] for number in range(len(self.requests))])

    def fail(self, error: Exception) -> None:
        """End the job by an error."""
        self._end(self.future.set_exception, error)

    def _end(self, set_to: Callable[[Any], None], value: Any) -> None:
        with contextlib.suppress(InvalidStateError):  # its client has gone
            set_to(value)


class Batch:
    """Lines of one or several jobs with the same search; the engine sorts them by length.

    Attributes:
        parts: job → its line numbers, in order.
        cost: characters of its lines; see `Job.cost`.
        full: whether lines were left for the next batch.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self.parts: dict[Job, list[int]] = {}
        self.cost = self.count = 0
        self.full = False

    def is_abandoned(self) -> bool:
        """Whether nobody waits for any of its jobs."""
        return all(job.future.cancelled() for job in self.parts)

    def take(self, job: Job, limit: int) -> bool:
        """Take the next unit of a job if it is the first of the batch or fits into the limit; whether it was taken."""
        if not job.waiting:
            return False
        cost = job.cost(job.waiting[0])
        if self.count and self.cost + cost > limit:
            return False
        self.parts.setdefault(job, []).extend(job.numbers(job.waiting.popleft()))
        self.cost, self.count = self.cost + cost, self.count + job.together
        return True


class Queue:
    """The accepted jobs of a model.

    Args:
        limit: characters of accepted lines, including those that are being translated; see `Job.cost`.
        patience: seconds that an accepted job may be expected to wait.
        batch: characters of the lines of a batch.

    Attributes:
        size: characters of accepted lines.
        speed: characters per second; None: no batch was full yet.
    """

    def __init__(self, limit: int, patience: float, batch: int) -> None:
        self.limit, self.patience, self.batch = limit, patience, batch
        self.size = 0
        self.speed: float | None = None
        self._jobs: dict[Job, None] = {}
        self._turns: list[Search] = []  # the search of the last batch is the last
        self._changed = threading.Condition()
        self._closed = False

    @property
    def jobs(self) -> int:
        """The number of jobs with lines that wait."""
        return len(self._jobs)

    def add(self, job: Job) -> None:
        """Accept a job.

        Raises:
            Full: its lines would exceed the limit, or wait too long at the present speed.
        """
        if not job.requests:
            job.finish([], [])
            return
        with self._changed:
            cost = sum(map(job.cost, job.waiting))
            late = self.speed is not None and self.size > self.patience * self.speed
            if self.size and (self.size + cost > self.limit or late):
                raise Full(min(self.size / self.speed, 2 * self.patience) if self.speed else 1.0)
            self.size += cost
            self._jobs[job] = None
            self._changed.notify()

    def drop(self, job: Job) -> None:
        """Remove the waiting lines of a job."""
        with self._changed:
            self._jobs.pop(job, None)
            self.size -= sum(map(job.cost, job.waiting))
            job.waiting.clear()

    def take(self) -> Batch | None:
        """The next batch, as soon as there is one; None when the queue is closed and empty."""
        with self._changed:
            while not self._jobs and not self._closed:
                self._changed.wait()
            return self._batch() if self._jobs else None

    def done(self, batch: Batch, seconds: float | None) -> None:
        """Note that a batch was translated in this many seconds; None: it was abandoned."""
        with self._changed:
            self.size -= batch.cost
            if seconds is None:
                return
            speed = batch.cost / max(seconds, 1e-6)
            if self.speed is None:
                self.speed = speed if batch.full else None
            elif batch.full or speed > self.speed:  # a small batch has fixed costs, and may be slower than a full one
                self.speed += NEWEST * (speed - self.speed)

    def close(self) -> None:
        """Let `take` end when nothing waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _batch(self) -> Batch:
        waiting = dict.fromkeys(job.search for job in self._jobs)
        search, *others = (each for each in dict.fromkeys([*self._turns, *waiting]) if each in waiting)
        self._turns = [*others, search]
        oldest = next(job for job in self._jobs if job.search == search)
        batch = Batch(search)
        while batch.take(oldest, self.batch // 2):
            pass
        turn = [job for job in self._jobs if job.search == oldest.search and job is not oldest] + [oldest]
        while turn := [job for job in turn if batch.take(job, self.batch)]:
            pass
        for job in batch.parts:
            if not job.waiting:
                del self._jobs[job]
        batch.full = bool(self._jobs)
        return batch
