"""Pages keep to their budgets of hand-written words."""

import re

import pytest

from docs.scripts.words import BUDGETS, DOCS, OVER, counted, words
from tests.support.documents import ROOT, read


@pytest.mark.parametrize(("page", "count", "budget"), [row[1:] for row in counted()])
def test_a_page_keeps_to_its_budget(page, count, budget):
    assert count <= OVER * budget, f"{page} has {count:,} words of {budget:,}: cut, or move measurements to results"


def test_what_is_written_by_hand_counts():
    page = """\
# Two words

Run `posnmt train` [for *three*](train.md#a-heading "title") – and ![a picture](pictures/a.png) {#anchor}

| a | b |
|---|---|
| one cell | 2 |

<!-- begin systems -->
generated words
<!-- end systems -->

```console
$ posnmt train
```
"""
    assert words(page.replace(' "title"', "")) == 2 + 2 + 2 + 1 + 2 + 2 + 3


def test_every_page_of_the_four_parts_has_a_budget():
    navigation = read(ROOT / "mkdocs.yml").split("nav:")[1].split("  - Results:")[0]
    navigation = re.sub(r"- Pages on their way out:(\n {10}.*)+", "", navigation)
    generated = {"commands.md", "config.md", "python.md"}
    budgeted = {page for part, pages in BUDGETS.items() if part not in ("Results", "Project") for page in pages}
    assert set(re.findall(r"[\w./-]+\.md", navigation)) == budgeted | generated


def test_every_budget_is_of_a_page_that_exists():
    assert all(list(DOCS.glob(name)) for _, names, *_ in counted() for name in names.split())
