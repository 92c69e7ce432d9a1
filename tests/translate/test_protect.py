"""What of a line does not go through the model, by the commands, Python and the server, with real models."""

from __future__ import annotations

import json

import pytest

import posnmt
from posnmt.base.errors import UserError
from posnmt.config.schema import Subword
from posnmt.data.subword import Subwords
from posnmt.data.text import SideText
from posnmt.data.tokenise import Words
from posnmt.translate.protect import unread
from posnmt.translate.spans import joined
from tests.support.commands import run
from tests.support.serving import serving
from tests.support.untrained import LEARNED

WORDS = "uns mebu zabi"
PASSED = ["12/05/2024", "00:00:00,000 --> 00:00:01,000", "https://example.org/x", "%s: {name}", "1.5", "`ls`", "☃ 42"]
SPANS = [
    f"uns {span} mebu zabi" for span in ("{name}", "%1$s", "<x1>", "/usr/bin/x", "https://a.b/c", "`x y`", "a@b.de")
]


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """The run, and its export to CTranslate2."""
    pytest.importorskip("ctranslate2")
    exported = tmp_path_factory.mktemp("protect") / "exported"
    run("export", LEARNED, "--format", "ctranslate2", "--out", exported)
    return [LEARNED, exported]


def rows(folder, lines, *options):
    out, err = run("translate", folder, "--format", "jsonl", *options, stdin="".join(f"{line}\n" for line in lines))
    return [json.loads(row) for row in out.splitlines()], err


def test_lines_without_words_pass_on(engines):
    for folder in engines:
        read, err = rows(folder, [*PASSED, WORDS])
        assert [row["hypotheses"][0]["text"] for row in read[:-1]] == PASSED
        assert all(row["hypotheses"][0]["subwords"] == [] for row in read[:-1])
        assert read[-1]["hypotheses"][0]["subwords"] != []
        assert f"note: {len(PASSED)} lines without words" in err


@pytest.mark.parametrize(
    "options", [(), ("--nbest", "3", "--beam", "3"), ("--beam", "1"), ("--split", "sentences"), ("--mbr", "2")]
)
def test_every_translation_has_the_spans_of_its_line(engines, options):
    for folder in engines:
        read, err = rows(folder, SPANS, *options)
        for line, row in zip(SPANS, read, strict=True):
            [span] = row["protected"]
            assert span in line
            assert row["differing"] == row["unknown"] == []
            assert row["hypotheses"]
            assert all(each["text"].count(span) == 1 for each in row["hypotheses"])
        assert "warning" not in err


def test_samples_and_alignments_have_spans_too():
    read, _ = rows(LEARNED, SPANS, "--sample", "--nbest", "2", "--alignments")
    for line, row in zip(SPANS, read, strict=True):
        assert all(row["protected"][0] in each["text"] for each in row["hypotheses"])
        assert [line[word["start"] : word["end"]] for word in row["source_words"]] == WORDS.split()


def test_unknown_words_are_carried_over_and_named(engines):
    for folder in engines:
        read, err = rows(folder, ["uns ☃ mebu 漢字 zabi", WORDS])
        assert (read[0]["unknown"], read[0]["protected"]) == (["☃", "漢字"], ["☃", "漢字"])
        assert {"☃", "漢字"} <= set(read[0]["hypotheses"][0]["text"].split())
        assert read[1]["unknown"] == []
        assert "1 of 2 lines contain characters that the vocabulary lacks" in err
        assert "(lines 1)" in err


@pytest.fixture(scope="module")
def side():
    """A text pipeline that knows Latin letters without marks, digits and some Japanese."""
    lines = [f"the {letter} uns 0123456789 東京 大学 に ." for letter in "abcdefghijklmnopqrstuvwxyz"] * 3
    return SideText(Words("en"), Subwords.learn(lines, Subword(vocabulary=60), "shared"), reads_forms=True)


@pytest.mark.parametrize(
    ("text", "carried"),
    [
        ("uns 10² zabi", ["10²"]), ("5 m², so", ["m²,"]), ("„uns“ zabi", ["„", "“"]), ("naïve uns", ["naïve"]),
        ("a ☃☃ b☃", ["☃☃", "☃"]), ("東京☃大学鬱に", ["☃"]), ("東京 鬱 に", ["鬱"]), ("the k\u0301 uns", ["k\u0301"]),
        ("a 👨\u200d👩\u200d👧 b ❤\ufe0f", ["👨\u200d👩\u200d👧", "❤\ufe0f"]), ("1\ufe0f\u20e3 a", ["1\ufe0f\u20e3"]),
        ("👩🏽\u200d💻 a", ["👩🏽\u200d💻"]),
        ("می\u200cخواهم the", ["می\u200cخواهم"]), ("क\u094d\u200dष the", ["क\u094d\u200dष"]),
    ],
)  # fmt: skip
def test_what_is_carried_over_of_unknown_characters(side, text, carried):
    """Whole words, so that `10²` is no 10; signs with their joiners; in scripts without blanks no part of a word."""
    assert [text[start:end] for start, end in joined(unread(text, side))] == carried


