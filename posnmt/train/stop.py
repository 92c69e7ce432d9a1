"""When a run ends: its own limits, or a signal."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

import torch
from lightning_fabric import Fabric

from posnmt.config import Train
from posnmt.train.progress import Progress


class Interrupted(Exception):
    """The run was told to stop (Ctrl-C, or a cluster's notice) and has saved its state."""


class StopSignal:
    """Hears SIGINT and SIGTERM, so that a run ends between two updates with its state saved; a second one is obeyed."""

    def __init__(self) -> None:
        self.heard = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._hear)
            except ValueError:  # not the main thread: whoever owns the thread decides
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.heard:
            raise KeyboardInterrupt
        self.heard = True


def why_stop(train: Train, progress: Progress, stop: StopSignal) -> str:
    """Why no further update is made; empty while training goes on."""
    if stop.heard:
        return INTERRUPTED
    if train.steps is not None and progress.step >= train.steps:
        return f"{train.steps} steps"
    if train.epochs is not None and progress.cursor.epoch >= train.epochs:
        return f"{train.epochs} epochs"
    if train.minutes is not None and progress.seconds >= 60 * train.minutes:
        return f"{train.minutes:g} minutes"
    if train.patience is not None and progress.waited >= train.patience:
        return f"no better dev figure in {train.patience} evaluations"
    return ""


INTERRUPTED = "interrupted"


def agreed(fabric: Fabric, reason: str) -> str:
    """The reason of whichever process has one, so that all stop at the same step."""
    if fabric.world_size == 1:
        return reason
    reasons = [""] * fabric.world_size
    torch.distributed.all_gather_object(reasons, reason)
    return next((given for given in reasons if given), "")
