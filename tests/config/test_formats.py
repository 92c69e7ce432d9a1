"""The format number of a configuration: old run folders and studies keep their meaning, new ones have today's."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml
from recipe_case import SMALL, written
from training_case import StopAt, assert_same, weights

import corpus
from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted
from posnmt.config.formats import FORMAT, OLDEST, as_meant
from posnmt.run.resolve import dump, from_tree, load
from posnmt.run.run import Run
from posnmt.study import steps
from posnmt.study.load import load as load_recipe
from posnmt.study.plan import plan
from posnmt.study.study import REQUEST, load_plan, save_request, versions
from posnmt.study.workflow.kind import Context, Resources
from posnmt.training.schedule import warmup_and_cooldown
from posnmt.training.train import train
from posnmt.translate.translator import Translator
from tiny import both

SINUSOIDAL = {"scheme": "relative", "vectors": "sinusoidal"}
OLD_READING = {**SINUSOIDAL, "frequencies": "head"}
SYSTEMS = {**SMALL["systems"], "sinusoidal": {"system": "relative-sinusoidal"}}
RUNS = [{"systems": ["transformer", "sinusoidal"], "trainings": ["all"], "tests": ["test"]}]


@pytest.fixture(scope="module")
def config_path(tmp_path_factory):
    return corpus.make(tmp_path_factory.mktemp("corpus"))


def schemes(config):
    return [{"scheme": choice.scheme, **choice.options} for choice in config.model.encoder.position]


def make_old(run_folder):
    """Take from a run folder what posnmt did not write before there were format numbers."""
    path = run_folder / "config.yaml"
    tree = yaml.safe_load(path.read_text())
    del tree["format"]
    for side in ("encoder", "decoder"):
        for choice in tree["model"][side]["position"]:
            choice.pop("frequencies", None)
    for key in ("norm_epsilon", "embedding_init", "scale_embeddings", "norm", "init"):
        del tree["model"][key]
    for key in ("sort_by", "optimizer", "muon_factor"):
        tree["train"].pop(key, None)
    path.write_text(yaml.safe_dump(tree, sort_keys=False))


def test_what_a_person_writes_has_the_format_of_today(config_path):
    config = load(config_path, ["model.system=relative-sinusoidal"])
    assert config.format == FORMAT
    assert schemes(config) == [SINUSOIDAL]
    assert yaml.safe_load(dump(config))["format"] == FORMAT


def test_a_number_that_is_named_counts_wherever_it_stands(config_path):
    for unnumbered in (OLDEST, FORMAT):
        config = load(config_path, ["format=1", "model.system=relative-sinusoidal"], unnumbered)
        assert (config.format, schemes(config)) == (1, [OLD_READING])
        config = load(config_path, [f"format={FORMAT}", "model.system=relative-sinusoidal"], unnumbered)
        assert (config.format, schemes(config)) == (FORMAT, [SINUSOIDAL])


def test_an_old_configuration_is_rewritten_once_and_only_where_its_meaning_changed(config_path, tmp_path):
    config = load(config_path, ["format=1", "model.encoder.position=[{scheme: relative}, {scheme: sinusoidal}]"])
    assert schemes(config) == [{"scheme": "relative"}, {"scheme": "sinusoidal"}]
    config = load(config_path, ["format=1", f"model.encoder.position=[{json.dumps(SINUSOIDAL)}]"])
    (tmp_path / "again.yaml").write_text(dump(config))
    assert load(tmp_path / "again.yaml") == config
    own = {**SINUSOIDAL, "frequencies": "model"}
    config = load(config_path, ["format=1", f"model.encoder.position=[{json.dumps(own)}]"])
    assert schemes(config) == [own]


def test_before_format_3_other_defaults_held(config_path):
    def reading(*settings):
        config = load(config_path, settings)
        return config.model.init, config.train.sort_by

    assert reading() == ("depth-scaled", "source")
    assert reading("format=2") == reading("format=1") == ("xavier", "target")
    assert reading("format=2", "model.init=fairseq", "train.sort_by=source") == ("fairseq", "source")
    assert reading("format=2", "model.system=rnn-nmt") == ("xavier", "target")


def test_before_format_3_schedules_did_not_hang_on_the_budget():
    data = {"data": {"train": {"tsv": "a.tsv"}, "dev": {"tsv": "b.tsv"}}}
    for settings, new in (
        ({"minutes": 5}, (0.15, 0.2)),
        ({"minutes": 5, "schedule": {"type": "cosine"}}, (0.15, 0)),
        ({"minutes": 5, "schedule": {"type": "noam"}}, (4000, 0)),
        ({"minutes": 5, "schedule": {"type": "plateau", "warmup": 3}}, (3, 0)),
        ({"minutes": 5, "schedule": {"warmup": 300, "cooldown": 0.1}}, (300, 0.1)),
        ({"steps": 5}, (4000, 0)),
    ):
        assert warmup_and_cooldown(from_tree({**data, "train": settings}).train) == new
        schedule = settings.get("schedule", {})
        old = (schedule.get("warmup", 4000), schedule.get("cooldown", 0))
        assert warmup_and_cooldown(from_tree({**data, "format": 2, "train": settings}).train) == old


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        ("0", f"format: this posnmt reads configurations of formats 1 to {FORMAT}, got 0"),
        ("99", f"formats 1 to {FORMAT}, got 99; a newer posnmt may support it"),
        ("new", "format: input should be a valid integer, got 'new'"),
    ],
)
def test_numbers_that_are_no_format(config_path, number, sentence):
    with pytest.raises(UserError) as raised:
        load(config_path, [f"format={number}"])
    assert any(sentence in line for line in raised.value.lines), raised.value.lines


def test_a_tree_that_is_no_configuration_is_left_to_the_check():
    for tree in ({}, {"model": 3, "train": 3}, {"model": []}, {"train": None}):
        assert as_meant(tree, 1) == tree
        assert as_meant(tree, "1") == tree


@pytest.fixture(scope="module")
def old_run(config_path, tmp_path_factory):
    """A run with sinusoidal relative vectors as posnmt left it before there were format numbers."""
    folder = tmp_path_factory.mktemp("run") / "old"
    train(load(config_path, ["format=1", "model.system=relative-sinusoidal", "train.steps=4"]), folder)
    before = translations(folder)
    make_old(folder)
    return folder, before


def translations(folder):
    """Log-probabilities and outputs of some sentences, to the last bit."""
    translator = Translator.load([Run.open(folder)])
    sources = ["lo dumo", "ka lo mi", "mi"]
    return [repr(translator.translate(sources, Run.open(folder).config.decode))]


def test_an_old_run_translates_as_it_did(old_run):
    folder, before = old_run
    run = Run.open(folder)
    assert (run.config.format, schemes(run.config)) == (1, [OLD_READING])
    assert translations(folder) == before
    view = run.model().encoder_views[0].biasing[0]
    new = load(folder / "config.yaml")  # the same file as a person's: today's reading
    assert schemes(new) == [SINUSOIDAL]
    from posnmt.model.registry import build_model

    other = build_model(new.model, 20, 20).encoder_views[0].biasing[0]
    assert (view.keys != other.keys).any()


def test_an_old_run_goes_on_with_the_config_that_it_was_started_with(config_path, tmp_path, monkeypatch):
    """The person's file has no number: resumed, it means what it meant; so does the old run's own config.yaml."""
    settings = ["model.system=relative-sinusoidal", "train.steps=6"]
    train(load(config_path, ["format=1", *settings]), tmp_path / "whole")
    with monkeypatch.context() as patch:
        StopAt(3, patch)
        with pytest.raises(Interrupted):
            train(load(config_path, ["format=1", *settings]), tmp_path / "own")
    make_old(tmp_path / "own")
    shutil.copytree(tmp_path / "own", tmp_path / "other")
    train(load(config_path, settings), tmp_path / "own", resume=True)
    train(load(tmp_path / "other" / "config.yaml"), tmp_path / "other", resume=True)
    for folder in ("own", "other"):
        assert_same(weights(tmp_path / folder), weights(tmp_path / "whole"))
    with pytest.raises(UserError, match=f"started with another config: format was 1, is {FORMAT}"):
        train(load(config_path, [f"format={FORMAT}", *settings]), tmp_path / "own", resume=True)


def test_a_new_run_writes_its_format_and_goes_on_with_it(config_path, tmp_path, monkeypatch):
    config = load(config_path, ["model.system=relative-sinusoidal", "train.steps=4"])
    with monkeypatch.context() as patch:
        StopAt(2, patch)
        with pytest.raises(Interrupted):
            train(config, tmp_path / "run")
    assert (tmp_path / "run" / "config.yaml").read_text().startswith(f"format: {FORMAT}\n")
    train(config, tmp_path / "run", resume=True)
    train(load(tmp_path / "run" / "config.yaml"), tmp_path / "run", resume=True)
    assert Run.open(tmp_path / "run").config.format == FORMAT


def planned(tmp_path, number):
    return plan(load_recipe(written(tmp_path, {**SMALL, "systems": SYSTEMS, "runs": RUNS})), "smoke", None, number)


def test_a_new_study_hands_its_format_to_every_training_and_an_old_one_keeps_its_keys(tmp_path):
    new, old = planned(tmp_path, FORMAT), planned(tmp_path, OLDEST)
    trainings = [name for name, step in new.steps.items() if step.kind == "train"]
    assert trainings
    assert {new.steps[name].settings["config"]["format"] for name in trainings} == {FORMAT}
    for name, step in old.steps.items():
        assert "format" not in step.settings.get("config", {}), name
    for name in set(new.steps).difference(trainings):
        assert new.steps[name].settings == old.steps[name].settings


def test_a_study_remembers_the_format_that_it_was_begun_with(tmp_path):
    out = tmp_path / "study"
    assert versions(out)[0] == FORMAT
    out.mkdir()
    save_request(planned(tmp_path, FORMAT), out)
    assert (versions(out)[0], load_plan(out).format) == (FORMAT, FORMAT)
    asked = json.loads((out / REQUEST).read_text())
    del asked["config_format"]  # as posnmt wrote it before there were format numbers
    (out / REQUEST).write_text(json.dumps(asked))
    assert (versions(out)[0], load_plan(out).format) == (OLDEST, OLDEST)
    save_request(load_plan(out), out)  # going on with it leaves it so
    assert versions(out)[0] == OLDEST


@pytest.mark.parametrize(("number", "reading"), [(OLDEST, OLD_READING), (FORMAT, SINUSOIDAL)])
def test_a_step_of_a_study_is_read_in_the_format_of_the_study(tmp_path, number, reading):
    step = planned(tmp_path, number).steps["train/sinusoidal/all/seed-1"]
    inputs = {"train": tmp_path, "dev": tmp_path}
    context = Context(tmp_path, step.settings, inputs, {}, Resources(), lambda line: None)
    config = steps._config(context, step.settings["config"])
    assert (config.format, schemes(config)) == (number, [reading])


def test_the_old_reading_can_be_asked_for():
    plain = {"data": {"train": {"source": "a", "target": "b"}}, "train": {"steps": 1, "dev_bleu": False}}
    assert schemes(from_tree({**plain, "model": both(OLD_READING)})) == [OLD_READING]
