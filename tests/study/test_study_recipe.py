"""Recipes: those that are shipped, what is said of faulty ones, and the steps that they plan."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from posnmt.base.errors import UserError, UserErrors
from posnmt.base.version import FORMAT
from posnmt.config import segmenters
from posnmt.config.schema import Config
from posnmt.config.systems import SYSTEMS
from posnmt.config.yaml import merge
from posnmt.corpora.catalogue import entry
from posnmt.run.resolve import from_tree, with_names
from posnmt.study import study
from posnmt.study.load import load, shipped
from posnmt.study.plan import KINDS, analyses, plan
from posnmt.study.recipe import Analysis, Measured, Recipe, Rest, Scale, Test
from posnmt.study.speed import Turns
from posnmt.study.study import REQUEST, load_plan, save_request
from posnmt.study.trainings import train_config, with_distance
from posnmt.study.workflow.graph import Graph
from posnmt.training.schedule import learning_rate
from tests.support.commands import refused, run
from tests.support.recipe_case import SMALL, faults_of, written


def test_words_that_cannot_be_told_apart_here_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = written(tmp_path, SMALL | {"pair": {"source": "en", "target": "ja"}})
    monkeypatch.setattr(segmenters, "find_spec", lambda module: None)
    faults = faults_of(name, "analyses.test.text=words")
    assert "mecab segments Japanese and is not installed" in faults
    assert "or measure the raw text" in faults
    load(name)


def test_a_training_that_continues_from_a_run_is_refused(tmp_path: Path) -> None:
    faults = faults_of(written(tmp_path, SMALL), "scales.smoke.config.train.init=runs/mine")
    assert "train.init: the trainings of a study start anew" in faults
    assert len(faults.splitlines()) == 1


@pytest.mark.parametrize("name", list(shipped()))
def test_shipped_recipes_plan_every_scale_with_systems_that_can_be_built(name: str, data: Path) -> None:
    recipe = load(name)
    assert recipe.recipe == name
    corpora = {part: {"source": "-", "target": "-"} for part in ("train", "dev")}
    for scale in recipe.scales:
        made = plan(recipe, scale, data)
        for system, training in recipe.variants(scale):
            config = with_distance(train_config(recipe, scale, system, training, 1))
            from_tree(merge({"data": corpora}, config))
        steps, missing = analyses(made, made.steps)
        assert set(missing.values()) <= {f"it is not part of scale {scale}"}
        everything = {**made.steps, **{step.name: step for step in steps.values()}}
        assert all(need in everything for step in everything.values() for need in step.needs.values())
    # nothing small stands for a corpus that needs a licence; `posnmt compare` gives `choose` that of a corpus
    small = [] if name.endswith("-aspec") or name == "choose" else ["small"]
    assert {"smoke", *small, *(["paper"] if recipe.paper else [])} == set(recipe.scales)


@pytest.mark.parametrize("name", ["neishi2019", "rosendahl2019", "chen2019a", "chen2019b"])
def test_the_papers_recipes_have_tables_figures_and_claims(name: str) -> None:
    recipe = load(name)
    assert recipe.paper
    assert recipe.tables
    assert recipe.figures
    assert recipe.claims


def test_steps_of_a_recipe(tmp_path: Path) -> None:
    recipe = load(written(tmp_path, SMALL))
    made = plan(recipe, "smoke", None)
    kinds = [step.kind for step in made.steps.values()]
    assert kinds.count("train") == 4
    assert kinds.count("translate") == 12
    seed = made.steps["train/relative/all/seed-2"].settings["config"]
    assert seed["train"] == {"steps": 1, "seed": 2}
    assert seed["model"]["system"] == "relative"
    assert {run.seed for run in made.runs} == {1, 2}
    assert made.steps["test/joined-joined"].settings["sentences"] == 2


def test_systems_that_differ_in_search_alone_share_their_trainings(tmp_path: Path) -> None:
    wide = {"system": "relative", "decode": {"beam": 9}}
    systems = {**SMALL["systems"], "wide": wide, "long": {**wide, "train": {"steps": 2}}}
    runs = [{"systems": [*systems], "trainings": ["all", "reordered"], "tests": ["test"]}]
    made = plan(load(written(tmp_path, {**SMALL, "systems": systems, "runs": runs})), "smoke", None)
    graph = Graph(made.steps.values(), KINDS)
    step = {(run.system, run.training, run.seed): run for run in made.runs}
    for training in ("all", "reordered"):
        for seed in (1, 2):
            own, shared, other = (step[name, training, seed] for name in ("relative", "wide", "long"))
            assert own.train == shared.train != other.train
            assert graph.key(own.translations["test"]) != graph.key(shared.translations["test"])
            assert made.steps[shared.translations["test"]].settings["search"]["beam"] == 9
    assert len(made.trainings) == len({graph.key(name) for name in made.trainings}) == 3 * 2 * 2


def test_settings_of_search_are_a_translations_and_not_a_trainings(tmp_path: Path) -> None:
    """Another beam trains nothing again."""

    def keys(beam: int) -> tuple[dict[str, str], dict[str, Any]]:
        recipe = load(written(tmp_path, SMALL), (f"scales.smoke.config.decode.beam={beam}",))
        steps = plan(recipe, "smoke", None).steps
        graph = Graph(steps.values(), KINDS)
        return {name: graph.key(name) for name in graph.order()}, steps

    (few, steps), (many, _) = keys(2), keys(5)
    assert {name.split("/")[0] for name in few if few[name] != many[name]} == {"translate"}
    assert "decode" not in steps["train/relative/all/seed-1"].settings["config"]
    assert steps["translate/relative/all/seed-1/test"].settings == {"search": {"beam": 2}}


def test_a_study_goes_on_with_the_plan_that_it_was_started_with(tmp_path: Path) -> None:
    out = tmp_path / "study"
    out.mkdir()
    made = plan(load(written(tmp_path, SMALL)), "smoke", None)
    save_request(made, out)
    again = load_plan(out)
    assert (again.recipe, again.scale, again.steps) == (made.recipe, made.scale, made.steps)
    asked = json.loads((out / REQUEST).read_text())
    (out / REQUEST).write_text(json.dumps({**asked, "format": FORMAT + 1}))
    with pytest.raises(UserError, match=rf"written by a newer posnmt.*{REQUEST}"):
        load_plan(out)


def test_a_training_has_the_format_of_its_configuration_in_its_key(tmp_path: Path) -> None:
    made = plan(load(written(tmp_path, SMALL)), "smoke", None)
    of_kind = {
        name: step.settings["config"].get("format") for name, step in made.steps.items() if "config" in step.settings
    }
    assert {name for name, number in of_kind.items() if number == FORMAT} == {*made.trainings}


def test_another_recipe_or_scale_than_that_of_a_study_is_refused(tmp_path: Path) -> None:
    path, out = written(tmp_path, SMALL), tmp_path / "study"
    out.mkdir()
    save_request(plan(load(path), "smoke", None), out)
    assert run("study", "status", path, "--scale", "smoke", "--out", out) == run("study", "status", "--out", out)
    for named in (["neishi2019"], ["--scale", "paper"]):
        [line] = refused("study", "status", *named, "--out", out)
        assert named[-1] in line


def test_only_some_steps_and_what_they_need(tmp_path: Path) -> None:
    made = plan(load(written(tmp_path, SMALL)), "smoke", None)
    names = [step.name for step in study.chosen(made.steps, ["translate/relative/*/seed-2/test"])]
    assert names == [
        "corpus/artificial", "corpus/train", "corpus/dev", "corpus/test", "prepare/all", "train/relative/all/seed-2",
        "translate/relative/all/seed-2/test",
    ]  # fmt: skip
    assert [step.name for step in study.chosen(made.steps, [])] == list(made.steps)
    with pytest.raises(UserError, match="no step is called like 'train/rope/"):
        study.chosen(made.steps, ["train/*", "train/rope/*"])


def test_seeds_of_some_systems_alone(tmp_path: Path) -> None:
    runs = [
        {"systems": ["transformer", "relative"], "trainings": ["all"], "tests": ["test"]},
        {"systems": ["relative"], "trainings": ["all"], "tests": ["joined"], "seeds": {"smoke": 4, "paper": 9}},
    ]
    recipe = load(written(tmp_path, {**SMALL, "runs": runs}))
    made = plan(recipe, "smoke", None)
    found = Counter(run.system for run in made.runs)
    assert found == {"transformer": 2, "relative": 4}
    assert recipe.seeds(("relative", "all"), "small") == 3  # of the scale: this one has no number of its own
    assert analyses(made, made.steps)[0]["test"].settings["seeds"] == 4
    runs[1]["seeds"] = 1
    fewer = load(written(tmp_path, {**SMALL, "runs": runs}))
    assert fewer.seeds(("relative", "all"), "smoke") == 2  # the first entry asks for the scale's number


def test_the_language_pair_of_a_scale(tmp_path: Path) -> None:
    recipe = load(written(tmp_path, SMALL), ("scales.small.pair={source: fr, target: ja}",))
    assert train_config(recipe, "small", "relative", "all", 1)["data"]["target_language"] == "ja"
    assert train_config(recipe, "smoke", "relative", "all", 1)["data"]["target_language"] == "de"


def test_speeds_that_claims_compare_are_measured_in_one_step(tmp_path: Path) -> None:
    compared = {"analysis": "test", "measure": "training_speed", "is": "lower"}
    sides = {"of": {"system": "relative"}, "than": {"system": "transformer"}}
    claims = [{"claim": 1, "says": "slow", "test": {**compared, **sides}}]
    recipe = load(written(tmp_path, {**SMALL, "claims": claims}), ("scales.smoke.config.decode.beam=2",))
    step = plan(recipe, "smoke", None).steps["speed/in-turn"]
    assert step.needs["run-0"] == "train/relative/all/seed-1"
    assert step.needs["run-1"] == "train/transformer/all/seed-1"
    assert step.needs["test"] == "corpus/test"
    assert [each["search"] for each in step.settings["systems"]] == [{"beam": 2}] * 2
    recipe = load(written(tmp_path, {**SMALL, "claims": claims}), ("systems.relative.scales=[paper]",))
    [alone] = plan(recipe, "smoke", None).steps["speed/in-turn"].settings["systems"]
    assert alone["system"] == "transformer"
    assert "speed/in-turn" not in plan(load(written(tmp_path, SMALL)), "smoke", None).steps


@pytest.mark.parametrize(
    ("train", "steps"), [(("steps=100",), 100), (("steps=5000",), 5000), (("steps=null", "epochs=1"), None)]
)
def test_speeds_are_measured_in_proportion_to_the_shortest_training(
    tmp_path: Path, train: tuple[str, ...], steps: int | None
) -> None:
    """The step of a training of usual length has no more in its key than before."""
    tree = {**SMALL, "recommend": {"analyses": ["test"], "measure": "chrf"}}
    recipe = load(written(tmp_path, tree), [f"scales.smoke.config.train.{setting}" for setting in train])
    settings = plan(recipe, "smoke", None).steps["speed/in-turn"].settings
    counts = {name: value for name, value in settings.items() if name != "systems"}
    assert Turns(**counts) == Turns.beside(steps)
    assert (counts.keys() == {"turns"}) == (steps != 100)


def test_speeds_are_measured_on_a_test_that_the_scale_has(tmp_path: Path) -> None:
    tests = {"test": {"corpus": "test"}, "other": {"corpus": {"small": "test"}}}
    trees = [
        {"recommend": {"analyses": ["other", "test"], "measure": "chrf"}},
        {"recommend": {"analyses": ["other"], "measure": "chrf"}},
    ]
    both = {"test": {"test": "test", "trainings": ["all"]}, "other": {"test": "other", "trainings": ["all"]}}
    [runs] = SMALL["runs"]
    common = {**SMALL, "tests": tests, "analyses": both, "runs": [{**runs, "tests": ["test", "other"]}]}
    steps, none = [plan(load(written(tmp_path, {**common, **tree})), "smoke", None).steps for tree in trees]
    assert steps["speed/in-turn"].needs["test"] == "corpus/test"
    assert "speed/in-turn" not in none


def test_parts_of_trainings_with_other_settings_are_other_parts(tmp_path: Path) -> None:
    """A training's length cap, subwords and order of words decide which parts its text has."""
    part = {"part": {"of": 3, "take": 3}}
    trainings = {
        "short": {**part, "max_length": 20}, "long": {**part, "max_length": 30}, "again": {**part, "max_length": 20},
        "other": {**part, "max_length": 20, "config": {"subword": {"vocabulary": 77}}},
        "reordered": {**part, "max_length": 20, "reorder": True},
    }  # fmt: skip
    runs = [{"systems": ["relative"], "trainings": [*trainings], "tests": ["test"]}]
    bins = {"test": {"test": "test", "trainings": [*trainings], "bins": "parts"}}
    made = plan(
        load(written(tmp_path, {**SMALL, "trainings": trainings, "runs": runs, "analyses": bins})), "smoke", None
    )
    parts = {name: made.steps[made.steps[f"prepare/{name}"].needs["train"]] for name in trainings}
    assert [parts[name].settings["max_length"] for name in trainings] == [20, 30, 20, 20, 20]
    assert parts["short"] is parts["again"]
    assert len({step.name for step in parts.values()}) == 4
    for name, subword in (("short", None), ("other", {"vocabulary": 77})):
        whole = made.steps[made.steps[f"prepare/{name}"].needs["subwords"]]
        assert whole.settings["config"].get("subword") == subword
        assert parts[name].needs["prepared"] == whole.name
    analysis = analyses(made, made.steps)[0]["test"]
    assert analysis.needs["parts"] == parts["short"].name
    of_training = {each["training"]: each.get("other_subwords", False) for each in analysis.settings["outputs"]}
    assert of_training == {"short": False, "long": False, "again": False, "other": True, "reordered": False}


