"""The page of verdicts decided anew: a table of each published study, which what other pages count agrees with."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from posnmt.base.files import read_json
from posnmt.study.claims import Claim
from posnmt.study.copied import MARK
from posnmt.study.load import load
from posnmt.study.registration import FILE as REGISTERED

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
COPIES = sorted(path.parent for path in RESULTS.glob(f"*/{MARK}") if not (path.parent / REGISTERED).exists())
"""The studies from before registration, whose verdicts were decided by another rule at first."""
PAPERS = ("rosendahl2019", "neishi2019", "chen2019a", "chen2019b")
COUNTED = re.compile(
    r"Of (\d+) primary claims (\d+) hold after Holm; (\d+) of these (?:was|were) added or changed later\."
)
CLAIM = re.compile(r"\b\d+[a-z]?\b|Figure 3, \w+ \w+")
SAID = re.compile(r"(.*?) (supported after Holm|supported|contradicted|undecided)")
IN_README = re.compile(r"[Oo]f\s+(\d+)\s+primary\s+statements\s+(\d+)\s+hold")


def part(name: str) -> str:
    """What the page has of a study."""
    text = (RESULTS / "verdicts_anew.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- begin {name} -->(.*)<!-- end {name} -->", text, re.DOTALL)
    assert found, name
    return found[1]


def rows(name: str) -> list[dict[str, str]]:
    """The table of a study; column -> cell."""
    head, _, *lines = [line for line in part(name).splitlines() if line.startswith("|")]
    names = head.strip("| ").split(" | ")
    return [dict(zip(names, line.strip("| ").split(" | "), strict=True)) for line in lines]


def count(table: list[dict[str, str]]) -> list[int]:
    """Primary claims, those that hold after Holm, and the later ones of these."""
    held = [row["claim"] for row in table if row["by the rule"].endswith("after Holm")]
    primary = [row for row in table if row["after Holm"] != "not primary"]
    return [len(primary), len(held), sum(name.endswith("later") for name in held)]


def claims(copy: Path) -> list[Claim]:
    return load(str(copy / "recipe.yaml"), check_configs=False).claims_at((read_json(copy / MARK) or {})["scale"])


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verdicts_anew", ROOT / "benchmarks" / "verdicts_anew.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_each_claim_of_a_study_has_its_row(copy: Path) -> None:
    asked = [(f"{each.claim}{'' if each.registered else ', later'}", each.says, each.primary) for each in claims(copy)]
    table = rows((read_json(copy / MARK) or {})["recipe"])
    assert [(row["claim"], row["statement"], row["after Holm"] != "not primary") for row in table] == asked


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_what_is_counted_above_a_table_is_in_it(copy: Path) -> None:
    name = (read_json(copy / MARK) or {})["recipe"]
    counted = COUNTED.search(part(name))
    assert counted
    assert [int(each) for each in counted.groups()] == count(rows(name))


@pytest.mark.parametrize("page", ["README.md", "docs/README.md"])
def test_readme_counts_what_the_tables_of_the_papers_have(page: str) -> None:
    primary, held, _ = (sum(each) for each in zip(*(count(rows(name)) for name in PAPERS), strict=True))
    counted = IN_README.search((ROOT / page).read_text(encoding="utf-8"))
    assert counted
    assert [int(each) for each in counted.groups()] == [primary, held]


def test_the_page_on_the_papers_has_the_verdicts_of_the_tables() -> None:
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8").partition("## What we found so far")[2]
    cells = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| ")]
    said = {
        name: word
        for cell in cells
        for part in cell.split("; ")
        for names, word in SAID.findall(part)
        for name in CLAIM.findall(names)
    }
    table = [row for name in PAPERS for row in rows(name)]
    assert said == {CLAIM.findall(row["claim"])[0]: row["by the rule"].replace("**", "") for row in table}


def test_the_page_on_the_papers_has_the_answers_on_compatibility() -> None:
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    said = re.search(
        r"\*\*Not compatible with the published effect\*\* are (.*?); \[compatible\]\(.*?\) are (\d+)", text
    )
    assert said
    answers = {row["claim"].partition(",")[0]: list(row.values())[-1] for name in PAPERS for row in rows(name)}
    assert CLAIM.findall(said[1]) == [
        name for name, answer in answers.items() if answer.startswith("no") and "not" not in answer
    ]
    assert int(said[2]) == sum(answer.startswith("yes") for answer in answers.values())


def test_the_page_on_the_papers_names_the_later_ones_of_those_that_hold() -> None:
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    said = re.search(r"of the 12 are later statements\*\* \((.*?)\)", text)
    assert said
    held = [row["claim"] for name in PAPERS for row in rows(name) if row["by the rule"].endswith("after Holm")]
    assert set(CLAIM.findall(said[1])) == {name.partition(",")[0] for name in held if name.endswith("later")}


def test_a_published_report_is_read_with_all_its_comparisons(script: ModuleType) -> None:
    claims = {each.name: each for each in script.published(RESULTS / "chen2019a-small")}
    assert {name: each.word for name, each in claims.items()} == {
        "9": "undecided", "9, encoder": "undecided", "10": "undecided", "13": "contradicted",
    }  # fmt: skip
    asked = "the BLEU of +Encoder REs is higher than that of +Decoder REs"
    assert claims["9, encoder"].comparisons[asked, "4,500"] == "undecided (−0.23 to +0.41)"
    slower = "the training speed of +Relative PEs is lower than that of Transformer (base) by more than 30 %"
    assert claims["13"].comparisons[slower, "9"] == "contradicted (−6.19 to −3.99)"
