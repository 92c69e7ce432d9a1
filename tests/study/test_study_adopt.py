"""What a study takes from a published copy, and what it leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from posnmt.base.errors import UserError
from posnmt.base.output import as_json
from posnmt.base.version import FORMAT
from posnmt.study.adopt import adopt, discard_weightless
from posnmt.study.copied import FACTS, MARK, OF_RUN, RUNS, Copy, name_of, packed_in
from posnmt.study.load import load
from posnmt.study.packed import unpack
from posnmt.study.plan import KINDS, Plan, plan
from posnmt.study.study import finished
from posnmt.study.workflow.graph import Graph
from tests.support.copies import pack
from tests.support.recipe_case import written


@pytest.fixture
def study_plan() -> Plan:
    return plan(load("choose"), "smoke", None)


def copy_of(study_plan: Plan, copy: Path, **translations: str) -> Copy:
    """A published copy of a study with its first training, and of its translations the keys of some, by test."""
    run, graph = study_plan.runs[0], Graph(study_plan.steps.values(), KINDS)
    copy.mkdir()
    (copy / MARK).write_text(json.dumps({"format": FORMAT, "recipe": "choose", "scale": "smoke"}))
    step = {"key": graph.key(run.train), "finished": "2026-01-01T00:00:00+00:00", "seconds": 1.0, "versions": {}}
    facts = {"train": step, "translations": {test: {**step, "key": key} for test, key in translations.items()}}
    files = {**dict.fromkeys(OF_RUN, b"{}"), FACTS: as_json(facts)}
    pack({f"{RUNS}/{name_of(run)}/{name}": content for name, content in files.items()}, packed_in(copy, RUNS))
    return Copy(copy)


def test_a_training_that_is_made_again_for_its_weights_goes_on_after_a_stop(study_plan: Plan, tmp_path: Path) -> None:
    """The same command, with --adopt, goes on with it: it does not begin it once more."""
    copy, out = copy_of(study_plan, tmp_path / "copy"), tmp_path / "study"

    def begin() -> list[str]:
        return [*adopt(study_plan, out, copy), *discard_weightless(study_plan, out, [*study_plan.steps])]

    taken, made_again = begin()
    assert "is taken from" in taken
    assert "needs its weights, which the copy does not contain" in made_again
    run = Graph(study_plan.steps.values(), KINDS).folder(out, study_plan.runs[0].train) / "run"
    (run / "checkpoints" / "step-1000").mkdir(parents=True)
    (line,) = begin()
    assert "goes on from its checkpoint: translate/transformer/all/seed-1/test" in line
    assert (run / "checkpoints" / "step-1000").is_dir()


def test_a_training_that_was_begun_here_is_taken_over_if_nothing_needs_its_weights(tmp_path: Path) -> None:
    """The copy has its translations as well, and the recipe compares no speeds."""
    runs = [{"systems": ["transformer"], "trainings": ["all"], "tests": ["test"], "seeds": 1}]
    recipe = {"like": "choose", "except": ["recommend", "likelihoods"], "recipe": "mine", "runs": runs}
    study_plan = plan(load(written(tmp_path, recipe)), "smoke", None)
    graph, (run,) = Graph(study_plan.steps.values(), KINDS), study_plan.runs
    copy = copy_of(study_plan, tmp_path / "copy", test=graph.key(run.translations["test"]))
    out = tmp_path / "study"
    begun = graph.folder(out, run.train) / "run" / "checkpoints" / "step-1000"
    begun.mkdir(parents=True)
    (line,) = adopt(study_plan, out, copy)
    assert line == f"{run.train} is taken from {copy.folder}, without its weights, and what was begun here is removed"
    assert not begun.exists()
    assert [*discard_weightless(study_plan, out, [*study_plan.steps])] == []
    assert finished(graph, out) == [run.train, *run.translations.values()]


def test_a_training_that_the_copy_has_with_another_plugin_is_made_again(study_plan: Plan, tmp_path: Path) -> None:
    copy, name = copy_of(study_plan, tmp_path / "copy"), study_plan.runs[0].train
    step = study_plan.steps[name]
    study_plan.steps[name] = replace(step, settings={**step.settings, "plugins": [{"sha256": "1"}]})
    (line,) = adopt(study_plan, tmp_path / "study", copy)
    assert line == f"{name} is made again: the copy has no training with these settings, texts and plugins"


def test_a_copy_of_a_newer_posnmt_is_refused(study_plan: Plan, tmp_path: Path) -> None:
    copy = copy_of(study_plan, tmp_path / "copy")
    (copy.folder / MARK).write_text(json.dumps({"format": FORMAT + 1, "recipe": "choose", "scale": "smoke"}))
    with pytest.raises(UserError, match=rf"written by a newer posnmt.*{MARK}"):
        Copy(copy.folder)


@pytest.mark.parametrize("name", OF_RUN)
def test_a_copy_without_a_file_of_a_training_is_damaged(study_plan: Plan, tmp_path: Path, name: str) -> None:
    copy = copy_of(study_plan, tmp_path / "copy")
    files = unpack(packed_in(copy.folder, RUNS))
    pack({path: content for path, content in files.items() if not path.endswith(name)}, packed_in(copy.folder, RUNS))
    with pytest.raises(UserError, match=r"missing or damaged.*runs\.tar\.xz"):
        list(adopt(study_plan, tmp_path / "study", Copy(copy.folder)))
