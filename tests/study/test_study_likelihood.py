"""Likelihood by position in studies: what a recipe may ask for, what is planned, scored and shown."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.losses import UNITS, Scored, coarse, read_losses, write_losses
from posnmt.evaluation.analyse.scoring import Model
from posnmt.evaluation.report.likelihood import CSV_HEAD
from posnmt.run.run import Run
from posnmt.study.likelihood import TakenOver, read, save
from posnmt.study.load import load
from posnmt.study.page import render
from posnmt.study.plan import KINDS, Plan, analyses, likelihoods, plan
from posnmt.study.recipe import Likelihood
from posnmt.study.workflow.graph import Graph
from posnmt.study.workflow.kind import Context, Resources
from tests.support import corpus
from tests.support.commands import run
from tests.support.losses_case import random_losses
from tests.support.recipe_case import SMALL, faults_of, written
from tests.support.study_report_case import made_recipe, made_study

ALL = {"test": "test", "trainings": ["all"]}


def planned(folder: Path, likelihood: dict[str, Any], **changes: Any) -> Plan:
    return plan(load(written(folder, {**SMALL, **changes, "likelihoods": {"own": likelihood}})), "smoke", None)


# --- what a recipe may ask for


@pytest.mark.parametrize(
    ("likelihood", "fault", "line"),
    [
        (ALL | {"tests": "test"}, "unknown key likelihoods.own.tests", "tests: test"),
        ({"test": "test"}, "likelihoods.own.trainings is missing", "own:"),
        (ALL | {"trainings": []}, "likelihoods.own.trainings: ", "trainings: []"),
        (ALL | {"test": "tset"}, "likelihoods.own.test: tests has no 'tset'", "test: tset"),
        (ALL | {"trainings": ["al"]}, "likelihoods.own.trainings: trainings has no 'al'", "trainings:"),
        (ALL | {"systems": ["relatives"]}, "likelihoods.own.systems: systems has no 'relatives'", "systems:"),
        (ALL | {"baseline": "rnn"}, "there are relative/all, transformer/all", "baseline: rnn"),
        (ALL | {"systems": ["relative"], "baseline": "transformer"}, "baseline: 'transformer' is not one of",
         "baseline: transformer"),
        (ALL | {"baseline": "relative/long"}, "'relative/long' is not one of the systems", "baseline: relative/long"),
        (ALL | {"swap": True}, "likelihoods.own.swap: the test test has no documents", "swap: true"),
        (ALL | {"test": "joined", "swap": True}, "the test joined has no documents", "swap: true"),
        (ALL | {"trainings": ["all", "reordered"]}, "some reorder the source and some do not", "trainings:"),
        (ALL | {"shift": 0}, "likelihoods.own.shift: a number above", "shift: 0"),
        (ALL | {"scales": ["large"]}, "likelihoods.own.scales.0: input should be 'smoke'", "- large"),
    ],
)  # fmt: skip
def test_faults_are_told_with_their_lines(tmp_path: Path, likelihood: dict[str, Any], fault: str, line: str) -> None:
    name = written(tmp_path, {**SMALL, "likelihoods": {"own": likelihood}})
    told = faults_of(name)
    assert told.count("\n") == 0
    assert fault in told
    [number] = re.findall(r"own\.yaml:(\d+)", told)
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    assert lines[int(number) - 1].strip() == line
    assert int(number) > lines.index("likelihoods:")


def test_a_system_that_is_unknown_is_told_beside_a_likelihood(tmp_path: Path) -> None:
    runs = [{**SMALL["runs"][0], "systems": ["relative", "reltive"]}]
    tree = {**SMALL, "runs": runs, "likelihoods": {"own": ALL | {"baseline": "relative"}}}
    told = faults_of(written(tmp_path, tree))
    assert told.count("\n") == 0
    assert "runs.0.systems: systems has no 'reltive'" in told


def test_a_swap_needs_documents_at_one_scale(tmp_path: Path) -> None:
    corpora = SMALL["scales"]["small"]["corpora"]
    test = {**corpora["test"], "documents": "ids"}
    for texts, possible in ((test, True), ([test, corpora["test"]], False), ({"public": {"sacrebleu": "wmt19"}}, True)):
        small = {**SMALL["scales"]["small"], "corpora": {**corpora, "test": texts}}
        tree = {**SMALL, "scales": {**SMALL["scales"], "small": small}, "likelihoods": {"own": ALL | {"swap": True}}}
        if possible:
            assert load(written(tmp_path, tree)).likelihoods["own"].swap
        else:
            assert "has no documents" in faults_of(written(tmp_path, tree))


def test_positions_that_a_system_has_not_are_not_shifted(tmp_path: Path) -> None:
    """Told before anything is trained; without the system they are shifted."""
    systems = {**SMALL["systems"], "rnn": {"system": "rnn-nmt"}}
    tree = {**SMALL, "systems": systems, "runs": [{**SMALL["runs"][0], "systems": [*systems], "tests": ["test"]}]}
    shifted = ALL | {"shift": 40}
    told = faults_of(written(tmp_path, {**tree, "likelihoods": {"own": shifted}}))
    assert re.findall(r"likelihoods\.own\.shift: (\S+) has no positions", told) == ["rnn"]
    others = shifted | {"systems": ["relative", "transformer"]}
    assert load(written(tmp_path, {**tree, "likelihoods": {"own": others}})).likelihoods["own"].shift == 40


def test_an_analysis_knows_the_documents_of_a_test_that_has_some(tmp_path: Path) -> None:
    """Its key is as it was where there are none; joined and swapped tests have none."""
    corpora = SMALL["scales"]["small"]["corpora"]
    for name in ("train", "dev", "test"):
        for side in "ab":
            (tmp_path / f"{name}.{side}").write_text("a\n")
    (tmp_path / "ids").write_text("one\n")
    every = {name: {"test": name, "trainings": ["all"]} for name in ("test", "joined", "swapped")}
    found = []
    for more in ({"documents": "ids"}, {}):
        small = {**SMALL["scales"]["small"], "corpora": {**corpora, "test": {**corpora["test"], **more}}}
        tree = {**SMALL, "scales": {**SMALL["scales"], "small": small}, "analyses": every}
        made = plan(load(written(tmp_path, tree)), "small", tmp_path)
        steps, _ = analyses(made, made.steps)
        found.append({name: step.settings.get("documents") for name, step in steps.items()})
    assert found == [{"test": True, "joined": None, "swapped": None}, dict.fromkeys(every)]


# --- what is planned


def test_a_step_has_the_runs_and_the_text_that_they_read(tmp_path: Path) -> None:
    made = planned(tmp_path, ALL | {"baseline": "relative"})
    steps, missing = likelihoods(made, made.steps)
    assert not missing
    step = steps["own"]
    assert step.kind in resolve_name(KINDS)
    runs = [f"train/{system}/all/seed-{seed}" for system in ("transformer", "relative") for seed in (1, 2)]
    assert step.needs == {"test": "corpus/test", **{f"run-{number}": name for number, name in enumerate(runs)}}
    models = [{"system": system, "seed": seed} for system in ("transformer", "relative") for seed in (1, 2)]
    assert step.settings == {"models": models, "baseline": "relative", "swap": False}
    assert step.resources == made.setting.resources.of("translate")


def test_a_shift_is_part_of_a_step_that_has_one(tmp_path: Path) -> None:
    plain, shifted = (planned(tmp_path, each) for each in (ALL, ALL | {"shift": 40}))
    settings = [likelihoods(made, made.steps)[0]["own"].settings for made in (plain, shifted)]
    assert settings[1] == {**settings[0], "shift": 40}


def test_trainings_that_are_not_finished_are_left_out(tmp_path: Path) -> None:
    made = planned(tmp_path, ALL | {"baseline": "relative"})
    first = ["train/relative/all/seed-2", "train/transformer/all/seed-1"]
    [step] = likelihoods(made, first)[0].values()
    assert {each for role, each in step.needs.items() if role != "test"} == {*first}
    assert [(each["system"], each["seed"]) for each in step.settings["models"]] == [("transformer", 1), ("relative", 2)]
    steps, missing = likelihoods(made, first[1:])
    assert not steps
    assert missing == {"own": "no training of relative is finished with its weights here"}


def test_systems_are_called_by_their_trainings_where_there_are_several(tmp_path: Path) -> None:
    runs = [{**SMALL["runs"][0], "systems": ["relative"], "trainings": ["all", "long"], "seeds": 1}]
    for trainings, names in ((["long"], ["relative"]), (["all", "long"], ["relative", "relative, long"])):
        made = planned(tmp_path, {"test": "test", "trainings": trainings, "baseline": "relative/long"}, runs=runs)
        settings = likelihoods(made, made.steps)[0]["own"].settings
        assert [each["system"] for each in settings["models"]] == names
        assert settings["baseline"] == names[-1]


def test_without_a_baseline_it_is_the_first_system(tmp_path: Path) -> None:
    made = planned(tmp_path, ALL)
    assert likelihoods(made, made.steps)[0]["own"].settings["baseline"] == "transformer"
    _, missing = likelihoods(made, ["train/relative/all/seed-1"])
    assert "transformer" in missing["own"]


def test_a_likelihood_of_another_scale_is_not_planned(tmp_path: Path) -> None:
    made = planned(tmp_path, ALL | {"scales": ["small"]})
    assert likelihoods(made, made.steps) == ({}, {"own": "it is not part of scale smoke"})
    tests = {**SMALL["tests"], "test": {"corpus": {"small": "test"}}}
    made = planned(tmp_path, ALL | {"test": "test"}, tests=tests)
    assert likelihoods(made, made.steps)[1] == {"own": "it is not part of scale smoke"}


def test_a_text_that_no_system_translates_is_made_nevertheless(tmp_path: Path) -> None:
    runs = [{**SMALL["runs"][0], "trainings": ["reordered"]}]
    tests = {**SMALL["tests"], "more": {"corpus": {"smoke": "test-long"}}}
    made = planned(tmp_path, {"test": "more", "trainings": ["reordered"]}, runs=runs, tests=tests)
    step = likelihoods(made, made.steps)[0]["own"]
    assert step.needs["test"] == "reorder/test-more"
    assert made.steps["reorder/test-more"].needs["text"] == "corpus/test-long"


def test_positions_that_a_system_changes_in_search_count(tmp_path: Path) -> None:
    """Two systems that share their trainings are scored apart."""
    wide = {"system": "rope", "decode": {"positions": {"interpolate": 2}}}
    systems = {"rope": {"system": "rope"}, "wide": wide}
    runs = [{"systems": [*systems], "trainings": ["all"], "tests": ["test"], "seeds": 1}]
    made = planned(tmp_path, ALL, systems=systems, runs=runs)
    step = likelihoods(made, made.steps)[0]["own"]
    assert step.needs["run-0"] == step.needs["run-1"]
    assert step.settings["models"] == [
        {"system": "rope", "seed": 1},
        {"system": "wide", "seed": 1, "positions": {"interpolate": 2}},
    ]


def test_other_steps_do_not_depend_on_likelihoods(tmp_path: Path) -> None:
    def keys(made: Plan) -> dict[str, str]:
        graph = Graph(made.steps.values(), KINDS)
        return {name: graph.key(name) for name in graph.order()}

    assert keys(planned(tmp_path, ALL)) == keys(plan(load(written(tmp_path, SMALL)), "smoke", None))


# --- what is scored


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one vocabulary and of another one, and a test text of a study."""
    folder = tmp_path_factory.mktemp("likelihood")
    path = corpus.make(folder, pairs=120, train={"steps": 2, "evaluate_every": 2, "average": 1, "dev_bleu": False})
    changes = {
        "relative": [],
        "transformer": ["model.system=transformer"],
        "learned": ["model.system=learned", "model.max_length=31"],
        "other": ["subword.vocabulary=120"],
    }
    for name, overrides in changes.items():
        run("train", path, "--out", folder / name, *(part for each in overrides for part in ("--set", each)))
    for test in ("test", "with-ids"):
        (folder / test).mkdir()
        for side in ("source", "target"):
            (folder / test / side).write_bytes((folder / f"corpus/test.{side}").read_bytes())
    (folder / "with-ids" / "documents").write_text("".join(f"d{line // 7} title\n" for line in range(20)))
    return folder


