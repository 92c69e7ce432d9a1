"""`posnmt train` with what it chooses: from files to a run, and on with it."""

from __future__ import annotations

import gzip
import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from posnmt.base import progress
from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.base.version import FORMAT
from posnmt.data.prepare import prepare
from posnmt.run.resolve import from_tree, load
from posnmt.run.run import Run
from posnmt.training import build, speed
from posnmt.training.choose import Written, for_preparing, for_resuming, for_training
from posnmt.training.command import TrainRequest, train_command
from posnmt.training.evaluations import Pace
from posnmt.training.progress import Update
from posnmt.training.train import train
from tests.support import corpus

TINY = (
    "model.d_model=16", "model.feed_forward=32", "model.heads=2", "model.encoder.layers=1", "model.decoder.layers=1",
    "train.dev_bleu=false", "decode.beam=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    corpus.make(folder, pairs=200)
    return folder


@pytest.fixture
def options(folder, monkeypatch):
    monkeypatch.setenv("POSNMT_CACHE", str(folder / "cache"))
    return {side: str(folder / "corpus" / f"train.{side}") for side in ("source", "target")}


def tree(options, **train_settings):
    return {"data": {"train": options}, "train": train_settings, "model": {"size": "tiny"}}


def test_two_files_make_a_run_whose_config_has_all_that_was_chosen(options, tmp_path):
    messages, details = [], []
    display = Display(quiet=True)
    display.say, display.detail = messages.append, details.append
    run = train_command(TrainRequest(tmp_path / "run", None, options, (*TINY, "train.epochs=1")), display)
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    chosen = run.record["chosen"]
    assert config["data"]["held_out"] == chosen["data.held_out"] == 10
    assert config["subword"]["vocabulary"] == chosen["subword.vocabulary"]
    assert config["model"]["encoder"]["position"] == chosen["model.encoder.position"]
    assert config["train"]["schedule"]["warmup"] == chosen["train.schedule.warmup"]
    assert config["model"]["d_model"] == 16
    assert "model.d_model" not in chosen
    said, details = "\n".join(messages), "\n".join(details)
    assert all(key in details for key in chosen)
    assert "=" not in said
    plan = [line.partition(":")[0] for line in messages]
    start = plan.index("text")
    assert plan[start : start + 6] == ["text", "model", "updates", "evaluation", "expect", "details"]
    assert json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])["kind"] in ("dev", "average")

    # the config as written makes the same run; going on needs no config
    again = train(load(tmp_path / "run" / "config.yaml"), tmp_path / "again")
    ours, theirs = load_file(run.weights()), load_file(again.weights())
    assert all(torch.equal(ours[name], theirs[name]) for name in {*ours, *theirs})
    with pytest.raises(UserError, match="is not overwritten"):
        train_command(TrainRequest(tmp_path / "run", None, options), Display(quiet=True))
    on = train_command(TrainRequest(tmp_path / "run", settings=("train.epochs=2",), resume=True), Display(quiet=True))
    assert on.record["epochs"] == 2


