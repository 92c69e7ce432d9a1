"""Training end to end: it learns, a stopped run goes on bit for bit, accumulation is one larger batch."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted
from posnmt.base.progress import Display
from posnmt.base.version import FORMAT
from posnmt.data.batch import BatchPlan
from posnmt.model.weights import average
from posnmt.run.resolve import load
from posnmt.run.run import Run, checkpoints_in
from posnmt.training.train import train
from tests.support import corpus
from tests.support.training_case import StopAt, assert_same, losses, weights


@pytest.fixture(scope="module")
def config_path(tmp_path_factory):
    """A batch is computed in two parts, each with dropout of its own."""
    return corpus.make(tmp_path_factory.mktemp("corpus"), train={"batch": 300})


SAMPLED = ["subword.sampling.segmentations=3", "train.batch=1000", "train.concatenate=0.1"]
DRAWN = ["train.with_replacement=true", "train.batch_unit=sentences", "train.batch=20"]
PERPLEXITY = ["train.dev_bleu=false", "train.best_by=perplexity"]


@pytest.fixture(scope="module")
def plain(config_path, tmp_path_factory):
    """A run of the configuration as it is."""
    return train(load(config_path), tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture(scope="module")
def never_stopped(config_path, tmp_path_factory):
    """A function: settings → a configuration, and the folder of a run of it, which is trained once."""

    @cache
    def run(*settings):
        config = load(config_path, [*settings, "model.dropout=0.2"])
        return config, train(config, tmp_path_factory.mktemp("never") / "run").folder

    return run


@pytest.mark.parametrize(
    ("settings", "stop"),
    [
        (["train.precision=fp32"], 3),
        (["train.precision=fp32"], 4),
        (["train.precision=fp32"], 9),
        (["train.precision=bf16", *PERPLEXITY], 9),
        (["train.concatenate=0.5", *PERPLEXITY], 3),
        (["train.concatenate=0.5", *PERPLEXITY], 9),
        (["train.schedule.cooldown=0.75", *PERPLEXITY], 9),
        (["train.optimizer=muon", *PERPLEXITY], 9),
        (["train.optimizer=muon", "train.muon_every=4", *PERPLEXITY], 3),
        (["train.optimizer=muon", "train.muon_every=4", *PERPLEXITY], 9),
        ([*SAMPLED, *PERPLEXITY], 3),
        ([*SAMPLED, *PERPLEXITY], 9),
        ([*DRAWN, *PERPLEXITY], 3),
        ([*DRAWN, *PERPLEXITY], 9),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_stopped_run_goes_on_bit_for_bit(never_stopped, tmp_path, monkeypatch, settings, stop):
    """Before the first evaluation, at one, and between two; what a setting adds is lost or kept at any stop alike."""
    config, whole = never_stopped(*settings)
    with monkeypatch.context() as patch:
        StopAt(stop, patch)
        with pytest.raises(Interrupted, match=f"stopped after step {stop}, state saved"):
            train(config, tmp_path / "parts")
    assert checkpoints_in(tmp_path / "parts" / "checkpoints")[-1].name == f"step-{stop:08}"
    train(config, tmp_path / "parts", resume=True)
    assert losses(tmp_path / "parts") == losses(whole)
    assert losses(tmp_path / "parts", "dev", "perplexity") == losses(whole, "dev", "perplexity")
    for name in ("last", "best", "average", "model"):
        assert_same(weights(tmp_path / "parts", name), weights(whole, name))


def test_a_killed_run_goes_on_bit_for_bit(config_path, tmp_path):
    """kill -9 in the middle, through the real command; what was written after the last checkpoint is written again."""
    settings = ["train.steps=40", *PERPLEXITY]
    config = load(config_path, settings)
    train(config, tmp_path / "whole")
    command = [
        sys.executable,
        "-m",
        "posnmt",
        "train",
        str(config_path),
        "--out",
        str(tmp_path / "killed"),
        *(f"--set={each}" for each in (*settings, f"format={FORMAT}")),  # with that format nothing is chosen
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "step 8  dev" in line:
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    assert losses(tmp_path / "killed").keys() < losses(tmp_path / "whole").keys()
    train(config, tmp_path / "killed", resume=True)
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")
    assert_same(weights(tmp_path / "killed"), weights(tmp_path / "whole"))


@pytest.mark.slow
def test_a_signal_saves_the_state_and_exits_130(config_path, tmp_path):
    command = [
        sys.executable,
        "-m",
        "posnmt",
        "train",
        str(config_path),
        "--out",
        str(tmp_path / "run"),
        "--set",
        "train.steps=100000",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "step 4  dev" in line:
            process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert "interrupted: stopped after step " in lines[-1]
    assert "Traceback" not in "".join(lines)
    step = json.loads((checkpoints_in(tmp_path / "run" / "checkpoints")[-1] / "state.json").read_text())["step"]
    assert f"stopped after step {step}," in lines[-1]


def test_accumulation_is_one_larger_batch(config_path, tmp_path, monkeypatch):
    """Two batches accumulated give the update of one batch of both: gradients are means over tokens."""
    settings = [
        "train.precision=fp64",
        "train.steps=4",
        "train.batch=40",
        "train.batch_unit=sentences",
        "model.dropout=0.0",
    ]
    whole = load(config_path, settings)
    halves = load(config_path, [*settings, "train.batch=20", "train.accumulate=2"])
    original = BatchPlan.take

    def halved(plan, cursor, count):
        """The same sentences in the same order, cut into two."""
        if count == 1:
            return original(plan, cursor, count)
        wide = BatchPlan(plan.pairs, 40, "sentences", plan.seed, plan.sort_by)
        [batch], cursor = original(wide, cursor, 1)
        return [batch[::2], batch[1::2]], cursor

    train(whole, tmp_path / "whole")
    monkeypatch.setattr(BatchPlan, "take", halved)
    train(halves, tmp_path / "halves")
    for name, tensor in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "halves")[name], tensor, rtol=0, atol=1e-9)


def test_a_run_records_where_it_came_from(plain):
    record = plain.record
    assert record["steps"] == 12
    assert record["stopped"] == "12 steps"
    assert record["seed"] == 1
    assert record["packages"]["torch"] == version("torch")
    assert record["training_lengths"]["source"]["longest"] > record["training_lengths"]["source"]["shortest"] > 0
    assert len(record["data"]) == 64
    assert record["parameters"] == sum(weight.numel() for weight in plain.model().parameters())
    assert list((plain.folder / "tensorboard").iterdir())


def test_the_average_is_the_mean_and_old_checkpoints_go(plain):
    places = checkpoints_in(plain.folder / "checkpoints")
    assert [place.name for place in places] == ["step-00000008", "step-00000012"]
    assert all((place / "optimizer.safetensors").exists() for place in places)
    tensors = [load_file(place / "model.safetensors") for place in places]
    mean = average([place / "model.safetensors" for place in places])
    for name, value in mean.items():
        torch.testing.assert_close(value, (tensors[0][name] + tensors[1][name]) / 2)
    assert_same(weights(plain.folder, "average"), mean)


def test_a_run_keeps_the_settings_that_it_was_resumed_with(plain, tmp_path, monkeypatch):
    """Stopped again, it goes on to its new end with its own configuration."""
    out = Path(shutil.copytree(plain.folder, tmp_path / "run"))
    config = Run.open(out).config
    longer = config.model_copy(update={"train": config.train.model_copy(update={"steps": 24})})
    with monkeypatch.context() as patch:
        StopAt(15, patch)
        with pytest.raises(Interrupted):
            train(longer, out, resume=True)
    assert load(out / "config.yaml").train.steps == 24
    run = train(Run.open(out).config, out, resume=True)
    assert (run.record["steps"], run.record["stopped"]) == (24, "24 steps")
    assert run.record["changed"] == [{"step": 12, "settings": {"train.steps": 24}}]


@pytest.fixture(scope="module")
def passes(config_path, tmp_path_factory):
    """A run of more than one pass."""
    return train(load(config_path, ["train.batch=30000", "train.steps=5"]), tmp_path_factory.mktemp("passes") / "run")


@pytest.mark.parametrize("limit", ["steps=4", "epochs=1", "minutes=1e-5"])
def test_a_run_is_not_resumed_with_a_limit_that_it_has_passed(passes, limit):
    """Nor is anything changed: its record would say that it ended at a limit that it went beyond."""
    files = {path: path.read_bytes() for path in passes.folder.rglob("*") if path.is_file()}
    key = limit.partition("=")[0]
    with pytest.raises(UserError, match=rf"the run has .* behind it, and the limit is .*\(train.{key}\)"):
        train(load(passes.folder / "config.yaml", [f"train.{limit}"]), passes.folder, resume=True)
    assert {path: path.read_bytes() for path in passes.folder.rglob("*") if path.is_file()} == files


def test_a_run_that_has_ended_says_so_when_it_is_resumed(plain, tmp_path):
    out = Path(shutil.copytree(plain.folder, tmp_path / "run"))
    said = []
    display = Display(quiet=True)
    display.say = said.append
    assert train(plain.config, out, resume=True, display=display).record["steps"] == 12
    assert [line for line in said if line.startswith(("nothing is left to train", "resuming"))] == [
        "nothing is left to train: the run has reached its limit, 12 steps; a higher one goes on with it"
    ]
    said.clear()
    train(load(out / "config.yaml", ["train.steps=13"]), out, resume=True, display=display)
    assert any(line.startswith("resuming after 12 updates") for line in said)


def test_of_equal_bleu_the_lower_perplexity_is_the_best(config_path, tmp_path, monkeypatch):
    """BLEU is 0 for long on small corpora."""
    monkeypatch.setattr("posnmt.training.evaluate.bleu", lambda *texts: {"bleu": 0.0, "signature": ""})
    run = train(load(config_path, ["train.best_by=bleu", "train.patience=1"]), tmp_path / "run")
    perplexities = losses(run.folder, "dev", "perplexity")
    assert min(perplexities, key=perplexities.__getitem__) == run.record["best_step"] > 4


def test_early_stopping(config_path, tmp_path):
    config = load(
        config_path, ["train.learning_rate=0.0000001", "train.steps=100", "train.patience=2", "train.best_by=bleu"]
    )
    run = train(config, tmp_path / "run")
    assert run.record["stopped"] == "no better dev score in 2 evaluations"
    assert run.record["steps"] < 100


def test_without_a_dev_corpus_the_last_checkpoint_is_the_model(config_path, tmp_path):
    run = train(load(config_path, ["data.dev=null"]), tmp_path / "run")
    assert_same(weights(run.folder, "model"), weights(run.folder, "last"))
    assert run.record["model"] == "last"
    assert losses(run.folder, "dev", "perplexity") == {}


def test_refusals(config_path, plain, tmp_path):
    config = load(config_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("x")
    with pytest.raises(UserError, match="a folder that is no run is here already, and is not overwritten"):
        train(config, tmp_path / "run")
    with pytest.raises(UserError, match="is not a run folder"):
        train(config, tmp_path / "run", resume=True)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]
    with pytest.raises(UserError, match=r"started with another config: model\.d_model was 16, is 32"):
        train(load(config_path, ["model.d_model=32"]), plain.folder, resume=True)
    with pytest.raises(
        UserError, match=r"a train (source|target) sentence has \d+ subwords .* has positions for 5 tokens"
    ):
        train(load(config_path, ["model.system=learned", "model.max_length=5"]), tmp_path / "short")
    assert not (tmp_path / "short").exists()


def test_joined_pairs_count_among_the_training_lengths(config_path, plain, tmp_path):
    longest = plain.record["training_lengths"]["source"]["longest"]
    joined = train(load(config_path, ["train.concatenate=1", "train.steps=1"]), tmp_path / "joined").record
    assert longest < joined["training_lengths"]["source"]["longest"] <= 2 * longest
    fits = longest + 1  # every sentence of the corpus, but not two of them
    config = load(config_path, ["model.system=learned", f"model.max_length={fits}", "train.concatenate=1"])
    with pytest.raises(UserError, match=r"a train source sentence has \d+ subwords .*line \d+ joined with line \d+"):
        train(config, tmp_path / "short")


def test_a_checkpoint_from_another_config_is_refused(plain, tmp_path):
    run = Run.open(shutil.copytree(plain.folder, tmp_path / "run"))
    text = (run.folder / "config.yaml").read_text()
    (run.folder / "config.yaml").write_text(text.replace("d_model: 16", "d_model: 32"))
    with pytest.raises(UserError, match=r"made with another config: .* is \[.*16\], not \[.*32\]"):
        Run.open(run.folder).model()
    Path(run.weights("model")).write_bytes(b"not safetensors")
    with pytest.raises(UserError, match="not a readable safetensors file"):
        Run.open(run.folder).model()


def test_a_loss_that_is_no_number_ends_the_run_with_advice(config_path, tmp_path):
    config = load(
        config_path,
        ["train.learning_rate=1e12", "train.precision=fp32", "train.schedule.type=constant", "train.schedule.warmup=0"],
    )
    with pytest.raises(UserError, match=r"the (loss|gradient) is not finite at step \d+, .*lower train.learning_rate"):
        train(config, tmp_path / "run")
