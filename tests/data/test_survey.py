"""A look at a corpus, and what file names tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from posnmt.data import survey as module
from posnmt.data.corpus import TextFile
from posnmt.data.listed import Part
from posnmt.data.survey import language_of, survey


def files(folder: Path, source: str, target: str) -> list[Part]:
    for name, text in (("source", source), ("target", target)):
        (folder / name).write_text(text, encoding="utf-8")
    return [Part({name: TextFile(name, folder / name) for name in ("source", "target")})]


def test_a_survey_counts_pairs_characters_and_the_alphabet(tmp_path, monkeypatch):
    corpus = survey(files(tmp_path, "ab b\nabc\n" * 3, "猫がいる\n犬がいる\n" * 3))
    assert (corpus.pairs, corpus.characters) == (6, 3 * 8)
    assert corpus.alphabet == len({*"ab c", *"猫がいる犬"})
    assert (corpus.source.language, corpus.target.language) == (None, "japanese")
    monkeypatch.setattr(module, "MOST_PAIRS", 1)
    assert survey(files(tmp_path, "a\n" * 30_000, "b\n" * 30_000)).pairs < 30_000


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("train.en", "en"), ("data/train.de.gz", "de"), ("train.zh-Hant", "zh-Hant"), ("train.nds.xz", "nds"),
        ("train.deu_Latn", "deu_Latn"), ("train.pt_br.gz", "pt_br"), ("train.cz", "cs"), ("train.en-old", None),
        ("train.dev", None), ("train.new.gz", None), ("train.bpe", None), ("train.tok-en", None), ("train.lc", None),
        ("train.txt", None), ("train.tok", None), ("train", None), ("a.en/train", None), (None, None),
    ],
)  # fmt: skip
def test_the_language_that_a_name_ends_in(name, language):
    assert language_of([name]) == language


def test_the_first_name_with_a_language_counts():
    assert language_of(["train.txt", "train.is", "train.fo"]) == "is"
