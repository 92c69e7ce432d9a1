"""Programs that show the numbers of metrics.jsonl: TensorBoard, Weights & Biases.

None of them may stop, delay or change a training. Each is called in its own thread, which ends with one warning when a
call fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol
from uuid import uuid4

from posnmt.base.extras import requires
from posnmt.base.files import read_json
from posnmt.base.output import write_json

WAIT = 60.0
"""Seconds that the end of a training waits for a logger."""

STARTED = "loggers.json"
"""The file of a run folder with the ids of the run in its loggers."""


class Logger(Protocol):
    """Receives the numbers of a training."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the numbers of a step."""

    def close(self) -> None:
        """Wait until everything that was logged is written."""


Start = Callable[[Path, int, Mapping[str, Any]], Logger]
"""Makes a logger from a run folder, the step after which the run goes on (0 for a new run) and the configuration."""


class TensorBoard:
    """Event files in the run folder; see `Start` for the arguments."""

    def __init__(self, folder: Path, step: int, config: Mapping[str, Any]) -> None:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1 if step else None)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add each number to the event file, as a scalar with its step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the event file after its last number."""
        self._writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases; a resumed training resumes it. See `Start` for the arguments.

    The variables of wandb apply, such as WANDB_MODE, WANDB_PROJECT and WANDB_API_KEY.

    Raises:
        RuntimeError: it is used online and has no API key; wandb itself would ask for one on a terminal.
    """

    def __init__(self, folder: Path, step: int, config: Mapping[str, Any]) -> None:
        import wandb

        settings = wandb.Settings(silent=True, console="off")
        if wandb.setup(settings).settings.mode == "online" and not wandb.login(prompt=False, verify=False):
            raise RuntimeError("there is no API key; run `wandb login`, or set WANDB_MODE=offline")
        started = read_json(folder / STARTED) or {}
        number = started.get("wandb")
        if number is None:
            number = uuid4().hex[:12]
            write_json(folder / STARTED, {**started, "wandb": number})
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "posnmt"), name=folder.resolve().name, dir=str(folder), id=number,
            resume="allow" if step else None, config=dict(config), settings=settings,
        )  # fmt: skip
        self._run.define_metric("*", step_metric="step")  # a run that went back to a checkpoint repeats steps

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Send the numbers of a step to the run."""
        self._run.log({"step": step, **values})

    def close(self) -> None:
        """Finish the run, and wait for its upload."""
        self._run.finish()


LOGGERS: dict[str, Start] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
"""The loggers of `train.loggers`."""


def require_loggers(names: Iterable[str]) -> None:
    """Check that the packages of loggers are installed.

    Raises:
        UserError: one is missing.
    """
    requires(*(name for name in names if name != "tensorboard"))


class Guarded:
    """A logger in its own thread. If it raises an exception, there is one warning and it receives no more numbers.

    Args:
        name: of `LOGGERS`.
        start: makes the logger.
        warn: called with the warning.
    """

    def __init__(self, name: str, start: Callable[[], Logger], warn: Callable[[str], None]) -> None:
        self._name, self._start, self._warn = name, start, warn
        self._queue: SimpleQueue[tuple[int, Mapping[str, float]] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=f"logger {name}", daemon=True)
        self._thread.start()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Pass the numbers of a step on to the thread, without waiting."""
        if self._thread.is_alive():
            self._queue.put((step, values))

    def close(self) -> None:
        """Wait until the logger has written everything, at most `WAIT` seconds."""
        self._queue.put(None)
        self._thread.join(WAIT)
        if self._thread.is_alive():
            self._warn(f"{self._name} is not done after {WAIT:g} seconds, and is left alone")

    def _work(self) -> None:
        try:
            logger = self._start()
            while (numbers := self._queue.get()) is not None:
                logger.log(*numbers)
            logger.close()
        except (Exception, SystemExit) as error:
            what = str(error).strip().partition("\n")[0] or type(error).__name__
            self._warn(f"train.loggers: {self._name} gets no more numbers: {what}; training goes on")
