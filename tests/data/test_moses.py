"""Moses tokenisation and truecasing against sacremoses' own, line by line."""

import os
import pickle
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesTokenizer, MosesTruecaser

from posnmt.data import moses
from posnmt.data.moses import MosesTokeniser
from posnmt.data.tokenise import TruecaseLearner, Truecaser
from tests.support.shared import SHARED, needs

LANGUAGES = ["en", "fr", "de", "fi", "cs", "ja", "ko", "xx"]
# Everything that a rule looks at, and what is rare: other blanks, signs beyond the first plane, control characters.
WORDS = [
    "No",
    "Mr",
    "pp",
    "e.g",
    "U.S",
    "aujourd",
    "DOTMULTI",
    "DOTDOTMULTI",
    "don't",
    "5,300",
    "s",
    "ça",
    "東京",
    "한국",
    "नमस्ते",
]
SIGNS = [
    *".,'`-\"()<>&|%$?!:;…„“«»、。·\u0301\u200b\U0001f600\U00020000٣½Ⓐ",
    "' '",
    "...",
    "..",
    " ",
    " ",
    "\u3000",
    "\x1c",
]
CONTROL = ["\t", "\n", "\r\n", "\x00", "\x01", "\x1b", "\x7f", "\x85", "\u2028"]
TEXT = st.lists(st.sampled_from([*WORDS, *SIGNS, *CONTROL, *"aZ9 "]) | st.characters(), max_size=25).map("".join)


@cache
def both(language: str) -> tuple[Any, MosesTokeniser]:
    return MosesTokenizer(language), MosesTokeniser(language)


def told_apart(language: str, lines: list[str]) -> list[tuple[str, str]]:
    """Where the two differ: sacremoses' tokens and ours."""
    theirs, ours = both(language)
    pairs = [(theirs.tokenize(line, return_str=True, escape=False), ours.tokenise(line)) for line in lines]
    return [pair for pair in pairs if pair[0] != pair[1]]


@pytest.mark.parametrize("language", LANGUAGES)
@settings(deadline=None)  # the first line makes sacremoses' tables
@given(text=TEXT)
def test_tokens_are_those_of_sacremoses(language: str, text: str) -> None:
    assert told_apart(language, [text]) == []


@pytest.mark.parametrize(
    "line",
    ["", " ", "\x01", "'", "' '5", ")' 'a '", "x.'", "No. 5", "No. five", "No.", "pp. 5 No. A", "e.g. A", "U.S. B",
     "end.", "so. it", "a,b,5,c,", ",5 ,5", "5,", "wait... no....", "...'", "DOTMULTI'",
     "it's the dogs' 'n' ''", "a.. .b"],
)  # fmt: skip
@pytest.mark.parametrize("language", ["en", "fr", "de", "zh", "ja"])
def test_lines_at_the_edges_of_the_rules(language: str, line: str) -> None:
    assert told_apart(language, [line, f"{line} b", f"b {line}"]) == []


@needs("")
@pytest.mark.parametrize(
    ("language", "path"),
    [
        ("en", "enja_tanaka_small/train.en"),
        ("ja", "enja_tanaka_small/train.ja"),
        ("de", "ende_multi30k/train.de"),
        ("de", "deen_wmt_news/dev.de"),
        ("en", "enja_pydocs/test.en"),
        ("fr", "ende_manpages/test.en"),
        ("zh", "zhen_wmt_news/dev.zh"),
    ],
)
def test_tokens_of_corpora_are_those_of_sacremoses(language: str, path: str) -> None:
    lines = (SHARED / path).read_text(encoding="utf-8").split("\n")
    step = max(1, len(lines) // int(os.environ.get("POSNMT_TEST_LINES", "200")))
    assert told_apart(language, lines[::step]) == []


def test_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"word{number}, and Mr. word{number % 7}." for number in range(60)]
    whole = list(map(MosesTokeniser("en").tokenise, lines))
    monkeypatch.setattr(moses, "REMEMBERED", 50)
    forgetful = MosesTokeniser("en")
    assert list(map(forgetful.tokenise, lines)) == whole
    assert sum(map(len, forgetful._pieces)) <= 50
    copy = pickle.loads(pickle.dumps(forgetful))
    assert vars(copy).keys() == vars(forgetful).keys()
    assert (copy._pieces, copy._remembered) == ({}, 0)
    assert list(map(copy.tokenise, lines)) == whole


FORMS = "the The THE a . : ? ! ( \" ' | < > <b> </b> x|y & 5 ß ẞ Ω house House \u0301"
CASED = st.lists(st.sampled_from(FORMS.split(" ")), max_size=20).map(" ".join)


@settings(deadline=None)
@given(st.lists(CASED, max_size=8), CASED)
def test_truecasing_is_that_of_sacremoses(lines: list[str], text: str) -> None:
    theirs = MosesTruecaser()
    theirs.train([line.split() for line in lines])
    learner = TruecaseLearner()
    for line in lines:
        learner.add(line)
    ours: Truecaser = learner.truecaser()
    assert ours._best == theirs.model["best"]
    assert set(ours._other) == set(theirs.model["known"])
    assert ours.truecase(text) == theirs.truecase(text, return_str=True, use_known=True)
