"""Two processes started by torchrun train as one process does that accumulates as many batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from posnmt.run.resolve import load
from posnmt.training.train import train
from tests.support import corpus


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow  # test_sharding has the property, without the command
def test_two_processes_equal_accumulation(tmp_path):
    settings = ["train.precision=fp64", "model.dropout=0.0"]
    path = corpus.make(tmp_path)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "posnmt"]
    arguments = ["train", str(path), "--out", str(tmp_path / "two")]
    arguments += [word for each in settings for word in ("--set", each)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launcher, *arguments], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'two'}\n"
    chosen = tmp_path / "two" / "config.yaml"  # with all that the command chose
    train(load(chosen, ["train.accumulate=2"]), tmp_path / "one")
    one, two = metrics(tmp_path / "one"), metrics(tmp_path / "two")
    assert [(line["kind"], line["step"]) for line in one] == [(line["kind"], line["step"]) for line in two]
    for ours, theirs in zip(one, two, strict=True):
        for name in ("loss", "perplexity", "target_tokens"):
            if name in ours:
                assert theirs[name] == pytest.approx(ours[name], rel=1e-9)