def test_an_analysis_counts_in_the_subwords_of_its_first_training_whichever_is_finished(tmp_path: Path) -> None:
    trainings = {"all": {}, "large": {"config": {"subword": {"vocabulary": 77}}}}
    runs = [{"systems": ["relative"], "trainings": [*trainings], "tests": ["test"]}]
    both = {"test": {"test": "test", "trainings": [*trainings]}}
    made = plan(
        load(written(tmp_path, {**SMALL, "trainings": trainings, "runs": runs, "analyses": both})), "smoke", None
    )
    for finished in (made.steps, [name for name in made.steps if "/large/" in name]):
        step = analyses(made, finished)[0]["test"]
        assert step.needs["prepared"] == "prepare/all"
        assert {(each["training"], "other_subwords" in each) for each in step.settings["outputs"]} >= {("large", True)}


def test_a_part_by_length_is_counted_in_the_subwords_of_the_whole(tmp_path: Path) -> None:
    runs = [{"systems": ["relative"], "trainings": ["all", "long", "reordered"], "tests": ["test"]}]
    made = plan(load(written(tmp_path, {**SMALL, "runs": runs})), "smoke", None)
    part = made.steps["prepare/long"]
    assert part.needs["subwords"] == "prepare/whole"
    assert part.settings["part"] == 3
    assert made.steps["corpus/parts-3"].needs["prepared"] == "prepare/whole"
    # a system that reads reordered sources is tested on reordered sources, and measured on the lengths of the others
    assert made.steps["translate/relative/reordered/seed-1/test"].needs["test"] == "reorder/test-test"
    assert made.tests["test"][""] == "corpus/test"


