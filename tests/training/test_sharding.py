"""Weights shared out over two processes (FSDP2, gloo) train as one process, or two with all weights each (DDP), do.

This file is also what torchrun starts: several trainings one after the other, each process writing down what it holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file

from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted
from posnmt.config.schema import Train
from posnmt.run.resolve import load
from posnmt.run.run import Run
from posnmt.training import build, keep, stop
from posnmt.training import train as scroll
from posnmt.training.device import make_fabric
from posnmt.training.gradients import Whole
from posnmt.training.train import train
from tests.support import corpus
from tests.support.sources import SOURCES

pytestmark = pytest.mark.slow


CLIP = 0.3
"""Smaller than the norm of the gradients."""

ALONE = ["train.precision=fp64", "model.dropout=0.0", f"train.clip={CLIP}", "train.steps=8"]
SHARED = [*ALONE, "train.shard=true"]
RELATIVE, REORDERING = [], ["model.system=re-both", "model.tie_embeddings=all", "train.accumulate=2"]
RECURRENT = [
    "model.system=mpr-head",
    "model.norm=pre",
    "model.init=small-output",
    "model.decoder.cross=[{scheme: kerple}]",
]
OTHER = ["model.system=rnn-nmt", "model.encoder.layers=1", "model.decoder.layers=1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of runs: those of two processes, and those that one process accumulates."""
    folder = tmp_path_factory.mktemp("sharding")
    path = str(corpus.make(folder))
    jobs = [
        {"out": "ddp", "settings": ALONE},
        {"out": "ddp-ahead", "settings": ALONE, "ahead": True},
        {"out": "relative-ahead", "settings": SHARED, "ahead": True},
        {"out": "timed", "settings": [*ALONE, "train.minutes=0.01", "train.steps=null"]},
        {"out": "relative", "settings": SHARED},
        {"out": "reordering", "settings": [*SHARED, *REORDERING]},
        {"out": "recurrent", "settings": [*SHARED, *RECURRENT]},
        {"out": "other", "settings": [*SHARED, *OTHER]},
        {"out": "shared-first", "settings": SHARED, "stop": 3},
        {"out": "shared-first", "settings": ALONE, "resume": True},
        {"out": "shared-last", "settings": ALONE, "stop": 3},
        {"out": "shared-last", "settings": SHARED, "resume": True},
    ]
    (folder / "jobs.json").write_text(json.dumps([{**job, "config": path} for job in jobs]))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCES}
    done = subprocess.run(
        [*launcher, __file__, str(folder)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "returned a view tensor" not in done.stderr
    for name, settings in {"relative": RELATIVE, "reordering": REORDERING, "recurrent": RECURRENT}.items():
        twice = "train.accumulate=4" if settings is REORDERING else "train.accumulate=2"
        train(load(path, [*ALONE, *settings, twice]), folder / f"one-{name}")
    train(load(path, [*ALONE, *OTHER, "train.accumulate=2"]), folder / "one-other")
    return folder


def held(folder, name):
    """What each of the two processes wrote down about a run."""
    return [json.loads((folder / f"{name}.{rank}.json").read_text()) for rank in range(2)]


def assert_same_course(ours, theirs):
    """Two runs have the same lines of metrics, and the same weights in all files."""
    one, other = ([json.loads(line) for line in (run / "metrics.jsonl").open()] for run in (ours, theirs))
    assert [(line["kind"], line["step"]) for line in one] == [(line["kind"], line["step"]) for line in other]
    for line, its in zip(one, other, strict=True):
        for name in {"loss", "perplexity", "bleu"} & line.keys():
            assert line[name] == pytest.approx(its[name], rel=1e-9), (line["kind"], line["step"], name)
    for name in ("model", "best", "average", "last"):
        left, right = (load_file(Run.open(run).weights(name)) for run in (ours, theirs))
        assert left.keys() == right.keys()
        for key in left:
            torch.testing.assert_close(left[key], right[key], rtol=0, atol=1e-9, msg=f"{name}: {key}")


@pytest.mark.parametrize("name", ["relative", "reordering", "recurrent", "other"])
def test_slices_train_as_one_process_does(runs, name):
    assert_same_course(runs / name, runs / f"one-{name}")


def test_slices_train_as_whole_copies_do(runs):
    assert_same_course(runs / "relative", runs / "ddp")
    norms = [each["norms"] for each in (*held(runs, "relative"), *held(runs, "ddp"))]
    assert len(norms[0]) == 8
    assert all(norm > CLIP for norm in norms[0])  # clipped at every step, and by the same norm everywhere
    for other in norms[1:]:
        assert other == pytest.approx(norms[0], rel=1e-9)


@pytest.mark.parametrize("name", ["ddp", "relative"])
def test_processes_that_prepare_work_while_devices_compute_train_alike(runs, name):
    """A thread of each makes its batches, and values are read an update later, except where weights are shared out."""
    assert_same_course(runs / f"{name}-ahead", runs / name)
    lags = {"ddp": 1, "relative": 0}
    assert [each["ahead"] for each in held(runs, f"{name}-ahead")] == [[True, lags[name]]] * 2
    assert [each["ahead"] for each in held(runs, name)] == [[False, 0]] * 2


@pytest.mark.parametrize("name", ["ddp", "relative", "reordering"])
def test_each_process_and_batch_has_a_dropout_of_its_own(runs, name):
    """Random numbers are seeded with (seed, step, process, batch of the update)."""
    batches = 2 if name == "reordering" else 1
    for rank, process in enumerate(held(runs, name)):
        assert process["seeds"] == [[1, step, rank, batch] for step in range(1, 9) for batch in range(batches)]


def test_processes_agree_on_the_share_of_minutes_that_is_spent(runs):
    first, second = (process["shares"] for process in held(runs, "timed"))
    assert len(first) > 1
    assert first[-1] > 0
    assert first == second  # to the last digit, though each process has a clock of its own


@pytest.mark.parametrize("name", ["shared-first", "shared-last"])
def test_a_stopped_run_goes_on_with_slices_or_without(runs, name):
    assert_same_course(runs / name, runs / "relative")


@pytest.mark.parametrize("name", ["relative", "reordering", "recurrent", "other"])
def test_each_process_has_half(runs, name):
    parameters = Run.open(runs / name).record["parameters"]
    for process in held(runs, name):
        # a matrix of an odd number of rows is not cut in equal halves
        assert process["parameters"] == pytest.approx(parameters / 2, rel=0.01)
        assert process["moments"] == 2 * process["parameters"]
        assert process["gradients"] == [process["parameters"]]  # after the first batch of an update as well
    assert sum(process["parameters"] for process in held(runs, name)) == parameters
    assert [process["parameters"] for process in held(runs, "ddp")] == 2 * [Run.open(runs / "ddp").record["parameters"]]


def test_a_shared_run_translates(runs):
    model = Run.open(runs / "relative").model()
    assert (
        sum(parameter.numel() for parameter in model.parameters()) == Run.open(runs / "relative").record["parameters"]
    )


def test_one_process_has_nobody_to_share_with():
    with pytest.raises(UserError, match=r"there is only one \(train.shard\); start it with torchrun"):
        make_fabric(Train(steps=1, shard=True))


def test_compiling_is_refused(tmp_path):
    path = corpus.make(tmp_path, pairs=20)
    with pytest.raises(UserError, match="compile and shard cannot be combined"):
        load(path, ["train.shard=true", "train.compile=true"])
    with pytest.raises(UserError, match="muon needs unsharded matrices: set optimizer: adam, or shard: false"):
        load(path, ["train.shard=true", "train.optimizer=muon"])


NORMS: list[float] = []
"""The norm of the gradient at every update of a training, before it was clipped."""

SHARES: list[float] = []
"""How much of the budget was spent, at every update of a training."""


def watched_build(*arguments, original=build.build):
    """A training whose norms are noted."""
    t = original(*arguments)
    clip = t.fabric.clip_gradients

    def watched(*operands, **settings):
        norm = clip(*operands, **settings)
        NORMS.append((norm.full_tensor() if hasattr(norm, "full_tensor") else norm).item())
        return norm

    t.fabric.clip_gradients = watched
    return t


def watched_finish(keeper, t, reason, original=keep.Keeper.finish):
    """The end of a training; writes down its shares of the budget, the norms, and what this process holds."""
    original(keeper, t, reason)
    moments = [moment for each in t.optimizer.state.values() for key, moment in each.items() if key != "step"]
    figures = {
        "norms": NORMS,
        "shares": SHARES,
        "parameters": entries(t.model.parameters()),
        "moments": entries(moments),
        "gradients": list(WatchedWhole.entries),
        "seeds": WatchedWhole.seeds,
        "ahead": [t.prefetch is not None, t.lag],
    }
    folder = keeper.run.folder
    folder.with_name(f"{folder.name}.{t.fabric.global_rank}.json").write_text(json.dumps(figures))


def watched_rate(step, train, d_model, decays, share, original=scroll.learning_rate):
    """The learning rate; notes the share that it is made from."""
    SHARES.append(share)
    return original(step, train, d_model, decays, share)


class WatchedWhole(Whole):
    """Gradients that note each batch's seed, and after it how many numbers of them this process has."""

    entries: ClassVar[set[int]] = set()
    seeds: ClassVar[list[tuple[int, ...]]] = []

    def add(self, batch, scale, seed, last):
        self.seeds.extend([seed] if seed[1] else [])  # step 0 tries the largest batch
        sums = super().add(batch, scale, seed, last)
        parameters = self.shared_loss.module.parameters()
        self.entries.add(entries(parameter.grad for parameter in parameters if parameter.grad is not None))
        return sums


def entries(tensors):
    """How many numbers this process has of some tensors."""
    return sum((each.to_local() if hasattr(each, "to_local") else each).numel() for each in tensors)


def stopping_at(step):
    """Training hears a signal to stop before a certain step; None: it does not."""
    original = stop.why_stop
    return lambda settings, progress, heard: (
        "interrupted" if progress.step == step else original(settings, progress, heard)
    )


def work(folder):
    """The trainings of `jobs.json`, in one process of several."""
    scroll.build, build.Whole, keep.Keeper.finish = watched_build, WatchedWhole, watched_finish
    scroll.learning_rate, why_stop = watched_rate, stop.why_stop
    for job in json.loads((folder / "jobs.json").read_text()):
        out, config = folder / job["out"], load(job["config"], job["settings"])
        stop.why_stop, build.is_ahead = why_stop, lambda device, job=job: job.get("ahead", False)
        WatchedWhole.entries.clear()
        for noted in (WatchedWhole.seeds, SHARES, NORMS):
            noted.clear()
        if "stop" in job:
            stop.why_stop = stopping_at(job["stop"])
        try:
            train(config, out, job.get("resume", False))
        except Interrupted:
            assert "stop" in job


if __name__ == "__main__":
    work(Path(sys.argv[1]))
