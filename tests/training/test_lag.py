"""Values that are read an update later, and updates that the device leaves out, give the same run in every file.

A CPU stands in for the device: it computes at once, and all the rest is as on a GPU.
"""

from __future__ import annotations

import math

import pytest
import torch
from safetensors.torch import load_file

from posnmt.base.errors import UserError
from posnmt.run.resolve import load
from posnmt.run.run import checkpoints_in
from posnmt.training import build, optimizer
from posnmt.training import train as scroll
from posnmt.training.train import train
from tests.support import corpus
from tests.support.training_case import break_updates, outcome, say

FAULTS = {1: "gradient", 4: "loss", 5: "gradient", 6: "loss", 8: "gradient", 12: "loss"}
"""At the first and the last update, several in a row, and at evaluations."""

CONSTANT = ["train.schedule={type: constant, warmup: 0}", "train.learning_rate=1e-3"]
MUON = ["train.optimizer=muon", "train.muon_every=2", "train.adam_epsilon=1e-3"]  # Adam enlarges rounding without it


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    settings = {"steps": 12, "evaluate_every": 4, "log_every": 3, "average": 2, "dev_bleu": False, "precision": "fp32"}
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60, train=settings, model={"dropout": 0.2})


def both(path, settings, tmp_path, monkeypatch, **faults):
    """For the process and the device as the one that decides: the run's outcome, its last moments, what was said."""
    found = []
    for device in (False, True):
        messages: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(build, "is_ahead", lambda _, device=device: device)
            break_updates(patch, **faults)
            folder = train(load(path, settings), tmp_path / f"{device}", display=say(messages)).folder
        moments = load_file(checkpoints_in(folder / "checkpoints")[-1] / "optimizer.safetensors")
        untimed = [message for message in messages if message.startswith(("warning: ", "step "))]
        found.append((outcome(folder), moments, untimed))
    return found


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_adam_leaves_out_what_the_process_would(value, path, tmp_path, monkeypatch):
    process, device = both(path, ["train.non_finite=skip"], tmp_path, monkeypatch, where=FAULTS, value=value)
    assert process[0] == device[0]
    assert process[2] == device[2]
    assert sum("this update is left out" in each for each in device[2]) == len(FAULTS)
    assert process[1].keys() == device[1].keys()
    assert all(torch.equal(each, device[1][name]) for name, each in process[1].items())
    steps = [each for name, each in device[1].items() if name.endswith("/step")]
    assert all(step == 12 - len(FAULTS) for step in steps)


def test_muon_leaves_out_what_the_process_would(path, tmp_path, monkeypatch):
    """Within rounding: on the device, matrices of a shape are updated together."""
    monkeypatch.setattr(optimizer, "_precision", lambda matrix: torch.float64)
    process, device = both(path, ["train.non_finite=skip", *MUON], tmp_path, monkeypatch, where=FAULTS)
    assert process[2] == device[2]
    assert [line["step"] for line in process[0]["metrics"]] == [line["step"] for line in device[0]["metrics"]]
    assert process[1].keys() == device[1].keys()
    for name, each in process[1].items():
        torch.testing.assert_close(each, device[1][name], rtol=1e-3, atol=1e-6, msg=name)
    for name, each in process[0]["weights"]["model.safetensors"].items():
        torch.testing.assert_close(
            each, device[0]["weights"]["model.safetensors"][name], rtol=1e-3, atol=1e-6, msg=name
        )


@pytest.mark.parametrize(("step", "fault"), [(2, "loss"), (4, "gradient"), (7, "loss"), (8, "gradient"), (12, "loss")])
def test_backing_off_gives_the_same_run(step, fault, path, tmp_path, monkeypatch):
    settings = ["train.non_finite=back-off", *CONSTANT]
    process, device = both(path, settings, tmp_path, monkeypatch, where={step: fault}, only_above=6e-4)
    assert sum("with 1/2 of the learning rate" in each for each in device[2]) == 1
    assert process[0] == device[0]
    assert process[2] == device[2]


def test_stopping_keeps_the_same_files(path, tmp_path, monkeypatch):
    said = []
    for device in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(build, "is_ahead", lambda _, device=device: device)
            break_updates(patch, where={6: "gradient"})
            with pytest.raises(UserError) as caught:
                train(load(path), tmp_path / f"{device}")
        lines = (tmp_path / f"{device}" / "metrics.jsonl").read_text().splitlines()
        said.append(
            (caught.value.what, [line.rpartition('"seconds"')[0].rpartition("target_tokens_per")[0] for line in lines])
        )
    assert said[0] == said[1]


def test_values_are_read_an_update_later_and_before_anything_that_needs_them(path, tmp_path, monkeypatch):
    """What was given to the device and what was read, in order; E is an evaluation."""
    order, update, settle, evaluate = [], scroll.update, scroll.settle, scroll.evaluate

    def given(t, *operands):
        order.append(f"+{t.progress.step}")
        return update(t, *operands)

    def read(t, waiting, *operands):
        order.append(f"-{waiting[0].step}")
        settle(t, waiting, *operands)

    def evaluated(*operands):
        order.append("E")
        evaluate(*operands)

    monkeypatch.setattr(build, "is_ahead", lambda device: True)
    for name, function in (("update", given), ("settle", read), ("evaluate", evaluated)):
        monkeypatch.setattr(scroll, name, function)
    train(load(path, ["train.steps=6"]), tmp_path / "run")
    assert " ".join(order) == "+1 +2 -1 +3 -2 +4 -3 -4 E +5 +6 -5 -6 E"
