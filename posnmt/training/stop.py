"""Why a training ends: at its limits, by a signal, or because the machine refuses something."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from lightning_fabric import Fabric

from posnmt.base.errors import UserError, is_out_of_memory, raise_all
from posnmt.base.interrupt import StopSignal
from posnmt.base.words import counted
from posnmt.config.schema import Train
from posnmt.run.run import checkpoints_in, resuming
from posnmt.training.build import Training
from posnmt.training.progress import Progress

INTERRUPTED = "interrupted"

EXCHANGE = 20
"""Processes on GPUs exchange their reasons only before every 20th update, since they must wait for their GPUs then."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def answer(t: Training) -> str:
    """The answer to the first stop signal: when the training stops, and what a second signal would lose."""
    progress = t.progress
    lost = progress.step - max(0, progress.saved)
    second = f"; a second Ctrl-C loses {lost:,} update{'s' * (lost != 1)}" if lost else ""
    if t.evaluating:
        what = "stopping in this evaluation, which --resume makes again"
    else:
        what = "stopping after this update" if lost else "stopping; all updates are saved"
    return what + second


def why_all_stop(t: Training, stop: StopSignal) -> str:
    """Why all processes stop at this step; empty while training continues."""
    train, progress = t.config.train, t.progress
    return agreed(t.fabric, why_stop(train, progress, stop), why_counted(train, progress), progress.step)


def why_stop(train: Train, progress: Progress, stop: StopSignal) -> str:
    """Why this process would stop; empty while it continues."""
    return INTERRUPTED if stop.heard else why_ended(train, progress)


def why_ended(train: Train, progress: Progress) -> str:
    """The limit that this process has reached; empty if it has reached none."""
    if reason := why_counted(train, progress):
        return reason
    if train.minutes is not None and progress.seconds >= progress.clock.end(train):
        return counted(train.minutes, "minute")
    return ""


def why_counted(train: Train, progress: Progress) -> str:
    """Why training stops by counts, which are the same in all processes; empty while it continues."""
    if train.steps is not None and progress.step >= train.steps:
        return counted(train.steps, "step")
    if train.epochs is not None and progress.cursor.epoch >= train.epochs:
        return counted(train.epochs, "epoch")
    if train.patience is not None and progress.waited >= train.patience:
        return f"no better dev score in {counted(train.patience, 'evaluation')}"
    return ""


def refuse_passed(before: Train, t: Training) -> None:
    """Check that a resumed training has not passed a limit that it was resumed with.

    Args:
        before: the settings that it had until now. A limit among them is kept, even if the end was a little later.

    Raises:
        UserError: names each such limit, and what the training has behind it.
    """
    train, progress = t.config.train, t.progress
    behind = {
        "steps": (progress.step, "update"),
        "epochs": (round(progress.epochs(len(t.plan.of(progress.cursor))), 2), "pass"),
        "minutes": (round(progress.seconds / 60, 2), "minute"),
    }
    raise_all([
        UserError(
            f"the run has {counted(*behind[key])} behind it, and the limit is {getattr(train, key):g}", f"train.{key}",
            "a limit counts from the beginning of the run: name a higher one",
        )
        for key in behind
        if getattr(train, key) not in (None, getattr(before, key)) and behind[key][0] > getattr(train, key)
    ])  # fmt: skip


def agreed(fabric: Fabric, reason: str, counted: str, step: int) -> str:
    """The reason of the first process that has one, so that all processes stop at the same step.

    Args:
        reason: of this process; it depends on signals and clocks.
        counted: the result of `why_counted`.
        step: updates so far.
    """
    if fabric.world_size == 1:
        return reason
    if fabric.device.type == "cuda" and step % EXCHANGE:
        return counted
    reasons = [""] * fabric.world_size
    torch.distributed.all_gather_object(reasons, reason)
    return next((each for each in reasons if each), "")


@contextmanager
def saying_what_is_kept(out: Path) -> Iterator[None]:
    """Report an error of the machine in the block as one line, with what is kept of the run and how to resume it.

    Args:
        out: the run folder.

    Raises:
        UserError: the disk is full, something may not be read or written, or the memory is too small.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None or error.strerror is None:
            raise
        todo = "free disk space" if error.errno in _FULL else "correct it"
        raise _stopped(error.strerror, out, error.filename, todo) from error
    except (MemoryError, RuntimeError, ImportError) as error:
        if not is_out_of_memory(error):
            raise
        todo = "free memory; a new run needs less with a lower train.batch and a higher train.accumulate"
        raise _stopped("the memory is too small", out, None, todo) from error


def _stopped(what: str, out: Path, place: str | None, todo: str) -> UserError:
    kept = [each.name for each in checkpoints_in(out / "checkpoints")[-1:]]
    state = f"{kept[0]} is kept" if kept else "no checkpoint was written yet"
    again = f"`{resuming(out)}`" if (out / "config.yaml").exists() else "the same command"
    return UserError(f"training stopped: {what}; {state}", place or out, f"{todo}, and go on with {again}")
