"""Every link between files of the repository leads somewhere, on GitHub and in the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documents import ROOT, anchors, links, name, pages, read


def broken(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere, each with its line."""
    faults = []
    for line, link in links(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.is_relative_to(ROOT):
            faults.append(f"{name(page)}:{line}: {link} leads out of the repository")
        elif not path.is_file():
            faults.append(f"{name(page)}:{line}: {link}: no such file")
        elif anchor and anchor not in anchors(read(path)):
            faults.append(f"{name(page)}:{line}: {link}: no such heading")
    return faults


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_lead_somewhere(page):
    faults = broken(page, read(page))
    assert not faults, "\n".join(faults)


def test_a_broken_link_is_seen():
    page = ROOT / "docs" / "train.md"
    text = "\n".join(
        [
            "# One `two`, three",
            "[a](#one-two-three) [b](config.md#data) [c](https://example.org/x#y)",
            "```",
            "[d](nowhere.md)",
            "```",
            "![e](e.svg) [f](config.md#nothing)",
            "[g](../../elsewhere.md)",
        ]
    )
    assert broken(ROOT / "docs" / "train.md", text.replace("[a](#one-two-three) ", "")) == [
        "docs/train.md:6: e.svg: no such file",
        "docs/train.md:6: config.md#nothing: no such heading",
        "docs/train.md:7: ../../elsewhere.md leads out of the repository",
    ]
    assert anchors(text) == {"one-two-three"}
    assert broken(page, "[a](#no-such-heading-here)") == ["docs/train.md:1: #no-such-heading-here: no such heading"]


def test_anchors_are_those_of_github():
    text = "## A `b`, [c](d.md)\n## C++ & d\n## C++ & d\n### What it *is*?\n"
    assert anchors(text) == {"a-b-c", "c--d", "c--d-1", "what-it-is"}
