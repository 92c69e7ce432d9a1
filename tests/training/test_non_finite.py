"""Losses, gradients, weights and dev figures that are not finite never reach a file of weights, whatever the policy.

Faults are put in where the numbers are computed: in the gradients of chosen updates, in the weights after them, and on
dev. Everything else is the real training.
"""

from __future__ import annotations

import json
import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted
from posnmt.run.resolve import load
from posnmt.run.run import Run, checkpoints_in
from posnmt.training import build, evaluate, stop
from posnmt.training import train as scroll
from posnmt.training.checkpoint import Checkpoints
from posnmt.training.non_finite import HALVINGS, SKIPS
from posnmt.training.train import train
from tests.support import corpus
from tests.support.training_case import StopAt, assert_same, break_updates, losses, say, weights


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    settings = {"steps": 12, "evaluate_every": 4, "log_every": 1, "average": 1, "dev_bleu": False}
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60, train=settings)


@pytest.fixture(autouse=True, params=["process", "device"])
def decided_by(request, monkeypatch):
    """Who decides whether an update is made; the device does where values are read an update later."""
    monkeypatch.setattr(build, "is_ahead", lambda device: request.param == "device")


def all_are_finite(run):
    return all(tensor.isfinite().all() for name in ("model", "best", "last") for tensor in weights(run, name).values())


@pytest.mark.parametrize(("fault", "value"), [("loss", math.nan), ("gradient", math.nan), ("gradient", math.inf)])
@pytest.mark.parametrize("clip", ["1.0", "null"])
def test_stop_names_the_batch_and_keeps_the_checkpoint(fault, value, clip, path, tmp_path, monkeypatch):
    break_updates(monkeypatch, {6: fault}, value)
    with pytest.raises(
        UserError, match=rf"the {fault} is not finite at step 6, of \d+ pairs \(line \d+, .*step 4 is kept"
    ):
        train(load(path, [f"train.clip={clip}"]), tmp_path / "run")
    assert all_are_finite(tmp_path / "run")
    [line] = [
        each for each in map(json.loads, (tmp_path / "run" / "metrics.jsonl").open()) if each["kind"] == "non-finite"
    ]
    assert (line["what"], line["update"]) == (fault, 6)
    assert len(line["pairs"]) > 3


def test_a_skipped_update_leaves_weights_and_moments_alone(path, tmp_path, monkeypatch):
    """A run whose updates 5 to 12 are all skipped ends with the weights of a run of 4 updates."""
    short = train(load(path, ["train.steps=4"]), tmp_path / "short")
    break_updates(monkeypatch, dict.fromkeys(range(5, 13), "gradient"))
    messages: list[str] = []
    long = train(load(path, ["train.non_finite=skip"]), tmp_path / "long", display=say(messages))
    assert_same(weights(short.folder), weights(long.folder))
    assert sum("this update is left out" in message for message in messages) == 8
    assert set(losses(long.folder)) == {1, 2, 3, 4}


def test_skipping_ends_where_every_update_fails(path, tmp_path, monkeypatch):
    break_updates(monkeypatch, dict.fromkeys(range(2, 99), "loss"))
    with pytest.raises(UserError, match=rf"at step {SKIPS + 2}, .* {SKIPS} updates before it were left out"):
        train(load(path, ["train.non_finite=skip", "train.steps=50"]), tmp_path / "run")


def test_skips_count_only_while_they_follow_one_another(path, tmp_path, monkeypatch):
    break_updates(monkeypatch, {step: "loss" for step in range(1, 30) if step % 5})
    assert train(load(path, ["train.non_finite=skip", "train.steps=30"]), tmp_path / "run").record["steps"] == 30


