"""torch.compile. Slow because compiling even a tiny model takes more than a minute on two cores."""

from __future__ import annotations

import json

import pytest

from posnmt.run.resolve import load
from posnmt.training.train import train
from tests.support import corpus

pytestmark = [pytest.mark.slow, pytest.mark.long]


def losses(folder):
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] == "train"]


@pytest.mark.parametrize("system", ["transformer", "relative"])
def test_compiled_training_is_the_same_training(system, tmp_path):
    settings = [f"model.system={system}", "train.precision=fp32", "model.dropout=0.0"]
    path = corpus.make(tmp_path)
    eager = train(load(path, settings), tmp_path / "eager")
    compiled = train(load(path, [*settings, "train.compile=true"]), tmp_path / "compiled")
    assert losses(compiled.folder) == pytest.approx(losses(eager.folder), rel=1e-4)
