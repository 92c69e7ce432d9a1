"""The published studies in docs/results: others can go on from them."""

from __future__ import annotations

import csv
import functools
import lzma
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

import pytest

from posnmt.base.files import load_json, read_json
from posnmt.study.adopt import FACTS, FORMAT, MARK, RunFacts, Translations, folder_of
from posnmt.study.load import load
from posnmt.study.plan import PlannedRun

DOCS = Path(__file__).parents[2] / "docs"
COPIES = sorted(path.parent for path in (DOCS / "results").glob(f"*/{MARK}"))
FIGURE = re.compile(r"\d+\.\d ± \d+\.\d")


def test_there_are_published_studies() -> None:
    assert len(COPIES) >= 3


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_every_translation_that_a_copy_lists_is_there_whole(copy: Path) -> None:
    assert (read_json(copy / MARK) or {})["format"] == FORMAT
    translations, trainings = Translations(copy), sorted(copy.glob(f"runs/*/{FACTS}"))
    assert trainings
    for facts in trainings:
        about: RunFacts = load_json(facts, RunFacts, "the list of its steps", "publish it again")
        for test, step in about["translations"].items():
            for output, speed in step["speed"].items():
                assert translations.of(facts.parent, test, output).count(b"\n") == speed["lines"]


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_files_that_a_copy_describes_are_there(copy: Path) -> None:
    text = (copy / "README.md").read_text(encoding="utf-8")
    for name in ("recipe.yaml", "report.html", "results.csv.xz", "runs.csv"):
        assert f"[{name}]({name})" in text
        assert (copy / name).is_file()


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_an_unfinished_copy_says_how_to_go_on(copy: Path) -> None:
    text = (copy / "README.md").read_text(encoding="utf-8")
    assert ("to go on with it, add `--adopt .`" in text) == ("**It is not complete**" in text)


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_the_recipe_of_a_copy_loads_and_has_its_trainings(copy: Path) -> None:
    mark, recipe = read_json(copy / MARK) or {}, load(str(copy / "recipe.yaml"))
    assert recipe.recipe == mark["recipe"]
    assert recipe.claims_at(mark["scale"])
    planned = {
        folder_of(copy, PlannedRun(*variant, seed, "", {}))
        for variant in recipe.variants(mark["scale"])
        for seed in range(1, recipe.seeds(variant, mark["scale"]) + 1)
    }
    assert {path.parent for path in copy.glob(f"runs/*/{FACTS}")} == planned


@functools.cache
def figures() -> list[set[str]]:
    """Of each system of each published study, its means with their standard deviations over seeds."""
    found: list[set[str]] = []
    for copy in COPIES:
        values: dict[str, dict[tuple[str, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
        with lzma.open(copy / "results.csv.xz", "rt", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["value"]:
                    of = ("training_condition", "test_condition", "swapped", "unit", "bin", "measure")
                    values[row["system"]][tuple(row[name] for name in of)].append(float(row["value"]))
        for measures in values.values():
            found.append({f"{mean(each):.1f} ± {stdev(each):.1f}" for each in measures.values() if len(each) > 1})
    return found


def strange_rows(text: str) -> list[str]:
    """The rows of tables whose figures are not those of one system of one published study."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if not any(of.issuperset(FIGURE.findall(row)) for of in figures())]


@pytest.mark.parametrize("page", ["papers", "schemes", "clipping"])
def test_tables_have_the_figures_of_the_published_studies(page: str) -> None:
    text = (DOCS / "results" / f"{page}.md").read_text(encoding="utf-8")
    assert len(FIGURE.findall(text)) > 20
    assert strange_rows(text) == []


def test_a_wrong_figure_is_seen() -> None:
    row = next(line for line in (DOCS / "results" / "schemes.md").read_text().splitlines() if "| RoPE |" in line)
    assert strange_rows(row) == []
    assert strange_rows(re.sub(r"\d+\.\d ±", "99.9 ±", row, count=1)) != []


def test_the_page_on_choosing_has_the_figures_of_the_published_studies() -> None:
    text = (DOCS / "choose.md").read_text(encoding="utf-8")
    every = set().union(*figures())
    assert len(FIGURE.findall(text)) > 20
    assert not [figure for figure in FIGURE.findall(text) if figure not in every]