def test_a_budget_in_minutes_is_planned_by_the_speed_and_a_resumed_run_keeps_its_plan(options, tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "measure", lambda config, store, seconds: Pace(0.5, 0.01, 0.0))
    written, details = Written.from_settings(tree(options, minutes=2.0)), []
    completed = for_training(written, lambda message: None, details.append)
    train, record = completed.config.train, completed.record
    assert (train.steps, train.evaluate_every, train.schedule.warmup, train.schedule.cooldown) == (None,) * 4
    assert (train.dev_pairs, train.dev_bleu, train.average) == (None, True, 1)
    dev = prepare(completed.config).split("dev")
    tokens = int(dev.source_lengths.sum() + dev.target_lengths.sum()) + 2 * len(dev)
    assert record["seconds_an_evaluation"] == pytest.approx(0.01 * tokens, abs=1e-4)
    number = record["planned_evaluations"]
    assert number == min(4, int(12 / (0.01 * tokens)))
    assert record["planned_updates"] == int((120 - number * 0.01 * tokens) / 0.5)
    assert details[-1].startswith(f"chosen for {record['planned_updates']} updates in 2 minutes: ")
    run = Run.create(tmp_path, completed.config, prepare(completed.config).text, completed.record)

    monkeypatch.setattr(speed, "measure", None)  # nothing is measured again
    assert for_resuming(None, run) == run.config
    resumed = for_resuming(written, run)
    assert resumed == run.config
    asked = tree(options, minutes=2.0)
    asked["model"] |= {side: {"position": [{"scheme": "relative"}]} for side in ("encoder", "decoder")}
    assert for_resuming(Written.from_settings(asked), run).model == run.config.model  # with the distances chosen for it
    longer = for_resuming(Written.from_settings(tree(options, minutes=3.0)), run)
    assert (longer.train.minutes, longer.train.steps) == (3.0, None)
    assert longer.train.schedule == run.config.train.schedule


@pytest.mark.parametrize(
    ("pace", "settings", "pairs", "translates"),
    [
        (Pace(0.5, 0.0001, 0.001), {}, None, True),
        (Pace(0.5, 0.0001, 9.0), {}, None, False),
        (Pace(0.5, 0.0001, 9.0), {"dev_bleu": True, "evaluate_every": 50}, None, True),
        (Pace(0.5, 0.0001, 0.001), {"dev_bleu": False, "dev_pairs": 3}, 3, False),
    ],
)
def test_evaluations_are_as_thorough_as_the_time_allows_or_as_the_user_says(
    options, monkeypatch, pace, settings, pairs, translates
):
    monkeypatch.setattr(speed, "measure", lambda config, store, seconds: pace)
    written = Written.from_settings(tree(options, minutes=2.0, **settings))
    completed = for_training(written, lambda message: None)
    train = completed.config.train
    assert (train.dev_pairs, train.dev_bleu) == (pairs, translates)
    assert train.evaluate_every == settings.get("evaluate_every")
    assert not {f"train.{key}" for key in settings} & {*completed.chosen}


def test_where_no_evaluation_fits_the_answer_says_what_to_give(options, monkeypatch):
    monkeypatch.setattr(speed, "measure", lambda config, store, seconds: Pace(0.5, 1.0, 1.0))
    with pytest.raises(UserError, match=r"the most for evaluations, is 12\.0 s") as refused:
        for_training(Written.from_settings(tree(options, minutes=2.0)), lambda message: None)
    assert refused.value.where == "train.minutes"
    enough = float(re.search("give at least ([0-9.]+) minutes", refused.value.todo)[1])
    completed = for_training(Written.from_settings(tree(options, minutes=enough)), lambda message: None)
    assert completed.record["planned_evaluations"] == 1


def test_updates_that_the_user_set_stay_where_a_run_goes_on_with_other_minutes(options, tmp_path):
    written = Written.from_settings(tree(options, steps=4, minutes=5.0))
    completed = for_training(written, lambda message: None)
    run = Run.create(tmp_path, completed.config, prepare(completed.config).text, completed.record)
    longer = for_resuming(Written.from_settings(tree(options, minutes=6.0)), run)
    assert (longer.train.minutes, longer.train.steps) == (6.0, 4)


