"""Lines that are far longer than training sentences, translated in parts."""

from __future__ import annotations

import json
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import posnmt
from posnmt.config.schema import Decode
from posnmt.translate import parts
from posnmt.translate.parts import Line, cut, halves, in_parts
from posnmt.translate.requests import Part, Request
from posnmt.translate.sentences import sentences
from posnmt.translate.translations import Translation
from tests.support import corpus
from tests.support.commands import refused, run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learned a little, on sentences of up to 15 subwords."""
    folder = tmp_path_factory.mktemp("trained")
    run("train", corpus.make(folder), "--out", folder / "run", "--set", "train.steps=20", "--set", "train.average=1")
    return folder


@pytest.fixture(scope="module")
def trained_side(trained):
    return posnmt.Run.open(trained / "run").text().source


@pytest.fixture
def lines(trained):
    return (trained / "corpus" / "test.source").read_text().splitlines()[:6]


@pytest.fixture
def longest(trained):
    return posnmt.Run.open(trained / "run").training_lengths["source"]["longest"]


def words(texts):
    """A measure of length."""
    return [len(text.split()) + sum(len(word) // 5 for word in text.split()) for text in texts]


TEXTS = st.text(
    st.sampled_from("ab ,.;。、\t\u0301\u200d字カ") | st.characters(codec="utf-8", exclude_characters="\n\r\0"),
    max_size=200,
)


@given(TEXTS, st.integers(1, 9))
@settings(max_examples=300, deadline=None)
def test_parts_are_short_and_joined_they_are_the_line(text, most):
    found = cut(text, "en", words, most)
    assert "".join(found) == text
    assert all(length <= most or len(part) == 1 for part, length in zip(found, words(found), strict=True))
    assert all(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two three, four five six", ["one two three, ", "four five six"]),
        ("one two three four five six", ["one two three ", "four five six"]),
        ("one,two three", ["one,two ", "three"]),
        ("字字字、字字字字", ["字字字、", "字字字字"]),
        ("aaaaaaaa", ["aaaa", "aaaa"]),
        ("aaaa\u0301aaa", ["aaaa\u0301", "aaa"]),
        ("a" + "\u0301" * 99, ["a" + "\u0301" * 57, "\u0301" * 42]),
        ("a,    " + "b" * 40, ["a,    " + "b" * 17, "b" * 23]),
    ],
)
def test_a_text_is_cut_where_it_hurts_least(text, expected):
    assert halves(text) == expected


def test_sentences_are_parts_before_clauses_are():
    text = "Mr. Hill went, it seems. He left.  Why not, then?"
    assert cut(text, "en", words, 7) == ["Mr. Hill went, it seems. ", "He left.  ", "Why not, then?"]


def test_a_line_in_parts_is_the_translation_of_its_parts(trained, lines, longest, tmp_path):
    long = ". ".join(lines)
    (tmp_path / "input").write_text(f"{lines[0]}\n{long}\n\n{lines[1]}\n")
    command = (
        "translate",
        trained / "run",
        "--input",
        tmp_path / "input",
        "--format",
        "jsonl",
        "--beam",
        "2",
        "--nbest",
        "2",
    )
    out, err = run(*command, "--split", "auto")
    rows = [json.loads(row) for row in out.splitlines()]
    assert [[each["parts"] > 1 for each in row["hypotheses"]] for row in rows] == [
        [False] * 2, [True] * 2, [], [False] * 2,
    ]  # fmt: skip
    assert "warning: 1 of 4 lines were too long for one piece and were translated in parts" in err
    assert "(lines 2)" in err

    model = posnmt.load(trained / "run")
    text = model.runs[0].text().source
    pieces = cut(long, text.words.language, lambda texts: list(map(len, text.encode(texts))), longest)
    assert len(pieces) == rows[1]["hypotheses"][0]["parts"] >= len(lines)
    assert max(map(len, text.encode(pieces))) <= longest
    alone = model.hypotheses(pieces, beam=2, nbest=2)
    for rank, joined in enumerate(rows[1]["hypotheses"]):
        of_rank = [each[rank] for each in alone]
        assert joined["text"].split() == " ".join(each.text for each in of_rank).split()
        assert joined["subwords"] == [piece for each in of_rank for piece in each.subwords]
        assert joined["log_probability"] == pytest.approx(sum(each.log_probability for each in of_rank), abs=1e-4)
        assert joined["ended"] == all(each.ended for each in of_rank)
        tokens = sum(len(each.subwords) + 1 for each in of_rank)
        assert joined["score"] == pytest.approx(joined["log_probability"] / tokens, abs=1e-5)

    [whole] = model.hypotheses([long], beam=2, split="huge", complete="off")
    [again] = model.hypotheses([long], beam=2, split="auto", nbest=2)
    assert (whole[0].parts, len(again), again[0].parts) == (1, 2, len(pieces))
    assert [each.text for each in again] == [each["text"] for each in rows[1]["hypotheses"]]
    assert again[0].text != whole[0].text
    whole = [
        json.loads(row)["hypotheses"] for row in run(*command, "--split", "huge", "--complete", "off")[0].splitlines()
    ]
    assert {each["parts"] for row in whole for each in row} == {1}, "long is not huge"


def test_every_sentence_of_a_line_is_translated_alone(trained, lines, longest, tmp_path):
    """Whatever the length of the line; a sentence stays whole, also one that is longer than those of training."""
    first, second = (f"{line[:1].upper()}{line[1:].rstrip(' .')}." for line in lines[:2])
    long = " ".join(each.rstrip(" .") for each in lines) + "."
    (tmp_path / "input").write_text(f"{first} {second}\n{second}\n\n{long}\n")
    command = ("translate", trained / "run", "--input", tmp_path / "input", "--split", "sentences", "--alignments")
    out, err = run(*command, "--format", "jsonl", "--nbest", "2", "--beam", "2")
    both, (alone, _), _, (of_long, _) = (json.loads(row)["hypotheses"] for row in out.splitlines())
    assert ([each["parts"] for each in both], alone["parts"], of_long["parts"]) == ([2, 2], 1, 1)
    assert "warning: 1 of 4 lines were too long" not in err
    model = posnmt.load(trained / "run")
    assert len(model.runs[0].text().source.encode([long])[0]) > longest
    parts = model.hypotheses([f"{first} ", second, long], beam=2, nbest=2)
    assert [each["text"].split() for each in both] == [
        f"{parts[0][rank].text} {parts[1][rank].text}".split() for rank in (0, 1)
    ]
    assert (alone["text"], of_long["text"]) == (parts[1][0].text, parts[2][0].text)
    words = len(json.loads(out.splitlines()[0])["source_words"])
    for hypothesis in both:
        assert all(source < words and target < len(hypothesis["words"]) for source, target in hypothesis["alignment"])
    assert model.translate([f"{first} {second}"], split="sentences", beam=2) == [both[0]["text"]]


def test_a_huge_line_of_sentences_is_cut_and_listed(trained, lines, tmp_path, monkeypatch):
    """Lines that are in parts for their length are, and lines of several sentences are not."""
    monkeypatch.setattr(parts, "HUGE", 60)
    monkeypatch.setattr(parts, "MULTIPLE", 1)
    (tmp_path / "input").write_text(f"{lines[0].capitalize()}. {lines[1].capitalize()}.\n{' '.join(lines)}\n")
    command = ("translate", trained / "run", "--input", tmp_path / "input", "--split", "sentences", "--format", "jsonl")
    out, err = run(*command)
    assert [json.loads(row)["hypotheses"][0]["parts"] > 1 for row in out.splitlines()] == [True, True]
    assert "warning: 1 of 2 lines were too long" in err
    assert "(lines 2)" in err


def test_samples_of_parts_depend_on_the_line_alone(trained, lines, tmp_path):
    long = ". ".join([lines[0]] * 8)
    (tmp_path / "input").write_text(f"{lines[1]}\n{long}\n")
    command = ("translate", trained / "run", "--input", tmp_path / "input", "--sample", "--split", "auto")
    out, _ = run(*command)
    assert run(*command, "--batch", "32")[0] == out
    first, _ = out.splitlines()
    (tmp_path / "alone").write_text(f"{lines[1]}\n")
    assert run(*command[:3], tmp_path / "alone", *command[4:])[0] == f"{first}\n"


@pytest.mark.parametrize(
    ("sources", "translations", "expected"),
    [
        (["使用PyTorch。", "安装TensorFlow。"], ["Use PyTorch.", "Install it."], "Use PyTorch. Install it."),
        (["他说“用PyTorch。”", "TensorFlow!"], ["He says so.", "Yes!"], "He says so. Yes!"),
        (["PyTorch!", "安装TensorFlow!"], ["PyTorch!", "Install it!"], "PyTorch! Install it!"),
        (["aaaa", "aaaa bbbb"], ["cc", "cc dd"], "cccc dd"),
        (["Use it. ", "Install it."], ["使用PyTorch。", "安装TensorFlow。"], "使用PyTorch。安装TensorFlow。"),
        (["Eins. ", "Zwei. ", "Drei."], ["One.", "", "Three."], "One. Three."),
    ],
)
def test_translations_of_parts_have_the_blanks_of_their_language(sources, translations, expected):
    line = Line(Request("".join(sources)), [1], [Part([1], text=text) for text in sources])
    [joined] = parts.joined([line], [Translation(line.request, [text], [], [1]) for text in translations], Decode())
    assert joined.text == expected


def test_each_part_has_samples_of_its_own():
    five, six = Request("a", number=5), Request("bc", number=6)
    first, second, third = (part.number for part in (Part([1], five), Part([2], six), Part([3], six, place=1)))
    assert (first, second) == (5, 6), "a line that is whole has the samples of its number"
    assert third not in range(1 << 32)


def test_what_cannot_be_combined(trained, lines, tmp_path):
    (tmp_path / "input").write_text(f"{lines[0]}\n{' '.join(lines)}\n")
    (tmp_path / "prefix").write_text("a\na\n")
    command = ("translate", trained / "run", "--input", tmp_path / "input", "--split", "auto")
    [line] = refused(*command, "--prefix", tmp_path / "prefix")
    assert "parts cannot have a given beginning" in line
    assert f"{tmp_path / 'input'}:2" in line
    (tmp_path / "prefix").write_text("a\n\n")
    assert len(run(*command, "--prefix", tmp_path / "prefix")[0].splitlines()) == 2
    [line] = refused(*command, "--max-source", "20")
    assert "decode.max_source allows 20" in line, "the limit is for the line, not for its parts"


def test_ctranslate2_has_the_same_parts(trained, lines, tmp_path):
    (tmp_path / "input").write_text(f"{lines[0]}\n{' '.join(lines)}\n")
    command = ("translate", trained / "run", "--input", tmp_path / "input", "--split", "auto", "--format", "jsonl")
    ours, theirs = (
        [json.loads(row) for row in run(*command, "--engine", engine)[0].splitlines()]
        for engine in ("torch", "ctranslate2")
    )
    assert ours[1]["hypotheses"][0]["parts"] > 1
    for one, other in zip(ours, theirs, strict=True):
        for key in ("parts", "text"):
            assert one["hypotheses"][0][key] == other["hypotheses"][0][key]


@pytest.mark.parametrize("blanks", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_hundred_thousand_characters_are_translated_in_bounded_time(trained, tmp_path, blanks):
    """As many steps as sentences of the trained length need, and little memory: no option is given."""
    words = (trained / "corpus" / "train.source").read_text().split()
    line = (" " if blanks else "").join(words * (100_000 // sum(map(len, words)) + 1))[:100_000]
    (tmp_path / "input").write_text(f"{words[0]}\n{line}\n{words[1]}\n")
    before = resource.getrusage(resource.RUSAGE_SELF)
    command = ("translate", trained / "run", "--input", tmp_path / "input", "--beam", "1", "--max-extra", "5")
    _, err = run(*command, "--output", tmp_path / "out", "--format", "jsonl")
    after = resource.getrusage(resource.RUSAGE_SELF)
    rows = [json.loads(row) for row in (tmp_path / "out").read_text().splitlines()]
    assert [row["source"] for row in rows] == [words[0], line, words[1]]
    assert rows[1]["hypotheses"][0]["parts"] > 1000
    assert "(lines 2)" in err
    assert after.ru_utime - before.ru_utime < 120
    assert after.ru_maxrss - before.ru_maxrss < 300 * 1024


def test_huge_is_a_multiple_of_the_training_sentences(trained, lines, longest, monkeypatch):
    model = posnmt.load(trained / "run")
    long = " ".join(lines)
    monkeypatch.setattr(parts, "HUGE", longest)
    assert model.hypotheses([long])[0][0].parts == 1, "eight times the training sentences are not too long"
    monkeypatch.setattr(parts, "MULTIPLE", 2)
    assert model.hypotheses([long])[0][0].parts > 1
    assert model.hypotheses([long], split="off")[0][0].parts == 1


def texts_of(line, side, decode, shares):
    """The texts of the parts of a line."""
    [found] = in_parts([Request(line)], side.encode([line]), side, decode, 500, shares)
    return [part.text for part in found.parts]


@given(st.lists(st.sampled_from(["Uns mebu zabi.", "Un gubi? ", "tido! ", "a"]), max_size=9), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_parts_have_as_many_sentences_as_a_model_has_learned(trained_side, pieces, together):
    """Each but the last has exactly so many, none is lost, and those asked for alone stay alone."""
    line = " ".join(pieces)
    each = sentences(line, "en")
    shares = [1.0] * together  # of training lines with so many sentences
    found = texts_of(line, trained_side, Decode(protect="off"), shares)
    assert "".join(found) == line
    wanted = [each[first : first + together] for first in range(0, len(each), together)]
    assert found == (["".join(some) for some in wanted] if len(wanted) > 1 else [line])
    assert texts_of(line, trained_side, Decode(split="huge"), shares) == [line]
