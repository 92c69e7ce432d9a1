"""`train.init`: a training that continues from a run, with other data, other positions, or more characters."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from posnmt.base.errors import UserError
from posnmt.base.files import sha256_of
from posnmt.base.interrupt import Interrupted
from posnmt.config.schema import Model
from posnmt.config.yaml import override
from posnmt.model.registry import ARCHITECTURES, build_model
from posnmt.run.resolve import load, with_names
from posnmt.run.run import Run
from posnmt.training.choose import Written, for_training
from posnmt.training.freeze import freeze
from posnmt.training.train import train
from tests.support import corpus
from tests.support.training_case import StopAt, assert_same, losses, weights

SHORT = ("train.steps=3", "train.evaluate_every=3", "train.dev_bleu=false", "train.best_by=perplexity")


@pytest.fixture(scope="module")
def config_path(tmp_path_factory):
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=80)


@pytest.fixture(scope="module")
def begun(config_path, tmp_path_factory):
    """A run to continue from."""
    return train(load(config_path, [*SHORT, "model.system=transformer"]), tmp_path_factory.mktemp("begun") / "run")


@pytest.fixture(scope="module")
def files(config_path, tmp_path_factory):
    """Other text of the same kind, of which some has a character that the first has not."""
    folder, old = tmp_path_factory.mktemp("new"), config_path.parent / "corpus"
    for side in ("source", "target"):
        lines = (old / f"test.{side}").read_text(encoding="utf-8").splitlines() * 4
        (folder / f"new.{side}").write_text("".join(f"{line} ж\n" for line in lines), encoding="utf-8")
    return {side: str(folder / f"new.{side}") for side in ("source", "target")}


def settings(run, files, tmp_path, *more):
    """A configuration with data and `train.init` alone, as somebody writes it, and completed."""
    tree = {
        "data": {"train": files, "store": str(tmp_path / "stores")},
        "train": {"init": str(run.folder), "steps": 3, "evaluate_every": 3, "dev_bleu": False, "best_by": "perplexity"},
    }
    for setting in more:
        tree = override(tree, setting)
    return for_training(Written.from_settings(tree), lambda line: None).config


def at_start(folder):
    """The weights before the first update."""
    return load_file(folder / "checkpoints" / "step-00000000" / "model.safetensors")


def test_without_an_update_it_is_the_run(begun, files, tmp_path):
    config = settings(begun, files, tmp_path)
    run = train(config, tmp_path / "run")
    assert config.model == begun.config.model
    assert_same(at_start(run.folder), weights(begun.folder, "model"))
    assert weights(run.folder)["output.weight"].ne(weights(begun.folder, "model")["output.weight"]).any()
    taken = run.record["init"]
    assert taken["weights"] == sha256_of(begun.folder / "model.safetensors")
    assert (taken["path"], taken["system"], taken["updates"]) == (str(begun.folder), "transformer", 3)
    assert (taken["new"], taken["left_out"], taken["new_pieces"]) == ([], [], {"source": 0, "target": 0})
    assert run.text_hash() == begun.text_hash()


@pytest.mark.parametrize(
    "model",
    [
        ["model.system=relative"],
        ["model.system=rope"],
        ["model.encoder.position=[{scheme: t5-bias}, {scheme: sinusoidal}]", "model.decoder.position=[]"],
    ],
)
def test_other_positions_start_anew_and_the_rest_is_copied(begun, files, tmp_path, model):
    config = settings(begun, files, tmp_path, *model)
    run = train(config, tmp_path / "run")
    fresh = train(config.model_copy(update={"train": config.train.model_copy(update={"init": None, "non_finite":
        "back-off"})}), tmp_path / "fresh")  # fmt: skip
    got, before, drawn = at_start(run.folder), weights(begun.folder, "model"), at_start(fresh.folder)
    own = [name for name in got if ".schemes." in name]
    assert sorted(run.record["init"]["new"]) == sorted(own)
    assert_same({name: got[name] for name in own}, {name: drawn[name] for name in own})
    assert_same({name: got[name] for name in got if name not in own}, before)
    assert config.model.system == (model[0].partition("system=")[2] or None)


def test_a_scheme_that_both_have_is_copied_wherever_it_stands(config_path, files, tmp_path):
    begun = train(load(config_path, [*SHORT, "model.system=relative"]), tmp_path / "begun")
    kept = "[{scheme: sinusoidal}, {scheme: relative, distance: 16}]"
    changes = [f"model.encoder.position={kept}", "model.decoder.position=[{scheme: relative, distance: 3}]"]
    run = train(settings(begun, files, tmp_path, *changes), tmp_path / "run")
    got, before = at_start(run.folder), weights(begun.folder, "model")
    name = "layers.0.keys"
    assert torch.equal(got[f"source.schemes.1.{name}"], before[f"source.schemes.0.{name}"])
    assert run.record["init"]["new"] == [f"target.schemes.0.layers.0.{each}" for each in ("keys", "additions")]
    assert run.record["init"]["left_out"] == [f"target.schemes.0.layers.0.{each}" for each in ("additions", "keys")]


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("model.d_model=32", "d_model was 16, is 32"),
        ("model.heads=4", "heads was 2, is 4"),
        ("model.decoder.layers=2", "decoder.layers was 1, is 2"),
        ("model.norm=pre", "norm was 'post', is 'pre'"),
        ("model.tie_embeddings=all", "tie_embeddings was 'none', is 'all'"),
        ("model.size=tiny", "d_model was 16, is 64"),
    ],
)
def test_another_model_is_refused_by_name(begun, files, tmp_path, setting, shown):
    with pytest.raises(UserError) as caught:
        train(settings(begun, files, tmp_path, setting), tmp_path / "run")
    assert len(caught.value.lines) == 1
    assert shown in caught.value.line()
    assert not (tmp_path / "run").exists()


def test_other_subwords_are_refused(begun, config_path, tmp_path):
    with pytest.raises(UserError, match="not split as that of the run"):
        train(load(config_path, [f"train.init={begun.folder}", "model.system=transformer"]), tmp_path / "run")


def test_a_table_of_another_length_is_refused(config_path, files, tmp_path):
    begun = train(load(config_path, [*SHORT, "model.system=learned"]), tmp_path / "begun")
    with pytest.raises(UserError, match=r"source\.schemes\.0\.table is \[1024, 16\] .* and \[64, 16\] here"):
        train(settings(begun, files, tmp_path, "model.max_length=64"), tmp_path / "run")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("shared", ["true", "false"])
def test_characters_that_are_new_get_rows_and_no_other_text_changes(config_path, files, tmp_path, kind, shared):
    subword = [f"subword.type={kind}", f"subword.shared={shared}", "subword.vocabulary=60"]
    begun = train(load(config_path, [*SHORT, *subword]), tmp_path / "begun")
    run = train(settings(begun, files, tmp_path, "subword.pieces=extended"), tmp_path / "run")
    old, new = begun.text(), run.text()
    assert new.source.subwords.pieces == [*old.source.subwords.pieces, "ж"]
    assert run.record["init"]["new_pieces"] == {"source": 1, "target": 1}
    lines = (config_path.parent / "corpus" / "test.source").read_text(encoding="utf-8").splitlines()
    assert new.source.encode(lines) == old.source.encode(lines)
    assert [row[-1] for row in new.source.encode(["x ж"])] == [len(old.source.subwords)]
    got, before = at_start(run.folder), weights(begun.folder, "model")
    for name in ("source.table.weight", "target.table.weight", "output.weight", "output.bias"):
        assert torch.equal(got[name][:-1], before[name])
        assert len(got[name]) == len(before[name]) + 1
    assert got["source.table.weight"][-1].std() > 0


def test_rare_new_characters_remain_unknown(begun, files, tmp_path):
    rare = {side: str(tmp_path / f"rare.{side}") for side in files}
    for side, path in rare.items():
        Path(path).write_text(Path(files[side]).read_text(encoding="utf-8") + "я\n", encoding="utf-8")
    changes = ["subword.pieces=extended", "subword.character_coverage=0.999"]
    run = train(settings(begun, rare, tmp_path, *changes), tmp_path / "run")
    assert run.text().source.subwords.pieces[-1] == "ж"


@pytest.mark.parametrize("pieces", ["kept", "extended"])
def test_a_stopped_run_goes_on_without_the_run_that_it_began_from(begun, files, tmp_path, monkeypatch, pieces):
    copy = tmp_path / "begun"
    shutil.copytree(begun.folder, copy)
    config = settings(Run.open(copy), files, tmp_path, f"subword.pieces={pieces}")
    whole = train(config, tmp_path / "whole").folder
    with monkeypatch.context() as patch:
        StopAt(1, patch)
        with pytest.raises(Interrupted):
            train(config, tmp_path / "parts")
    shutil.rmtree(copy)
    shutil.rmtree(tmp_path / "stores")
    run = train(Run.open(tmp_path / "parts").config, tmp_path / "parts", resume=True)
    assert losses(run.folder) == losses(whole)
    assert_same(weights(run.folder), weights(whole))


FROZEN = {
    "adam": ["train.optimizer=adam", "train.weight_decay=0.1"],
    "muon": ["train.optimizer=muon", "train.weight_decay=0.1"],
}


@pytest.mark.parametrize("optimizer", FROZEN)
@pytest.mark.parametrize(
    ("patterns", "beginnings"),
    [
        (["encoder", "embeddings"], ("encoder.", "source.table.", "target.table.")),
        (["decoder.layers.0", "position"], ("decoder.0.", "source.schemes.", "target.schemes.")),
        (["output.bias", "*_norm"], ()),
        (["encoder", "decoder", "embeddings", "position", "output.weight"], ("",)),
    ],
)
def test_frozen_parts_keep_every_bit_and_have_no_state(config_path, tmp_path, optimizer, patterns, beginnings):
    changes = [*SHORT, *FROZEN[optimizer], f"train.freeze={json.dumps(patterns)}", "train.non_finite=back-off"]
    run = train(load(config_path, [*changes, "train.schedule.warmup=1"]), tmp_path / "run")
    before, after = at_start(run.folder), weights(run.folder)
    fixed = {name for name in before if name.startswith(beginnings)}
    if beginnings == ("",):
        fixed.discard("output.bias")
    if "*_norm" in patterns:
        fixed = {name for name in before if "norm" in name or name == "output.bias"}
    assert set(run.record["frozen"]) == fixed
    assert {name for name in before if torch.equal(before[name], after[name])} == fixed
    [moments] = run.folder.glob("checkpoints/*3/optimizer.safetensors")
    assert {name.rpartition("/")[0] for name in load_file(moments)} == set(before) - fixed


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("encodr", "no part of the model is called 'encodr' (train.freeze); did you mean 'encoder'?"),
        ("decoder.layers.7", "did you mean 'decoder.layers.0'?"),
    ],
)
def test_a_pattern_that_matches_nothing(config_path, tmp_path, pattern, shown):
    with pytest.raises(UserError) as caught:
        train(load(config_path, [*SHORT, f"train.freeze=[{pattern}]"]), tmp_path / "run")
    assert shown in caught.value.line()


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize(
    ("parts", "trained"),
    [
        (["encoder"], r"(?!encoder|source_|recurrence)"),
        (["decoder"], r"encoder|source|target\.|recurrence|output"),
        (["embeddings"], r"(?!(source|target)\.(table|weight))"),
        (["encoder", "decoder", "embeddings"], r"output|(source|target)\.schemes"),
    ],
)
def test_a_part_is_frozen_whole(name, parts, trained):
    """Pre-norm has normalisations after the layers of each side, and each architecture has parts of its own."""
    sides = {side: {"layers": 1} for side in ("encoder", "decoder")}
    norm = {"norm": "pre"} if name == "transformer" else {}
    section = with_names({"system": name, "d_model": 16, "feed_forward": 16, "heads": 2, **sides, **norm})
    model = build_model(Model.model_validate(section), 20, 20)
    freeze(model, parts)
    names = [each for each, parameter in model.named_parameters() if parameter.requires_grad]
    assert [each for each in names if not re.match(trained, each)] == []


def test_nothing_is_left_to_train(config_path, tmp_path):
    with pytest.raises(UserError, match="every part of the model is frozen"):
        train(load(config_path, [*SHORT, "train.freeze=['*']"]), tmp_path / "run")