def test_what_did_not_succeed_is_left_out_of_the_analyses(tmp_path: Path) -> None:
    made = plan(load(written(tmp_path, SMALL)), "smoke", None)
    failed = "translate/relative/all/seed-1/test"
    steps, missing = analyses(made, set(made.steps) - {failed})
    assert not missing
    outputs = [(each["system"], each["seed"]) for each in steps["test"].settings["outputs"]]
    assert outputs == [("transformer", 1), ("transformer", 2), ("relative", 2)]
    _, missing = analyses(made, [])
    assert missing == {"test": "none of its translations was made"}


def test_faulty_recipes_are_told_with_every_fault_and_its_line(tmp_path: Path) -> None:
    tree = {
        **SMALL,
        "systems": {
            "transformer": {"system": "tranformer"},
            "relative": {"system": "relative", "label": "transformer"},
        },
        "runs": [{"systems": ["transformer", "relativ"], "trainings": ["everything"], "tests": ["test"]}],
        "analyses": {"test": {"test": "tset", "trainings": ["all"]}},
        "tests": {"test": {"corpus": "newstest"}},
    }
    told = faults_of(written(tmp_path, tree))
    assert "systems.transformer: no system is called 'tranformer'" in told
    assert "did you mean 'transformer'?" in told
    assert "transformer is called 'transformer' as well" in told
    assert "runs.0.systems: systems has no 'relativ'" in told
    assert "did you mean 'relative'?" in told
    assert "runs.0.trainings: trainings has no 'everything'" in told
    assert "analyses.test.test: tests has no 'tset'" in told
    assert "tests.test: there is no corpus 'newstest' at scale smoke" in told
    assert all("own.yaml:" in line for line in told.split("\n"))


def test_two_trainings_of_one_label_are_refused(tmp_path: Path) -> None:
    trainings = {"all": {}, "long": {"label": "all", "max_length": 9}}
    told = faults_of(written(tmp_path, {**SMALL, "trainings": trainings}))
    assert "trainings.long: all is called 'all' as well, so tables could not distinguish them" in told


@pytest.mark.parametrize("name", ["whole", "whole-2"])
def test_a_training_cannot_have_the_name_of_the_whole_text(tmp_path: Path, name: str) -> None:
    told = faults_of(written(tmp_path, {**SMALL, "trainings": {**SMALL["trainings"], name: {}}}))
    assert f"trainings.{name}: the step that prepares the whole text is called so" in told
    load(written(tmp_path, {**SMALL, "trainings": {**SMALL["trainings"], f"{name}sale": {}}}))


def test_a_clipping_distance_that_the_training_text_decides(tmp_path: Path) -> None:
    scales = {"smoke": {**SMALL["scales"]["smoke"], "options": {"relative": {"distance": "auto"}}}}
    config = train_config(load(written(tmp_path, {**SMALL, "scales": scales})), "smoke", "relative", "all", 1)
    for median, distance in ((5, 2), (23.0, 6), (1000, 16), (math.inf, 16)):
        model = with_distance(config, median)["model"]
        assert [each["distance"] for side in ("encoder", "decoder") for each in model[side]["position"]] == [
            distance
        ] * 2
    plain = train_config(load(written(tmp_path, SMALL)), "smoke", "relative", "all", 1)
    assert with_distance(plain, 23) == plain
    bad = {"smoke": {**scales["smoke"], "options": {"relative": {"distance": "automatic"}}}}
    assert "relative.distance: Input should be a valid integer" in faults_of(
        written(tmp_path, {**SMALL, "scales": bad})
    )


