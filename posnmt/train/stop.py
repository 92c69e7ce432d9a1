"""The end of a run: by its own limits, or by a signal."""

from __future__ import annotations

import torch
from lightning_fabric import Fabric

from posnmt.config.schema import Train
from posnmt.interrupt import StopSignal
from posnmt.train.progress import Progress


def why_stop(train: Train, progress: Progress, stop: StopSignal) -> str:
    """Why training stops; empty while it continues."""
    if stop.heard:
        return INTERRUPTED
    if train.steps is not None and progress.step >= train.steps:
        return f"{train.steps} steps"
    if train.epochs is not None and progress.cursor.epoch >= train.epochs:
        return f"{train.epochs} epochs"
    if train.minutes is not None and progress.seconds >= 60 * train.minutes:
        return f"{train.minutes:g} minutes"
    if train.patience is not None and progress.waited >= train.patience:
        return f"no better dev score in {train.patience} evaluations"
    return ""


INTERRUPTED = "interrupted"


def agreed(fabric: Fabric, reason: str) -> str:
    """The reason of any process that has one, so that all processes stop at the same step."""
    if fabric.world_size == 1:
        return reason
    reasons = [""] * fabric.world_size
    torch.distributed.all_gather_object(reasons, reason)
    return next((each for each in reasons if each), "")
