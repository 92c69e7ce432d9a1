"""Training on a list of corpora: it goes on bit for bit, a list of one is that corpus, commands read every format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted
from posnmt.data.batch import Cursor
from posnmt.data.prepare import prepare
from posnmt.run.resolve import load
from posnmt.run.run import Run
from posnmt.training.build import batch_plan, training_pairs
from posnmt.training.prefetch import Prefetch
from posnmt.training.train import train
from tests.support import corpus
from tests.support.commands import refused, run
from tests.support.training_case import StopAt, assert_same, losses, weights


def divided(folder: Path, settings: list[dict[str, object]], **changes: object) -> Path:
    """The artificial corpus in as many corpora as there are settings; the path of the configuration."""
    path = corpus.make(folder, 120, **changes)
    sides = {side: (folder / "corpus" / f"train.{side}").read_text().splitlines() for side in ("source", "target")}
    sections = []
    for number, each in enumerate(settings):
        files = {side: f"corpus/{number}.{side}" for side in sides}
        for side, lines in sides.items():
            part = lines[number :: len(settings)]
            (folder / files[side]).write_text("".join(f"{line}\n" for line in part))
        sections.append({**files, **each})
    tree = yaml.safe_load(path.read_text())
    tree["data"]["train"] = sections
    path.write_text(yaml.safe_dump(tree))
    return path


STAGED = [{"until": 0.5}, {"weight": 2.5, "mark": "<news>"}, {"from": 0.5, "weight": 0.5}]


@pytest.fixture(scope="module")
def config_path(tmp_path_factory):
    return divided(tmp_path_factory.mktemp("listed"), STAGED, train={"batch": 200})


LENGTHS = {
    "updates": ["train.accumulate=2"],
    "passes": ["train.steps=null", "train.epochs=2", "subword.sampling.segmentations=2", "train.evaluate_every=5"],
}


@pytest.fixture(scope="module")
def never_stopped(config_path, tmp_path_factory):
    found = {}
    for name, settings in LENGTHS.items():
        config = load(config_path, [*settings, "model.dropout=0.2"])
        found[name] = config, train(config, tmp_path_factory.mktemp(name) / "run").folder
    return found


@pytest.mark.parametrize(("length", "stop"), [("updates", 3), ("updates", 6), ("updates", 9), ("passes", 7)])
def test_a_stopped_run_goes_on_bit_for_bit(never_stopped, tmp_path, monkeypatch, length, stop):
    """In the middle of a pass, at the change of stage, which is update 6 of 12, and after it; with other threads."""
    config, whole = never_stopped[length]
    with monkeypatch.context() as patch:
        StopAt(stop, patch)
        with pytest.raises(Interrupted, match=f"stopped after step {stop}, state saved"):
            train(config, tmp_path / "parts")
    threads = torch.get_num_threads()
    torch.set_num_threads(3 - min(2, threads))
    try:
        train(config, tmp_path / "parts", resume=True)
    finally:
        torch.set_num_threads(threads)
    assert losses(tmp_path / "parts") == losses(whole)
    for name in ("last", "best", "model"):
        assert_same(weights(tmp_path / "parts", name), weights(whole, name))


def test_a_run_is_not_resumed_with_other_weights(never_stopped, tmp_path):
    config, whole = never_stopped["updates"]
    data = config.data.model_copy(
        update={"train": [each.model_copy(update={"weight": 1.0}) for each in config.data.corpora]}
    )
    with pytest.raises(UserError, match=r"another config: data\.train was .*'weight': 2\.5.*, is .*'weight': 1\.0"):
        train(config.model_copy(update={"data": data}), whole, resume=True)


def test_a_list_of_one_corpus_trains_as_that_corpus(tmp_path):
    config = load(corpus.make(tmp_path, 120))
    files = config.data.train.model_dump(exclude_none=True)
    tree = yaml.safe_load((tmp_path / "config.yaml").read_text())
    tree["data"]["train"] = [files]
    (tmp_path / "listed.yaml").write_text(yaml.safe_dump(tree))
    alone, listed = train(config, tmp_path / "alone"), train(load(tmp_path / "listed.yaml"), tmp_path / "listed")
    assert losses(alone.folder) == losses(listed.folder)
    assert_same(weights(alone.folder), weights(listed.folder))
    assert yaml.safe_load((listed.folder / "config.yaml").read_text())["data"]["train"][0]["until"] == 1
    assert Run.open(listed.folder).config.data.corpora[0].whole


def test_batches_made_ahead_are_those_of_the_plan(config_path):
    config = load(config_path)
    pairs = training_pairs(config.train, prepare(config))
    plan = batch_plan(config, pairs, 2)
    prefetch = Prefetch(
        batch_plan(config, pairs, 2), 2, slice(None), lambda numbers: numbers.tolist(), torch.device("cpu")
    )
    cursor, stages = Cursor(), set()
    for _ in range(12):
        batches, cursor = plan.take(cursor, 2)
        stages.add(cursor.stage)
        assert prefetch.get(batches, cursor) == [numbers.tolist() for numbers in batches]
    prefetch.close()
    assert stages == {0, 1}


def test_concatenated_pairs_are_of_one_corpus(config_path):
    config = load(config_path, ["train.concatenate=0.5"])
    pairs = training_pairs(config.train, prepare(config))
    of = pairs.split.corpora
    assert all(len({int(of[each]) for each in members}) == 1 for members in pairs.drawn)
    assert [int(of[members[0]]) for members in pairs.drawn] == pairs.corpora[len(of) :].tolist()
    assert {*pairs.corpora.tolist()} == {0, 1, 2}


def test_commands_train_on_every_format_and_translate_with_a_mark(tmp_path, monkeypatch):
    """What is left out is chosen, also from the names of fields."""
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    corpus.make(tmp_path, 200)
    folder = tmp_path / "corpus"
    sides = [(folder / f"train.{side}").read_text().splitlines() for side in ("source", "target")]
    rows = [list(zip(*sides, strict=True))[number::5] for number in range(5)]
    for side, name in enumerate(("g.en", "g.de")):
        (folder / name).write_text("".join(f"{row[side]}\n" for row in rows[0]))
    (folder / "d.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows[1]))
    tuv = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'
    units = "".join(tuv.format(*row) for row in rows[2])
    (folder / "m.tmx").write_text(f'<tmx version="1.4"><header/><body>{units}</body></tmx>')
    lines = (json.dumps({"translation": {"en": source, "de": target}}) for source, target in rows[3])
    (folder / "p.jsonl").write_text("".join(f"{line}\n" for line in lines))
    parquet.write_table(
        arrow.table({"en": [row[0] for row in rows[4]], "de": [row[1] for row in rows[4]]}), folder / "q.parquet"
    )
    nested, plain = ({"source": f"{name}en", "target": f"{name}de"} for name in ("translation.", ""))
    tree = {
        "data": {
            "store": str(tmp_path / "made"),
            "held_out": 40,
            "train": [
                {"source": "corpus/g.en", "target": "corpus/g.de"},
                {"file": "corpus/d.tsv", "weight": 4, "mark": "<news>"},
                {"file": "corpus/m.tmx", "until": 0.5},
                {"file": "corpus/p.jsonl", "fields": nested},
                {"file": "corpus/q.parquet", "fields": plain, "from": 0.5},
            ],
        },
        "subword": {"vocabulary": 100},
        "model": {"d_model": 16, "feed_forward": 16, "heads": 2, "encoder": {"layers": 1}, "decoder": {"layers": 1}},
        "train": {"steps": 8, "dev_bleu": False, "loggers": []},
    }
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump(tree))
    monkeypatch.setenv("COLUMNS", "200")
    _, err = run("prepare", path)
    assert "from 0.5 until 1" in err
    assert "in a pass" in err
    run("train", path, "--out", tmp_path / "run")
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["steps"] == 8
    assert record["chosen"]["data.source_language"] == "en"
    made = Run.open(tmp_path / "run")
    assert made.known_marks == ["<news>"]
    assert made.marks == {}
    assert {line.partition(" ")[0] for line in (tmp_path / "run" / "dev.source").read_text().splitlines()} >= {"<news>"}
    (tmp_path / "text").write_text(f"{rows[1][0][0]}\n")
    for options in ((), ("--to", "news"), ("--to", "<news>")):
        out, _ = run("translate", tmp_path / "run", "--input", tmp_path / "text", "--beam", 1, *options)
        assert out.count("\n") == 1
    assert (
        "no mark of this run is called 'old'" in refused("translate", tmp_path / "run", "--to", "old", stdin="a\n")[0]
    )
    tree["data"]["train"][1]["fields"] = {"source": 1, "target": 9}
    path.write_text(yaml.safe_dump(tree))
    [line] = refused("prepare", path)
    assert "column 9 of data.train.1.fields" in line
    assert "d.tsv:1" in line
    tree["train"] = {"minutes": 1}
    path.write_text(yaml.safe_dump(tree))
    assert "train.minutes alone leaves open" in refused("train", path, "--out", tmp_path / "other")[0]
