"""The thread that translates for one model, batch after batch."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable

from posnmt.base import plugins
from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.deploy.server.queue import Batch, Job, Queue
from posnmt.translate.command import Engine
from posnmt.translate.translations import Translation


class Worker(threading.Thread):
    """Translates what waits in a queue until it is closed.

    Args:
        observe: is given each batch and its seconds.
    """

    def __init__(
        self, name: str, engine: Engine, decode: Decode, queue: Queue, observe: Callable[[Batch, float], None]
    ) -> None:
        super().__init__(name=f"translate {name}", daemon=True)
        self.engine, self.decode, self.queue, self.observe = engine, decode, queue, observe

    def run(self) -> None:
        """Translate until the queue is closed and empty."""
        while batch := self.queue.take():
            started = time.monotonic()
            try:
                self._translate(batch)
            finally:
                seconds = time.monotonic() - started
                self.queue.done(batch, seconds)
                self.observe(batch, seconds)

    def _translate(self, batch: Batch) -> None:
        """Translate a batch; if it fails, the lines of each request by themselves, so that the fault stays with one."""
        try:
            lines = [job.lines[number] for job, numbers in batch.parts.items() for number in numbers]
            translations = iter(self._search(batch, lines, 1))
        except Exception:
            for job, numbers in batch.parts.items():
                self._translate_alone(batch, job, numbers)
            return
        for job, numbers in batch.parts.items():
            job.finish(numbers, [next(translations) for _ in numbers])

    def _translate_alone(self, batch: Batch, job: Job, numbers: list[int]) -> None:
        try:
            lines = [job.lines[number] for number in numbers]
            job.finish(numbers, self._search(batch, lines, numbers[0] + 1))
        except Exception as error:
            if fault := plugins.fault(error):
                print(f"error: {fault.line()}", file=sys.stderr)
            elif not isinstance(error, UserError):
                traceback.print_exc()
            self.queue.drop(job)
            job.fail(error)

    def _search(self, batch: Batch, lines: list[str], first: int) -> list[Translation]:
        search = batch.search
        decode = self.decode.model_copy(update=dict(search.options))
        return self.engine.translate(lines, decode, search.nbest, first, "text", search.scored, aligned=search.aligned)
