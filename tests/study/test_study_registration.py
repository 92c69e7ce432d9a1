"""What a study registers before its first training, and what is shown of later changes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from posnmt.base.errors import UserError
from posnmt.base.output import as_json
from posnmt.base.version import FORMAT
from posnmt.study.copied import FACTS, MARK, RUNS, Copy, name_of, packed_in
from posnmt.study.load import load
from posnmt.study.plan import KINDS, Plan, plan
from posnmt.study.registration import FILE, History, content, digest, history, read, register
from posnmt.study.workflow.graph import Graph
from posnmt.study.workflow.runner import open_study
from tests.support.copies import pack
from tests.support.recipe_case import SMALL, written

Claim = dict[str, Any]
SIDES = {"of": {"system": "relative"}, "is": "higher", "than": {"system": "transformer"}}
TEST = {"analysis": "test", "expects": {"smoke": {"effect": 1, "sentences": [100]}}, **SIDES}
BESIDE = {"analysis": "test", "measure": "ter", **SIDES, "is": "lower"}
CLAIM: Claim = {"claim": 1, "says": "It is better", "published": "by 1 BLEU", "test": TEST, "beside": [BESIDE]}
TABLE = {"table": 1, "caption": "All", "rows": ["relative"], "columns": [{"title": "B", "analysis": "test"}]}
OTHER: Claim = {"claim": 2, "says": "It is as good", "test": {**TEST, "is": "equal", "within": 1}}


def planned(folder: Path, *claims: Claim, **changes: Any) -> Plan:
    return plan(load(written(folder, {**SMALL, "claims": [*(claims or (CLAIM, OTHER))], **changes})), "smoke", None)


def test_of(**changes: Any) -> Claim:
    """Claim 1 with another test."""
    return {**CLAIM, "test": {**TEST, **changes}}


test_of.__test__ = False  # type: ignore[attr-defined]


def begin(study_plan: Plan, out: Path, number: int = 0) -> None:
    """What a training has written before its first update."""
    name = study_plan.trainings[number]
    run = Graph(study_plan.steps.values(), KINDS).folder(out, name) / "run"
    run.mkdir(parents=True)
    (run / "record.json").write_text("{}")


def asked(study_plan: Plan, out: Path, copy: Path | None = None) -> list[str]:
    """As `study run` begins."""
    open_study(out, study_plan.recipe.recipe, study_plan.recipe.hash)
    return register(study_plan, out, copy)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "study"


def shown(study_plan: Plan, out: Path) -> dict[str, list[str]]:
    """Claim -> what the report says of its changes; "": at no claim."""
    past, recipe = history(study_plan, out), study_plan.recipe
    of_claims = {str(claim.claim): past.of_claim(claim, recipe) for claim in recipe.claims}
    return {name: lines for name, lines in {**of_claims, "": past.of_others(recipe)}.items() if lines}


def test_it_is_registered_before_the_first_training(out: Path, tmp_path: Path) -> None:
    study_plan = planned(tmp_path)
    assert asked(study_plan, out) == []
    (entry,) = json.loads((out / "study.json").read_text())["registered"]
    assert entry["trainings"] == 0
    assert entry["content"] == content(study_plan.recipe, "smoke")
    assert entry["sha256"] == digest(entry["content"])
    begin(study_plan, out)
    assert asked(study_plan, out) == []
    assert read(out) == [entry]
    past = history(study_plan, out)
    assert past.before_training
    assert past.changes == []
    assert past.sentence.startswith("before the first training (")


def test_until_the_first_training_begins_all_of_it_may_change(out: Path, tmp_path: Path) -> None:
    """As after a kill between: the same is not registered again, and another one replaces it."""
    asked(planned(tmp_path), out)
    before = (out / "study.json").read_bytes()
    asked(planned(tmp_path), out)
    assert (out / "study.json").read_bytes() == before
    changed = planned(tmp_path, test_of(by=2), OTHER)
    assert asked(changed, out) == []
    (entry,) = read(out)
    assert (entry["trainings"], entry["content"]) == (0, content(changed.recipe, "smoke"))
    assert shown(changed, out) == {}


@pytest.mark.parametrize(
    ("claims", "lines"),
    [
        ([test_of(by=2), OTHER], {"1": ["by 0.0 → 2.0"]}),
        ([test_of(**{"is": "lower"}), OTHER], {"1": ["is higher → lower"]}),
        ([test_of(measure="chrf"), OTHER], {"1": ["measure bleu → chrf"]}),
        ([test_of(of={"system": "relative", "lengths": "longer"}), OTHER], {"1": ["of.lengths all → longer"]}),
        ([test_of(expects={"smoke": {"effect": 2, "sentences": [100]}}), OTHER], {"1": ["expects.effect 1.0 → 2.0"]}),
        ([test_of(expects={}), OTHER], {"1": [
            'expects {"effect": 1.0, "sentences": [100], "score": 30.0, "spread": 5.0, "interaction": 10.0, '
            '"deviation": 0.3} → none'
        ]}),
        ([CLAIM, {**OTHER, "test": {**TEST, "is": "equal", "within": 3}}], {"2": ["within 1.0 → 3.0"]}),
        ([CLAIM], {"": ["the claim registered → none"]}),
        ([CLAIM, OTHER, {**OTHER, "claim": 3}], {"3": ["the claim none → added"]}),
        ([{**CLAIM, "beside": []}, OTHER], {"1": [
            "the comparison relative lower transformer (ter, test) registered → none"
        ]}),
        ([{**CLAIM, "primary": False}, OTHER], {"1": ["primary true → false"]}),
        ([{**CLAIM, "test": BESIDE, "beside": [TEST]}, OTHER], {"1": [
            "measure bleu → ter", "is higher → lower",
            'expects {"effect": 1.0, "sentences": [100], "score": 30.0, "spread": 5.0, "interaction": 10.0, '
            '"deviation": 0.3} → none',
        ]}),
    ],
)  # fmt: skip
def test_what_changes_after_a_training_is_shown_at_its_claim(
    claims: list[Claim], lines: dict[str, list[str]], out: Path, tmp_path: Path
) -> None:
    before = planned(tmp_path)
    asked(before, out)
    begin(before, out)
    after = planned(tmp_path, *claims)
    reported = shown(after, out)  # by `study report`, before the study is run again
    said = asked(after, out)
    expected = {
        name: [f"{'' if name else 'claim 2, '}changed after 1 training: {line}" for line in of_claim]
        for name, of_claim in lines.items()
    }
    assert shown(after, out) == reported == expected
    assert len(said) == sum(map(len, lines.values()))
    assert [entry["trainings"] for entry in read(out)] == [0, 1]
    assert asked(after, out) == []  # known by now


@pytest.mark.parametrize(
    "changes",
    [
        {"claims": [{**CLAIM, "says": "Another wording", "published": "1.0"}, OTHER]},
        {"title": "Another title", "notes": ["A note"]},
        {"tables": [TABLE]},
        {"claims": [{**CLAIM, "beside": [BESIDE, {**BESIDE, "measure": "chrf"}]}, OTHER]},
        {"analyses": {"test": {**SMALL["analyses"]["test"], "title": "Another", "bins": [5]}}},
    ],
)  # fmt: skip
def test_wording_figures_and_further_comparisons_beside_a_test_are_free(
    changes: dict[str, Any], out: Path, tmp_path: Path
) -> None:
    before = planned(tmp_path)
    asked(before, out)
    begin(before, out)
    after = planned(tmp_path, **{"claims": [CLAIM, OTHER], **changes})
    assert asked(after, out) == []
    assert shown(after, out) == {}


def test_a_further_comparison_beside_a_test_is_not_registered(out: Path, tmp_path: Path) -> None:
    before = planned(tmp_path)
    asked(before, out)
    begin(before, out)
    further = {**BESIDE, "measure": "chrf"}
    after = planned(tmp_path, {**CLAIM, "beside": [BESIDE, further]}, OTHER)
    asked(after, out)
    past, (claim, _) = history(after, out), after.recipe.claims
    assert [past.has(claim, each, after.recipe, "smoke") for _, each in claim.comparisons()] == [True, True, False]


def test_documents_of_a_test_are_registered_where_it_has_some(tmp_path: Path) -> None:
    """Verdicts sample them; without any, what is registered is as it was."""
    small = SMALL["scales"]["small"]
    found = []
    for more in ({}, {"documents": "ids"}):
        corpora = {**small["corpora"], "test": {**small["corpora"]["test"], **more}}
        tree = {**SMALL, "scales": {**SMALL["scales"], "small": {**small, "corpora": corpora}}, "claims": [CLAIM]}
        found.append(content(load(written(tmp_path, tree)), "small")["claims"]["1"]["test"]["analysis"])
    assert found[1] == {**found[0], "documents": True}


def test_a_join_across_documents_is_registered() -> None:
    """As R19 joins; where sentences of one document alone are joined, nothing is added."""
    found: dict[str, set[Any]] = {}
    for scale in ("paper", "small"):
        for claim in content(load("rosendahl2019"), scale)["claims"].values():  # type: ignore[arg-type]
            analysis: Any = claim["test"]["analysis"]
            if analysis["join"] is not None:
                found.setdefault(scale, set()).add((analysis["rest"], analysis.get("documents")))
    assert found == {"paper": {("keep", False)}, "small": {("drop", None)}}


def test_seeds_that_are_added_are_shown(out: Path, tmp_path: Path) -> None:
    """At the claims that compare the system; of others, once."""

    def with_runs(*runs: dict[str, Any]) -> Plan:
        common = {"trainings": ["all"], "tests": ["test"]}
        systems = {**SMALL["systems"], "rope": {"system": "rope"}}
        return planned(tmp_path, systems=systems, runs=[{**common, **each} for each in runs])

    names = ["transformer", "relative", "rope"]
    before = with_runs({"systems": names})
    asked(before, out)
    begin(before, out)
    begin(before, out, 1)
    after = with_runs({"systems": ["transformer"]}, {"systems": ["relative", "rope"], "seeds": 5})
    asked(after, out)
    line = "changed after 2 trainings: seeds of relative/all 2 → 5"
    assert shown(after, out) == {"1": [line], "2": [line], "": [line.replace("relative", "rope")]}


def test_the_floor_concerns_all_claims(out: Path, tmp_path: Path) -> None:
    before = planned(tmp_path)
    asked(before, out)
    begin(before, out)
    scales = {**SMALL["scales"], "smoke": {**SMALL["scales"]["smoke"], "floor": 20}}
    after = planned(tmp_path, scales=scales)
    asked(after, out)
    assert shown(after, out) == {name: ["changed after 1 training: exclusions.floor 10.0 → 20.0"] for name in "12"}


RECOMMEND = {"analyses": ["test"], "lengths": ["seen", "longer"], "measure": "chrf"}


def test_every_two_systems_are_registered_where_a_recommendation_compares_them(out: Path, tmp_path: Path) -> None:
    systems = {**SMALL["systems"], "rope": {"system": "rope"}}
    [runs] = SMALL["runs"]
    more = {"systems": systems, "runs": [{**runs, "systems": [*systems]}], "claims": []}
    study_plan = planned(tmp_path, recommend=RECOMMEND, **more)
    asked(study_plan, out)
    [entry] = read(out)
    pairs = [
        (each["of"]["system"], each["than"]["system"], each["of"]["lengths"], each["measure"], each["is"])  # type: ignore[index]
        for each in entry["content"]["pairs"].values()
    ]
    assert sorted(pairs) == sorted(
        (one, other, lengths, "chrf", "higher")
        for one, other in itertools.combinations(systems, 2)
        for lengths in ("seen", "longer")
    )
    assert "pairs" not in content(planned(tmp_path).recipe, "smoke")  # without a recommendation it is as it was


@pytest.mark.parametrize("claims", [[], [CLAIM, OTHER]])
def test_pairs_that_change_after_a_training_are_shown_once(claims: list[Claim], out: Path, tmp_path: Path) -> None:
    """Whether or not the recipe has claims, and at none of them."""
    before, after = (
        planned(tmp_path, claims=claims, recommend={**RECOMMEND, "lengths": lengths})
        for lengths in (["seen", "longer"], ["seen", "all"])
    )
    asked(before, out)
    begin(before, out)
    assert len(asked(after, out)) == 2
    changed = "changed after 1 training: the comparison"
    assert shown(after, out) == {
        "": [
            f"{changed} transformer at longer higher relative at longer (chrf, test) registered → none",
            f"{changed} transformer higher relative (chrf, test) none → added",
        ]
    }


def test_every_change_stays_shown(out: Path, tmp_path: Path) -> None:
    """Also one that is taken back."""
    first, second = planned(tmp_path), planned(tmp_path, test_of(by=2), OTHER)
    asked(first, out)
    begin(first, out)
    asked(second, out)
    begin(first, out, 1)
    asked(first, out)
    assert shown(first, out)["1"] == [
        "changed after 1 training: by 0.0 → 2.0", "changed after 2 trainings: by 2.0 → 0.0",
    ]  # fmt: skip


def test_a_study_from_before_registration_says_so(out: Path, tmp_path: Path) -> None:
    study_plan = planned(tmp_path)
    open_study(out, study_plan.recipe.recipe, study_plan.recipe.hash)
    begin(study_plan, out)
    assert history(study_plan, out).sentence == "not registered before the first training"
    asked(study_plan, out)
    past = history(study_plan, out)
    assert not past.before_training
    assert past.sentence.startswith("not registered before the first training; after 1 training (")
    assert not any(past.has(claim, claim.test, study_plan.recipe, "smoke") for claim in study_plan.recipe.claims)


def copied(study_plan: Plan, copy: Path, entries: list[Any] | None) -> Copy:
    """A published copy with one training."""
    run, graph = study_plan.runs[0], Graph(study_plan.steps.values(), KINDS)
    copy.mkdir()
    mark = {"format": FORMAT, "recipe": study_plan.recipe.recipe, "scale": "smoke", "signatures": {}}
    (copy / MARK).write_text(json.dumps(mark))
    step = {"key": graph.key(run.train), "finished": "2026-01-01T00:00:00+00:00", "seconds": 1.0, "versions": {}}
    pack({f"{RUNS}/{name_of(run)}/{FACTS}": as_json({"train": step, "translations": {}})}, packed_in(copy, RUNS))
    if entries is not None:
        (copy / FILE).write_text(json.dumps(entries))
    return Copy(copy)


def test_a_copy_gives_what_it_registered_to_the_study_that_adopts_it(out: Path, tmp_path: Path) -> None:
    first = planned(tmp_path)
    asked(first, tmp_path / "elsewhere")
    copy = copied(first, tmp_path / "copy", read(tmp_path / "elsewhere"))
    assert asked(first, out, copy) == []
    assert read(out) == read(tmp_path / "elsewhere")
    changed = planned(tmp_path, test_of(by=2), OTHER)
    later = tmp_path / "later"
    assert asked(changed, later, copy) == ["claim 1, changed after 1 training: by 0.0 → 2.0"]
    assert [entry["trainings"] for entry in read(later)] == [0, 1]


def test_trainings_from_a_copy_without_registration_came_first(out: Path, tmp_path: Path) -> None:
    study_plan = planned(tmp_path)
    copy = copied(study_plan, tmp_path / "copy", None)
    asked(study_plan, out, copy)
    assert history(study_plan, out).sentence.startswith("not registered before the first training; after 1 training (")


def test_trainings_of_another_recipe_came_first_whatever_it_registered(out: Path, tmp_path: Path) -> None:
    study_plan = planned(tmp_path)
    asked(study_plan, tmp_path / "elsewhere")
    copy = copied(study_plan, tmp_path / "copy", read(tmp_path / "elsewhere"))
    other = planned(tmp_path, recipe="another")
    asked(other, out, copy)
    assert [entry["trainings"] for entry in read(out)] == [1]


def test_a_damaged_registration_is_named(out: Path, tmp_path: Path) -> None:
    study_plan = planned(tmp_path)
    asked(study_plan, out)
    about = json.loads((out / "study.json").read_text())
    (out / "study.json").write_text(json.dumps({**about, "registered": [{"time": 1}]}))
    with pytest.raises(UserError, match=r"study\.json"):
        history(study_plan, out)


def test_nothing_registered_has_no_changes() -> None:
    assert History([]).changes == []
