"""The real commands: a training that continues from a run, and translation with changed positions."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

import posnmt
from posnmt.config.yaml import read_yaml
from posnmt.run.run import Run
from tests.support import corpus
from tests.support.commands import refused, run

CHANGES = ["interpolate=2", "ntk=2", "yarn=2", "clip=3", "clip=4,group=2", "temperature=log"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a corpus, config.yaml, and a run with rotations that knows its training sentences by heart."""
    folder = tmp_path_factory.mktemp("trained")
    run("train", corpus.memorised(folder), "--out", folder / "rope", "--set", "model.system=rope")
    record = json.loads((folder / "rope" / "record.json").read_text())
    record["training_lengths"]["source"]["longest"] = record["training_lengths"]["target"]["longest"] = 4
    (folder / "rope" / "record.json").write_text(json.dumps(record))  # so that all its sentences are long
    return folder


FEW = ("--set", "train.steps=4", "--set", "train.evaluate_every=4", "--set", "train.dev_bleu=false")


def test_data_and_a_run_are_enough(trained, tmp_path):
    files = ["--source", trained / "corpus" / "test.source", "--target", trained / "corpus" / "test.target"]
    common = ["--init", trained / "rope", *files, "--set", f"data.store={tmp_path / 'stores'}"]
    out, err = run("train", *common, "--minutes", 0.1, "--out", tmp_path / "new")
    assert out == f"{tmp_path / 'new'}\n"
    assert f"continuing from {trained / 'rope'}, trained with 150 updates: " in err
    new, old = Run.open(tmp_path / "new"), Run.open(trained / "rope")
    assert (new.config.model, new.text_hash()) == (old.config.model, old.text_hash())
    assert new.record["chosen"]["train.learning_rate"] == 1e-3
    assert (new.config.train.evaluate_every, new.config.train.schedule.warmup) == (None, None)  # by the clock
    assert new.record["init"]["updates"] == 150
    run("translate", tmp_path / "new", stdin=b"lo dumo\n")


def test_other_positions_and_frozen_parts(trained, tmp_path):
    files = ["--source", trained / "corpus" / "dev.source", "--target", trained / "corpus" / "dev.target"]
    store, changes = (
        f"data.store={tmp_path / 'stores'}",
        ["model.system=relative", "train.freeze=[encoder, embeddings]"],
    )
    settings = [each for setting in (store, *changes) for each in ("--set", setting)]
    _, err = run("train", "--init", trained / "rope", *files, *FEW, *settings, "--out", tmp_path / "new")
    assert "new, as at a start: source.schemes.0 (2 tensors), target.schemes.0 (2 tensors)" in err
    assert "frozen: " in err
    record = Run.open(tmp_path / "new").record
    assert record["init"]["positions"] == {"encoder": ["rope"], "decoder": ["rope"]}
    assert all(name.startswith(("encoder.", "source.table", "target.table")) for name in record["frozen"])


def test_resumed_by_the_same_command_and_by_none(trained, tmp_path):
    shutil.copytree(trained / "rope", tmp_path / "rope")
    files = ["--source", trained / "corpus" / "dev.source", "--target", trained / "corpus" / "dev.target"]
    command = ["train", "--init", tmp_path / "rope", *files, *FEW, "--set", f"data.store={tmp_path / 'stores'}"]
    run(*command, "--out", tmp_path / "new")
    run(*command, "--out", tmp_path / "new", "--resume", "--set", "train.steps=5")
    shutil.rmtree(tmp_path / "rope")
    run("train", "--out", tmp_path / "new", "--resume", "--set", "train.steps=6")
    assert Run.open(tmp_path / "new").record["steps"] == 6
    command[2] = trained / "rope"
    [error] = refused(*command, "--out", tmp_path / "new", "--resume")
    assert "the run was started with another config: train.init was" in error


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--init", "nowhere"], "no such run folder"),
        (["--init", "{run}", "--set", "model.d_model=32"], "d_model was 64, is 32"),
        (
            ["--init", "{run}", "--source-language", "xx"],
            "data.source_language is 'xx', but subword.text was made with",
        ),
        (["--set", "train.freeze=[encodr]", *FEW], "did you mean 'encoder'?"),
        (["--set", "subword.pieces=extended", *FEW], "subword.pieces: extended needs the subwords to extend"),
    ],
)
def test_what_cannot_be_continued_is_one_line(trained, tmp_path, options, shown):
    files = ["--source", trained / "corpus" / "dev.source", "--target", trained / "corpus" / "dev.target"]
    given = [each.replace("{run}", str(trained / "rope")) for each in options]
    store = ["--set", f"data.store={tmp_path / 'stores'}", "--set", "train.steps=4"]
    [error] = refused("train", *files, *given, *store, "--out", tmp_path / "new")
    assert shown in error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("change", CHANGES)
