"""The record of a run: its origin, the software and hardware that compute it, and its training text."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from posnmt.base.version import __version__, version_of
from posnmt.base.words import counted
from posnmt.data.exposure import histogram
from posnmt.data.learn import text_folder
from posnmt.data.marks import marks_in
from posnmt.run.resolve import origins
from posnmt.run.run import Run
from posnmt.training.build import Training
from posnmt.training.checks import LargestBatch
from posnmt.training.plan import plan
from posnmt.training.stop import why_ended
from posnmt.translate.several import sentences_per_line
from posnmt_position.processor import multiplies_bf16, processor


def recorded(t: Training, out: Path, resume: bool, largest: LargestBatch, about: Mapping[str, Any]) -> Run:
    """The run of a training: the first process creates or updates its folder, and describes the training.

    Args:
        largest: see `try_largest_batch`.
        about: added to the record of a new run.
    """
    if t.fabric.is_global_zero and resume:
        Run.open(out).change(t.config, t.progress.step)
        _resumed(t, Run.open(out))
    elif t.fabric.is_global_zero:
        config, store = t.config, t.store
        extended = config.train.init is not None and config.subword.pieces == "extended"
        record = {**_first_record(t), "largest_batch": asdict(largest)}
        record["computed_with"] = [{"step": 0, **computed_with(t.fabric)}]
        before = text_folder(config) if extended else None
        Run.create(out, config, store.text, {**record, **about}, before, store.target_counts())
    t.fabric.barrier()
    run = Run.open(out)
    _introduce(t, out, resume, largest, about)
    return run


def _introduce(t: Training, out: Path, resume: bool, largest: LargestBatch, about: Mapping[str, Any]) -> None:
    """Print the plan of a new training, or where a resumed one goes on."""
    say, detail, device = t.display.say, t.display.detail, t.fabric.device
    if t.config.train.precision == "bf16" and device.type == "cpu" and not multiplies_bf16():
        say("warning: this processor has no bf16 instructions and emulates them; train.precision: auto is faster")
    detail(f"{_parameters(t):,} parameters, {t.fabric._precision.precision} on {device}")
    detail(f"the largest batch fits: {largest}")
    if resume:
        if ended := why_ended(t.config.train, t.progress):
            say(f"nothing is left to train: the run has reached its limit, {ended}; a higher one goes on with it")
        else:
            say(f"resuming after {counted(t.progress.step, 'update')}, on {device}")
        return
    for line in plan(t, about, out, _parameters(t)):
        say(line)


def _resumed(t: Training, run: Run) -> None:
    """Warn if software or hardware has changed since the run was last started, and record the change."""
    record, now = run.record, computed_with(t.fabric)
    sentences = changes(record["computed_with"][-1], now)
    for sentence in sentences:
        t.display.say(f"warning: {sentence}")
    if sentences:
        run.write_record({**record, "computed_with": [*record["computed_with"], {"step": t.progress.step, **now}]})


def _first_record(t: Training) -> dict[str, Any]:
    """The record of a new run."""
    config, store, corpus = t.config, t.store, t.corpus
    lengths = {"source": corpus.source_lengths, "target": corpus.target_lengths}
    spread = {side: {"shortest": int(each.min()), "longest": int(each.max())} for side, each in lengths.items()}
    record = {**provenance(config.train.seed, store.manifest["key"], _parameters(t)), "training_lengths": spread}
    record["training_histograms"] = {side: histogram(each) for side, each in lengths.items()}
    alone = store.split("train") if config.train.context else corpus  # joined lines of a context are still lines
    more = {
        "sentences_per_line": sentences_per_line(alone, store.text),
        "plugins": [asdict(origin) for origin in origins(config.model)],
        "marks": marks_in(store.split("train"), store.text.source.subwords),
    }
    return record | {name: value for name, value in more.items() if value}


def _parameters(t: Training) -> int:
    return sum(parameter.numel() for parameter in t.model.parameters())


def provenance(seed: int, data_key: str, parameters: int) -> dict[str, Any]:
    """Command line, versions, commit, machine, data and seed of a run."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "posnmt": __version__,
        "commit": _commit(),
        "seed": seed,
        "data": data_key,
        "parameters": parameters,
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in ("torch", "lightning-fabric", "sentencepiece", "sacrebleu")},
        "machine": {"system": platform.platform(), "processor": processor(), "threads": torch.get_num_threads()},
    }


CONSEQUENCES = {
    "processes": ("number of processes", "updates have another number of batches, so the model becomes another one"),
    "device": ("device", "it rounds differently"),
    "precision": ("precision", "the losses are not those of a run that was never stopped"),
    "processor": ("processor", "it may round differently"),
    "torch": ("version of PyTorch", "it may round differently"),
    "posnmt": ("version of posnmt", "it may compute something else"),
}
"""Key of `computed_with` -> its name, and what follows if a training is resumed with another value."""


def computed_with(fabric: Fabric) -> dict[str, Any]:
    """The software and hardware that the resulting weights depend on.

    The number of threads is not included: it does not change the weights.
    """
    gpu = torch.cuda.get_device_name(fabric.device) if fabric.device.type == "cuda" else None
    return {
        "processes": fabric.world_size,
        "device": gpu or fabric.device.type,
        "precision": str(fabric._precision.precision),
        "processor": processor(),
        "torch": version_of("torch"),
        "posnmt": _commit() or __version__,
    }


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A sentence for each part of `computed_with` that has changed."""
    return [
        f"the run is resumed with another {named}: it was {before[key]} and is {now[key]}; {consequence}"
        for key, (named, consequence) in CONSEQUENCES.items()
        if before.get(key, now[key]) != now[key]
    ]


@cache
def _commit() -> str | None:
    """The commit of the running source tree, with `+changes` if it has edits; None outside a repository."""
    folder = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty=+changes", "--abbrev=12"],  # noqa: S607
            capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()
