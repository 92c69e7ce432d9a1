"""A first look at a corpus: what the settings that a configuration leaves out are chosen from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from posnmt.config.writing import COUNTRIES, EXAMPLES, TWO_LETTERS, Writing, writing
from posnmt.data.corpus import Findings, TextFile, read_chunks

MOST_PAIRS = 1_000_000
"""Pairs that are looked at; a larger corpus is judged by them."""

_NO_LANGUAGE = {
    "all", "ann", "bin", "bpe", "csv", "dat", "dev", "dic", "doc", "err", "hyp", "ids", "idx", "inp", "lab", "lem",
    "log", "lst", "new", "old", "org", "out", "pos", "pre", "raw", "ref", "res", "seg", "sgm", "spm", "src", "srt",
    "tab", "tgt", "tmp", "tmx", "tok", "trg", "trn", "tst", "tsv", "txt", "val", "vtt", "xml", "zip",
}  # fmt: skip
"""Three letters that end file names and seldom mean a language, though some are codes of ISO 639-3."""


@dataclass(frozen=True)
class Survey:
    """What a look at a training corpus shows.

    Attributes:
        pairs: looked at; `MOST_PAIRS` where the corpus is larger.
        characters: of the larger side.
        alphabet: distinct characters of both sides.
        source, target: how each side is written.
    """

    pairs: int
    characters: int
    alphabet: int
    source: Writing
    target: Writing


def survey(files: dict[str, TextFile]) -> Survey:
    """Look at a corpus, given as `corpus_files` gives it; faults in it are left to `prepare`, which tells them all."""
    findings = Findings(accept=("empty", "crlf"))
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    examples: tuple[list[str], list[str]] = ([], [])
    pairs = 0
    for chunk in read_chunks(files, findings):
        for side, lines in enumerate((chunk.sources, chunk.targets)):
            counts[side].update("".join(lines))
            examples[side].extend(lines[: EXAMPLES - len(examples[side])])
        pairs += len(chunk.lines)
        if pairs >= MOST_PAIRS:
            break
    source, target = (writing(lines) for lines in examples)
    alphabet = len({*counts[0], *counts[1]})
    return Survey(pairs, max(counts[0].total(), counts[1].total()), alphabet, source, target)


def language_of(names: Iterable[str | None]) -> str | None:
    """The language code that a file's name ends in, as `de` in `train.de` or `train.de.gz`; the first of some names.

    Two letters are one of ISO 639-1, or a country such as `cz` that stands for its language. Three letters may be any
    but those that often end the names of files, such as `txt` and `dev`. A region or script may follow.
    """
    for name in names:
        end = Path(re.sub(r"\.[gx]z$", "", name or "")).suffix[1:]
        if not re.fullmatch(r"[a-z]{2,3}([-_]([A-Za-z]{2}|[A-Za-z]{4}))?", end):
            continue
        code, *others = re.split("([-_])", end)
        code = COUNTRIES.get(code, code)
        if code in TWO_LETTERS or (len(code) == 3 and code not in _NO_LANGUAGE):
            return "".join([code, *others])
    return None