def scored(
    place: Path, folder: Path, *names: str, test: str = "test", swap: bool = False, shift: int | None = None
) -> Path:
    folder.mkdir(exist_ok=True)
    models = [Model(Scored(f"{name}:1", f"The {name}", 1), Run.open(place / name)) for name in names]
    save(models, f"The {names[-1]}", place / test, swap, shift, folder, lambda line: None)
    return folder


def test_the_folder_has_what_the_command_computes(place: Path, tmp_path: Path) -> None:
    """The same losses, by the study's names; with the swap where the text has documents, and with shifts."""
    out = scored(place, tmp_path, "relative", "transformer", test="with-ids", swap=True, shift=9)
    files = [f"--{name}={place / 'with-ids' / name}" for name in ("source", "target", "documents")]
    runs = [place / "relative", place / "transformer"]
    run("score", *runs, "--by-position", *files, "--swap", "--shift", 9, "--out", tmp_path / "command")
    names = {path.name for path in (tmp_path / "command").glob("*.npz")}
    sides = ("source", "target", "both")
    assert names == {"losses.npz", "after-short.npz", "after-long.npz", *(f"shift-{side}.npz" for side in sides)}
    assert names == {path.name for path in out.glob("*.npz")}
    for name in names:
        own, its = read_losses(out / name), read_losses(tmp_path / "command" / name)
        np.testing.assert_array_equal(own.losses, its.losses)
        np.testing.assert_array_equal(own.documents, its.documents)
        assert [each.system for each in own.models] == ["The relative", "The transformer"]
    rows = list(csv.DictReader((out / "likelihood.csv").read_text(encoding="utf-8").splitlines()))
    assert tuple(rows[0]) == CSV_HEAD
    assert {each["baseline"] for each in rows} == {"", "The transformer"}
    assert "The relative" in (out / "likelihood.html").read_text(encoding="utf-8")
    found = read(out)
    assert found.csv == (out / "likelihood.csv").read_text(encoding="utf-8")
    assert found.report is not None
    assert found.report.effects.systems == ["The transformer", "The relative"]
    assert [name for name in found.report.effects.designs if "D3" in name] == [f"D3 {side} +9" for side in sides]


