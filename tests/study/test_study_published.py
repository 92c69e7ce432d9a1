"""The recipes' published figures and the directions of their claims, against a transcription of the papers' own.

published.yaml was written from the papers, not from the recipes: a figure that was changed in one of them shows.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from posnmt.study.claims import Comparison, Figures
from posnmt.study.layout import Published, Table
from posnmt.study.load import load, shipped
from posnmt.study.recipe import Recipe

PAPERS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "published.yaml").read_text(encoding="utf-8"))
TABLES = [(paper, str(number)) for paper, found in PAPERS.items() for number in found["tables"]]
SUFFIXES = {"K": 1e3, "M": 1e6}
SIGNS = {"higher": ">", "lower": "<", "equal": "="}


def figure(text: Published, unit: float = 1) -> tuple[float, str] | str:
    """A figure as a number with what stands after it, as `++`; a word as it is."""
    words = "" if text is None else str(text).replace(",", "").strip()
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KM]?)(\D*|\s\(\d+\))", words)
    return (round(float(found[1]) * SUFFIXES.get(found[2], unit), 6), found[3]) if found else words


def paper_rows(table: dict[str, Any]) -> dict[str, list[Any]]:
    rows = {name: row for name, row in table.items() if name not in ("columns", "n", "cited", "signs")}
    return {name: [figure(each) for each in row] for name, row in rows.items()}


def labels(recipe: Recipe, table: Table) -> list[str]:
    return [recipe.systems[recipe.variant(row)[0]].label or row for row in table.rows]


def of_recipe(recipe: Recipe, number: str) -> Table:
    (found,) = [table for table in recipe.tables if str(table.table) == number]
    return found


def columns_of(table: Table) -> list[list[Any]]:
    """The published columns, of those that have figures."""
    return [
        [figure(each, column.published_unit) for each in column.published]
        for column in table.columns
        if column.published
    ]


def test_every_table_of_a_paper_is_transcribed() -> None:
    with_papers = {name for name in shipped() if load(name).paper}
    assert set(PAPERS) == with_papers
    for name in with_papers:
        numbers = {str(table.table).partition(",")[0] for table in load(name).tables}
        assert {str(number) for number in PAPERS[name]["tables"]} == numbers


@pytest.mark.parametrize(("paper", "number"), TABLES)
def test_published_figures_are_the_papers(paper: str, number: str) -> None:
    recipe, tables = load(paper), PAPERS[paper]["tables"]
    written = tables[int(number)]
    table, rows = of_recipe(recipe, number), paper_rows(written)
    if table.kind == "scores":
        assert [label.partition(",")[0] for label in labels(recipe, table)] == [name.partition(",")[0] for name in rows]
        assert columns_of(table) == [list(column) for column in zip(*rows.values(), strict=True)]
        cited = [[figure(each) for each in row] for row in written.get("cited", {}).values()]
        published = [place for place, column in enumerate(table.columns) if column.published]
        ours = [[figure(row[place], table.columns[place].published_unit) for place in published]
                for row in table.cited.values()]  # fmt: skip
        assert ours == cited
        assert {mark.test for mark in table.marks} <= {"sign_test"}
        assert all(mark.signs == written["signs"] for mark in table.marks)
        assert bool(table.marks) == ("signs" in written)
        assert all(name.startswith(its) for name, its in zip(table.cited, written.get("cited", {}), strict=True))
    elif table.kind == "significance":
        aspec = of_recipe(recipe, "4, ASPEC").published
        wmt = table.published
        assert table.test == "paired_bootstrap"  # "using bootstrapping of 10,000 samples"
        both = [[wmt[i][j] if i < j else aspec[i][j] for j in range(len(wmt))] for i in range(len(wmt))]
        assert [[each or "" for each in row] for row in both] == [written[name] for name in labels(recipe, table)]
        assert not any(wmt[i][j] or aspec[j][i] for i in range(len(wmt)) for j in range(i + 1))
    else:
        assert [[figure(each) for each in row] for row in table.published] == list(rows.values())
        assert table.published_n == written.get("n", {})
        if table.kind == "by-length":
            assert [title.removesuffix(" multi-bleu") for title in table.published_columns] == written["columns"]
            trained = [training.removeprefix("cap") for _, training in map(recipe.variant, table.rows)]
            names = [f"{label}, 75" if cap == "75" else label
                     for label, cap in zip(labels(recipe, table), trained, strict=True)]  # fmt: skip
            assert names == list(rows)


def side(figures: Figures) -> str:
    """One side of a comparison, as it is transcribed."""
    name = figures.system + (f" - {figures.minus}" if figures.minus else "")
    lengths = figures.lengths_at("paper")
    if figures.share:
        return f"{name} @{figures.share:g}"
    if isinstance(lengths, list):
        return f"{name} @{lengths[0]}-{lengths[1]}"
    return name if lengths == "all" else f"{name} @{lengths}"


def sentence(comparison: Comparison) -> str:
    than = "0" if comparison.than is None else side(comparison.than)
    return f"{comparison.analysis} {comparison.measure}: {side(comparison.of)} {SIGNS[comparison.is_]} {than}"


@pytest.mark.parametrize("paper", list(PAPERS))
def test_claims_go_in_the_papers_direction(paper: str) -> None:
    claims = {claim.claim: [sentence(each) for _, each in claim.comparisons()] for claim in load(paper).claims}
    assert claims == PAPERS[paper]["claims"]


@pytest.mark.parametrize("paper", list(PAPERS))
def test_published_effects_are_figures_of_the_papers_tables(paper: str) -> None:
    """Of the two systems that the claim's test compares, as the recipe calls them."""
    effects, recipe = PAPERS[paper]["effects"], load(paper)
    assert {claim.claim for claim in recipe.claims if claim.published_effect} == set(effects)
    for claim in recipe.claims:
        if (effect := claim.published_effect) is None:
            continue
        place = effects[claim.claim]
        table = PAPERS[paper]["tables"][place["table"]]
        column = table["columns"].index(place["column"])
        figures = [figure(table[place[side]][column]) for side in ("of", "than")]
        assert [effect.of, effect.than] == [each[0] for each in figures]
        assert effect.sentences == (place.get("sentences") or table["n"][place["column"]])
        for row, compared in zip((place["of"], place["than"]), claim.test.sides, strict=True):
            name, training = recipe.variant(compared.system)
            lower = ", 75" if training == "cap75" else ""
            assert row == f"{recipe.systems[name].label}{lower}"


@pytest.mark.parametrize("paper", list(PAPERS))
def test_figures_that_claims_quote_are_the_papers(paper: str) -> None:
    for claim in load(paper).claims:
        quoted = re.sub(r"(Tables?|Fig\.|[Nn]ewstest|cap|WMT|section)\s*(\d+(?:\.\d+)?)(?: (?:to|and) \d+)?",
                        lambda found: found[0] if found[1] == "cap" else "", claim.published or "")  # fmt: skip
        assert re.findall(r"\d+(?:\.\d+)?", quoted) == PAPERS[paper]["figures"][claim.claim]
