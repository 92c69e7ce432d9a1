"""A training that is stopped, and what it leaves."""

from __future__ import annotations

import json

import torch
from safetensors.torch import load_file

from posnmt.run.run import Run
from posnmt.training import stop


def losses(folder, kind="train", name="loss"):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line[name] for line in lines if line["kind"] == kind}


def weights(folder, name="last"):
    return load_file(Run.open(folder).weights(name))


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


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
