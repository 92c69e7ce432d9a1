"""Measures how long updates and evaluations take on this machine. Each figure is a median: a stall does not count."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from posnmt.base.interrupt import Interrupted, StopSignal
from posnmt.base.progress import Work
from posnmt.config.schema import Config
from posnmt.data.batch import BatchPlan, batches_by_length, collate
from posnmt.data.store import Split, Store
from posnmt.training.build import Training, build
from posnmt.training.checks import refuse_too_long
from posnmt.training.device import make_fabric
from posnmt.training.evaluate import greedy
from posnmt.training.evaluations import Pace
from posnmt.training.train import update
from posnmt.translate.device import batch_size

Batch = TypeVar("Batch")

UNTIMED = 2
"""Updates before the clock starts: the first ones are slower."""

TIMED = 5
"""The fewest updates that are timed."""

SAMPLES = (3, 9)
"""The fewest batches of dev that are timed, and the most."""

TOKENS = 1024
"""Padded tokens of a batch whose likelihood is timed."""

STEPS = 8
"""Steps of search that are timed."""


def measure(config: Config, store: Store, seconds: float) -> Pace:
    """The pace of a training, measured on its first updates, whose weights are discarded, and on samples of dev.

    Args:
        seconds: roughly how long to measure updates, and how long translations; at least the fewest are timed.

    Raises:
        UserError: a sentence is longer than the model supports.
        Interrupted: a signal to stop.
    """
    t = build(config, store, make_fabric(config.train))
    with StopSignal() as stop:
        try:
            refuse_too_long(t)
            seconds_an_update = _seconds_an_update(t, seconds, stop)
            if not config.data.has_dev:
                return Pace(seconds_an_update)
            t.loss.eval()
            with torch.inference_mode(), t.fabric.autocast():
                dev = store.split("dev")
                token = _seconds_a_token(t, dev, seconds, stop)
                step = _seconds_a_step(t, dev, seconds, stop) if config.train.dev_bleu else 0.0
            return Pace(seconds_an_update, token, step)
        finally:
            t.close()


def _seconds_an_update(t: Training, seconds: float, stop: StopSignal) -> float:
    progress, timed = t.progress, list[float]()
    start = time.monotonic()
    with Work("measuring updates", "updates") as shown:
        while len(timed) < TIMED or time.monotonic() - start < seconds:
            _refuse_to_go_on(stop)
            begun = time.monotonic()
            batches, progress.cursor = t.plan.take(progress.cursor, t.batches)
            progress.step += 1
            update(t, 0.0, batches).outcome()  # waits for the device
            if progress.step > UNTIMED:
                timed.append(time.monotonic() - begun)
            shown.add(1)
    return median(timed)


def _seconds_a_token(t: Training, dev: Split, seconds: float, stop: StopSignal) -> float:
    """Of the likelihood of dev pairs."""

    def likelihood(numbers: NDArray[np.int64]) -> float:
        batch = collate([dev.pair(int(number)) for number in numbers]).to(t.fabric.device)
        begun = time.monotonic()
        t.loss(*batch.tensors)[1].item()
        return (time.monotonic() - begun) / (batch.tokens + int(batch.source_lengths.sum()))

    return _median(BatchPlan(dev, TOKENS, "tokens", seed=0).epoch(0), likelihood, seconds, stop)


def _seconds_a_step(t: Training, dev: Split, seconds: float, stop: StopSignal) -> float:
    """Of greedy search, for batches as evaluations have them, whose search ends after a few steps."""
    decode = t.config.decode.model_copy(update={"max_ratio": 1e-9, "max_extra": STEPS, "min_length": STEPS})

    def translate(numbers: Sequence[int]) -> float:
        sources = [dev.pair(number)[0].tolist() for number in numbers]
        begun = time.monotonic()
        greedy(t.model, sources, decode, t.fabric.device)
        return (time.monotonic() - begun) / STEPS

    batches = [*batches_by_length(dev.source_lengths.tolist(), batch_size(decode, t.fabric.device))]
    return _median(batches, translate, seconds, stop)


def _median(batches: Sequence[Batch], work: Callable[[Batch], float], seconds: float, stop: StopSignal) -> float:
    """The median of what a work says of some batches."""
    fewest, most = SAMPLES
    taken, start = list[float](), time.monotonic()
    with Work("measuring evaluations", "batches") as shown:
        while len(taken) < fewest or (len(taken) < min(most, len(batches)) and time.monotonic() - start < seconds):
            _refuse_to_go_on(stop)
            taken.append(work(batches[len(taken) % len(batches)]))
            shown.add(1)
    return median(taken)


def _refuse_to_go_on(stop: StopSignal) -> None:
    if stop.heard:
        raise Interrupted("stopped before the first update; nothing is kept")
