"""A training that is stopped, and what it leaves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file

from posnmt.base.progress import Display
from posnmt.run.run import Run, checkpoints_in
from posnmt.training import stop
from posnmt.training import train as scroll


def losses(folder, kind="train", name="loss"):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line[name] for line in lines if line["kind"] == kind}


def weights(folder, name="last"):
    return load_file(Run.open(folder).weights(name))


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def outcome(run: Path) -> dict[str, object]:
    """What must be the same in the end: weights, metrics but for times, and the record's facts."""
    files = {path.name: load_file(path) for path in run.glob("*.safetensors")}
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    record = json.loads((run / "record.json").read_text())
    return {
        "weights": {name: {key: each.tolist() for key, each in tensors.items()} for name, tensors in files.items()},
        "metrics": [{key: each for key, each in line.items() if "second" not in key} for line in metrics],
        "record": {key: record.get(key) for key in ("stopped", "steps", "best_step", "model", "parameters")},
        "checkpoints": [place.name.split("-")[1] for place in checkpoints_in(run / "checkpoints")],
        "left": [path.name for path in run.rglob("*.partial")],
    }


def break_updates(monkeypatch, where, value=math.nan, only_above=0.0):
    """Updates whose number is in `where` have a gradient or a loss of `value`, if their rate is above `only_above`."""
    original = scroll.update

    def broken(t, rate, batches):
        step = t.progress.step
        if step in where and rate > only_above:
            add = t.gradients.add

            def with_fault(*operands):
                sums = add(*operands)
                if where[step] == "loss":
                    return sums * value
                t.model.output.weight.grad[0, 0] = value
                return sums

            t.gradients.add = with_fault
        outcome = original(t, rate, batches)
        t.gradients.__dict__.pop("add", None)
        return outcome

    monkeypatch.setattr(scroll, "update", broken)


def say(messages):
    """A display that notes what is said."""
    display = Display(quiet=True)
    display.say = messages.append
    return display


class StopAt:
    """Stands in for a signal: training hears it before a certain step."""

    def __init__(self, step, monkeypatch):
        original = stop.why_stop
        monkeypatch.setattr(
            stop,
            "why_stop",
            lambda settings, progress, heard: (
                "interrupted" if progress.step == step else original(settings, progress, heard)
            ),
        )
