"""Pages do not call length what is a second sentence, and name the text of each statement on longer sentences."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from posnmt.study.packed import unpack
from tests.support.documents import ROOT, name, pages, prose, read

DOCS = ROOT / "docs"
CORRECTIONS = DOCS / "results" / "corrections.md"
PAGES = [
    page
    for page in pages()
    if page != CORRECTIONS  # quotes the former statements
    and page.name != "CHANGELOG.md"
    and not page.parent.name.endswith("-small")  # copies of reports, under the titles of their recipes
]
EVIDENCE = [
    page for page in PAGES if page.parent == DOCS / "results" or page in (ROOT / "README.md", DOCS / "README.md")
] + [
    DOCS / f"{each}.md"
    for each in ("choose", "papers", "position", "long", "compare", "tutorial", "tutorial_length", "conditions")
]
"""Pages that say what was measured, or advise by it."""

TWO = re.compile(
    r"\b(joined|joins|joining) (sentences|captions|lines|pairs|test)"
    r"|\b(sentences|captions|pairs|lines)( \S+)? joined\b|concat_seq"
)
LENGTH = re.compile(r"\b(longer|long|lengths?)\b|\bbeyond (the )?(trained|training|cap)|\bunseen\b", re.IGNORECASE)
COUNT = re.compile(r"second sentence|several sentences|sentence count|of two (sentences|captions)", re.IGNORECASE)
LONGER = re.compile(
    r"\b(longer|long) (sentences?|ones)\b|\bsentences (somewhat |several times )?(longer|as long)\b"
    r"|\blonger than (any |those )?(in|of) training|\bbeyond (the |that )?(trained|training|length|cap)",
    re.IGNORECASE,
)
TEXT = re.compile(
    r"\bsingle\b|\bnatural\b|\bartificial\b|second sentence|two (captions|sentences)|\bnews\b"
    r"|\bpapers?'?s?\b|\b[RNC]19[ab]?\b|\bet al\.",
    re.IGNORECASE,
)
"""The text that was measured, or whose statement it is."""

NO_RESULTS = {
    "docs/position.md": [
        "A word five places away",
        "Distances beyond the training length give angles",
        "Three things can go wrong",
        "**Unseen sentences**",
    ],
    "docs/results/likelihood.md": ["On longer text, transformer loses ground"],
}
"""Page -> the beginnings of statements of the demo, of cost, of what a program prints, or of how schemes work."""


def bare(text: str) -> str:
    """A text without the targets of its links and without code."""
    return re.sub(r"`[^`]*`", "`", re.sub(r"\]\([^)]*\)", "]", text))


def statements(text: str) -> Iterator[str]:
    """The sentences of a page, and the rows of its tables; a table's head stands with the sentence before it."""
    before = ""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose(text)):
        lines = [line.strip() for line in block.strip().splitlines()]
        if lines and lines[0].startswith("|"):
            yield f"{before} {bare(lines[0])}"
            yield from map(bare, lines[2:])
        elif lines and not lines[0].startswith("#"):
            sentences = re.split(r"(?<=[.!?])[*\")]* (?=[A-Z*\[`(])", bare(" ".join(lines)))
            yield from sentences
            before = sentences[-1]
        else:
            yield from (line for line in lines[1:] if line)


def confused(text: str) -> list[str]:
    """Statements that speak of joined lines and of length, and not of the second sentence."""
    return [each for each in statements(text) if TWO.search(each) and LENGTH.search(each) and not COUNT.search(each)]


