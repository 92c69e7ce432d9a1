"""Metrics of a server for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector

from posnmt.deploy.server.queue import Batch, Queue

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LINES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters of requests and translations, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        each: dict[str, Any] = {"registry": self.registry, "namespace": "posnmt"}
        self.requests = Counter("requests", "answers by path and status", ["path", "status"], **each)
        self.seconds = Histogram("request_seconds", "from head of request to answer", ["path"], buckets=SECONDS, **each)
        self.lines = Counter("lines", "lines translated", ["model"], **each)
        self.characters = Counter("characters", "characters of lines translated", ["model"], **each)
        self.batch_lines = Histogram("batch_lines", "lines translated together", ["model"], buckets=LINES, **each)
        self.batch_seconds = Histogram("batch_seconds", "seconds of a batch", ["model"], buckets=SECONDS, **each)
        self.queued = Gauge("queue_characters", "characters accepted and not yet translated", ["model"], **each)
        self.waiting = Gauge("queue_requests", "requests with lines that wait", ["model"], **each)

    def observe(self, model: str, queue: Queue) -> Callable[[Batch, float], None]:
        """Register a model's queue, and return a function that counts its batches."""
        self.queued.labels(model).set_function(lambda: queue.size)
        self.waiting.labels(model).set_function(lambda: queue.jobs)

        def observe(batch: Batch, seconds: float) -> None:
            self.lines.labels(model).inc(batch.count)
            self.characters.labels(model).inc(
                sum(len(job.requests[number].line) for job, numbers in batch.parts.items() for number in numbers)
            )
            self.batch_lines.labels(model).observe(batch.count)
            self.batch_seconds.labels(model).observe(seconds)

        return observe
