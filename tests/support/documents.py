"""The Markdown pages of the repository: their code blocks, headings, anchors and links, as GitHub reads them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)(`{3,}|~{3,})([^\n]*)\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!\\)\]\(([^()\s]+)\)")


def pages() -> list[Path]:
    """Every page that people read: at the top, in docs/ and in benchmarks/."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "benchmarks").rglob("*.md")),
    ]


def name(page: Path) -> str:
    """The path of a page inside the repository."""
    return page.relative_to(ROOT).as_posix()


def read(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def prose(text: str) -> str:
    """A page without its code blocks; lines keep their numbers."""
    return FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)


def blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number of the first line, language and content of every code block."""
    for fence in FENCE.finditer(text):
        yield text[: fence.start()].count("\n") + 2, fence[3].strip(), fence[4]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, by GitHub's rule."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose(text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(slug if not seen[slug] else f"{slug}-{seen[slug]}")
        seen[slug] += 1
    return found


def links(text: str) -> Iterator[tuple[int, str]]:
    """Line number and target of every link and picture."""
    plain = prose(text)
    for link in LINK.finditer(plain):
        yield plain[: link.start()].count("\n") + 1, link[1]
