"""Count the hand-written words of each page, beside the page's budget.

    python docs/scripts/words.py

Code blocks, generated parts, pictures and the targets of links do not count; code inside a sentence is one word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[1]
OVER = 1.15
"""A page may have so many times the words of its budget."""

BUDGETS = {
    "Start": {
        "README.md": 400, "install.md": 350, "tutorial.md": 900, "tutorial_length.md": 1200, "expect.md": 600,
    },
    "How to": {
        "prepare.md": 900, "synthetic.md": 600, "conditions.md": 700, "train.md": 800, "adapt.md": 500,
        "plugins.md": 600, "cluster.md": 1000, "translate.md": 700, "documents.md": 500, "long.md": 900,
        "terms.md": 600, "serve.md": 800, "export.md": 900, "import.md": 500, "api.md": 900, "choose.md": 700,
        "compare.md": 1000, "show.md": 450, "study.md": 900, "recipe.md": 900, "problems.md": 900,
    },
    "Reference": {
        "automatic.md": 600, "systems.md": 2000, "metrics.md": 1500, "files.md": 1800, "http.md": 700,
        "recipe_keys.md": 700, "corpora.md": 500, "glossary.md": 600,
    },
    "Explanation": {
        "position.md": 900, "search.md": 700, "verdicts.md": 1300, "papers.md": 1000, "readings.md": 1100,
        "artificial.md": 1200, "guarantees.md": 700,
    },
    "Results": {"results/*.md performance.md": 7200},
    "Project": {"architecture.md": 1200},
}  # fmt: skip
"""Part of the navigation → pages, or patterns of pages that share a budget → words."""

LEFT_OUT = (
    (re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.DOTALL | re.MULTILINE), ""),
    (re.compile(r"<!-- begin ([\w -]+?) -->.*?<!-- end \1 -->", re.DOTALL), ""),
    (re.compile(r"<!--.*?-->", re.DOTALL), ""),
    (re.compile(r"<[a-z/][^<>]*>"), " "),
    (re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL), "code"),
    (re.compile(r"\]\([^()\s]*\)"), "] "),
    (re.compile(r"\{[.#:][^{}]*\}"), ""),
)
"""What is not written by hand, or is not words, and what counts in its place, in this order."""


def words(page: str) -> int:
    """Count the words of a page: what stands between spaces and contains a letter or a digit."""
    for pattern, instead in LEFT_OUT:
        page = pattern.sub(instead, page)
    return sum(any(map(str.isalnum, each)) for each in page.replace("|", " ").split())


def counted() -> Iterator[tuple[str, str, int, int]]:
    """Yield part of the navigation, page, words and budget of each budget."""
    for part, pages in BUDGETS.items():
        for names, budget in pages.items():
            paths = [path for name in names.split() for path in sorted(DOCS.glob(name))]
            yield part, names, sum(words(path.read_text(encoding="utf-8")) for path in paths), budget


def main() -> None:
    """Print the words of each page, of each part and of all pages."""
    rows = list(counted())
    for part in BUDGETS:
        own = [row for row in rows if row[0] == part]
        for _, page, count, budget in own:
            over = f"  {count / budget - 1:+.0%}" if count > budget else ""
            print(f"{count:7,} of {budget:6,}  {page}{over}")
        print(f"{sum(row[2] for row in own):7,} of {sum(row[3] for row in own):6,}  {part}\n")
    print(f"{sum(row[2] for row in rows):7,} of {sum(row[3] for row in rows):6,}  all pages with a budget")
    budgeted = {path for names in (row[1] for row in rows) for name in names.split() for path in DOCS.glob(name)}
    for path in sorted(set(DOCS.glob("*.md")) - budgeted):
        print(f"{words(path.read_text(encoding='utf-8')):7,}             {path.name}, without a budget")


if __name__ == "__main__":
    main()