@pytest.mark.parametrize("shared", [True, False])
def test_of_few_words_fewer_subwords_are_chosen(options, tmp_path, shared):
    """The text is long and has 13 words: what its length suggests is more than it supports."""
    files = {side: tmp_path / side for side in options}
    for number, file in enumerate(files.values()):
        file.write_text("one two three four five six seven eight nine ten\n" * 900 + "eleven twelve\n" * number)
    files["source"].write_text(files["source"].read_text() + "thirteen\n")
    written = Written.from_settings(
        {**tree({side: str(file) for side, file in files.items()}, steps=1)}, [f"subword.shared={shared}"]
    )
    messages = []
    completed = for_training(written, messages.append, messages.append)
    vocabulary = completed.config.subword.vocabulary
    assert 20 < vocabulary == completed.chosen["subword.vocabulary"] < 200
    assert f"chosen since the text has no more subwords: subword.vocabulary={vocabulary}" in messages
    fixed = {**tree({side: str(file) for side, file in files.items()}, steps=1), "subword": {"vocabulary": 900}}
    with pytest.raises(UserError, match="900 is too large for the shared training text"):
        for_training(Written.from_settings(fixed), messages.append)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (gzip.compress(b"")[:-1], r"data.train.source is a damaged \.gz file"),
        (b"no gzip", r"data.train.source is a damaged \.gz file"),
        (gzip.compress(b"\n \n"), r"empty line, the first of 2 such lines"),
    ],
    ids=["cut", "other", "blank"],
)
def test_faults_of_text_without_a_letter_are_its_own(options, tmp_path, content, fault):
    (tmp_path / "s.gz").write_bytes(content)
    (tmp_path / "t").write_text("a\nb\n")
    files = {"source": str(tmp_path / "s.gz"), "target": str(tmp_path / "t")}
    with pytest.raises(UserError, match=fault):
        for_training(Written.from_settings(tree(files, steps=1)), lambda message: None)


