"""The start of a training: what is refused, the prepared text, and the lock on the run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lightning_fabric import Fabric

from posnmt.base.progress import Display
from posnmt.config.schema import Config
from posnmt.data.prepare import changed, dropped, prepare, sampled
from posnmt.data.suspicions import warnings
from posnmt.run.resolve import clashes, resumed
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
from posnmt.training.device import first_alone, make_fabric
from posnmt.training.loggers import require_loggers
from posnmt.training.stop import saying_what_is_kept

if TYPE_CHECKING:
    from posnmt.data.store import Store


@dataclass(frozen=True)
class Start:
    """What a training starts with, checked and prepared.

    Attributes:
        config: complete; of a run that goes on, with its own text pipeline.
        out: the run folder.
        begun: the run that goes on; None: a new one.
        origin: the run that `train.init` names, where its weights are needed.
        fabric: the devices and the processes.
        store: the prepared text.
    """

    config: Config
    out: Path
    begun: Run | None
    origin: Run | None
    fabric: Fabric
    store: Store

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock the run folder, in the first process, and say what is kept if the machine stops the training.

        Raises:
            UserError: another training runs or has run there; the disk is full, or the memory too small.
        """
        if not self.fabric.is_global_zero:
            yield
            return
        with claimed(self.out), saying_what_is_kept(self.out):
            _admitted(self.out, self.config, self.begun is not None)  # again: another may have run in between
            yield


def prepare_start(config: Config, out: Path, resume: bool, display: Display) -> Start:
    """Check that a training can start, or go on; prepare its text, and say what is noteworthy about it.

    Raises:
        UserError: the folder exists, the config differs from the run's, the text has faults.
    """
    if resume and is_unfinished(out):
        display.say(f"the run in {out} was stopped before its first update; starting it")
        resume = False
    config, begun = _admitted(out, config, resume)
    require_loggers(config.train)
    origin = None
    if config.train.init is not None and not checkpoints_in(out / "checkpoints"):
        origin = Run.open(config.train.init)
    if begun is not None:
        config = begun.with_own_text(config)
    elif origin is not None:
        refuse_other_model(config, origin)
    fabric = make_fabric(config.train)
    display.hush(not fabric.is_global_zero)
    store = _prepared(config, fabric, display, begun)
    signs = (f"warning: {sign}" for sign in (*clashes(config), *warnings(store, config)))
    for sentence in (*dropped(store), *sampled(store), *changed(store), *signs):
        display.say(sentence)
    return Start(config, out, begun, origin, fabric, store)


def _admitted(out: Path, config: Config, resume: bool) -> tuple[Config, Run | None]:
    """The configuration, in the format of the resumed run, and that run; checks that the folder may be trained in.

    Raises:
        UserError: the folder exists, or the run to resume has another configuration.
    """
    if not resume:
        refuse_existing(out)
        return config, None
    begun = Run.open(out)
    config = resumed(config, begun.config.format)
    refuse_other_config(begun, config)
    return config, begun


def _prepared(config: Config, fabric: Fabric, display: Display, begun: Run | None) -> Store:
    """The prepared store: built by the first process if it is missing, then opened by the others.

    Raises:
        UserError: the run to resume was started on another store; the store is damaged; dev cannot be measured.
    """
    check = None if begun is None else partial(refuse_other_text, begun)
    store = None
    with first_alone(fabric):
        if fabric.is_global_zero:
            store = prepare(config, report=display.say, check=check)
            check_before(config, store)
    return store or prepare(config)
