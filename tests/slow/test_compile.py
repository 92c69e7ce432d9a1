"""torch.compile. Slow because compiling even a tiny model takes more than a minute on two cores."""

from __future__ import annotations

import pytest
import torch

from posnmt.base.interrupt import Interrupted
from posnmt.run.resolve import load
from posnmt.training.train import train
from tests.support import corpus
from tests.support.training_case import StopAt, assert_same, losses, weights

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("system", ["transformer", "relative"])
def test_compiled_training_is_the_same_training(system, tmp_path):
    settings = [f"model.system={system}", "train.precision=fp32", "model.dropout=0.0"]
    path = corpus.make(tmp_path)
    eager = train(load(path, settings), tmp_path / "eager")
    compiled = train(load(path, [*settings, "train.compile=true"]), tmp_path / "compiled")
    assert losses(compiled.folder) == pytest.approx(losses(eager.folder), rel=1e-4)


def test_a_stopped_compiled_run_goes_on_bit_for_bit(tmp_path, monkeypatch):
    """With dropout, and compiled again in between."""
    config = load(corpus.make(tmp_path), ["model.dropout=0.2", "train.compile=true"])
    whole = train(config, tmp_path / "whole")
    torch._dynamo.reset()
    with monkeypatch.context() as patched:
        StopAt(6, patched)
        with pytest.raises(Interrupted):
            train(config, tmp_path / "parts")
    torch._dynamo.reset()
    parts = train(config, tmp_path / "parts", resume=True)
    assert_same(weights(parts.folder), weights(whole.folder))