def test_files_on_the_command_line_are_where_the_user_is(options, folder, tmp_path, monkeypatch):
    """Also beside a config whose files are elsewhere, which has a dev corpus of that name."""
    for side in options:
        (folder / f"here.{side}").write_text("a b\n" * 9)
        (tmp_path / f"here.{side}").write_text("".join((folder / "corpus" / f"dev.{side}").open()))
    config = {"data": {"root": str(folder), "train": options}, "model": {"size": "tiny"}, "train": {"steps": 1}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.chdir(tmp_path)
    here = {"dev_source": "here.source", "dev_target": "here.target"}
    run = train_command(TrainRequest(tmp_path / "run", tmp_path / "config.yaml", here, TINY), Display(quiet=True))
    assert prepare(run.config).split("dev").lines.tolist() == list(range(1, 21))


@pytest.mark.parametrize(
    ("section", "written", "place"),
    [
        ("model", "big", "model"),
        ("model", ["big"], "model"),
        ("model", {"encoder": None}, "model.encoder"),
        ("model", {"decoder": "deep"}, "model.decoder"),
        ("model", {"encoder": {"position": None}}, "model.encoder.position"),
        ("train", "long", "train"),
        ("train", {"schedule": "noam"}, "train.schedule"),
    ],
)
def test_a_section_that_is_none_is_refused_at_the_start_as_on_resuming(section, written, place, options):
    asked = Written.from_settings({**tree(options, epochs=1), section: written})
    run = Run(Path("run"), from_tree(tree(options, epochs=1)))
    for complete in (lambda: for_training(asked, lambda message: None), lambda: for_resuming(asked, run)):
        with pytest.raises(UserError) as refused:
            complete()
        assert re.match(rf"{re.escape(place)}: a [\w ]+ is needed", str(refused.value))


@pytest.mark.parametrize("section", ["model", "train", "subword", "decode"])
def test_an_empty_section_is_as_if_left_out(section, options):
    whole = tree(options, epochs=1)
    asked = Written.from_settings({**whole, section: None})
    without = Written.from_settings({name: settings for name, settings in whole.items() if name != section})
    started = for_training(asked, lambda message: None).config
    assert started == for_training(without, lambda message: None).config
    assert for_resuming(asked, Run(Path("run"), started)) == started


def test_a_pace_is_measured_on_real_batches(options):
    written = tree(options, epochs=1)
    config = for_training(Written.from_settings(written), lambda message: None).config
    assert all(0 < seconds < 60 for seconds in speed.measure(config, prepare(config), 0.0))
    unread = config.model_copy(update={"train": config.train.model_copy(update={"dev_bleu": False})})
    assert speed.measure(unread, prepare(config), 0.0).step == 0
    alone = Written.from_settings({**written, "data": {"train": options, "held_out": None}})
    config = for_training(alone, lambda message: None).config
    assert speed.measure(config, prepare(config), 0.0)[1:] == (0, 0)


def test_a_pace_is_that_of_a_loop_that_gives_the_next_update_before_it_waits_for_one(options, monkeypatch):
    """Where values are read later, an update would otherwise take no longer than it takes to give it to the device."""
    config = for_training(Written.from_settings(tree(options, epochs=1)), lambda message: None).config
    done, outcome, real = [], Update.outcome, speed.update
    monkeypatch.setattr(build, "is_ahead", lambda device: True)
    monkeypatch.setattr(Update, "outcome", lambda update: done.append(("read", update.step)) or outcome(update))
    monkeypatch.setattr(speed, "update", lambda t, *rest: done.append(("given", t.progress.step)) or real(t, *rest))
    speed.measure(config, prepare(config), 0.0)
    count = speed.UNTIMED_AHEAD + speed.TIMED
    later = [pair for step in range(2, count + 1) for pair in (("given", step), ("read", step - 1))]
    assert done == [("given", 1), *later]


def test_kernels_that_are_compiled_first_take_none_of_the_time_of_a_pace(options, monkeypatch):
    """Work takes as long as the test says: as on a GPU, the first calls take minutes."""
    config = for_training(Written.from_settings(tree(options, epochs=1)), lambda message: None).config
    clock, calls = SimpleNamespace(now=0.0, monotonic=lambda: clock.now), {"update": 0, "greedy": 0}
    real, slow = {name: getattr(speed, name) for name in calls}, {"update": speed.UNTIMED_AHEAD, "greedy": 1}

    def timed(name, *arguments):
        calls[name] += 1
        clock.now += 900.0 if calls[name] <= slow[name] else 1.0
        return real[name](*arguments)

    monkeypatch.setattr(build, "is_ahead", lambda device: True)
    monkeypatch.setattr(speed, "time", clock)
    for name in real:
        monkeypatch.setattr(speed, name, partial(timed, name))
    pace = speed.measure(config, prepare(config), 8.0)
    assert (pace.update, pace.step) == (1.0, 1 / speed.STEPS)
    assert calls == {"update": speed.UNTIMED_AHEAD + 8, "greedy": 1 + speed.SAMPLES[0]}


def test_measuring_shows_its_progress(options, monkeypatch, capsys):
    """How many updates, likelihoods and searches were timed up to now."""
    monkeypatch.setattr(progress, "EVERY", 0.0)
    config = for_training(Written.from_settings(tree(options, epochs=1)), lambda message: None).config
    store = prepare(config)
    with Display():
        speed.measure(config, store, 0.0)
    shown = re.findall(r"^measuring (\w+)  (\d+) (\w+)$", capsys.readouterr().err, flags=re.M)
    counts = [*range(1, speed.UNTIMED + speed.TIMED + 1)], [*range(1, speed.SAMPLES[0] + 1)] * 2
    assert [int(number) for what, number, unit in shown if (what, unit) == ("updates", "updates")] == counts[0]
    assert [int(number) for what, number, unit in shown if (what, unit) == ("evaluations", "batches")] == counts[1]


def test_a_pace_is_a_median_so_that_one_stall_does_not_decide(options, monkeypatch):
    """Work takes as long as the test says: a second, and once, a while."""
    config = for_training(Written.from_settings(tree(options, epochs=1)), lambda message: None).config
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    real = {"update": speed.update, "greedy": speed.greedy}
    taken = {name: iter([1.0, 1.0, 1.0, 900.0, *[1.0] * 50]) for name in real}

    def timed(name, *arguments):
        clock.now += next(taken[name])
        return real[name](*arguments)

    monkeypatch.setattr(speed, "time", clock)
    for name in real:
        monkeypatch.setattr(speed, name, partial(timed, name))
    pace = speed.measure(config, prepare(config), 4.0)
    assert (pace.update, pace.step) == (1.0, 1 / speed.STEPS)


def test_what_asks_for_a_choice_and_what_a_name_sets(options):
    """A language `auto`, a null system and a batch of sentences are chosen; the dropout of a size is not."""
    asked = tree(options, epochs=1, batch_unit="sentences", schedule={"type": "noam"}, init=None, muon_every="auto")
    asked["data"] |= {"source_language": "auto", "target_language": "auto"}
    asked["model"] = {"size": "big", "system": None, "decoder": {"layers": 2}}
    completed = for_training(Written.from_settings(asked), lambda message: None)
    config, chosen = completed.config, completed.chosen
    assert (config.data.source_language, config.data.target_language) == ("en", "de")  # no script tells
    assert (config.model.system, config.model.dropout, config.model.decoder.layers) == ("relative", 0.3, 2)
    assert (config.train.learning_rate, config.train.muon_every) == (1.0, 4)
    lengths = prepare(config).split("train")
    longer = np.maximum(lengths.source_lengths, lengths.target_lengths)
    assert config.train.batch == chosen["train.batch"] == round(1024 / (longer.mean() + 1))


def test_without_a_budget_there_is_one(options):
    config = for_training(Written.from_settings(tree(options)), lambda message: None).config
    assert (config.train.epochs, config.train.minutes, config.train.steps) == (40, None, None)


def test_a_named_format_and_a_dev_corpus_are_left_alone(options, folder):
    named = {"format": FORMAT, **tree(options, epochs=1)}
    assert for_training(Written.from_settings(named), print).chosen == {}
    assert for_preparing(Written.from_settings(named)).config.subword.vocabulary == 8000
    dev = {side: str(folder / "corpus" / f"dev.{side}") for side in ("source", "target")}
    with_dev = {"data": {"train": options, "dev": dev}, "train": {"epochs": 1}}
    assert "data.held_out" not in for_preparing(Written.from_settings(with_dev)).chosen


def test_a_config_is_checked_with_the_dev_pairs_that_it_will_have(options):
    config = for_preparing(Written.from_settings(tree(options, epochs=1, patience=3))).config
    assert config.data.held_out == 10


def test_a_config_of_a_format_needs_a_budget_of_its_own(options):
    for settings in ({}, {"batch": "auto", "epochs": 1}):
        with pytest.raises(UserError, match=r"set when to stop|train\.batch"):
            for_training(Written.from_settings({"format": FORMAT, **tree(options, **settings)}), lambda message: None)


def test_a_written_distance_is_kept_and_a_wide_one_is_warned_of(options):
    messages = []
    choices = [{"scheme": "relative", "distance": 16}]
    asked = tree(options, epochs=1)
    asked["model"]["encoder"] = {"position": choices}
    config = for_training(Written.from_settings(asked), messages.append).config
    assert config.model.encoder.position[0].options == {"distance": 16}
    assert any("clipped at a distance of 16" in message for message in messages)
    asked["model"]["encoder"] = {"position": [{"scheme": "relative", "distance": "auto"}]}
    messages.clear()
    config = for_training(Written.from_settings(asked), messages.append).config
    assert config.model.encoder.position[0].options == {"distance": 2}
    assert not any("warning" in message for message in messages)


def test_what_the_command_refuses(options, tmp_path):
    def refused(match, config, given, resume=False):
        with pytest.raises(UserError, match=match):
            train_command(TrainRequest(tmp_path / "never", config, given, resume=resume), Display(quiet=True))

    refused("no training text is named", None, {})
    refused("--source is given without the other side", None, {"source": "a"})
    refused("both a config and --source", tmp_path / "config.yaml", options)
    refused("no such run folder", None, {}, resume=True)
    refused("does not exist", None, {**options, "source": str(tmp_path / "absent.en")})
    (tmp_path / "never").mkdir()
    refused("stopped before it began", None, {}, resume=True)
