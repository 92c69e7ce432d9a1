"""The start of a training: checks of the folder and the configuration, the prepared text, the lock on the folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from lightning_fabric import Fabric

from posnmt.base.progress import Display
from posnmt.config.schema import Config
from posnmt.data.prepare import changed, dropped, prepare, sampled
from posnmt.data.store import Store
from posnmt.data.suspicions import warnings
from posnmt.run.resolve import clashes
from posnmt.run.run import (
    Run,
    checkpoints_in,
    claimed,
    is_unfinished,
    refuse_existing,
    refuse_other_config,
    refuse_other_text,
)
from posnmt.training.checks import check_before
from posnmt.training.continued import refuse_other_model
from posnmt.training.device import first_alone
from posnmt.training.loggers import require_loggers
from posnmt.training.stop import saying_what_is_kept


def admitted(config: Config, out: Path, resume: bool, display: Display) -> tuple[Config, Run | None, Run | None]:
    """Check that a training can start in a folder, or go on there.

    Returns:
        The configuration, which for a resumed run reads the run's own text pipeline; the resumed run, or None for a new
        one; and the run that `train.init` names, if its weights are needed.

    Raises:
        UserError: the folder exists, or the config differs from that of the run, or does not fit that of `train.init`.
    """
    if resume and is_unfinished(out):
        display.say(f"the run in {out} was stopped before its first update; starting it")
        resume = False
    resumed = _resumable(config, out, resume)
    require_loggers(config.train.loggers)
    origin = None
    if config.train.init is not None and not checkpoints_in(out / "checkpoints"):
        origin = Run.open(config.train.init)
    if resumed is not None:
        config = resumed.with_own_text(config)
    elif origin is not None:
        refuse_other_model(config, origin)
    return config, resumed, origin


def _resumable(config: Config, out: Path, resume: bool) -> Run | None:
    if not resume:
        refuse_existing(out)
        return None
    run = Run.open(out)
    refuse_other_config(run, config)
    return run


def prepared(config: Config, resumed: Run | None, fabric: Fabric, display: Display, again: bool) -> Store:
    """The prepared text; the first process makes it if it is missing, and prints notes and warnings about it.

    Args:
        again: it was prepared a moment ago, to choose settings, and nothing is said of that.

    Raises:
        UserError: the resumed run was started on other text; the store is damaged; dev BLEU cannot be computed.
    """
    check = None if resumed is None else partial(refuse_other_text, resumed)
    store = None
    with first_alone(fabric):
        if fabric.is_global_zero:
            store = prepare(config, report=None if again else display.say, check=check)
            check_before(config, store)
    store = store or prepare(config)
    signs = (f"warning: {sign}" for sign in (*clashes(config.model), *warnings(store, config.data)))
    for sentence in (*dropped(store), *sampled(store), *changed(store), *signs):
        display.say(sentence)
    return store


@contextmanager
def held(config: Config, out: Path, resumed: Run | None, fabric: Fabric) -> Iterator[None]:
    """Lock a run folder in the first process; if the machine stops the training, report what is kept of the run.

    Raises:
        UserError: another training runs there, or has run there since `admitted`; the disk is full, or the memory too
            small.
    """
    if not fabric.is_global_zero:
        yield
        return
    with claimed(out), saying_what_is_kept(out):
        _resumable(config, out, resumed is not None)
        yield