def test_a_glossary_says_what_becomes_of_an_unknown_word(tmp_path):
    path = tmp_path / "terms"
    path.write_text("漢字\tmebu\n")
    read, _ = rows(LEARNED, ["uns 漢字 zabi", "uns 漢字 ☃"], "--terms", path)
    assert [row["protected"] for row in read] == [[], ["☃"]]
    assert [row["missing_terms"] for row in read] == [[], []]
    assert all("mebu" in row["hypotheses"][0]["text"] for row in read)


def test_terms_do_not_stand_in_spans(tmp_path):
    path = tmp_path / "terms"
    path.write_text("login\tmebu\n")
    read, err = rows(LEARNED, ["uns /usr/bin/login zabi", "/usr/bin/login"], "--terms", path)
    assert [row["missing_terms"] for row in read] == [[], []]
    assert "mebu" not in read[0]["hypotheses"][0]["text"]
    assert "term" not in err


def test_a_line_with_a_prefix_goes_through_the_model(tmp_path):
    path = tmp_path / "prefix"
    path.write_text("uns\n\n")
    (tmp_path / "lines").write_text("12/05/2024\n12/05/2024\n")
    out, _ = run("translate", LEARNED, "--input", tmp_path / "lines", "--prefix", path)
    assert out.splitlines()[0].startswith("uns")
    assert out.splitlines()[1] == "12/05/2024"


def test_breaks_reach_no_output():
    lines = ["12\t34", "uns `a\tb` zabi", "☃\u2028☃ uns", "<a\thref='x'> uns", "\u00a0 1"]
    out, _ = run("translate", LEARNED, "--nbest", "2", stdin="".join(f"{line}\n" for line in lines))
    assert {len(line.split("\t")) for line in out.split("\n")[:-1]} == {3}
    assert len(out.splitlines()) == out.count("\n")
    assert "\u00a0 1\n" in out


def test_sentences_are_not_parted_in_a_span():
    read, _ = rows(LEARNED, ["uns `a. B` zabi. mebu src/main.py and ./configure. zabi"], "--split", "sentences")
    for span in ("`a. B`", "src/main.py", "./configure"):
        assert any(each.startswith(span) for each in read[0]["protected"])  # full stops are unknown, and touch them
    assert read[0]["differing"] == []


def test_words_of_a_line_with_spans_have_their_places():
    read, _ = rows(LEARNED, SPANS, "--alignments")
    for row in read:
        [best, *_] = row["hypotheses"]
        for word in best["words"]:
            assert best["text"][word["start"] : word["end"]] == word["text"]
            assert row["protected"][0] not in word["text"]
        assert [row["source"][word["start"] : word["end"]] for word in row["source_words"]] == WORDS.split()


def test_off_protects_nothing_and_names_what_is_unknown():
    read, err = rows(LEARNED, ["☃ uns {name}", "12"], "--protect", "off")
    assert (read[0]["protected"], read[0]["unknown"][0]) == ([], "☃")
    assert "{name}" not in read[0]["hypotheses"][0]["text"]
    assert "carried over" not in err
    assert "pass" not in err


def test_own_patterns(tmp_path):
    path = tmp_path / "patterns"
    path.write_text("mebu \\w+\n")
    read, _ = rows(LEARNED, [WORDS], "--protect", path)
    assert read[0]["protected"] == ["mebu zabi"]
    assert posnmt.load(LEARNED).hypotheses([WORDS], protect=["mebu \\w+"])[0][0].protected == ["mebu zabi"]
    with pytest.raises(UserError, match="regular expression"):
        posnmt.load(LEARNED).translate([WORDS], protect=["("])


def test_unknown_is_never_written_unless_asked_for():
    model = posnmt.load(LEARNED)
    lines = ["uns mebu", "zabi uns mebu"]
    settings = {"temperature": 50.0, "seed": 1}  # all subwords are about as probable
    for allow, wanted in ((False, False), (True, True)):
        drawn = model.hypotheses(lines * 10, 8, sampling=settings, allow_unk=allow, min_length=20)
        assert any("⁇" in each.text for of_line in drawn for each in of_line) is wanted


def test_an_empty_line_stays_empty_and_one_of_invisible_marks_passes_on():
    out, err = run("translate", LEARNED, stdin="\n\u00ad\u200d\n \n")
    assert out == "\n\u00ad\u200d\n\n"
    assert "1 lines without words" in err


def test_a_line_whose_words_are_all_unknown_passes_on_and_the_note_does_not_say_that_it_has_no_words():
    out, err = run("translate", LEARNED, stdin="Привет мир\n")
    assert out == "Привет мир\n"
    assert "note: 1 lines without words that the model can read are passed on as they are (lines 1)" in err


def test_the_server_answers_with_the_same():
    lines = ["uns ☃ {name} zabi", "12/05/2024", WORDS]
    with serving(LEARNED) as server:
        _, answer, _ = server.post("/v1/translate", {"text": "\n".join(lines)})
    [text] = answer["translations"]
    expected, _ = rows(LEARNED, lines)
    for name in ("unknown", "protected", "differing"):
        assert [line[name] for line in text["lines"]] == [row[name] for row in expected]
    assert text["text"].split("\n") == [row["hypotheses"][0]["text"] for row in expected]
    assert any("vocabulary lacks" in warning for warning in answer["warnings"])