def test_two_systems_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    text = yaml.safe_dump(SMALL, sort_keys=False)
    path.write_text(text.replace("  relative:\n    system: relative", "  transformer:\n    system: relative"))
    assert "transformer occurs twice, on lines" in faults_of(str(path))


def test_unknown_recipes_keys_and_scales(tmp_path: Path) -> None:
    assert "no recipe is called 'neishi'" in faults_of("neishi")
    assert "did you mean 'neishi2019'?" in faults_of("neishi")
    assert "unknown key scales.smoke.seed" in faults_of(written(tmp_path, SMALL), "scales.smoke.seed=3")
    only_smoke = {**SMALL, "scales": {"smoke": SMALL["scales"]["smoke"]}}
    with pytest.raises(UserError, match="has no scale 'paper'"):
        plan(load(written(tmp_path, only_smoke)), "paper", None)


def test_a_setting_without_a_value_at_a_scale(tmp_path: Path) -> None:
    tree = {
        **SMALL,
        "trainings": {**SMALL["trainings"], "all": {"max_length": {"smoke": 10}}},
        "tests": {**SMALL["tests"], "hard": {"corpus": {"smoke": "test"}}},
        "analyses": {
            "test": {"test": "test", "trainings": ["all"], "bleu_tokenizer": {"small": "13a"}},
            "hard": {"test": "hard", "trainings": ["all"], "bins": {"smoke": [10]}},  # at small there is no such test
        },
    }
    told = faults_of(written(tmp_path, tree)).split("\n")
    assert len(told) == 2
    assert "trainings.all.max_length has no value at scale small" in told[1]
    assert "analyses.test.bleu_tokenizer has no value at scale smoke" in told[0]
    assert all("give it one" in line and "own.yaml:" in line for line in told)
    assert "notes.0" in faults_of(written(tmp_path, {**SMALL, "notes": [{}]}))


def test_missing_files_are_told_together(tmp_path: Path) -> None:
    recipe = load(written(tmp_path, SMALL))
    with pytest.raises(UserError, match="name its folder"):
        plan(recipe, "small", None)
    with pytest.raises(UserError) as raised:
        plan(recipe, "small", tmp_path)
    assert len(raised.value.lines) == 6
    assert "the corpus 'train' has no source text" in raised.value.lines[0]


def test_options_of_a_scheme_that_a_system_does_not_have(tmp_path: Path) -> None:
    systems = {**SMALL["systems"], "relative": {"system": "relative", "options": {"rope": {"base": 5}}}}
    with pytest.raises(UserError, match="the system 'relative' has no scheme 'rope'"):
        plan(load(written(tmp_path, {**SMALL, "systems": systems})), "smoke", None)


def test_overrides_change_one_thing(tmp_path: Path) -> None:
    recipe: Recipe = load(written(tmp_path, SMALL), ("scales.smoke.seeds=5", "pair.source=fr"))
    assert recipe.scales["smoke"].seeds == 5
    assert recipe.pair.source == "fr"
    assert recipe.hash != load(written(tmp_path, SMALL)).hash


def test_unknown_options_of_a_scheme_are_refused_when_the_recipe_is_read(tmp_path: Path) -> None:
    systems = {
        **SMALL["systems"],
        "relative": {"system": "relative", "options": {"relative": {"distanse": 8}}},
        "near": {"system": "relative", "label": "near", "options": {"relative": {"distance": {"small": 0}}}},
    }
    runs = [{"systems": list(systems), "trainings": ["all"], "tests": ["test"]}]
    told = faults_of(written(tmp_path, {**SMALL, "systems": systems, "runs": runs}))
    assert "systems.relative: model.encoder.position: relative has no option 'distanse'" in told
    assert "did you mean 'distance'?" in told
    # a value that only one scale has
    assert (
        "systems.near: model.encoder.position: relative.distance: Input should be greater than or equal to 1, got 0"
        in told
    )
    assert all("own.yaml:" in line for line in told.split("\n"))


