"""How long updates and evaluations take on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import torch

from posnmt.base.interrupt import Interrupted, StopSignal
from posnmt.config.schema import Config
from posnmt.training.build import build
from posnmt.training.checks import refuse_too_long
from posnmt.training.device import make_fabric
from posnmt.training.evaluate import greedy
from posnmt.training.train import update

if TYPE_CHECKING:
    from posnmt.data.store import Split, Store
    from posnmt.training.build import Training

UNTIMED = 3
"""Updates before the clock starts: the first ones are slower."""

SAMPLES = (16, 128)
"""Dev pairs that are translated to measure an evaluation; the larger number if there is time."""

EARLY = 1.5
"""An evaluation takes so many times as long as one of a trained model: early outputs run to their limit."""


class Pace(NamedTuple):
    """Seconds of a mean update and a mean evaluation."""

    update: float
    evaluation: float


def measure(config: Config, store: Store, seconds: float) -> Pace:
    """The pace of a training, by its first updates, whose weights are thrown away, and translations of some dev pairs.

    Args:
        seconds: how long to measure updates, about, and evaluations; five updates at least.

    Raises:
        UserError: a sentence is longer than the model supports.
        Interrupted: a signal to stop.
    """
    t, begun = build(config, store, make_fabric(config.train)), time.monotonic()
    progress = t.progress
    with StopSignal() as stop:
        try:
            refuse_too_long(t)
            while progress.step < UNTIMED + 5 or time.monotonic() - begun < seconds:
                if stop.heard:
                    raise Interrupted("stopped before the first update; nothing is kept")
                batches, progress.cursor = t.plan.take(progress.cursor, t.batches)
                progress.step += 1
                update(t, 0.0, batches)
                if progress.step == UNTIMED:
                    begun = time.monotonic()
            seconds_an_update = (time.monotonic() - begun) / (progress.step - UNTIMED)
            if not (config.data.has_dev and config.train.dev_bleu):
                return Pace(seconds_an_update, 0.0)
            with torch.inference_mode(), t.fabric.autocast():
                return Pace(seconds_an_update, EARLY * _seconds_of_dev(t, store.split("dev"), seconds))
        finally:
            t.gradients.close()


def _seconds_of_dev(t: Training, dev: Split, seconds: float) -> float:
    """The time to translate all of dev into outputs as long as its sources."""
    model, device = t.model.eval(), t.fabric.device
    decode = t.config.decode.model_copy(update={"max_ratio": 1.0, "max_extra": 0})
    whole = 0.0
    for count in SAMPLES:
        sources = [dev.pair(number)[0].tolist() for number in range(0, len(dev), -(-len(dev) // count))]
        begun = time.monotonic()
        greedy(model, sources, decode, device)
        spent = time.monotonic() - begun
        whole = spent * len(dev) / len(sources)
        if spent * SAMPLES[-1] / count > seconds:
            break
    return whole
