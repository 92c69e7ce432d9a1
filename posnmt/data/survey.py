"""A first look at a corpus, from which settings are chosen that a configuration leaves out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from posnmt.config.corpora import ListedCorpus
from posnmt.config.schema import Data
from posnmt.config.writing import COUNTRIES, EXAMPLES, TWO_LETTERS, Writing, writing
from posnmt.data.corpus import Findings
from posnmt.data.listed import Part, files_of, read_part

MOST_PAIRS = 1_000_000
"""The most pairs of a corpus that are read; a larger one is judged by these."""

_NO_LANGUAGE = {
    "all", "ann", "bin", "bpe", "csv", "dat", "dev", "dic", "doc", "err", "hyp", "ids", "idx", "inp", "lab", "lem",
    "log", "lst", "new", "old", "org", "out", "pos", "pre", "raw", "ref", "res", "seg", "sgm", "spm", "src", "srt",
    "tab", "tgt", "tmp", "tmx", "tok", "trg", "trn", "tst", "tsv", "txt", "val", "vtt", "xml", "zip",
}  # fmt: skip
"""File endings of three letters that seldom mean a language, though some are codes of ISO 639-3."""


@dataclass(frozen=True)
class Survey:
    """Properties of a training corpus.

    Attributes:
        pairs: that were read; about `MOST_PAIRS` of a larger corpus, and as many of each corpus of a list.
        characters: of the larger side.
        alphabet: distinct characters of both sides.
        source, target: how each side is written.
    """

    pairs: int
    characters: int
    alphabet: int
    source: Writing
    target: Writing


def survey(parts: Sequence[Part]) -> Survey:
    """Survey the corpora to train on. Their faults are left to `prepare`, which reports all."""
    findings = Findings(accept=("empty", "crlf"))
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    examples: tuple[list[str], list[str]] = ([], [])
    pairs = 0
    for number, part in enumerate(parts, start=1):
        enough, read = EXAMPLES * number // len(parts), 0
        for chunk in read_part(part, findings):
            for side, lines in enumerate((chunk.sources, chunk.targets)):
                counts[side].update("".join(lines))
                examples[side].extend(lines[: max(0, enough - len(examples[side]))])
            read += len(chunk.lines)
            if read >= MOST_PAIRS:
                break
        pairs += read
    source, target = (writing(lines) for lines in examples)
    alphabet = len({*counts[0], *counts[1]})
    return Survey(pairs, max(counts[0].total(), counts[1].total()), alphabet, source, target)


def languages_of(data: Data) -> tuple[str | None, str | None]:
    """The languages of source and target by the names of files and fields of the training text, if these have them."""
    found = []
    for side in ("source", "target"):
        names: list[str | None] = []
        for corpus in files_of(data)["train"]:
            names.append(getattr(corpus, side))
            if isinstance(corpus, ListedCorpus) and corpus.fields is not None:
                names.append(f"x.{getattr(corpus.fields, side)}")
        found.append(language_of(names))
    return found[0], found[1]


def language_of(names: Iterable[str | None]) -> str | None:
    """The language code at the end of a file name, as in `train.de` or `train.de.gz`; of the first name that has one.

    A code of two letters is one of ISO 639-1, or that of a country, such as `cz`, which stands for its language. A code
    of three letters may be anything but common file endings, such as `txt` and `dev`. A region or script may follow.
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