def test_the_step_scores_with_the_positions_of_each_system(place: Path, tmp_path: Path) -> None:
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "run").symlink_to(place / "transformer")
    models = [
        {"system": "transformer", "seed": 1},
        {"system": "wide", "seed": 1, "positions": {"interpolate": 2}},
    ]
    inputs = {"test": place / "with-ids", "run-0": tmp_path / "trained", "run-1": tmp_path / "trained"}
    settings = {"models": models, "baseline": "transformer", "swap": False}
    out = tmp_path / "step"
    out.mkdir()
    resolve_name(KINDS)["likelihood"].run(Context(out, settings, inputs, {}, Resources(), lambda line: None))
    plain, wide = read_losses(out / "losses.npz").losses
    assert np.abs(plain - wide).max() > 1e-4


@pytest.mark.parametrize("rows", [(0, None, 2), (None, 1, None), (0, 1, 2)])
def test_losses_taken_over_stand_beside_those_scored_here(
    place: Path, tmp_path: Path, rows: tuple[int | None, ...]
) -> None:
    """In the same order and with the same figures, but for the rounding; without runs if all are taken over."""
    names = ("relative", "transformer", "relative")
    called = [Scored(f"{name}:{seed}", f"The {name}", seed) for name, seed in zip(names, (1, 1, 2), strict=True)]
    every = [Model(each, Run.open(place / name)) for each, name in zip(called, names, strict=True)]
    whole, out, told = tmp_path / "whole", tmp_path / "out", []
    for folder in (whole, out):
        folder.mkdir()
    save(every, "The transformer", place / "with-ids", True, 9, whole, told.append)
    files = {}
    for path in whole.glob("*.npz"):
        files[path.stem] = tmp_path / path.name
        files[path.stem].write_bytes(coarse(read_losses(path)))
    models = [
        {"system": each.system, "seed": each.seed, **({} if row is None else {"row": row, "train": "key"})}
        for each, row in zip(called, rows, strict=True)
    ]
    here = [each for each, row in zip(every, rows, strict=True) if row is None]
    taken = TakenOver(models, called, files)
    save(here, "The transformer", place / "with-ids", True, 9, out, told.append, taken)
    assert len(told) == len(every) + len(here)
    assert {path.name for path in out.glob("*.npz")} == {path.name for path in whole.glob("*.npz")}
    for path in whole.glob("*.npz"):
        own, wanted = read_losses(out / path.name), read_losses(path)
        assert own.models == called
        np.testing.assert_allclose(own.losses, wanted.losses, atol=UNITS["losses"] + 1e-6)
        np.testing.assert_allclose(own.losses.sum(axis=1), wanted.losses.sum(axis=1), atol=UNITS["losses"] / 2 + 1e-3)
    found = read(out)
    assert found.report is not None
    assert found.report.effects.systems == ["The transformer", "The relative"]
    assert f"The losses of {3 - len(here)} of 3 models are those of a published copy." in found.notes