def test_faults_of_a_config_are_named_once_where_they_stand(tmp_path: Path) -> None:
    tree = {**SMALL, "trainings": {"all": {}, "fast": {"config": {"train": {"batches": 3}}}}}
    tree["runs"] = [{"systems": ["transformer", "relative"], "trainings": ["all", "fast"], "tests": ["test"]}]
    told = faults_of(written(tmp_path, tree), "scales.small.config.model.sise=tiny")
    assert told.count("\n") == 1
    assert "scales.small.config: unknown key model.sise" in told
    assert "did you mean 'size'?" in told
    assert "trainings.fast.config: unknown key train.batches" in told
    assert "scales.smoke.config: train: set when to stop" in faults_of(
        written(tmp_path, SMALL), "scales.smoke.config.train.steps=null"
    )


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("analyses.test.metrics=[bleu]", "recommend.measure: the analysis test does not measure chrf"),
        ("analyses.test.bleu_tokenizer=mosse", "analyses.test: sacreBLEU has no tokeniser 'mosse'; there are: none"),
        ("analyses.test.bins=[20,10]", "analyses.test: bin edges must be increasing lengths of 0 or more; got 20, 10"),
        ("scales.smoke.artificial.trian=5", "did you mean 'train'?"),
        ("scales.smoke.artificial.train=many", "a whole number is needed"),
        (
            "claims=[{claim: 1, says: x, test: {analysis: test, measure: multi-bleu, of: {system: rope, "
            "share: 0.3}, is: higher}}]",
            "claims.0.test: the analysis test does not measure multi-bleu: its metrics are chrf, bleu",
        ),
        (
            "claims=[{claim: 1, says: x, test: {analysis: test, of: {system: rope, share: 0.3}, is: higher}}]",
            "claims.0.test: the test test has no copy with a share of 0.3 of the words swapped",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_when_the_recipe_is_read(setting: str, fault: str) -> None:
    """Not after all trainings."""
    with pytest.raises((UserError, UserErrors)) as caught:
        load("choose", (setting,), check_configs=False)
    assert fault in "\n".join(caught.value.lines)


def test_lines_that_are_joined_in_a_corpus_are_of_training_alone(tmp_path: Path) -> None:
    """A test says itself that its lines have a second sentence, so that reports and claims say so, too."""
    text = {"source": "a", "target": "b", "documents": "c", "join": 2}
    corpora = {"train": [{"source": "a", "target": "b"}, text], "dev": {"source": "a", "target": "b"}}
    scales = {"smoke": {**SMALL["scales"]["smoke"], "artificial": None, "corpora": {**corpora, "test": text}}}
    faults = faults_of(written(tmp_path, {**SMALL, "scales": scales}))
    assert "tests.test: the corpus test has joined lines at scale smoke" in faults
    scales["smoke"]["corpora"]["test"] = {**text, "join": None}
    load(written(tmp_path, {**SMALL, "scales": scales}), check_configs=False)


def test_completeness_is_part_of_an_analysis_that_asks_for_it(tmp_path: Path) -> None:
    """Claims may be on it there alone; other analyses keep their keys."""

    def tree(**asked: Any) -> dict[str, Any]:
        test = {"analysis": "test", "measure": "omitted_sentences", "of": {"system": "relative"}, "is": "lower"}
        claims = [{"claim": 1, "says": "complete", "test": {**test, "than": {"system": "transformer"}}}]
        analyses = {**SMALL["analyses"], "test": {**SMALL["analyses"]["test"], **asked}}
        return {**SMALL, "analyses": analyses, "claims": claims}

    assert "the analysis test does not measure omitted_sentences" in faults_of(written(tmp_path, tree()))
    assert "raw text" in faults_of(written(tmp_path, tree(completeness=True, text="words")))
    made = plan(load(written(tmp_path, tree(completeness=True))), "smoke", None)
    settings = {name: step.settings for name, step in analyses(made, made.steps)[0].items()}
    assert settings["test"]["completeness"] == made.pair.model_dump()
    assert all("completeness" not in each for name, each in settings.items() if name != "test")


def test_a_corpus_of_a_recipe_that_is_like_another_is_the_whole_of_it(tmp_path: Path) -> None:
    """`schemes-enja` trains on the first 46,000 lines of its text; one like it on all of its own."""
    own = {"source": "train.is", "target": "train.en"}
    tree = {"like": "schemes-enja", "recipe": "mine", "scales": {"small": {"corpora": {"train": own}}}}
    corpora = load(written(tmp_path, tree), check_configs=False).scales["small"].corpora
    assert corpora["train"].model_dump(exclude_unset=True) == own
    assert corpora["dev"] == load("schemes-enja", check_configs=False).scales["small"].corpora["dev"]


def test_a_system_with_subwords_of_its_own_has_a_text_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(SYSTEMS["transformer"], subword={"type": "unigram", "vocabulary": 99})
    monkeypatch.setitem(SYSTEMS, "mine", own)
    systems = {
        **SMALL["systems"],
        "mine": {"system": "mine"},
        "pairs": {"system": "shared-private", "model": {"tie_embeddings": "target"}},
    }
    runs = [{"systems": ["transformer", "relative", "mine", "pairs"], "trainings": ["all"], "tests": ["test"]}]
    made = plan(load(written(tmp_path, {**SMALL, "systems": systems, "runs": runs})), "smoke", None)
    prepared = {run.system: made.steps[run.train].needs["prepared"] for run in made.runs}
    assert list(prepared.values()) == ["prepare/all", "prepare/all", "prepare/all-2", "prepare/all-3"]
    usual, mine, pairs = (
        made.steps[name].settings["config"].get("subword", {}) for name in dict.fromkeys(prepared.values())
    )
    assert mine == {"type": "unigram", "vocabulary": 99, **usual}, "the recipe's settings take precedence"
    assert pairs == {"pairs": {}, **usual}
    (analysis,) = analyses(made, made.steps)[0].values()
    outputs = analysis.settings["outputs"]
    assert {each["system"] for each in outputs if "other_subwords" in each} == {"mine"}, (
        "pairs leave subwords as they are"
    )


def test_options_of_a_scale_are_those_of_every_system_that_has_the_scheme(tmp_path: Path) -> None:
    systems = {**SMALL["systems"], "own": {"system": "relative", "options": {"relative": {"distance": {"small": 5}}}}}
    runs = [{"systems": list(systems), "trainings": ["all"], "tests": ["test"]}]
    path = written(tmp_path, {**SMALL, "systems": systems, "runs": runs})
    recipe = load(path, ("scales.small.options.relative.distance=3", "scales.small.options.relative.values=false"))

    def schemes(scale: Any, system: str) -> Any:
        return train_config(recipe, scale, system, "all", 1)["model"].get("decoder")

    assert schemes("small", "relative") == {"position": [{"scheme": "relative", "distance": 3, "values": False}]}
    assert schemes("small", "own") == {"position": [{"scheme": "relative", "distance": 5, "values": False}]}
    assert schemes("smoke", "relative") is None
    assert schemes("smoke", "own") == {"position": [{"scheme": "relative"}]}
    assert schemes("small", "transformer") is None
    told = faults_of(path, "scales.small.options.rope.base=7")
    assert "scales.small.options.rope: no system has this scheme" in told


def test_a_size_of_a_systems_own_wins_over_the_scale(tmp_path: Path) -> None:
    systems = {
        **SMALL["systems"],
        "big": {"system": "rnn", "label": "big", "model": {"size": "big"}},
        "own": {"system": "rnn", "label": "own", "model": {"size": "big", "dropout": 0.2}},
    }
    settings = ("scales.small.config.model={size: base, dropout: 0.1, tie_embeddings: target}",)
    recipe = load(written(tmp_path, {**SMALL, "systems": systems}), settings)
    corpora = {part: {"source": "-", "target": "-"} for part in ("train", "dev")}

    def model(system: str) -> Any:
        return from_tree(merge({"data": corpora}, train_config(recipe, "small", system, "all", 1))).model

    assert (model("transformer").dropout, model("transformer").d_model) == (0.1, 512)
    assert (model("big").dropout, model("big").d_model, model("big").tie_embeddings) == (0.3, 1024, "target")
    assert (model("big").encoder.layers, model("big").decoder.layers) == (6, 5)
    assert model("own").dropout == 0.2


def resolved(recipe: Recipe, system: str) -> Config:
    corpora = {part: {"source": "-", "target": "-"} for part in ("train", "dev")}
    training = next(iter(recipe.trainings))
    return from_tree(merge({"data": corpora}, train_config(recipe, "paper", system, training, 1)))


def test_the_paper_scale_of_neishi2019_is_that_of_the_authors_code() -> None:
    recipe = load("neishi2019")
    for system in recipe.systems:
        config = resolved(recipe, system)
        for step in (1, 100, 3999, 4000, 4001, 300_000):  # code/util/optimizer.py
            expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
            assert learning_rate(step, config.train, 512) == pytest.approx(expected)
        train, model = config.train, config.model
        assert (train.adam_betas, train.adam_epsilon, train.clip) == ((0.9, 0.999), 1e-8, 3.0)
        assert (train.steps, train.batch, train.batch_unit) == (300_000, 128, "sentences")
        assert (train.label_smoothing, train.evaluate_every, train.average) == (0, 10_000, 1)
        assert (train.with_replacement, model.source_begin) == (
            True,
            True,
        )  # code/util/corpus.py, code/util/language.py
        assert (train.bleu_tokenizer, config.data.tokenise) == ("none", "none")  # the text is tokenised
        assert (config.subword.type, config.subword.vocabulary, config.subword.shared) == ("unigram", 40_000, True)
        assert config.subword.normalisation == "nmt_nfkc"  # spm_train's default
        assert (model.dropout, model.embedding_init, model.scale_embeddings) == (0.2, "normal", False)
        if model.architecture == "transformer":
            assert (model.feed_forward_dropout, model.norm_epsilon, model.init) == (0.2, 1e-6, "pytorch")
        for side in (model.encoder, model.decoder):
            for scheme in side.position:
                expected_options: dict[str, Any] = {
                    "relative": {"init": "normal"},
                    "recurrent": {"dropout_before": 0.2, "dropout_after": 0},
                    "sinusoidal": {"dropout_before": 0.2},
                }.get(scheme.scheme, {})
                assert scheme.options == expected_options
    made = plan(recipe, "paper", None)
    names = {step: made.steps[f"fetch/{step}-0"].settings["corpus"]["name"] for step in ("train", "dev", "test")}
    pairs = {step: entry(name).pairs for step, name in names.items()}
    assert names["train"] == "wmt14-stanford-en-de"
    assert pairs == {"train": 4_468_840, "dev": 3000, "test": 2737}  # Table 1, the training text before it is filtered
    done = analyses(made, made.steps)[0]
    assert {name: done[name].settings["text"] for name in ("words", "by-length")} == {
        "words": "raw",
        "by-length": "subwords",
    }


def test_the_paper_scales_have_what_the_papers_have() -> None:
    for paper, warmup in (("chen2019a", 8000), ("chen2019b", 4000)):
        recipe = load(paper)
        for system, chosen in recipe.systems.items():
            config = resolved(recipe, system)
            assert config.train.clip is None
            assert config.train.schedule.warmup == warmup
            assert learning_rate(warmup, config.train, 512) == pytest.approx((512 * warmup) ** -0.5)
            big = chosen.model.get("size") == "big"
            assert config.model.dropout == (0.3 if big else 0.1)
            assert config.model.attention_dropout == (0.1 if paper == "chen2019a" else 0)
            assert config.model.d_model == (1024 if big else 512)
    for paper in ("rosendahl2019", "rosendahl2019-zhen"):
        recipe = load(paper)
        for system in recipe.systems:
            train = resolved(recipe, system).train
            assert (train.clip, train.learning_rate, train.schedule.warmup) == (None, 3e-4, 0)
            assert (train.schedule.decay, train.schedule.patience, train.batch) == (0.9, 6, 4700)


def test_joined_lines_are_those_of_rosendahl2019_at_paper_scale_alone() -> None:
    recipe, pair = load("rosendahl2019"), {"pair": {"source": "de", "target": "en"}}
    for scale, settings in (("paper", {"rest": "keep", "documents": False}), ("small", {"rest": "drop"})):
        assert recipe.tests["concat_seq"].joining(scale) == settings  # type: ignore[arg-type]
    step = plan(recipe, "paper", None).steps["test/concat_seq-joined"]
    assert step.settings == {"sentences": 2, "rest": "keep", "documents": False, **pair}


class Across(Test):
    """A test with other defaults."""

    rest: Rest | dict[Scale, Rest] = "drop"
    documents: bool | dict[Scale, bool] = False


class Cut(Analysis):
    """An analysis with another default."""

    text: Measured | dict[Scale, Measured] = "words"


def test_where_a_scale_has_no_value_a_setting_has_the_default_of_its_field() -> None:
    """Whatever the default is: it is declared once."""
    own = {"corpus": "a", "join": 2, "rest": {"paper": "drop"}, "documents": {"paper": False}}
    kept, dropped = {"rest": "keep"}, {"rest": "drop", "documents": False}
    joins = [kind.model_validate(own).joining(scale) for kind in (Test, Across) for scale in ("small", "paper")]
    assert joins == [kept, dropped, dropped, dropped]
    assert Test(corpus="a", documents=False).joining("small") == kept  # nothing is joined
    analysis = {"test": "a", "trainings": ["all"], "text": {"paper": "subwords"}}
    texts = [kind.model_validate(analysis).text_at(scale) for kind in (Analysis, Cut) for scale in ("small", "paper")]
    assert texts == ["raw", "subwords", "words", "subwords"]


@pytest.mark.parametrize(
    ("trainings", "labels"),
    [
        (None, ["Sinusoids", "Sinusoids, no cap", "rope", "rope, no cap"]),
        (["all", "uncapped"], ["Sinusoids", "Sinusoids, no cap", "rope", "rope, no cap"]),
        (["uncapped"], ["Sinusoids", "Sinusoids", "rope", "rope"]),
        ([], ["Sinusoids", "Sinusoids", "rope", "rope"]),
    ],
)
def test_a_label_names_a_training_where_there_are_several(trainings: list[str] | None, labels: list[str]) -> None:
    """Of those that it has to tell apart, and never the first of the recipe."""
    recipe = load("natural", check_configs=False)
    unlabelled = recipe.systems["rope"].model_copy(update={"label": None})
    recipe = recipe.model_copy(update={"systems": {**recipe.systems, "rope": unlabelled}})
    variants = [(system, training) for system in ("transformer", "rope") for training in ("all", "uncapped")]
    assert [recipe.label(each, trainings) for each in variants] == labels


@pytest.mark.parametrize("name", [name for name in shipped() if load(name, check_configs=False).paper])
def test_the_precision_of_a_paper_scale_is_written_down(name: str) -> None:
    assert load(name).scales["paper"].config["train"]["precision"] == "auto"


@pytest.mark.parametrize("name", ["neishi2019", "rosendahl2019", "rosendahl2019-zhen", "chen2019b"])
def test_figures_beside_a_papers_are_by_its_measure(name: str) -> None:
    """Tokenised BLEU as of multi-bleu.perl, wherever the paper's BLEU stands beside ours; chen2019a has sacreBLEU's."""
    recipe = load(name)
    for table in recipe.tables:
        if table.kind == "scores":
            pairs = [(column.analysis, column.measure) for column in table.columns if column.published]
        else:
            pairs = [(table.analysis, measure) for measure in table.measures if table.published]
        for analysis, measure in pairs:
            if analysis is not None and measure in ("bleu", "multi-bleu"):
                assert measure == "multi-bleu"
                in_blanks = ["neishi2019"]  # whose text at paper scale is tokenised already
                texts = {scale: recipe.analyses[analysis].text_at(scale) for scale in ("smoke", "small", "paper")}
                assert texts == {"smoke": "words", "small": "words", "paper": "raw" if name in in_blanks else "words"}


def test_bins_of_parts_need_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    third, half = {"part": {"of": 3, "take": 3}}, {"part": {"of": 2, "take": 1}}
    trainings = {"all": {}, "long": third, "middle": {"part": {"of": 3, "take": 2}}, "half": half}
    runs = [{"systems": ["relative"], "trainings": list(trainings), "tests": ["test"]}]
    analysis = {"test": "test", "bins": "parts", "text": "words", "metrics": ["multi-bleu"]}
    tree = {**SMALL, "trainings": trainings, "runs": runs}
    good = {**tree, "analyses": {"test": {**analysis, "trainings": ["long", "middle"]}}}
    made = plan(load(written(tmp_path, good)), "smoke", None)
    step = analyses(made, made.steps)[0]["test"]
    assert step.needs["parts"] == "corpus/parts-3"
    assert step.settings["bins"] == "parts"
    assert step.settings["target_language"] == "de"
    for names in (["all"], ["long", "half"], ["all", "long"]):
        bad = {**tree, "analyses": {"test": {**analysis, "trainings": names}}}
        assert "analyses.test: bins: parts needs trainings on parts" in faults_of(written(tmp_path, bad))
    monkeypatch.setattr("posnmt.config.segmenters.find_spec", lambda name: None)
    found = faults_of(written(tmp_path, good), "pair.target=ja")
    assert "analyses.test: mecab segments Japanese and is not installed" in found
    assert "pip install 'posnmt[ja]', or measure the raw text" in found


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
@pytest.mark.parametrize("system", ["rnn", "rr"])
def test_systems_with_grus_have_one_decoder_layer_less_at_every_scale(scale: Scale, system: str) -> None:
    """N19: what the GRUs cost in parameters is taken from the decoder."""
    recipe = load("neishi2019")
    layers = {
        name: with_names(train_config(recipe, scale, name, "all", 1)["model"]) for name in ("transformer", system)
    }
    sides = {
        side: [layers[name][side]["layers"] for name in ("transformer", system)] for side in ("encoder", "decoder")
    }
    assert sides["encoder"][1] == sides["encoder"][0]
    assert sides["decoder"][1] == sides["decoder"][0] - 1


def test_a_recipe_that_is_like_another_states_what_differs(tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    (tmp_path / "other.yaml").write_text(
        "like: own.yaml\nrecipe: other\npair: {source: fr}\nscales: {smoke: {seeds: 7}}\n", encoding="utf-8"
    )
    (tmp_path / "third.yaml").write_text("like: other.yaml\nrecipe: third\ntitle: Third\n", encoding="utf-8")
    own, other, third = (load(str(tmp_path / f"{name}.yaml")) for name in ("own", "other", "third"))
    assert other.scales["smoke"].seeds == third.scales["smoke"].seeds == 7 != own.scales["smoke"].seeds
    assert (other.pair.source, other.pair.target) == ("fr", own.pair.target)
    assert (other.title, third.title) == (own.title, "Third")
    assert other.systems == own.systems
    assert load(str(tmp_path / "third.yaml"), ("scales.smoke.seeds=2",)).scales["smoke"].seeds == 2
    same = load(str(tmp_path / "third.yaml"), ("pair.source=en",))
    graphs = [Graph(plan(recipe, "smoke", None).steps.values(), KINDS) for recipe in (own, same)]
    assert len({graph.key("train/relative/all/seed-1") for graph in graphs}) == 1


LAID_OUT = {
    "runs": [{"trainings": ["all", "long"], "tests": ["test"]}, {"trainings": ["all"], "tests": ["joined"]}],
    "analyses": {name: {"test": name, "trainings": ["all", "long"]} for name in ("test", "joined")},
    "tables": [
        {"table": 1, "caption": "A", "columns": [{"title": "BLEU", "analysis": "test"}]},
        {"table": 2, "caption": "B", "kind": "by-length", "analysis": "joined"},
        {"table": 3, "caption": "C", "columns": [{"title": "Parameters", "measure": "parameters"}]},
        {"table": 4, "caption": "D", "rows": ["relative"], "columns": [{"title": "BLEU", "analysis": "test"}]},
        {"table": 5, "caption": "E", "kind": "parts"},
    ],
}


def test_settings_of_another_recipe_are_left_out_or_replaced_as_a_whole(tmp_path: Path) -> None:
    written(tmp_path, SMALL | LAID_OUT)
    systems = {"rope": {"system": "rope"}, "relative": {"system": "relative", "label": "mine"}}
    tree = {"like": "own.yaml", "recipe": "mine", "except": ["systems", "scales.smoke.config.train", "scales.small"]}
    config = {"smoke": {"config": {"train": {"epochs": 2}}}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**tree, "systems": systems, "scales": config}, sort_keys=False))
    its, mine = (load(str(tmp_path / f"{name}.yaml")) for name in ("own", "mine"))
    assert [*mine.systems] == ["rope", "relative"]
    assert mine.systems["relative"].label == "mine"
    assert [*mine.scales] == ["smoke"]
    assert mine.scales["smoke"].config == {**its.scales["smoke"].config, "train": {"epochs": 2}}
    assert mine.analyses == its.analyses
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**tree, "except": ["tables"]}))
    assert load(str(tmp_path / "mine.yaml")).tables == []


