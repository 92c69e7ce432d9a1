"""Two processes started by torchrun train as one process does that accumulates as many batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import corpus
from posnmt.resolve import load
from posnmt.train.loop import train


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


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
    train(load(path, [*settings, "train.accumulate=2"]), tmp_path / "one")
    one, two = metrics(tmp_path / "one"), metrics(tmp_path / "two")
    assert [(line["kind"], line["step"]) for line in one] == [(line["kind"], line["step"]) for line in two]
    for ours, theirs in zip(one, two, strict=True):
        for name in ("loss", "perplexity", "target_tokens"):
            if name in ours:
                assert theirs[name] == pytest.approx(ours[name], rel=1e-9)


RECORD_SHARES = """
import json, os, sys
from pathlib import Path
from posnmt.resolve import load
from posnmt.train import loop

shares, learning_rate = [], loop.learning_rate

def recorded(step, train, d_model, decays, share):
    shares.append(share)
    return learning_rate(step, train, d_model, decays, share)

loop.learning_rate = recorded
loop.train(load(sys.argv[1], sys.argv[2:]), Path(sys.argv[1]).parent / "run")
Path(sys.argv[1]).with_name(f"shares-{os.environ['RANK']}.json").write_text(json.dumps(shares))
"""


def test_processes_agree_on_the_share_of_minutes_that_is_spent(tmp_path):
    path, script = corpus.make(tmp_path), tmp_path / "record.py"
    script.write_text(RECORD_SHARES)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(
        [*launcher, str(path), "train.minutes=0.1", "train.steps=null"],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"shares-{rank}.json").read_text()) for rank in (0, 1))
    assert len(first) > 1
    assert first == second  # to the last digit, though each process has a clock of its own