def without_text(text: str) -> list[str]:
    """Statements on longer sentences that do not say which text they were measured on, or whose they are."""
    made = "artificial" in text.partition("\n")[0]
    claims = [each for each in statements(text) if LONGER.search(each) and not each.endswith("?")]
    return [] if made else [each for each in claims if not TEXT.search(each)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_statement_calls_a_second_sentence_length(page: Path) -> None:
    assert confused(read(page)) == []


@pytest.mark.parametrize("page", EVIDENCE, ids=name)
def test_statements_on_longer_sentences_say_which_text_they_are_of(page: Path) -> None:
    exempt = tuple(NO_RESULTS.get(name(page), ()))
    assert [each for each in without_text(read(page)) if not each.lstrip("> ").startswith(exempt)] == []


def test_no_exception_is_idle() -> None:
    for page, beginnings in NO_RESULTS.items():
        found = [each.lstrip("> ") for each in without_text(read(ROOT / page))]
        assert [each for each in beginnings if not any(one.startswith(each) for one in found)] == []


CONFUSED = (
    "*BLEU by source length on joined pairs of captions, German to English.*",
    "Two captions joined, De-En:\n\n| source length in subwords | 22-28 |\n|---|---|\n| `rr` | 20.8 |",
    "On joined sentences beyond the trained lengths clipped relative vectors are ahead of RoPE (tested).",
    "| claim, two sentences joined | BLEU beyond the trained lengths |\n|---|---|\n| 1. ALiBi | by 2.3 |",
    "| 3 | supported | on joined sentences, with the lower length cap, absolute is 3.7 behind (3.1 to 4.3) |",
)
WITHOUT_TEXT = (
    "*BLEU falls on sentences longer than any in training; how fast it falls depends on the position scheme.*",
    "| RoPE | captions De-En | beyond the trained lengths clipped relative vectors are ahead of RoPE |\n|---|---|---|",
    "| 5 | supported | absolute and relative together are 1.6 behind relative alone on longer sentences |",
    "| 7 | supported | beyond the trained lengths Transformer writes 2.8 subwords fewer than Rel-Transformer |",
    "| sentences somewhat longer than in training | `rr`, `relative` or `relative-sinusoidal` |",
    "No change makes up for training without long sentences.",
)
"""What these pages said before the correction of 26 November 2026."""


@pytest.mark.parametrize("former", CONFUSED)
def test_former_statements_on_joined_lines_are_seen(former: str) -> None:
    assert confused(former)


@pytest.mark.parametrize("former", WITHOUT_TEXT)
def test_former_statements_without_their_text_are_seen(former: str) -> None:
    assert without_text(former)


END = re.compile(r"[.!?。！？](?=\s|$)")
"""The end of a sentence: a mark before a blank or the end of the line."""

SINGLE = "trained on single"
JOINED_TESTS = {
    "rosendahl2019": ("concat_seq", f"{SINGLE} captions"),
    "neishi2019": ("joined", f"{SINGLE} captions"),
    "schemes": ("joined", f"{SINGLE} captions"),
    "clip-by-cap": ("joined", f"{SINGLE} captions"),
    "schemes-enja": ("joined", f"{SINGLE} sentences"),
}
"""Study -> its test of joined lines, and what its models were trained on."""


def kind(output: str, trained: str) -> str | None:
    """The row of the table that an output `SYSTEM.TRAINING.SEED` counts in."""
    system, training, _ = output.rsplit(".", 2)
    if system == "rope-parts":
        return None
    if system == "rope-sentences":
        return "RoPE, a sentence at a time"
    return "trained on joined pairs too" if training == "joined" else trained


def test_the_table_of_sentence_ends_is_that_of_the_published_translations() -> None:
    rows = []
    for study, (test, trained) in JOINED_TESTS.items():
        packed = unpack(DOCS / "results" / f"{study}-small" / "translations.tar.xz")
        names, *lines = csv.reader(io.StringIO(packed[f"translations/{test}.csv"].decode("utf-8"), newline=""))
        counts: dict[str | None, list[int]] = defaultdict(list)
        for output, texts in zip(names, zip(*lines, strict=True), strict=True):
            counts[kind(output, trained)].append(sum(len(END.findall(text)) > 1 for text in texts))
        for label in counts.keys() - {None}:
            low, high = min(counts[label]), max(counts[label])
            ends = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            rows.append(f"| `{study}`, {label} | {len(counts[label])} | {len(lines):,} | {ends} |")
    page = read(CORRECTIONS).split("lines with a second sentence end |\n|---|---|---|---|\n")[1].split("\n\n")[0]
    assert sorted(rows) == sorted(page.splitlines())
