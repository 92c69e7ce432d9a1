"""Loggers of other programs: what they get, and that none of them can stop or change a training."""

from __future__ import annotations

import json
import threading

import pytest

from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted
from posnmt.base.progress import Display
from posnmt.run.resolve import load
from posnmt.training import loggers
from posnmt.training.train import train
from tests.support import corpus
from tests.support.training_case import StopAt, assert_same, losses, weights


class Said(Display):
    """A display that keeps its lines."""

    def __init__(self):
        super().__init__(quiet=True)
        self.lines = []

    def say(self, message):
        self.lines.append(message)


@pytest.fixture(scope="module")
def config_path(tmp_path_factory):
    return corpus.make(tmp_path_factory.mktemp("corpus"), train={"steps": 8, "evaluate_every": 4})


@pytest.fixture(scope="module")
def plain(config_path, tmp_path_factory):
    """A run without any logger."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    return train(load(config_path, ["train.loggers=[]"]), folder).folder


def stored(path):
    """The records in a file of wandb: after 7 bytes a log of LevelDB, whose blocks have 32 kB."""
    data, place, record = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if (left := 2**15 - place % 2**15) < 7:
            place += left
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def numbers(folder):
    """What wandb keeps of a run on this machine: the dictionary of each call of its log."""
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    wandb.teardown()  # its process writes the end of the file
    logged = []
    for file in sorted((folder / "wandb").glob("offline-run-*/*.wandb")):
        for record in map(Record.FromString, stored(file)):
            if record.WhichOneof("record_type") == "history":
                items = record.history.item
                logged.append({item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items})
    return logged


@pytest.fixture
def offline(monkeypatch):
    """wandb without a network and without a key, as in a new process."""
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("NETRC", "nowhere")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    wandb.teardown()
    yield
    wandb.teardown()


@pytest.mark.slow
def test_wandb_gets_the_numbers_of_the_metrics(config_path, plain, tmp_path, offline):
    config, said = load(config_path, ["train.loggers=[tensorboard, wandb]"]), Said()
    with pytest.MonkeyPatch.context() as patch:
        StopAt(4, patch)
        with pytest.raises(Interrupted):
            train(config, tmp_path / "run", display=said)
    [before] = json.loads((tmp_path / "run" / "loggers.json").read_text()).values()
    train(config, tmp_path / "run", resume=True, display=said)
    assert [line for line in said.lines if "loggers" in line] == []
    logged = numbers(tmp_path / "run")
    assert {each["step"]: each["train/loss"] for each in logged if "train/loss" in each} == losses(tmp_path / "run")
    assert {each["step"] for each in logged if "dev/perplexity" in each} == {4, 8}
    assert [*json.loads((tmp_path / "run" / "loggers.json").read_text()).values()] == [before]
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    assert_same(weights(tmp_path / "run"), weights(plain))


@pytest.mark.slow
def test_wandb_without_a_key_gives_a_warning(config_path, plain, tmp_path, offline, monkeypatch, capfd):
    monkeypatch.setenv("WANDB_MODE", "online")
    said = Said()
    train(load(config_path, ["train.loggers=[wandb]"]), tmp_path / "run", display=said)
    assert "wandb" not in "".join(capfd.readouterr())  # wandb itself warns of calls that it will remove
    assert [line for line in said.lines if "loggers" in line] == [
        "warning: train.loggers: wandb gets no more numbers: there is no API key; run `wandb login`, or set"
        " WANDB_MODE=offline; training goes on"
    ]
    assert_same(weights(tmp_path / "run"), weights(plain))


class Failing:
    """A logger that fails at the third step that it gets, or is never done."""

    def __init__(self, folder, step, config):
        self.steps = []

    def log(self, step, values):
        self.steps.append(step)
        if len(self.steps) == 3:
            raise OSError("no space is left")

    def close(self):
        raise AssertionError


class Waiting(Failing):
    def log(self, step, values):
        threading.Event().wait()


@pytest.mark.parametrize(
    ("logger", "sentence"),
    [
        (Failing, "train.loggers: wandb gets no more numbers: no space is left; training goes on"),
        (Waiting, "wandb is not done after 0.2 seconds, and is left alone"),
    ],
)
def test_a_logger_that_fails_stops_nothing(config_path, plain, tmp_path, monkeypatch, logger, sentence):
    monkeypatch.setitem(loggers.LOGGERS, "wandb", logger)
    monkeypatch.setattr(loggers, "WAIT", 0.2)
    said = Said()
    train(load(config_path, ["train.loggers=[wandb]"]), tmp_path / "run", display=said)
    assert [line for line in said.lines if "wandb" in line] == [f"warning: {sentence}"]
    assert_same(weights(tmp_path / "run"), weights(plain))
    assert losses(tmp_path / "run") == losses(plain)


def test_a_missing_package_is_named_before_training(config_path, tmp_path, monkeypatch):
    monkeypatch.setattr("posnmt.base.extras.find_spec", lambda module: None if module == "wandb" else module)
    with pytest.raises(UserError, match=r'not installed: wandb; pip install "posnmt\[wandb\]"'):
        train(load(config_path, ["train.loggers=[wandb]"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
