"""The kinds of steps of a study, with a training that is stopped at a given moment of its progress.

The variable DISTURB says how and when, as `WHO SIGNAL MOMENT`. WHO is `runner` or `step` (to be signalled), or `both`.
MOMENT is a step of the training, after whose line in metrics.jsonl it happens, or `creation` (of the run folder, before
it is complete), or `removal` (of the checkpoints, half of which are gone). The clock plays no part.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from posnmt.data.text import TextPipeline
from posnmt.study import steps
from posnmt.study.workflow.kind import Context, Kind
from posnmt.training.metrics import Metrics


def disturb() -> None:
    """Send the signal. A training that is only told to stop waits here until it is, and cannot finish before."""
    who, name, _ = os.environ["DISTURB"].split()
    number = signal.Signals[name]
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)  # a byte for each signal that this process is sent
    if who in ("runner", "both"):
        os.kill(os.getppid(), number)
    if who in ("step", "both"):
        os.kill(os.getpid(), number)
    os.read(told, 1)


def train(context: Context) -> None:
    """The training of a study, disturbed."""
    moment = os.environ["DISTURB"].split()[2]
    write, save, remove = Metrics.write, TextPipeline.save, shutil.rmtree

    def write_and_disturb(metrics, kind, progress, figures):
        write(metrics, kind, progress, figures)
        if (kind, str(progress.step)) == ("train", moment):
            disturb()

    def save_and_disturb(pipeline, folder):
        save(pipeline, folder)  # a training saves text nowhere but in the run folder that it creates
        disturb()

    def remove_half_and_disturb(path, *arguments, **options):
        if Path(path) == context.folder / "run" / "checkpoints":
            for file in list(Path(path).glob("*/model.safetensors")):
                file.unlink()
            disturb()
        remove(path, *arguments, **options)

    if moment == "creation":
        TextPipeline.save = save_and_disturb
    elif moment == "removal":
        shutil.rmtree = remove_half_and_disturb
    else:
        Metrics.write = write_and_disturb
    steps.train(context)


KINDS = {**steps.KINDS, "train": Kind(train, steps.KINDS["train"].version, uses_gpu=True)}
