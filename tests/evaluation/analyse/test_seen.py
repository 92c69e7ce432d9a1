"""Test sentences that a system was trained on are counted, and many of them are a warning."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from posnmt.data.prepare import prepare, store_folder
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.seen import Seen, Watch, seen_in_store, training_store
from posnmt.evaluation.analyse.settings import Settings
from posnmt.run.run import Run
from tests.support.analyse_case import SOURCE as FEW
from tests.support.prepare_case import SOURCE, TARGET, configure, write

NEW = [f"{line} again" for line in SOURCE]


def stored(folder):
    for split, rows in (("train", slice(40, 300)), ("dev", slice(20, 40))):
        write(folder, f"{split}.en", SOURCE[rows])
        write(folder, f"{split}.de", TARGET[rows])
    config = configure(folder)
    return config, prepare(config)


def test_sources_and_pairs_of_a_store(tmp_path):
    """Lines of dev are none of train; a blank line is no sentence; any reference makes a pair."""
    _, store = stored(tmp_path)
    place = str(store.folder)
    sources = [*NEW[:9], SOURCE[30], *SOURCE[50:54], "", SOURCE[50]]
    first = [*TARGET[:9], TARGET[30], *TARGET[50:52], *TARGET[2:4], "", TARGET[7]]
    second = [*TARGET[:9], TARGET[30], *TARGET[2:4], TARGET[52], TARGET[9], "", ""]
    assert seen_in_store(store.folder, sources, [first]) == Seen(15, 5, 2, place)
    assert seen_in_store(store.folder, sources, [second]) == Seen(15, 5, 1, place)
    assert seen_in_store(store.folder, sources, [first, second]) == Seen(15, 5, 3, place)
    assert seen_in_store(store.folder, [""], [["text"]]) == Seen(0, 0, 0, place)


def test_a_sentence_of_a_marked_corpus_is_found(tmp_path):
    """With and without a mark in the test text; the corpus without a mark too."""
    stored(tmp_path)
    write(tmp_path, "new.en", NEW[:30])
    write(tmp_path, "new.de", TARGET[:30])
    files = [{"source": f"{name}.en", "target": f"{name}.de"} for name in ("train", "new", "dev")]
    train = [{**files[0], "mark": "<web>"}, files[1], {**files[2], "mark": "<news>"}]
    store = prepare(configure(tmp_path, train=train, dev=None))
    sources, targets = [*SOURCE[10:60], *NEW[20:40]], [*TARGET[10:55], *TARGET[:5], *TARGET[20:40]]
    place = str(store.folder)
    assert seen_in_store(store.folder, sources, [targets]) == Seen(70, 50, 45, place)
    assert seen_in_store(store.folder, [f"<web> {line}" for line in SOURCE[:50]], [TARGET[:50]]).sources == 10


def test_pairs_in_every_record_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("posnmt.data.store.ROWS", 7)
    _, store = stored(tmp_path)
    assert len(list(store.split("train").record_batches())) > 30
    assert seen_in_store(store.folder, SOURCE, [TARGET]) == Seen(300, 260, 260, str(store.folder))


def test_many_are_a_warning():
    assert Seen(1000, 10, 10, "store").warnings == []
    assert Seen(0, 0, None, "train.en").warnings == []
    [sentence] = Seen(1000, 11, 9, "store").warnings
    assert sentence.startswith("11 of 1,000 test sentences are in the training text store, 9 with a reference as its")
    [sentence] = Seen(1000, 11, None, "train.en").warnings
    assert sentence.startswith("11 of 1,000 test sentences are in the training text train.en: scores")


def measured(folder: Path, **settings):
    for name, lines in (("source", [*FEW[:4], *NEW[:96]]), ("output", TARGET[:100])):
        write(folder, name, lines)
    said: list[str] = []
    analysis = analyse(
        folder / "source", folder / "output", {"ours": folder / "output"},
        Settings(metrics=["bleu"], resampling=Resampling(samples=0), **settings), say=said.append,
    )  # fmt: skip
    return analysis.results["seen_in_training"], analysis.results["warnings"], said


def test_a_training_text_is_looked_through(tmp_path):
    write(tmp_path, "training", [f" {FEW[1]} ", *SOURCE, FEW[3], FEW[3]])
    seen, warnings, said = measured(tmp_path, trained_on=tmp_path / "training")
    assert seen == [{"sentences": 100, "sources": 2, "pairs": None, "place": str(tmp_path / "training")}]
    assert warnings[0].startswith(f"2 of 100 test sentences are in the training text {tmp_path / 'training'}: scores")
    assert f"warning: {warnings[0]}" in said


def test_an_empty_line_is_no_sentence():
    watch = Watch(["a b", "", " ", "c"], "train.en")
    assert list(watch.passing(["", "c ", "d"])) == ["", "c ", "d"]
    assert watch.seen == Seen(2, 1, None, "train.en")


def test_a_training_text_and_a_store_each_have_their_warning(tmp_path):
    _, store = stored(tmp_path)
    write(tmp_path, "training", [*FEW[:3], *SOURCE[280:]])
    write(tmp_path, "source", [*FEW[:3], *SOURCE[100:110], *NEW[:87]])
    write(tmp_path, "output", TARGET[:100])
    settings = Settings(
        metrics=["bleu"], resampling=Resampling(samples=0), trained_on=tmp_path / "training", trained_store=store.folder
    )
    results = analyse(tmp_path / "source", tmp_path / "output", {"ours": tmp_path / "output"}, settings).results
    assert [(each["place"], each["sources"]) for each in results["seen_in_training"]] == [
        (str(tmp_path / "training"), 3), (str(store.folder), 10),
    ]  # fmt: skip
    assert [sentence.partition(" ")[0] for sentence in results["warnings"][:2]] == ["3", "10"]


def test_no_training_text_is_known(tmp_path):
    seen, warnings, said = measured(tmp_path)
    assert seen == []
    assert not [line for line in [*warnings, *said] if "training text" in line]


def test_the_store_of_a_run_is_found_while_it_is_there(tmp_path, monkeypatch):
    config, store = stored(tmp_path)
    key = store.manifest["key"]
    monkeypatch.setattr(Run, "record", {"data": key})
    run = Run(tmp_path, config)
    assert training_store(run) == store.folder == store_folder(config.data, key)
    moved = config.model_copy(update={"data": config.data.model_copy(update={"store": "${NOT_SET_HERE}/stores"})})
    assert training_store(dataclasses.replace(run, config=moved)) is None
    (store.folder / "manifest.json").unlink()
    assert training_store(run) is None
