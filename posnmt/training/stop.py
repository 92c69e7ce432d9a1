"""The end of a run: by its own limits, or by a signal."""

from __future__ import annotations

import torch
from lightning_fabric import Fabric

from posnmt.base.interrupt import StopSignal
from posnmt.config.schema import Train
from posnmt.training.progress import Progress

INTERRUPTED = "interrupted"

EXCHANGE = 20
"""Processes on GPUs exchange their reasons before every 20th update: to do so, a process waits for its GPU."""


def why_stop(train: Train, progress: Progress, stop: StopSignal) -> str:
    """Why training stops in this process; empty while it continues."""
    if stop.heard:
        return INTERRUPTED
    if counted := why_counted(train, progress):
        return counted
    if train.minutes is not None and progress.seconds >= 60 * train.minutes:
        return f"{train.minutes:g} minutes"
    return ""


def why_counted(train: Train, progress: Progress) -> str:
    """Why training stops by what is counted, which is the same in all processes."""
    if train.steps is not None and progress.step >= train.steps:
        return f"{train.steps} steps"
    if train.epochs is not None and progress.cursor.epoch >= train.epochs:
        return f"{train.epochs} epochs"
    if train.patience is not None and progress.waited >= train.patience:
        return f"no better dev score in {train.patience} evaluations"
    return ""


def agreed(fabric: Fabric, reason: str, counted: str, step: int) -> str:
    """The reason of any process that has one, so that all processes stop at the same step.

    Args:
        reason: of this process; signals and clocks differ.
        counted: of all processes, by `why_counted`.
        step: updates so far.
    """
    if fabric.world_size == 1:
        return reason
    if fabric.device.type == "cuda" and step % EXCHANGE:
        return counted
    reasons = [""] * fabric.world_size
    torch.distributed.all_gather_object(reasons, reason)
    return next((each for each in reasons if each), "")