def test_losses_of_another_text_are_not_taken_over(place: Path, tmp_path: Path) -> None:
    losses = read_losses(scored(place, tmp_path / "whole", "relative", test="with-ids") / "losses.npz")
    fewer = replace(losses, subword=losses.subword[::-1])
    path = tmp_path / "losses.npz"
    called = [Scored("relative:1", "The relative", 1), Scored("transformer:1", "The transformer", 1)]
    models = [{"system": "The relative", "seed": 1, "row": 0, "train": "key"}, {"system": "The transformer", "seed": 1}]
    here = [Model(called[1], Run.open(place / "transformer"))]
    for content in (coarse(fewer), b"PK"):
        path.write_bytes(content)
        taken = TakenOver(models, called, {"losses": path})
        with pytest.raises(UserError, match=re.escape(str(path))):
            save(here, "The relative", place / "with-ids", False, None, tmp_path / "out", lambda line: None, taken)


def test_what_cannot_be_scored_is_noted(place: Path, tmp_path: Path) -> None:
    """A study does not fail after its trainings because of a text without documents, or of a short table."""
    notes = read(scored(place, tmp_path, "learned", "transformer", swap=True)).notes
    assert any("no document ids: each 20 lines" in note for note in notes)
    assert any(re.search(r"short and after a long one: .* no document ids", note) for note in notes)
    [short] = [note for note in notes if "position table" in note]
    [counts] = re.findall(r"defined in (\d+) of (\d+) sentences .*; (\d+) are compared", short)
    defined, total, compared = map(int, counts)
    assert defined == compared < total == 20
    losses = read_losses(tmp_path / "losses.npz")
    assert len(np.unique(losses.sentence[np.isfinite(losses.losses).all(axis=0)])) == compared


