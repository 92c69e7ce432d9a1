"""How long updates and evaluations take on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import torch

from posnmt.base.interrupt import Interrupted, StopSignal
from posnmt.config.schema import Config
from posnmt.data.batch import Cursor
from posnmt.training.checks import refuse_too_long
from posnmt.training.device import make_fabric
from posnmt.training.evaluate import greedy
from posnmt.training.update import Updater

if TYPE_CHECKING:
    from posnmt.data.store import Split, Store

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
    fabric = make_fabric(config.train)
    updater, cursor, step, begun = Updater(config, store, fabric), Cursor(), 0, time.monotonic()
    with StopSignal() as stop:
        try:
            refuse_too_long(updater, store)
            while step < UNTIMED + 5 or time.monotonic() - begun < seconds:
                if stop.heard:
                    raise Interrupted("stopped before the first update; nothing is kept")
                batches, cursor = updater.plan.take(cursor, updater.batches)
                step += 1
                updater.update(step, 0.0, batches, updater.plan.tokens(batches)[1])
                if step == UNTIMED:
                    begun = time.monotonic()
            update = (time.monotonic() - begun) / (step - UNTIMED)
            if not (config.data.has_dev and config.train.dev_bleu):
                return Pace(update, 0.0)
            with torch.inference_mode(), fabric.autocast():
                return Pace(update, EARLY * _seconds_of_dev(updater, config, store.split("dev"), seconds))
        finally:
            updater.close()


def _seconds_of_dev(updater: Updater, config: Config, dev: Split, seconds: float) -> float:
    """The time to translate all of dev into outputs as long as its sources."""
    model, device = updater.loss_of.model.eval(), next(updater.loss_of.model.parameters()).device
    decode = config.decode.model_copy(update={"max_ratio": 1.0, "max_extra": 0})
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
