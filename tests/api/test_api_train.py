"""`posnmt.train`: a dictionary, a file, a Config or two files, as `posnmt train`."""

from __future__ import annotations

import pytest
import yaml

import posnmt
from tests.support import corpus


@pytest.fixture
def config(tmp_path):
    return corpus.make(tmp_path, pairs=60, train={"steps": 2, "log_every": 1, "evaluate_every": 2})


def losses(run):
    return [
        line.split('"loss": ')[1].split(",")[0] for line in (run.folder / "metrics.jsonl").open() if '"loss"' in line
    ]


def test_a_path_a_dictionary_and_a_config_train_the_same(config, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first = posnmt.train(config, tmp_path / "first", show_progress=False)
    assert capsys.readouterr() == ("", "")
    second = posnmt.train(yaml.safe_load(config.read_text(encoding="utf-8")), "second")
    assert "chosen" in capsys.readouterr().err
    third = posnmt.train(first.config, str(tmp_path / "third"))
    assert first.config == second.config == third.config
    assert "chosen" in first.record
    assert "chosen" not in third.record
    weights = {(run.folder / "model.safetensors").read_bytes()[-1000:] for run in (first, second, third)}
    assert len(weights) == 1
    assert posnmt.load(first).runs[0] is first


def test_two_files_settings_and_resuming(config, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sides = {side: tmp_path / "corpus" / f"train.{side}" for side in ("source", "target")}
    settings = {
        "train.steps": 2,
        "subword.vocabulary": 150,
        "data.store": str(tmp_path / "stores"),
        "model.size": "tiny",
    }
    languages = {"source_language": "en", "target_language": "de"}
    run = posnmt.train(out=tmp_path / "mine", **sides, **languages, settings=settings, show_progress=False)
    assert (run.record["steps"], run.config.data.source_language) == (2, "en")
    again = posnmt.train(out=run.folder, resume=True, settings=["train.steps=3"], show_progress=False)
    assert again.record["steps"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no training text is named"),
        ({"config": 3}, "a config is a YAML file, a dictionary or a Config; got int"),
        ({"config": {"train": {"step": 3}}}, "unknown key train.step"),
        ({"config": {}, "source": "a", "target": "b"}, "both a config and"),
        ({"config": "nowhere.yaml"}, "config does not exist"),
        ({"source": "a.en"}, "--source is given without the other side"),
        ({"config": {}, "settings": None}, r"a list of `key=value`; got None \(settings\)"),
        ({"config": {}, "settings": 5}, r"a list of `key=value`; got 5 \(settings\)"),
        ({"config": {}, "settings": [5]}, r"a list of `key=value`; got \[5\] \(settings\)"),
        ({"config": {}, "init": 5}, r"valid path.*; got 5 \(init\)"),
        ({"config": {}, "dev_source": 5}, r"valid path.*; got 5 \(dev_source\)"),
    ],
)
def test_faults_are_user_errors(tmp_path, arguments, message):
    with pytest.raises(posnmt.UserError, match=message):
        posnmt.train(**arguments, out=tmp_path / "run", show_progress=False)
    assert not (tmp_path / "run").exists()


def test_a_run_folder_has_a_name():
    with pytest.raises(posnmt.UserError, match=r"valid path.*; got None \(out\)"):
        posnmt.train({}, None, show_progress=False)