def test_systems_with_different_subwords_are_compared_by_character(place: Path, tmp_path: Path) -> None:
    out = scored(place, tmp_path, "relative", "other", test="with-ids", swap=True, shift=9)
    found = read(out)
    assert found.report is None
    assert not (out / "likelihood.html").exists()
    rows = list(csv.DictReader(found.csv.splitlines()))
    assert all(float([*each.values()][-1]) > 0 for each in rows)  # the mean
    assert {each["system"] for each in rows} == {"The relative", "The other"}
    assert sum("different subwords" in note for note in found.notes) == 2
    assert len(list(out.glob("losses-*.npz"))) == 2


def test_damaged_files_are_told(place: Path, tmp_path: Path) -> None:
    out = scored(place, tmp_path, "relative")
    (out / "likelihood.json").write_text("{}")
    with pytest.raises(UserError, match="baseline"):
        read(out)


# --- what is shown


NAMES = {"first": {"title": "By <position>", **ALL}, "second": ALL, "third": ALL | {"scales": ["paper"]}}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a study with a likelihood, one that is missing, and one of another scale."""
    folder = tmp_path_factory.mktemp("shown")
    step = folder / "step"
    step.mkdir()
    losses = random_losses(
        (("a", (1, 2, 3)), ("b", (1, 2, 3))), sentences=300, documents=40, longest=47, beyond={"a": 0.4}
    )
    write_losses(step / "losses.npz", losses)
    (step / "likelihood.json").write_text(json.dumps({"baseline": "b", "notes": ["A <note> of its own."]}))
    asked = {name: Likelihood.model_validate(each) for name, each in NAMES.items()}
    study = made_study(folder / "study", recipe=made_recipe([("likelihoods", asked)]))
    results = replace(study, likelihoods={"first": read(step)}, unscored={"second": "it was not lucky"})
    render(results, folder / "out")
    return folder


def test_the_report_shows_each_likelihood(report: Path) -> None:
    page = (report / "out" / "report.html").read_text(encoding="utf-8")
    found = read(report / "step").report
    assert found is not None
    assert "By &lt;position&gt;</h3>" in page
    assert "A &lt;note&gt; of its own." in page
    for sheet in found.sheets:
        assert f'id="likelihood-first-{sheet.name}"' in page
    for chart in found.charts:
        assert f'data-name="likelihood-first-{chart.name}"' in page
    assert "Missing, because it was not lucky." in page
    assert "likelihood-third" not in page


def test_the_report_writes_tables_and_figures(report: Path) -> None:
    found, out = read(report / "step").report, report / "out"
    assert found is not None
    assert (out / "tables" / "likelihood-first.csv").read_text(encoding="utf-8") == found.csv
    assert not list(out.glob("tables/likelihood-second*"))
    for sheet in found.sheets:
        assert {path.suffix for path in out.glob(f"tables/likelihood-first-{sheet.name}.*")} == {".csv", ".tex"}
    assert found.charts
    for chart in found.charts:
        written_as = {path.suffix for path in out.glob(f"figures/likelihood-first-{chart.name}.*")}
        assert written_as == {".svg", ".pdf", ".csv"}
