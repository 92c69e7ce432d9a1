"""A run is resumed from any working directory and with texts that have moved, but only with the same texts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted
from posnmt.run.resolve import from_tree, load
from posnmt.run.run import Run
from posnmt.training import stop
from posnmt.training.train import train
from tests.support import corpus


@pytest.fixture
def tree(tmp_path):
    """A configuration with paths relative to the folder that its corpus is in."""
    tree = yaml.safe_load(corpus.make(tmp_path / "here", pairs=40).read_text())
    tree["data"]["store"] = "stores"
    tree["train"] |= {"steps": 4, "dev_bleu": False, "best_by": "perplexity"}
    return tree


@pytest.fixture
def stopped(tree, tmp_path, monkeypatch):
    """A run that was started in that folder and stopped after two steps; now the working directory is another."""
    monkeypatch.chdir(tmp_path / "here")
    with monkeypatch.context() as patch:
        patch.setattr(stop, "why_stop", lambda settings, progress, heard: "interrupted" if progress.step == 2 else "")
        with pytest.raises(Interrupted):
            train(from_tree(tree), Path("run"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "here" / "run"


def test_a_config_without_a_file_starts_from_the_working_directory(tree, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert from_tree(tree).data.root == str(tmp_path)
    tree["data"]["root"] = "here"
    assert from_tree(tree).data.root == str(tmp_path / "here")


def test_a_run_resumes_with_its_own_config_from_anywhere(stopped):
    config = load(stopped / "config.yaml")
    assert config.data.root == str(stopped.parent)
    assert train(config, stopped, resume=True).record["steps"] == 4


def test_a_run_resumes_where_its_texts_have_moved(stopped, tree, tmp_path):
    shutil.move(tmp_path / "here", tmp_path / "there")
    shutil.move(tmp_path / "there" / "corpus", tmp_path / "corpus")
    assert train(from_tree(tree), tmp_path / "there" / "run", resume=True).record["steps"] == 4


def test_a_run_whose_config_does_not_name_its_folder_resumes(stopped, tree):
    """Texts are compared by their contents: `root: .` is another folder where the run's config is read."""
    path = stopped / "config.yaml"
    path.write_text(re.sub(r"root: .*", "root: .", path.read_text()))
    tree["data"]["root"] = str(stopped.parent)
    assert train(from_tree(tree), stopped, resume=True).record["steps"] == 4


@pytest.mark.parametrize("name", ["train.source", "dev.target"])
def test_a_run_is_not_resumed_on_another_text(stopped, name):
    config, path = load(stopped / "config.yaml"), stopped.parent / "corpus" / name
    path.write_text(path.read_text().replace("a", "o"))
    record = Run.open(stopped).record
    with pytest.raises(UserError, match=r"the run was started on other text: .* was [0-9a-f]{16}, is [0-9a-f]{16}"):
        train(config, stopped, resume=True)
    assert Run.open(stopped).record == record


def test_a_run_is_not_resumed_without_its_dev_text(stopped):
    with pytest.raises(UserError, match="started on other text"):
        train(load(stopped / "config.yaml", ["data.dev=null"]), stopped, resume=True)