def test_runs_and_tables_that_name_no_systems_have_all(tmp_path: Path) -> None:
    """So they need no change where systems change; a table has those that its analyses have."""
    for added in ([], ["rope"]):
        systems = {**SMALL["systems"], **{name: {"system": name} for name in added}}
        recipe = load(written(tmp_path, SMALL | LAID_OUT | {"systems": systems}))
        whole = [f"{name}{training}" for training in ("", "/long") for name in systems]
        assert [set(runs.systems) for runs in recipe.runs] == [{*systems}] * 2
        rows = [sorted(table.rows) for table in recipe.tables]
        assert rows == [sorted(whole), sorted(systems), sorted(whole), ["relative"], []]
        assert {system for system, _ in recipe.variants("smoke")} == {*systems}


@pytest.mark.parametrize(
    ("left_out", "what", "line"),
    [
        (["sistems"], "except: own.yaml has no 'sistems'", 4),
        (["scales.paper"], "except: own.yaml, scales has no 'paper'", 4),
        (["systems", "title.en.x"], "except: own.yaml, title has no 'en'", 5),
        ("systems", "except: input should be a list of settings of own.yaml, got 'systems'", 3),
    ],
)
def test_what_cannot_be_left_out_of_another_recipe(tmp_path: Path, left_out: Any, what: str, line: int) -> None:
    written(tmp_path, SMALL)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"like": "own.yaml", "recipe": "mine", "except": left_out}, sort_keys=False))
    told = faults_of(str(path))
    assert what in told
    assert f"({path}:{line})" in told
    path.write_text(yaml.safe_dump({**SMALL, "except": ["systems"]}, sort_keys=False))
    assert "except names settings of another recipe, and like names none" in faults_of(str(path))