def test_backing_off_goes_on_from_the_checkpoint_at_half_the_rate(path, tmp_path, monkeypatch):
    constant = ["train.schedule={type: constant, warmup: 0}", "train.learning_rate=1e-3"]
    halved = train(load(path, ["train.steps=4", *constant]), tmp_path / "run").folder
    messages: list[str] = []
    break_updates(monkeypatch, {7: "gradient"}, only_above=6e-4)
    config = load(path, ["train.non_finite=back-off", *constant])
    run = train(config, tmp_path / "backed", display=say(messages))
    [message] = [each for each in messages if "training goes on" in each]
    assert "from the checkpoint of step 4 with 1/2 of the learning rate" in message
    rates = losses(run.folder, name="learning_rate")
    assert rates == {step: pytest.approx(1e-3 if step <= 4 else 5e-4) for step in range(1, 13)}
    assert all(math.isfinite(loss) for loss in losses(run.folder).values())
    assert losses(run.folder)[4] == losses(halved)[4]
    assert all_are_finite(run.folder)


def test_backing_off_before_the_first_checkpoint_starts_anew(path, tmp_path, monkeypatch):
    break_updates(monkeypatch, {2: "loss"}, only_above=1e-5)
    settings = ["train.schedule={type: constant, warmup: 0}", "train.learning_rate=1.1e-5"]
    messages: list[str] = []
    train(load(path, ["train.non_finite=back-off", *settings]), tmp_path / "run", display=say(messages))
    assert sum("from the checkpoint of step 0 with 1/2" in message for message in messages) == 1


@pytest.mark.parametrize("optimizer", [[], ["train.optimizer=muon", "train.muon_every=2"]])
def test_the_run_from_step_0_has_no_moments_of_what_went_wrong(optimizer, path, tmp_path, monkeypatch):
    settings = ["train.schedule={type: constant, warmup: 0}", *optimizer]
    anew = train(load(path, [*settings, "train.learning_rate=5e-4"]), tmp_path / "anew")
    break_updates(monkeypatch, {3: "gradient"}, only_above=6e-4)
    backed = [*settings, "train.learning_rate=1e-3", "train.non_finite=back-off"]
    run = train(load(path, backed), tmp_path / "run")
    assert losses(run.folder) == losses(anew.folder)
    assert_same(weights(run.folder), weights(anew.folder))


def test_a_skipped_update_does_not_drop_the_evaluation_at_its_step(path, tmp_path, monkeypatch):
    break_updates(monkeypatch, {8: "gradient"})
    StopAt(9, monkeypatch)
    config = load(path, ["train.non_finite=skip", "train.average=3"])
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run")
    names = [place.name for place in checkpoints_in(tmp_path / "run" / "checkpoints")]
    assert names == ["step-00000004", "step-00000008", "step-00000009"]
    assert [*losses(tmp_path / "run", "dev", "perplexity")] == [4, 8]
    assert 8 not in losses(tmp_path / "run")


def test_a_stop_after_backing_off_changes_nothing(path, tmp_path, monkeypatch):
    break_updates(monkeypatch, {7: "gradient"}, only_above=6e-4)
    constant = ["train.schedule={type: constant, warmup: 0}", "train.learning_rate=1e-3"]
    config = load(path, ["train.non_finite=back-off", *constant])
    whole = train(config, tmp_path / "whole")
    original = stop.why_stop

    def stop_at_six(settings, progress, heard):
        return "interrupted" if (progress.step, progress.halvings) == (6, 1) else original(settings, progress, heard)

    with monkeypatch.context() as patch:
        patch.setattr(stop, "why_stop", stop_at_six)
        with pytest.raises(Interrupted):
            train(config, tmp_path / "stopped")
    assert checkpoints_in(tmp_path / "stopped" / "checkpoints")[-1].name == "step-00000006"
    train(config, tmp_path / "stopped", resume=True)
    assert_same(weights(whole.folder), weights(tmp_path / "stopped"))


