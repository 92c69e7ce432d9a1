"""Measures how long updates and evaluations take on this machine."""

from __future__ import annotations

import time
from typing import NamedTuple

import torch

from posnmt.base.interrupt import Interrupted, StopSignal
from posnmt.config.schema import Config
from posnmt.data.store import Split, Store
from posnmt.training.build import Training, build
from posnmt.training.checks import refuse_too_long
from posnmt.training.device import make_fabric
from posnmt.training.evaluate import greedy
from posnmt.training.train import update

UNTIMED = 3
"""Updates before the clock starts: the first ones are slower."""

SAMPLES = (16, 128)
"""Dev pairs that are translated to time an evaluation; the larger number if time allows."""

EARLY = 1.5
"""An early evaluation takes this many times as long as a later one, since early outputs run to their limit."""


class Pace(NamedTuple):
    """Seconds of a mean update and a mean evaluation."""

    update: float
    evaluation: float


def measure(config: Config, store: Store, seconds: float) -> Pace:
    """The pace of a training, measured on its first updates, whose weights are discarded, and on some dev pairs.

    Args:
        seconds: roughly how long to measure updates, at least five, and how long evaluations.

    Raises:
        UserError: a sentence is longer than the model supports.
        Interrupted: a signal to stop.
    """
    t, start = build(config, store, make_fabric(config.train)), time.monotonic()
    progress = t.progress
    with StopSignal() as stop:
        try:
            refuse_too_long(t)
            while progress.step < UNTIMED + 5 or time.monotonic() - start < seconds:
                if stop.heard:
                    raise Interrupted("stopped before the first update; nothing is kept")
                batches, progress.cursor = t.plan.take(progress.cursor, t.batches)
                progress.step += 1
                update(t, 0.0, batches)
                if progress.step == UNTIMED:
                    start = time.monotonic()
            seconds_an_update = (time.monotonic() - start) / (progress.step - UNTIMED)
            if not (config.data.has_dev and config.train.dev_bleu):
                return Pace(seconds_an_update, 0.0)
            with torch.inference_mode(), t.fabric.autocast():
                return Pace(seconds_an_update, EARLY * _seconds_of_dev(t, store.split("dev"), seconds))
        finally:
            t.gradients.close()


def _seconds_of_dev(t: Training, dev: Split, seconds: float) -> float:
    """The estimated time to translate all of dev, with outputs as long as their sources."""
    model, device = t.model.eval(), t.fabric.device
    decode = t.config.decode.model_copy(update={"max_ratio": 1.0, "max_extra": 0})
    whole = 0.0
    for count in SAMPLES:
        sources = [dev.pair(number)[0].tolist() for number in range(0, len(dev), -(-len(dev) // count))]
        start = time.monotonic()
        greedy(model, sources, decode, device)
        spent = time.monotonic() - start
        whole = spent * len(dev) / len(sources)
        if spent * SAMPLES[-1] / count > seconds:
            break
    return whole