def test_the_aspec_recipes_take_what_the_papers_take() -> None:
    """N19 Table 1 and section 5.1, C19a section 6.1."""
    for name, pairs, pair in (("neishi2019-aspec", 1_500_000, "en-ja"), ("chen2019a-aspec", 2_000_000, "ja-en")):
        recipe = load(name)
        made = plan(recipe, "paper", None)
        assert made.steps["corpus/train"].settings["texts"] == [{"take": None, "lines": [1, pairs]}]
        names = {part: made.steps[f"fetch/{part}-0"].settings["corpus"]["name"] for part in ("train", "dev", "test")}
        assert names == {part: f"aspec-{part}-ja-en" for part in names}
        assert [entry(names[part]).pairs for part in ("train", "dev", "test")] == [3_008_500, 1790, 1812]
        assert f"{recipe.pair_at('paper').source}-{recipe.pair_at('paper').target}" == pair
        config = resolved(recipe, "transformer")
        assert config.data.tokenise.model_dump() == {  # type: ignore[union-attr]
            "source": "moses" if pair == "en-ja" else "mecab",
            "target": "mecab" if pair == "en-ja" else "moses",
        }
    its, mine = (resolved(load(name), "rr") for name in ("neishi2019", "neishi2019-aspec"))
    assert mine.model == its.model
    assert mine.train == its.train.model_copy(update={"bleu_tokenizer": "ja-mecab"})
    assert (mine.subword.vocabulary, mine.data.truecase) == (16_000, True)