def test_a_halving_outlives_a_run_that_dies_before_its_next_checkpoint(path, tmp_path, monkeypatch):
    """Though the checkpoint gone back to is written again, dev was evaluated there, and its weights are averaged."""

    class Dead(BaseException):
        pass

    constant = ["train.schedule={type: constant, warmup: 0}", "train.learning_rate=1e-3", "train.average=2"]
    config = load(path, ["train.non_finite=back-off", *constant])
    break_updates(monkeypatch, {7: "gradient"}, only_above=6e-4)
    whole = train(config, tmp_path / "whole")
    original = stop.why_stop

    def die_at_six(settings, progress, heard):
        if (progress.step, progress.halvings) == (6, 1):
            raise Dead
        return original(settings, progress, heard)

    with monkeypatch.context() as patch:
        patch.setattr(stop, "why_stop", die_at_six)
        with pytest.raises(Dead):
            train(config, tmp_path / "died")
    places = checkpoints_in(tmp_path / "died" / "checkpoints")
    assert [place.name for place in places][-2:] == ["step-00000004", "step-00000004-2"]
    assert Checkpoints(places[0].parent, averaged=2).to_average() == [places[-1]]
    train(config, tmp_path / "died", resume=True)
    assert losses(tmp_path / "died", name="learning_rate") == losses(whole.folder, name="learning_rate")
    assert losses(tmp_path / "died", "non-finite", "update") == {4: 7}
    assert_same(weights(whole.folder), weights(tmp_path / "died"))


def test_a_stop_names_the_step_that_the_run_went_back_to(path, tmp_path, monkeypatch):
    constant = ["train.schedule={type: constant, warmup: 0}", "train.learning_rate=1e-3"]
    break_updates(monkeypatch, {7: "gradient"}, only_above=6e-4)
    original = stop.why_stop
    monkeypatch.setattr(
        stop,
        "why_stop",
        lambda settings, progress, heard: "interrupted" if progress.halvings else original(settings, progress, heard),
    )
    with pytest.raises(Interrupted, match="stopped after step 4, state saved"):
        train(load(path, ["train.non_finite=back-off", *constant]), tmp_path / "run")


def test_the_rate_is_halved_a_few_times_only(path, tmp_path, monkeypatch):
    break_updates(monkeypatch, {2: "loss"})
    with pytest.raises(UserError, match=rf"step 2, .* with 1/{2**HALVINGS} of the rate; the checkpoint of step 0"):
        train(load(path, ["train.non_finite=back-off"]), tmp_path / "run")


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_weights_that_overflow_are_not_saved(policy, path, tmp_path, monkeypatch):
    """The last update before an evaluation has a finite gradient and overflows the weights."""
    original = scroll.update

    def overflow(t, *operands):
        outcome = original(t, *operands)
        if t.progress.step == 8:
            with torch.no_grad():
                t.model.output.weight[0, 0] = math.inf
        return outcome

    monkeypatch.setattr(scroll, "update", overflow)
    with pytest.raises(UserError, match=r"weights are not finite at step 8; the checkpoint of step 4 is kept"):
        train(load(path, [f"train.non_finite={policy}"]), tmp_path / "run")
    assert all_are_finite(tmp_path / "run")
    assert [place.name for place in checkpoints_in(tmp_path / "run" / "checkpoints")] == ["step-00000004"]
    messages: list[str] = []
    config = load(path, ["train.non_finite=back-off"])
    StopAt(8, monkeypatch)
    monkeypatch.setattr(scroll, "evaluate", lambda *operands: True)
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", resume=True, display=say(messages))
    assert any("weights are not finite and are not saved" in message for message in messages)
    assert all_are_finite(tmp_path / "run")


def test_dev_figures_that_are_not_finite(path, tmp_path, monkeypatch):
    """A model whose weights are finite and whose loss on dev is not."""
    original = evaluate.evaluate

    def overflow(*operands):
        figures = original(*operands)
        return {**figures, "perplexity": math.inf, "bleu": 100.0}

    monkeypatch.setattr(evaluate, "evaluate", overflow)
    with pytest.raises(UserError, match="dev perplexity is not finite at step 4; there is no checkpoint yet"):
        train(load(path), tmp_path / "run")
    assert not Run.open(tmp_path / "run").weights("best").exists()
