"""Measures how long updates and evaluations take on this machine. Each figure is a median: a stall does not count."""

from __future__ import annotations

import time
from collections import deque
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
from posnmt.training.evaluate import BATCH as LIKELIHOODS
from posnmt.training.evaluate import greedy
from posnmt.training.evaluations import Pace
from posnmt.training.progress import Update
from posnmt.training.train import update
from posnmt.translate.device import batch_size

Batch = TypeVar("Batch")

UNTIMED = 2
"""Updates before the clock starts: the first ones are slower."""

UNTIMED_AHEAD = 10
"""On a GPU, whose first updates compile kernels for shapes of batches and take seconds."""

TIMED = 5
"""The fewest updates that are timed."""

SAMPLES = (3, 9)
"""The fewest batches of dev that are timed, and the most."""

TOKENS = 1024
"""Padded tokens of a batch whose likelihood is timed on a CPU; on a GPU it is a batch as evaluations have them."""

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
    """Of the loop of a training, which gives the device `t.lag` updates more before it waits for one."""
    progress, timed, given = t.progress, list[float](), deque[Update]()
    start, untimed = time.monotonic(), UNTIMED if t.prefetch is None else UNTIMED_AHEAD
    with Work("measuring updates", "updates") as shown:
        while len(timed) < TIMED or time.monotonic() - start < seconds:
            _refuse_to_go_on(stop)
            begun = time.monotonic()
            batches, progress.cursor = t.plan.take(progress.cursor, t.batches)
            progress.step += 1
            given.append(update(t, 0.0, batches))
            if len(given) > t.lag:
                given.popleft().outcome()  # waits for the device
            if progress.step > untimed:
                timed.append(time.monotonic() - begun)
            elif t.prefetch is not None:
                start = time.monotonic()  # kernels may have taken all of the time
            shown.add(1)
    return median(timed)


def _seconds_a_token(t: Training, dev: Split, seconds: float, stop: StopSignal) -> float:
    """Of the likelihood of dev pairs."""

    def likelihood(numbers: NDArray[np.int64]) -> float:
        batch = collate([dev.pair(int(number)) for number in numbers]).to(t.fabric.device)
        begun = time.monotonic()
        t.loss(*batch.tensors)[1].item()
        return (time.monotonic() - begun) / (batch.tokens + int(batch.source_lengths.sum()))

    batches = BatchPlan(dev, TOKENS if t.prefetch is None else LIKELIHOODS, "tokens", seed=0).epoch(0)
    if t.prefetch is not None:
        likelihood(batches[0])  # compiles kernels
    return _median(batches, likelihood, seconds, stop)


def _seconds_a_step(t: Training, dev: Split, seconds: float, stop: StopSignal) -> float:
    """Of greedy search, for batches as evaluations have them, whose search ends after a few steps."""
    decode = t.config.decode.model_copy(update={"max_ratio": 1e-9, "max_extra": STEPS, "min_length": STEPS})

    def translate(numbers: Sequence[int]) -> float:
        sources = [dev.pair(number)[0].tolist() for number in numbers]
        begun = time.monotonic()
        greedy(t.model, sources, decode, t.fabric.device)
        return (time.monotonic() - begun) / STEPS

    batches = [*batches_by_length(dev.source_lengths.tolist(), batch_size(decode, t.fabric.device))]
    if t.prefetch is not None:
        translate(batches[0])  # compiles kernels
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