def test_a_recipe_can_be_like_one_that_is_shipped(tmp_path: Path) -> None:
    name = written(tmp_path, {"like": "neishi2019", "recipe": "mine", "scales": {"small": {"floor": 5}}})
    mine, its = load(name, check_configs=False), load("neishi2019", check_configs=False)
    assert (mine.scales["small"].floor, mine.tables) == (5, its.tables)


def test_a_recipe_runs_fewer_systems_than_the_one_that_it_is_like(tmp_path: Path) -> None:
    """`schemes` has options for relative positions, which the two systems of this one lack."""
    runs = [{"systems": ["transformer", "lstm"], "trainings": ["all"], "tests": ["single"]}]
    left_out = ["analyses", "tables", "figures", "claims"]
    analyses = {"analyses": {"single": {"test": "single", "trainings": ["all"]}}}
    recipe = load(
        written(tmp_path, {"like": "schemes", "except": left_out, "recipe": "mine", "runs": runs, **analyses})
    )
    assert [system for system, _ in recipe.variants("smoke")] == ["transformer", "lstm"]


@pytest.mark.parametrize(
    ("like", "what", "where"),
    [
        ("nieshi2019", "no recipe is called 'nieshi2019'", "own.yaml:1"),
        (3, "like: input should be a recipe's name, or a file, got 3", "own.yaml:1"),
        ("own.yaml", "like: own.yaml is like this recipe", "own.yaml:1"),
        ("circle.yaml", "like: own.yaml is like this recipe", "circle.yaml:1"),
        ("faulty.yaml", "unknown key tittle", "faulty.yaml:2"),
    ],
)
def test_what_a_recipe_cannot_be_like(tmp_path: Path, like: Any, what: str, where: str) -> None:
    (tmp_path / "circle.yaml").write_text("like: own.yaml\n", encoding="utf-8")
    (tmp_path / "faulty.yaml").write_text("recipe: faulty\ntittle: A\n", encoding="utf-8")
    told = faults_of(written(tmp_path, {"like": like, "recipe": "own"}))
    assert what in told
    assert f"({tmp_path / where})" in told


def test_a_study_runs_seed_by_seed_and_translates_as_soon_as_it_can(tmp_path: Path) -> None:
    claims = [{
        "claim": 1, "says": "slower",
        "test": {"analysis": "test", "measure": "training_speed", "of": {"system": "relative"}, "is": "lower",
                 "than": {"system": "transformer"}},
    }]  # fmt: skip
    made = plan(load(written(tmp_path, {**SMALL, "claims": claims})), "smoke", None)
    order = Graph(study.seed_by_seed(made, study.chosen(made.steps, [])), KINDS).order()
    assert sorted(order) == sorted(made.steps)
    assert [name for name in order if name.startswith(("train/", "translate/", "speed/"))] == [
        *(
            f"{step}{test}"
            for seed in (1, 2)
            for system in ("transformer", "relative")
            for step, tests in (("train", [""]), ("translate", ["/test", "/joined", "/swapped"]))
            for step in [f"{step}/{system}/all/seed-{seed}"]
            for test in tests
        ),
        "speed/in-turn",
    ]
