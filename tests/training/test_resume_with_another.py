"""A run that is resumed with another number of processes, or on another machine, says that it is another run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from posnmt.base.progress import Display
from posnmt.base.version import FORMAT
from posnmt.run.resolve import load
from posnmt.run.run import Run, checkpoints_in
from posnmt.training import device
from posnmt.training.record import CONSEQUENCES
from posnmt.training.train import train
from tests.support import corpus
from tests.support.sources import SOURCES

ROOT = Path(__file__).parents[2]
SETTINGS = ["train.dev_bleu=false", "train.best_by=perplexity", "train.loggers=[]"]
ANOTHER = "warning: the run is resumed with another "


class Heard(Display):
    """Keeps what is said."""

    def __init__(self):
        super().__init__(quiet=True)
        self.said = []

    def say(self, text):
        self.said.append(text)

    @property
    def warned(self):
        return [text.removeprefix(ANOTHER).partition(";")[0] for text in self.said if text.startswith(ANOTHER)]


def resumed(out, steps):
    """What a run warns of when it goes on in this process."""
    heard = Heard()
    train(load(out / "config.yaml", [f"train.steps={steps}"]), out, resume=True, display=heard)
    return heard.warned


def batches_taken(out):
    state = json.loads((checkpoints_in(out / "checkpoints")[-1] / "state.json").read_text())
    assert state["cursor"]["epoch"] == 0
    return state["cursor"]["batch"]


@pytest.mark.slow
def test_another_number_of_processes(tmp_path):
    path = corpus.make(tmp_path, pairs=600)
    settings = [*SETTINGS, "train.steps=4", f"format={FORMAT}"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "posnmt"]
    command += ["train", str(path), "--out", str(tmp_path / "run"), *(f"--set={each}" for each in settings)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCES}

    def on_two(*more):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert ANOTHER not in on_two()
    assert batches_taken(tmp_path / "run") == 8
    assert resumed(tmp_path / "run", 6) == ["number of processes: it was 2 and is 1"]
    assert batches_taken(tmp_path / "run") == 10  # one of an update
    assert resumed(tmp_path / "run", 7) == []
    assert on_two("--resume", "--set=train.steps=8").count(f"{ANOTHER}number of processes: it was 1 and is 2") == 1
    record = Run.open(tmp_path / "run").record["computed_with"]
    assert [(each["step"], each["processes"]) for each in record] == [(0, 2), (4, 1), (7, 2)]


@pytest.fixture
def run(tmp_path):
    return train(load(corpus.make(tmp_path, pairs=40), [*SETTINGS, "train.steps=1"]), tmp_path / "run").folder


def test_what_a_run_is_computed_with(run):
    [first] = Run.open(run).record["computed_with"]
    assert first.keys() == {"step", *CONSEQUENCES}
    assert (first["step"], first["processes"], first["torch"]) == (0, 1, version("torch"))
    assert resumed(run, 2) == []
    assert Run.open(run).record["computed_with"] == [first]


@pytest.mark.parametrize("key", CONSEQUENCES)
def test_everything_that_has_changed_is_warned_of_once(run, key):
    """As if the run had begun elsewhere."""
    record = Run.open(run).record
    [first] = record["computed_with"]
    before = {**first, key: 3 if key == "processes" else "another"}
    Run.open(run).write_record({**record, "computed_with": [before]})
    assert resumed(run, 2) == [f"{CONSEQUENCES[key][0]}: it was {before[key]} and is {first[key]}"]
    assert resumed(run, 3) == []
    assert Run.open(run).record["computed_with"] == [before, {**first, "step": 1}]


def test_a_processor_without_bf16(run, monkeypatch):
    """`train.precision: auto` is then another precision, though the configuration is the same."""
    had = device.multiplies_bf16()
    monkeypatch.setattr(device, "multiplies_bf16", lambda: not had)
    both = ["32-true", "bf16-mixed"]
    assert resumed(run, 2) == [f"precision: it was {both[had]} and is {both[not had]}"]
