"""Pages read alike on GitHub and in the site, and in plain words."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.support.documents import ROOT, name, pages, prose, read

BLOCK = re.compile(r"^( *)([-*] |\d+\. |\|)")
"""The first line of a list or a table."""

NOTES = [page for page in pages() if "benchmarks" in page.parts]
PEOPLE = [page for page in pages() if page not in NOTES]

DIALECT = {
    "reckoned": "calculated",
    "unsaid": "reported",
    "at once, one line": "together",
    "told at once": "reported together",
    "is told": "is reported",
    "and said": "and reported",
    "be mended": "be fixed",
    "in vain": "for nothing",
    "laid out": "arranged, packed",
    "meets": "is multiplied with",
    "is deaf": "does not handle",
    "which a base of their size is the measure of": "write two sentences",
    "read the low ends": "explain the range",
    "where to look": "name the place",
}
"""Words of a dialect of our own, and what plain English says."""


def blocks_without_blank_line(text: str) -> list[int]:
    """Lines where a list or a table follows a paragraph directly: a list on GitHub, running text in the site."""
    lines = prose(text).splitlines()
    wrong = []
    for number, (before, line) in enumerate(pairwise(lines), 2):
        start = BLOCK.match(line)
        if start is None or not before.strip() or BLOCK.match(before) or before.startswith(("#", "<!--")):
            continue
        if before.startswith((" ", "\t")) and start[2] != "|":
            continue  # the second line of an item
        wrong.append(number)
    return wrong


@pytest.mark.parametrize("page", pages(), ids=name)
def test_a_blank_line_stands_before_lists_and_tables(page):
    assert not blocks_without_blank_line(read(page)), name(page)


def test_a_missing_blank_line_is_seen():
    assert blocks_without_blank_line("# A\n- b\n\nText:\n- c\n\n- d\n  e\n- f\nText\n| g |\n") == [5, 11]


@pytest.mark.parametrize("page", PEOPLE, ids=name)
def test_pages_are_in_plain_english(page):
    text = prose(read(page))
    wrong = [
        f"{name(page)}:{text[: match.start()].count(chr(10)) + 1}: {words}: {better}"
        for words, better in DIALECT.items()
        for match in re.finditer(rf"\b{re.escape(words)}\b", text)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_navigation_of_the_site_has_every_page():
    navigation = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("nav:")[1]))
    docs = {page.relative_to(ROOT / "docs").as_posix() for page in pages() if "docs" in page.parts}
    assert docs == {page for page in navigation if not page.startswith("project/")}
