"""The recipes of docs/recipe.md are recipes: they load, with their names and configurations checked."""

from __future__ import annotations

import re

import pytest

from posnmt.base.errors import UserError
from posnmt.study.load import load
from tests.support.documents import ROOT, blocks, read

PAGE = read(ROOT / "docs" / "recipe.md")
FIRST, LIKE, SWEEP = (text for _, kind, text in blocks(PAGE) if kind == "yaml")
EXAMPLES = {
    "systems": r"`((?:rope|wide|near|beam): \{.*?\})`[; |]",
    "tests": r"`(swapped: \{.*?\})`",
    "": r"`((?:trainings|likelihoods|recommend): \{.*?\})`",
}
"""Section of a recipe -> the examples of the table that stand in it."""


def saved(folder, content):
    """The path of a recipe with this content."""
    path = folder / "recipe.yaml"
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_the_first_recipe(tmp_path):
    recipe = load(saved(tmp_path, FIRST))
    assert recipe.variants("small") == {("sinusoids", "all"): ["test"], ("relative", "all"): ["test"]}
    assert [claim.test.of.lengths for claim in recipe.claims] == ["longer"]


def test_its_sweep_names_the_points_that_the_page_names(tmp_path):
    variants = load(saved(tmp_path, FIRST + SWEEP)).variants("small")
    assert ("relative@clip=4", "all@cap=28") in variants
    assert len(variants) == 2 + 4 * 3


def test_the_recipe_that_is_like_another(tmp_path):
    recipe = load(saved(tmp_path, LIKE))
    assert (recipe.recipe, recipe.pair.source) == ("icelandic", "is")
    assert recipe.scales["small"].texts("train")[0].source == "train.is"


@pytest.mark.parametrize("section", EXAMPLES)
def test_examples_of_the_table(section, tmp_path):
    found = [example for example in re.findall(EXAMPLES[section], PAGE) if "nearness" not in example]
    assert found
    for example in found:
        name, _, value = example.partition(": ")
        load(saved(tmp_path, FIRST), (f"{section}.{name}={value}".lstrip("."),))


def test_a_faulty_example_is_seen(tmp_path):
    with pytest.raises(UserError):
        load(saved(tmp_path, FIRST), ("systems.beam={system: relative, decode: {beams: 8}}",))


def test_the_expectation_is_one_of_a_test(tmp_path):
    [expects] = re.findall(r"`(expects: \{.*?\})`", PAGE)
    stated = FIRST.replace("test: {analysis: test,", f"test: {{{expects}, analysis: test,")
    assert load(saved(tmp_path, stated)).claims[0].test.expects["small"].sentences == [200]
