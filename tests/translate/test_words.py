"""The words of translations: where they stand in the text, and how probable each is by forced decoding."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import posnmt
from posnmt.config.schema import Subword
from posnmt.data.subword import BOS, EOS, Subwords
from posnmt.data.text import SideText
from posnmt.data.tokenise import TruecaseLearner, Words
from posnmt.run.run import Run
from posnmt.translate.words import spans, words
from tests.support.commands import run

LEARNED = Path(__file__).parents[1] / "frozen" / "learned"
DEV = LEARNED.parent / "dev.source"


@pytest.fixture(scope="module")
def parts():
    """The model and the text pipeline of a run."""
    return Run.open(LEARNED).model().eval(), Run.open(LEARNED).text()


@torch.inference_mode()
def forced(model, text, source, pieces):
    """The log-probability of each target subword, the end last, by one forward pass a subword."""
    [ids] = text.source.encode([source])
    row, written, gained = torch.tensor([[*ids, EOS]]), [BOS], []
    for token in [*(text.target.subwords.pieces.index(piece) for piece in pieces), EOS]:
        logits = model.project(model(row, None, torch.tensor([written])))[0, -1]
        gained.append(logits.log_softmax(-1)[token].item())
        written.append(token)
    return gained


def by_blanks(pieces, values):
    """The products of the probabilities between blanks."""
    products = []
    for piece, value in zip(pieces, values, strict=False):
        if piece.startswith("\u2581") or not products:
            products.append(1.0)
        products[-1] *= math.exp(value)
    return products


@pytest.mark.parametrize(
    "options",
    [
        ("--beam", "4", "--nbest", "3"),
        ("--beam", "1"),
        ("--sample", "--seed", "6", "--nbest", "2"),
        ("--engine", "ctranslate2", "--beam", "2", "--nbest", "2"),
    ],
)
def test_probabilities_are_those_of_forced_decoding(options, parts):
    if "ctranslate2" in options:
        pytest.importorskip("ctranslate2")
    lines = DEV.read_text().splitlines()[:3]
    out, _ = run("translate", LEARNED, "--format", "jsonl", *options, stdin="\n".join(lines) + "\n")
    compared = 0
    for row in map(json.loads, out.splitlines()):
        for each in row["hypotheses"]:
            assert [word["text"] for word in each["words"]] == each["text"].split()
            assert [each["text"][word["start"] : word["end"]] for word in each["words"]] == each["text"].split()
            assert sum(word["subwords"] for word in each["words"]) == len(each["subwords"])
            gained = forced(*parts, row["source"], each["subwords"])
            probabilities = [word["probability"] for word in each["words"]]
            assert probabilities == pytest.approx(by_blanks(each["subwords"], gained), rel=1e-4)
            whole = sum(map(math.log, probabilities)) + gained[-1]
            assert each["log_probability"] == pytest.approx(whole, abs=1e-4)
            compared += len(probabilities)
    assert compared > 5


def test_words_of_a_line_in_parts_are_those_of_its_parts():
    model = posnmt.load(LEARNED)
    lines = DEV.read_text().splitlines()[:3]
    alone = [word for [each] in model.hypotheses(lines) for word in each.words]
    [[joined]] = model.hypotheses([". ".join(lines)], split="auto")
    assert joined.parts > 1
    # the vocabulary lacks full stops, which are carried over and are of no word
    assert [word.text for word in joined.words] == [word.removesuffix(".") for word in joined.text.split()]
    assert all(joined.text[word.start : word.end] == word.text for word in joined.words)
    assert sum(word.subwords for word in joined.words) == len(joined.subwords)
    assert alone, "or nothing was compared"


def test_what_is_not_scored_has_no_words():
    text = Run.open(LEARNED).text()
    [tokens] = text.target.encode(["ein"])
    assert words(text.target, "ein", tokens, []) == []


def learned(lines, vocabulary=60):
    return Subwords.learn(lines * 20, Subword(vocabulary=vocabulary, character_coverage=1.0), "shared")


def truecaser(lines):
    learner = TruecaseLearner()
    for line in lines:
        learner.add(line)
    return learner.truecaser()


@pytest.mark.parametrize(
    ("language", "tokeniser", "line", "expected"),
    [
        ("en", "none", "He said: (it's over), no?", ["He", "said:", "(it's", "over),", "no?"]),
        ("en", "moses", "He said: (it's over), no?", ["He", "said", ":", "(", "It", "'s", "over", ")", ",", "no", "?"]),
        ("de", "moses", "Straße 5, z. B. \u201ehier\u201c.", None),
        ("zh", "none", "我喜欢红茶。", None),
        ("zh", "jieba", "我喜欢红茶。", ["我", "喜欢", "红茶", "。"]),
    ],
)
def test_words_stand_in_the_text_of_each_pipeline(language, tokeniser, line, expected):
    if tokeniser == "jieba":
        pytest.importorskip("rjieba")
    other = ["He said so, and it's over (no?): ok", "Die Straße ist hier \u201eda\u201c 5, z. B.", "红茶 我 喜欢 。"]
    plain = Words(language, tokeniser)
    split = [plain.split(each) for each in [line, *other]]
    side = SideText(Words(language, tokeniser, truecaser(split)), learned(split))
    [tokens] = side.encode([line])
    [text] = side.decode([tokens])
    values = [-0.01 * (place + 1) for place in range(len(tokens))]
    found = words(side, text, tokens, values)
    assert expected is None or [word.text for word in found] == expected
    assert "".join(word.text for word in found) == text.replace(" ", "")
    assert [text[word.start : word.end] for word in found] == [word.text for word in found]
    assert sum(word.subwords for word in found) == len(tokens)
    assert sum(math.log(word.probability) for word in found) == pytest.approx(sum(values))
    if language == "zh" and tokeniser == "none":  # a blank alone shows nothing
        assert len(found) == len([token for token in tokens if side.subwords.pieces[token] != "\u2581"])


def test_unknown_characters_and_blanks_alone_belong_to_words():
    side = Run.open(LEARNED).text().target
    pieces = side.subwords.pieces
    tokens = [pieces.index(piece) for piece in ("\u2581", "e", "in", "\u2581", "<unk>", "a", "\u2581", "\u2581")]
    [text] = side.decode([tokens])
    found = words(side, text, tokens, [-1.0] * len(tokens))
    assert [(word.text, word.subwords) for word in found] == [("ein", 3), ("\u2047 a", 5)]
    assert words(side, "", tokens[:1], [-1.0]) == []


def test_what_detokenising_removes_belongs_to_its_word():
    side = SideText(Words("en", "moses"), learned(["an all @-@ in one thing, a b c d e f g h"], 45))
    tokens = side.subwords.encode(["all @-@ in one"])[0]
    [text] = side.decode([tokens])
    assert text == "all-in one"
    found = words(side, text, tokens, [-1.0] * len(tokens))
    assert [(word.text, word.start) for word in found] == [("all", 0), ("-", 3), ("in", 4), ("one", 7)]
    assert sum(word.subwords for word in found) == len(tokens)


def test_bytes_that_spell_a_character_are_one_word():
    """In text without blanks each subword is a word; a character that is spelled in three bytes is one too."""
    settings = Subword(vocabulary=290, byte_fallback=True)
    side = SideText(Words("ja"), Subwords.learn(["東京大学に行きました。", "the cat sat"] * 20, settings, "shared"))
    for text, wanted in (("東京鬱大鷲学に", [*"東京鬱大鷲学に"]), ("the ☃ c☃t sat", ["the", "☃", "c☃t", "sat"])):
        [ids] = side.encode([text])
        in_text = spans(side, text, ids)
        assert [word.text for word in in_text] == wanted
        assert sum(word.subwords for word in in_text) == len(ids)
