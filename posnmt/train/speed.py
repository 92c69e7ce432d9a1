"""How long an update takes on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from posnmt.config.schema import Config
from posnmt.data.batch import Cursor
from posnmt.interrupt import Interrupted, StopSignal
from posnmt.train.device import make_fabric
from posnmt.train.update import Updater

if TYPE_CHECKING:
    from posnmt.data.store import Store

UNTIMED = 3
"""Updates before the clock starts: the first ones are slower."""


def seconds_an_update(config: Config, store: Store, seconds: float) -> float:
    """The mean time of the first updates of a training, whose weights are thrown away.

    Args:
        seconds: how long to measure, about; five updates at least.

    Raises:
        Interrupted: a signal to stop.
    """
    updater, cursor, step, begun = Updater(config, store, make_fabric(config.train)), Cursor(), 0, time.monotonic()
    with StopSignal() as stop:
        try:
            while step < UNTIMED + 5 or time.monotonic() - begun < seconds:
                if stop.heard:
                    raise Interrupted("stopped before the first update; nothing is kept")
                batches, cursor = updater.plan.take(cursor, updater.batches)
                step += 1
                updater.update(step, 0.0, batches, updater.plan.tokens(batches)[1])
                if step == UNTIMED:
                    begun = time.monotonic()
        finally:
            updater.close()
    return (time.monotonic() - begun) / (step - UNTIMED)
