"""The plan that is printed before a training: its lines say what the configuration and the record say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.base.words import counted
from posnmt.data.prepare import prepare
from posnmt.run.resolve import load
from posnmt.training.build import build
from posnmt.training.choose import Written, for_training
from posnmt.training.command import TrainRequest, train_command
from posnmt.training.device import make_fabric
from posnmt.training.plan import _batch, plan
from tests.support import corpus
from tests.support.commands import run as command

MINUTES = ["train.minutes=2", "train.steps=null", "train.evaluate_every=null", "train.average=1"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60)


def lines(path, settings, about):
    """Word before the colon → the rest of the line."""
    config = load(path, settings)
    t = build(config, prepare(config), make_fabric(config.train))
    said = [line.partition(": ") for line in plan(t, about, Path("runs/a"), 1_250_000)]
    t.close()
    assert [name for name, _, _ in said] == ["text", "model", "updates", "evaluation", "expect", "details"]
    return {name: rest for name, _, rest in said}


ALONE = "by likelihood alone, so no translations are shown"


@pytest.mark.parametrize(
    ("settings", "about", "updates", "evaluation"),
    [
        (["train.dev_bleu=true"], {}, "12", "every 4 updates, on 20 dev pairs, by BLEU"),
        (["train.steps=1", "train.evaluate_every=1"], {}, "1", f"every 1 update, on 20 dev pairs, {ALONE}"),
        (
            ["train.minutes=1"], {}, "12, or what fits into 1 minute",
            f"every 4 updates, on 20 dev pairs, {ALONE}",
        ),
        (MINUTES, {}, "as many as fit into 2 minutes", f"evenly over the time, on 20 dev pairs, {ALONE}"),
        (
            [*MINUTES, "train.dev_pairs=5"],
            {"planned_updates": 1100, "seconds_an_update": 0.1, "planned_evaluations": 3, "seconds_an_evaluation": 2.0},
            "about 1,100, 0.1 s each, in 2 minutes; more if the machine becomes faster, fewer if it becomes slower",
            f"about 3 times, on 5 of 20 dev pairs, {ALONE}; 5% of the time",
        ),
        (["data.dev=null"], {}, "12", "none, since there is no dev corpus"),
    ],
)  # fmt: skip
def test_a_plan_says_what_is_configured_and_measured(path, settings, about, updates, evaluation):
    said = lines(path, settings, about)
    assert (said["updates"], said["evaluation"]) == (updates, evaluation)
    assert said["model"] == "relative, 1+1 layers, 16 wide, 1.2 million parameters, on cpu"
    assert said["text"].startswith(f"60 pairs to train on, {0 if 'data.dev=null' in settings else 20} for dev")


def test_a_plan_of_passes_without_pairs_leaves_their_number_out(path):
    """60 pairs with this weight: one pass in 17 has a pair."""
    files = load(path).data.train
    listed = [f"data.train=[{{source: {files.source}, target: {files.target}, weight: 0.001}}]"]
    assert lines(path, listed, {})["text"] == "60 pairs to train on, 20 for dev"


def test_a_plan_on_a_gpu_says_that_its_batch_was_chosen_for_cpus(path):
    train, about = load(path).train, {"chosen": {"train.batch": 7}}
    said = _batch(torch.device("cuda"), train, about)
    assert f"{train.batch:,} {train.batch_unit}" in said
    assert _batch(torch.device("cpu"), train, about) == _batch(torch.device("cuda"), train, {}) == ""


def test_passes_are_those_of_the_planned_updates(path):
    config = load(path)
    t = build(config, prepare(config), make_fabric(config.train))
    batches = len(t.plan.epoch(0))
    t.close()
    for updates, passes in ((batches, "1 pass"), (2 * batches, "2 passes"), (50 * batches, "50 passes")):
        assert lines(path, [f"train.steps={updates}"], {})["text"].endswith(f"; {passes} over them")
    assert lines(path, ["train.steps=1"], {})["text"].endswith(f"; {1 / batches:.0%} of a pass over them")
    epochs = lines(path, ["train.steps=null", "train.epochs=3"], {})
    assert epochs["updates"] == str(3 * batches)
    assert epochs["text"].endswith("; 3 passes over them")


def test_a_chosen_system_has_its_reason_and_a_named_one_has_none(path):
    assert "rr scores higher" in lines(path, [], {"chosen": {"model.system": "relative"}})["model"]
    assert "rr" not in lines(path, [], {"chosen": {"model.dropout": 0.1}})["model"]


def test_settings_are_printed_by_verbose_alone(path, tmp_path, monkeypatch):
    monkeypatch.setenv("POSNMT_CACHE", str(tmp_path / "cache"))
    files = [f"--{side}={path.parent / 'corpus' / f'train.{side}'}" for side in ("source", "target")]
    small = [f"--set={setting}" for setting in ("model.size=tiny", "train.steps=1", "train.dev_bleu=false")]
    for name, verbose in (("quiet", []), ("verbose", ["--verbose"])):
        out, err = command("train", *files, *small, *verbose, "--out", tmp_path / name)
        assert out == f"{tmp_path / name}\n"
        assert ("train.batch=" in err, "the largest batch fits" in err) == (bool(verbose), bool(verbose))
        assert "updates: 1\n" in err
    _, err = command("train", "--resume", "--out", tmp_path / "quiet", "--set", "train.steps=2")
    assert "resuming after 1 update, on cpu\n" in err
    assert "expect: " not in err


def test_text_in_another_encoding_is_refused_before_anything_is_chosen_from_it(tmp_path):
    for side in ("source", "target"):
        (tmp_path / side).write_bytes("Käse\n".encode("latin-1") * 9)
    files = {side: str(tmp_path / side) for side in ("source", "target")}
    said = []
    with pytest.raises(UserError, match="UTF-8"):
        for_training(Written.from_settings({"data": {"train": files}}), said.append, said.append)
    assert not any("chosen" in line or "0 pairs" in line for line in said)
    with pytest.raises(UserError, match="UTF-8"):
        train_command(TrainRequest(tmp_path / "run", None, files), Display(quiet=True))


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (0, "update", "0 updates"), (1, "update", "1 update"), (1200, "update", "1,200 updates"),
        (1.0, "minute", "1 minute"), (0.5, "minute", "0.5 minutes"), (2, "pass", "2 passes"), (1, "pass", "1 pass"),
    ],
)  # fmt: skip
def test_numbers_agree_with_their_nouns(number, noun, said):
    assert counted(number, noun) == said
