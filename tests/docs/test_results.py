"""The published studies in docs/results: others can go on from them."""

from __future__ import annotations

import csv
import functools
import html
import lzma
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

import pytest
import yaml

from posnmt.base.files import read_json
from posnmt.base.version import FORMAT
from posnmt.run.resolve import from_tree
from posnmt.study.copied import MARK, Copy, name_of
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
    published = Copy(copy)
    assert published.facts
    for name, facts in published.facts.items():
        for test, step in facts["translations"].items():
            for output, speed in step["speed"].items():
                assert published.translation(name, test, output).count(b"\n") == speed["lines"]


def test_configurations_of_a_copy_are_read() -> None:
    """By the code that reads a run folder; those of one study have all that a configuration has."""
    published = Copy(COPIES[0])
    for name in published.facts:
        tree = yaml.safe_load(published.file(name, "config.yaml"))
        assert from_tree(tree).format == tree["format"] == FORMAT


def test_results_have_few_files() -> None:
    """A person who opens the folder on GitHub sees what there is."""
    assert len([path for path in (DOCS / "results").rglob("*") if path.is_file()]) <= 120
    assert all(len([*copy.rglob("*")]) <= 12 for copy in COPIES)


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_a_copy_has_the_signatures_of_its_report(copy: Path) -> None:
    _, *parts = re.split(r'id="outputs-([\w-]+)"', (copy / "report.html").read_text(encoding="utf-8"))
    shown = dict(zip(parts[::2], parts[1::2], strict=True))
    signatures = (read_json(copy / MARK) or {})["signatures"]
    assert [*signatures] == [*shown]
    analyses = load(str(copy / "recipe.yaml"), check_configs=False).analyses
    for name, of_metrics in signatures.items():
        assert set(analyses[name].metrics) <= set(of_metrics)
        assert [f": {each}" in html.unescape(shown[name].replace("</bdi>", "")) for each in of_metrics.values()] == [
            True
        ] * len(of_metrics)


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_a_copy_describes_its_files(copy: Path) -> None:
    text = (copy / "README.md").read_text(encoding="utf-8")
    for name in (path.name for path in copy.iterdir() if path.name not in ("README.md", MARK)):
        assert f"[{name}]({name})" in text


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
        name_of(PlannedRun(*variant, seed, "", {}))
        for variant in recipe.variants(mark["scale"])
        for seed in range(1, recipe.seeds(variant, mark["scale"]) + 1)
    }
    complete = "**It is not complete**" not in (copy / "README.md").read_text(encoding="utf-8")
    assert Copy(copy).facts.keys() <= planned
    assert (Copy(copy).facts.keys() == planned) == complete


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
    assert len(FIGURE.findall(text)) > 12
    assert not [figure for figure in FIGURE.findall(text) if figure not in every]
