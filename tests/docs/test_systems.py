"""The page on systems has a card for each named system, with the parameters that its model has."""

from __future__ import annotations

import re

import pytest

from posnmt.config.systems import SYSTEMS
from posnmt.model.registry import count_parameters
from posnmt.run.resolve import from_tree
from tests.support.documents import ROOT, read

PAGE = read(ROOT / "docs" / "systems.md").split("## How to read the cards\n")[1].split("\n## Combining schemes\n")[0]
ROWS = ["What", "Equation", "Parameters", "Speed", "Paper", "Ours"]
VOCABULARY = 16_004


def cards() -> dict[str, dict[str, str]]:
    """The rows of each card by its heading; a cell may contain an escaped `|`."""
    found = {}
    for part in PAGE.split("\n### ")[1:]:
        heading, _, text = part.partition("\n")
        cells = re.findall(r"^\| (\w+) \| (.+) \|$", text.split("\n## ")[0], re.MULTILINE)
        found[heading] = dict(cells)
    return found


def parameters() -> dict[str, int]:
    """The parameters that each card states, relative to `transformer`: a number for each system, or none for 0."""
    found: dict[str, int] = {}
    for heading, rows in cards().items():
        numbers = [
            int(each.replace("−", "-").replace(",", "")) for each in re.findall(r"[+−]\d[\d,]*\d", rows["Parameters"])
        ]
        names = [name for name in heading.split(", ") if name in SYSTEMS]
        found |= dict(zip(names, numbers or [0] * len(names), strict=True))
    return found


def count(system: str) -> int:
    """The parameters of a system of size base."""
    tree = {"data": {"train": {"source": "a", "target": "b"}}, "model": {"system": system}}
    model = from_tree({**tree, "train": {"steps": 1, "dev_bleu": False}}).model
    return count_parameters(model, VOCABULARY, VOCABULARY)


def test_each_system_has_one_card():
    names = [name for heading in cards() for name in heading.split(", ") if not heading.startswith("The scheme")]
    assert sorted(names) == sorted(SYSTEMS)


@pytest.mark.parametrize("heading", cards())
def test_a_card_has_its_rows(heading):
    assert [*cards()[heading]] == ROWS


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_a_card_has_the_parameters_of_its_system(system):
    assert parameters()[system] == count(system) - count("transformer")
