"""The plan of a training in a few lines, printed before its first update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posnmt.base.words import counted
from posnmt.config.schema import Train
from posnmt.training.build import Training
from posnmt.training.evaluations import Evaluations, Pace
from posnmt.training.expectations import Expectation, expectation, is_measured

WHY = {
    "relative": "rr scores higher on single sentences, but reads long lines word by word and cannot be exported to"
    " CTranslate2: docs/choose.md"
}
"""System that is chosen -> why it is."""


def counted_updates(train: Train, batches: Fraction, an_update: int) -> int | None:
    """The updates of a budget in updates or passes; None if it is in minutes alone.

    Args:
        batches: of a pass.
        an_update: batches of an update.
    """
    counts = [] if train.steps is None else [train.steps]
    if train.epochs is not None:
        counts.append(int(train.epochs * batches // an_update))
    return max(1, min(counts)) if counts else None


def planned(updates: int, pace: Pace, evaluations: Evaluations | None) -> dict[str, Any]:
    """The entries of a run's record for a plan that was made from measured speeds.

    Args:
        evaluations: None without dev.
    """
    about: dict[str, Any] = {"planned_updates": updates, "seconds_an_update": round(pace.update, 4)}
    if evaluations is not None:
        about |= {"planned_evaluations": evaluations.number, "seconds_an_evaluation": round(evaluations.seconds, 4)}
    return about


def plan(t: Training, about: Mapping[str, Any], out: Path, parameters: int) -> Iterator[str]:
    """The lines of the plan of a new training.

    Args:
        about: its entries in the record: `chosen` and those of `planned`, if there are such.
        out: the run folder.
        parameters: of the model.
    """
    train, batches = t.config.train, t.plan.batches_of_a_pass()
    updates = about.get("planned_updates", counted_updates(train, batches, t.batches))
    dev = len(t.store.split("dev")) if t.config.data.has_dev else 0
    # of a corpus with a small weight, the first pass may have no pair
    passes = "" if updates is None or not batches else f"; {_passes(updates * t.batches / float(batches))} over them"
    yield f"text: {counted(len(t.corpus), 'pair')} to train on, {dev:,} for dev{passes}"
    yield f"model: {_model(t, parameters)}{_why(t, about)}"
    yield f"updates: {_updates(train, updates, about)}{_batch(t.fabric.device, train, about)}"
    yield f"evaluation: {_evaluation(train, updates, dev, about)}"
    yield f"expect: {_expected(t, updates)}"
    yield f"details: {out / 'config.yaml'} has every setting; --verbose prints those that were chosen"


def _passes(number: float) -> str:
    if number < 1:
        return f"{number:.0%} of a pass"
    return counted(round(number, 1) if number < 9.95 else round(number), "pass")


def _model(t: Training, parameters: int) -> str:
    model, fabric = t.config.model, t.fabric
    name = model.system or "of its own"
    size = f"{model.encoder.layers}+{model.decoder.layers} layers, {model.d_model} wide"
    return f"{name}, {size}, {parameters / 1e6:.1f} million parameters, on {fabric.device}"


def _why(t: Training, about: Mapping[str, Any]) -> str:
    name = about.get("chosen", {}).get("model.system")
    return f". {WHY[name]}" if name in WHY else ""


def _updates(train: Train, updates: int | None, about: Mapping[str, Any]) -> str:
    if "planned_updates" in about:
        pace = f"{about['seconds_an_update']:.2g} s each, in {counted(train.minutes or 0, 'minute')}"
        return f"about {updates:,}, {pace}; more if the machine becomes faster, fewer if it becomes slower"
    if updates is None:
        return f"as many as fit into {counted(train.minutes or 0, 'minute')}"
    at_most = "" if train.minutes is None else f", or what fits into {counted(train.minutes, 'minute')}"
    return f"{updates:,}{at_most}"


def _batch(device: torch.device, train: Train, about: Mapping[str, Any]) -> str:
    """On a GPU, that a batch was chosen by a rule for CPUs; else nothing."""
    if device.type != "cuda" or "train.batch" not in about.get("chosen", {}):
        return ""
    size = f"{train.batch:,} {train.batch_unit}"
    return f". Batches of {size} are chosen by measurements on CPUs; a larger train.batch gives a GPU more to do"


def _evaluation(train: Train, updates: int | None, dev: int, about: Mapping[str, Any]) -> str:
    if not dev:
        return "none, since there is no dev corpus"
    used = dev if train.dev_pairs is None else min(dev, train.dev_pairs)
    pairs = counted(dev, "dev pair") if used == dev else f"{used:,} of {counted(dev, 'dev pair')}"
    how = f"on {pairs}, by {'BLEU' if train.dev_bleu else 'likelihood alone, so no translations are shown'}"
    if train.evaluate_every is not None:
        when = f"every {counted(train.evaluate_every, 'update')}"
        number = None if updates is None else -(-updates // train.evaluate_every)
    else:
        number = about.get("planned_evaluations")
        when = "evenly over the time" if number is None else f"about {counted(number, 'time')}"
    if number is None or train.minutes is None or "seconds_an_evaluation" not in about:
        return f"{when}, {how}"
    share = about["seconds_an_evaluation"] * (number + (train.average > 1)) / (60 * train.minutes)
    return f"{when}, {how}; {share:.0%} of the time"


def _expected(t: Training, updates: int | None) -> Expectation:
    if updates is None or t.batches != 1 or not is_measured(t.config):
        return Expectation()
    return expectation(len(t.corpus), float(np.median(t.corpus.source_lengths)), updates)
