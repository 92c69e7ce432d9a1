"""Claims of recipes: what they may be, what those that are shipped say, and that trainings do not depend on them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from posnmt.study.copied import MARK, Copy
from posnmt.study.layout import Words
from posnmt.study.load import load, shipped
from posnmt.study.measures import LOSS
from posnmt.study.plan import KINDS, SPEED, analyses, plan
from posnmt.study.recipe import Recipe
from posnmt.study.workflow.graph import Graph
from tests.support.recipe_case import SMALL, faults_of, written
from tests.support.shared import SHARED, needs

ROOT = Path(__file__).parents[2]
COPIES = sorted(path.parent for path in (ROOT / "docs" / "results").glob("*/published.json"))
COMPARED = {"analysis": "test", "of": {"system": "relative"}, "is": "higher", "than": {"system": "transformer"}}
CLAIM = {"claim": "1a", "says": "better", "test": COMPARED}
EFFECT = {"of": 21.0, "than": 20.0, "sentences": 3003}


# --- what a claim may be


@pytest.mark.parametrize(
    ("claims", "fault", "line"),
    [
        ([CLAIM | {"holds_if": [COMPARED]}], "unknown key claims.0.holds_if", "holds_if:"),
        ([CLAIM | {"tests": {**COMPARED}}], "did you mean 'test'?", "tests:"),
        ([CLAIM | {"test": COMPARED | {"primary": True}}], "unknown key claims.0.test.primary", "primary: true"),
        ([CLAIM | {"test": COMPARED | {"iss": "lower"}}], "did you mean 'is'?", "iss: lower"),
        ([CLAIM | {"primary": ["small"]}], "claims.0.primary: input should be a valid boolean", "primary:"),
        ([CLAIM | {"scales": ["large"]}], "claims.0.scales.0: input should be 'smoke', 'small'", "- large"),
        ([CLAIM | {"published_effect": EFFECT | {"than": 0}}], "than: a number above 0 is needed", "than: 0"),
        ([CLAIM | {"published_effect": {"of": 1.0, "than": 2.0}}], "sentences is missing", "published_effect:"),
        ([CLAIM | {"beside": [COMPARED, {**COMPARED, "measure": "multi-bleu"}]}],
         "claims.0.beside.1: the analysis test does not measure multi-bleu", "- analysis: test"),
        ([CLAIM, {**CLAIM, "says": "again"}], "claims.1.claim: claims.0 is called '1a' as well", "- claim: 1a"),
    ],
)  # fmt: skip
def test_faults_of_claims_are_told_with_their_lines(tmp_path: Path, claims: Any, fault: str, line: str) -> None:
    name = written(tmp_path, {**SMALL, "claims": claims})
    told = faults_of(name)
    assert told.count("\n") == 0
    assert fault in told
    [number] = re.findall(r"own\.yaml:(\d+)", told)
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    assert lines[int(number) - 1].strip() == line
    assert int(number) > lines.index("claims:") + (1 + lines[lines.index("claims:") :].index("- claim: 1a"))


def test_keys_of_sections_in_lists_are_named(tmp_path: Path) -> None:
    """As those of all other sections, by the words that stand in the file."""
    told = faults_of(written(tmp_path, {**SMALL, "claims": [CLAIM | {"zzz": 1, "test": COMPARED | {"yyy": 1}}]}))
    of_claim, of_test = (line for line in told.split("\n"))
    assert {"zzz", "yyy"} == {re.findall(r"unknown key \S*\.(\w+)", line)[0] for line in (of_claim, of_test)}
    assert all("known keys here: " in line for line in (of_claim, of_test))
    listed = {
        line.split("unknown key ")[1].split(" ")[0]: line.split("known keys here: ")[1] for line in (of_claim, of_test)
    }
    assert {"says", "test", "beside"} <= set(listed["claims.0.zzz"].split(", "))
    assert {"is", "of", "than"} <= set(listed["claims.0.test.yyy"].split(", "))


@pytest.mark.parametrize(
    "test",
    [
        {key: value for key, value in COMPARED.items() if key != "than"},
        COMPARED | {"measure": "training_speed"},
        COMPARED | {"measure": "chrf"},
        COMPARED | {"of": {"system": "relative", "minus": "transformer"}},
    ],
)
def test_only_the_bleu_of_two_systems_has_a_published_effect(tmp_path: Path, test: Any) -> None:
    """Of two trainings each: no other published difference has a known error."""
    tree = {**SMALL, "claims": [{**CLAIM, "test": test, "published_effect": EFFECT}]}
    assert "claims.0: `published_effect` is the BLEU of two systems" in faults_of(written(tmp_path, tree))
    assert load(written(tmp_path, {**SMALL, "claims": [{**CLAIM, "published_effect": EFFECT}]})).claims


def test_a_claim_is_asked_at_its_scales_alone(tmp_path: Path) -> None:
    claims = [CLAIM, {**CLAIM, "claim": "1b", "scales": ["small"]}]
    recipe = load(written(tmp_path, {**SMALL, "claims": claims}))
    assert [claim.claim for claim in recipe.claims_at("smoke")] == ["1a"]
    assert [claim.claim for claim in recipe.claims_at("small")] == ["1a", "1b"]


# --- what the shipped recipes say


@pytest.mark.parametrize("name", list(shipped()))
def test_what_a_claim_compares_is_run_at_each_of_its_scales(name: str) -> None:
    recipe = load(name, check_configs=False)
    for scale in recipe.scales:
        variants = recipe.variants(scale)
        for claim in recipe.claims_at(scale):
            for text in claim.variants():
                assert recipe.variant(text) in variants, f"{scale}, claim {claim.claim}: {text}"
                needed = {
                    recipe.analyses[each.analysis].test
                    for _, each in claim.comparisons()
                    if any(text in side.variants for side in each.sides) and each.measure != LOSS
                }
                assert needed <= {*variants[recipe.variant(text)]}, f"{scale}, claim {claim.claim}: {text}"


def shown(recipe: Recipe) -> Iterator[tuple[set[str], list[Words]]]:
    """The analyses behind each figure, table and analysis of a recipe, and the titles above them."""
    for name, analysis in recipe.analyses.items():
        yield {name}, [analysis.title or name]
    for figure in recipe.figures:
        for panel in figure.panels:
            yield {panel.analysis}, [panel.title or recipe.analyses[panel.analysis].title or "", figure.caption]
    for table in recipe.tables:
        if table.analysis:
            yield {table.analysis}, [table.caption]
        for column in table.columns:
            if column.analysis:
                yield {column.analysis}, [column.title]


@pytest.mark.parametrize("name", [name for name in shipped() if load(name, check_configs=False).joined()])
def test_a_statement_on_joined_lines_says_that_they_have_a_second_sentence(name: str) -> None:
    """Most of our models never saw one: what they lose there is not what more subwords cost."""
    recipe = load(name, check_configs=False)
    for claim in recipe.claims:
        joined = claim.test.analysis in recipe.joined()
        longer = any(side.lengths == "longer" for side in claim.test.sides)
        assert ("joined line" in claim.says) == joined, claim.says
        if joined:
            assert not re.search(r"\blong(er)?\b", claim.says), claim.says
            assert ("second sentence" in claim.says) >= longer, claim.says
        else:
            assert ("single sentences longer than any in training" in claim.says) == longer, claim.says
    for names, titles in shown(recipe):
        texts = [text for title in titles for text in ([title] if isinstance(title, str) else title.values())]
        if names <= recipe.joined():
            assert any(re.search(r"[Jj]oined|two consecutive sentences", text) for text in texts), texts
            assert not any(re.search(r"\blonger\b", text) for text in texts), texts


@pytest.mark.parametrize(
    ("name", "gain", "level"),
    [("rosendahl2019", 24.5 - 22.5, 32.0), ("chen2019a", 27.61 - 27.24, 27.24)],
)
def test_equal_is_within_half_of_the_papers_smallest_gain(name: str, gain: float, level: float) -> None:
    """As a share of its level: R19 section 4.3 and Table 2, C19a Table 1. Speeds have a margin of their own."""
    recipe = load(name, check_configs=False)
    asked = [each for claim in recipe.claims for _, each in claim.comparisons() if each.is_ == "equal"]
    margins = {each.within for each in asked if each.relative and "bleu" in each.measure}
    assert len(margins) == 1
    assert margins.pop() == pytest.approx(gain / 2 / level, rel=0.05)
    assert all(each.relative for each in asked)


@pytest.mark.parametrize("name", ["neishi2019", "chen2019b", "rosendahl2019-zhen"])
def test_no_equality_is_asked_where_no_margin_is_stated(name: str) -> None:
    recipe = load(name, check_configs=False)
    assert not any(each.is_ == "equal" for claim in recipe.claims for _, each in claim.comparisons())


# --- what depends on claims


def keys_of(recipe: Recipe, scale: Any, data: Path | None) -> dict[str, str]:
    """Step -> its key, of all steps of a study."""
    made = plan(recipe, scale, data)
    steps, _ = analyses(made, made.steps)
    graph = Graph([*made.steps.values(), *steps.values()], KINDS)
    shared = {f"{run.system}.{run.training}.{run.seed}": run for run in made.runs}
    of_runs = {name: graph.key(run.train) for name, run in shared.items()}
    of_tests = {
        f"{name} {test}": graph.key(step) for name, run in shared.items() for test, step in run.translations.items()
    }
    return {name: graph.key(name) for name in graph.order()} | of_runs | of_tests


@pytest.mark.parametrize("name", list(shipped()))
def test_claims_are_no_part_of_a_step_but_of_the_speeds_that_they_compare(name: str) -> None:
    recipe = load(name, check_configs=False)
    without = keys_of(recipe.model_copy(update={"claims": []}), "smoke", None)
    with_claims = keys_of(recipe, "smoke", None)
    assert {step for step in with_claims if with_claims[step] != without.get(step)} <= {SPEED}
    assert without.keys() <= with_claims.keys()


@needs("")
@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_published_studies_are_those_that_the_recipes_plan(copy: Path) -> None:
    """So that a study goes on from them: every training, translation and measurement of speeds has its key."""
    about, published = json.loads((copy / MARK).read_text(encoding="utf-8")), Copy(copy)
    planned = keys_of(load(about["recipe"], check_configs=False), about["scale"], SHARED)
    found = {}
    for name, facts in published.facts.items():
        found[name] = facts["train"]["key"]
        found |= {f"{name} {test}": step["key"] for test, step in facts["translations"].items()}
    if published.speeds is not None:
        found[SPEED] = published.speeds["step"]["key"]
    assert found
    assert {name: planned.get(name) for name in found} == found