def test_scores_of_search_are_scores_of_the_whole(trained, tmp_path, change):
    """Of greedy search, of a beam, and of `posnmt score`; and what is changed changes."""
    source, rope = trained / "corpus" / "test.source", trained / "rope"
    lines = source.read_text(encoding="utf-8").splitlines()
    settings = yaml.safe_load("{" + change.replace("=", ": ") + "}")
    model = posnmt.load(rope, positions=settings)
    plain = {}
    for beam in (1, 3):
        out, _ = run("translate", rope, "--input", source, "--beam", beam, "--format", "jsonl", "--positions", change)
        records = [json.loads(line)["hypotheses"][0] for line in out.splitlines()]
        same = [
            number
            for number, each in enumerate(records)
            if model._searching.text.target.subwords.split([each["text"]])[0] == each["subwords"] and each["ended"]
        ]
        assert len(same) > 5
        pairs = [(lines[number], records[number]["text"]) for number in same]
        assert model.score(pairs) == pytest.approx([records[number]["log_probability"] for number in same], abs=1e-3)
        plain[beam] = pairs
    for name, column in (("source", 0), ("target", 1)):
        (tmp_path / name).write_text("".join(f"{pair[column]}\n" for pair in plain[3]), encoding="utf-8")
    out, _ = run("score", rope, "--source", tmp_path / "source", "--target", tmp_path / "target", "--positions", change)
    assert [float(line) for line in out.splitlines()] == pytest.approx(model.score(plain[3]), abs=1e-5)
    assert model.score(plain[3]) != pytest.approx(posnmt.load(rope).score(plain[3]), abs=1e-4)


def test_positions_of_a_configuration(trained, tmp_path):
    shutil.copytree(trained / "rope", tmp_path / "rope")
    tree, _ = read_yaml(tmp_path / "rope" / "config.yaml", "config", "a mapping")
    tree["decode"]["positions"] = {"clip": 3}
    (tmp_path / "rope" / "config.yaml").write_text(json.dumps(tree))
    source = trained / "corpus" / "test.source"
    configured, _ = run("translate", tmp_path / "rope", "--input", source, "--nbest", 1, "--format", "jsonl")
    given, _ = run("translate", trained / "rope", "--input", source, "--format", "jsonl", "--positions", "clip=3")
    plain, _ = run("translate", trained / "rope", "--input", source, "--format", "jsonl")
    assert configured == given != plain
    [error] = refused("export", tmp_path / "rope", "--format", "huggingface", "--out", tmp_path / "out")
    assert "decode.positions changes positions at inference" in error


def test_interpolate_is_the_same_option(trained):
    source = trained / "corpus" / "test.source"
    one, _ = run("translate", trained / "rope", "--input", source, "--interpolate", 2, "--format", "jsonl")
    other, _ = run(
        "translate", trained / "rope", "--input", source, "--positions", "interpolate=2", "--format", "jsonl"
    )
    assert one == other


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["clip"], "a change of positions is CHANGE=VALUE; got 'clip'"),
        (["clips=2"], "no change of positions is called 'clips'; did you mean 'clip'?"),
        (["clip=0"], "positions.clip"),
        (["clip=2", "clip=3"], "clip is given twice"),
        (["group=2"], "group needs clip"),
        (["ntk=2,yarn=2"], "ntk and yarn both scale positions: choose one of them"),
        (["ntk=0.5"], "positions.ntk"),
        (["temperature=2"], "positions.temperature"),
    ],
)
def test_a_change_that_is_none_is_one_line(trained, given, shown):
    options = [each for change in given for each in ("--positions", change)]
    [error] = refused("translate", trained / "rope", *options, stdin=b"lo dumo\n")
    assert shown in error


def test_a_record_without_lengths_is_one_line(trained, tmp_path):
    shutil.copytree(trained / "rope", tmp_path / "rope")
    (tmp_path / "rope" / "record.json").write_text("{}")
    [error] = refused("translate", tmp_path / "rope", "--positions", "yarn=2", stdin=b"lo dumo\n")
    assert "decode.positions.yarn needs the lengths of the training sentences" in error
