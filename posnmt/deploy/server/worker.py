"""The thread that translates for one model, batch after batch."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable

from posnmt.base import plugins
from posnmt.base.cancel import Cancelled, cancelled_if
from posnmt.base.errors import UserError
from posnmt.deploy.server.queue import Batch, Job, Queue
from posnmt.translate.engine import Engine


class Worker(threading.Thread):
    """Translates the lines in a queue until the queue is closed.

    Args:
        name: the model's name.
        engine: the engine that translates.
        queue: the queue.
        observe: called with each batch and its seconds.
    """

    def __init__(self, name: str, engine: Engine, queue: Queue, observe: Callable[[Batch, float], None]) -> None:
        super().__init__(name=f"translate {name}")
        self.engine, self.queue, self.observe = engine, queue, observe

    def run(self) -> None:
        """Translate until the queue is closed and empty. A batch that nobody waits for ends at its next step."""
        while batch := self.queue.take():
            started, seconds = time.monotonic(), None
            try:
                with cancelled_if(batch.is_abandoned):
                    self._translate(batch)
                seconds = time.monotonic() - started
                self.observe(batch, seconds)
            except Cancelled:
                pass
            finally:
                self.queue.done(batch, seconds)

    def _translate(self, batch: Batch) -> None:
        """Translate a batch. If that fails, translate the requests one by one, so that only the faulty one fails."""
        try:
            requests = [job.requests[number] for job, numbers in batch.parts.items() for number in numbers]
            translations = iter(self.engine.translate(requests, batch.search))
        except Cancelled:
            raise
        except Exception:
            for job, numbers in batch.parts.items():
                self._translate_alone(batch, job, numbers)
            return
        for job, numbers in batch.parts.items():
            job.finish(numbers, [next(translations) for _ in numbers])

    def _translate_alone(self, batch: Batch, job: Job, numbers: list[int]) -> None:
        try:
            job.finish(numbers, self.engine.translate([job.requests[number] for number in numbers], batch.search))
        except Cancelled:
            raise
        except Exception as error:
            if fault := plugins.fault(error):
                print(f"error: {fault.line()}", file=sys.stderr)
            elif not isinstance(error, UserError):
                traceback.print_exc()
            self.queue.drop(job)
            job.fail(error)
