"""The thread that translates for one model, batch after batch."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

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
        """Translate until the queue is closed and empty. If the thread ends otherwise, the process ends with status 1.

        A server without this thread would accept requests and never answer them.
        """
        try:
            while batch := self.queue.take():
                self._work(batch)
        except BaseException:
            _log(f"{traceback.format_exc()}error: {self.name!r} has ended, and so has the server; start it again")
            os._exit(1)

    def _work(self, batch: Batch) -> None:
        """Translate a batch. If nobody waits for it, it ends at its next step."""
        started, seconds = time.monotonic(), None
        try:
            with cancelled_if(batch.is_abandoned):
                self._translate(batch)
            seconds = time.monotonic() - started
            self.observe(batch, seconds)
        except Cancelled:
            pass
        except BaseException as error:  # such as `sys.exit` in a plug-in: the requests fail, and the thread goes on
            for job in batch.parts:
                self.queue.drop(job)
                job.fail(RuntimeError(f"a translation ended by {type(error).__name__}"))
            _log(traceback.format_exc())
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
            self.queue.drop(job)
            job.fail(error)
            if fault := plugins.fault(error):
                _log(f"error: {fault.line()}")
            elif not isinstance(error, UserError):
                _log(traceback.format_exc())


def _log(text: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads the log any more
        print(text.rstrip("\n"), file=sys.stderr, flush=True)
