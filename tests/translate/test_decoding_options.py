"""Samples, candidates, prefixes and least lengths, as `posnmt translate` and the Python API offer them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import posnmt
from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.data import lines as portions
from posnmt.translate.options import named_as_options
from posnmt.translate.requests import Search
from tests.support import corpus
from tests.support.commands import refused, run

LEARNED = Path(__file__).parents[1] / "frozen" / "learned"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learned a little."""
    folder = tmp_path_factory.mktemp("trained")
    run("train", corpus.make(folder), "--out", folder / "run", "--set", "train.steps=20", "--set", "train.average=1")
    return folder


def texts_of(trained, side):
    return (trained / "corpus" / f"test.{side}").read_text().splitlines()[:12]


@pytest.fixture
def lines(trained):
    return texts_of(trained, "source")


@pytest.fixture
def source(lines, tmp_path):
    path = tmp_path / "source"
    path.write_text("\n".join([*lines[:5], "", *lines[5:]]) + "\n")
    return path


def test_samples_of_a_line_do_not_depend_on_the_others(trained, source, tmp_path):
    words = ("translate", trained / "run", "--sample", "--temperature", "1.5", "--seed", "3")
    text = source.read_text()
    whole, _ = run(*words, "--input", source)
    assert run(*words, "--input", source, "--batch", "32")[0] == whole
    assert run(*words, stdin=text)[0] == whole
    assert run(*words[:-1], "4", "--input", source)[0] != whole
    two, _ = run(*words, "--input", source, "--nbest", "2", "--format", "jsonl")
    rows = [json.loads(line) for line in two.splitlines()]
    assert [(row["hypotheses"] or [{"text": ""}])[0]["text"] for row in rows] == whole.splitlines()
    assert [len(row["hypotheses"]) for row in rows] == [2] * 5 + [0] + [2] * 7


def test_candidates_are_ranked_by_their_similarity(trained, source):
    from sacrebleu.metrics import CHRF

    words = ("translate", trained / "run", "--input", source, "--sample", "--temperature", "2", "--format", "jsonl")
    drawn = [json.loads(line)["hypotheses"] for line in run(*words, "--nbest", "6")[0].splitlines()]
    chosen = [json.loads(line)["hypotheses"] for line in run(*words, "--mbr", "6")[0].splitlines()]
    for candidates, best in zip(drawn, chosen, strict=True):
        texts = [each["text"] for each in candidates]
        similar = {text: sum(CHRF().sentence_score(text, [other]).score for other in texts) for text in texts}
        assert [similar[each["text"]] for each in best] == [max(similar.values())] if texts else not best
    assert any(best != candidates[:1] for candidates, best in zip(drawn, chosen, strict=True))


@pytest.mark.parametrize("options", [(), ("--alignments",)])
def test_every_line_has_rows_in_an_n_best_list(trained, source, options):
    source.write_text("\n \n" + source.read_text() + "\n")
    words = ("translate", trained / "run", "--input", source, "--beam", "3", "--nbest", "2", *options)
    rows = [row.split("\t") for row in run(*words)[0].splitlines()]
    records = [json.loads(line) for line in run(*words, "--format", "jsonl")[0].splitlines()]
    expected = [
        [str(record["line"]), f"{each['score']:.6f}" if each else "", each.get("text", "")]
        for record in records
        for each in record["hypotheses"] or [{}]
    ]
    assert [row[:3] for row in rows] == expected
    assert {len(row) for row in rows} == {3 + len(options)}
    blank = [int(row[0]) for row in rows if not row[1]]
    assert blank == [number for number, line in enumerate(source.read_text().splitlines(), 1) if not line.strip()]
    assert len(blank) == 4


def test_a_prefix_for_each_line(trained, source, tmp_path, monkeypatch):
    monkeypatch.setattr(portions, "FIRST", 3)
    monkeypatch.setattr(portions, "LARGEST", 4)
    free, _ = run("translate", trained / "run", "--input", source)
    begun = [line.split()[:2] if number % 2 else [] for number, line in enumerate(texts_of(trained, "target"))]
    begun.insert(5, [])  # of the empty line
    prefix = tmp_path / "prefix"
    prefix.write_text("".join(" ".join(words) + "\n" for words in begun))
    out, _ = run("translate", trained / "run", "--input", source, "--prefix", prefix)
    for line, without, words in zip(out.splitlines(), free.splitlines(), begun, strict=True):
        assert line.startswith(" ".join(words))
        assert words or line == without
    with (tmp_path / "prefix").open("a") as file:
        file.write("one more\n")
    [told] = refused("translate", trained / "run", "--input", source, "--prefix", prefix)
    assert "different line counts" in told
    prefix.write_text("".join("猫 und 犬\n" if number == 0 else "\n" for number, words in enumerate(begun)))
    [told] = refused("translate", trained / "run", "--input", source, "--prefix", prefix)
    assert (
        "a prefix contains characters that the vocabulary lacks: '猫', '犬' (the prefixes:1); write it in others"
        in told
    )
    [told] = refused("translate", trained / "run", "--prefix", prefix, stdin="a\n")
    assert "name a file" in told


def test_the_python_api_has_them(trained, source, lines):
    model = posnmt.load(trained / "run")
    drawn = model.translate(lines, sampling={"seed": 3, "top_k": 5}, min_length=2)
    path = source.with_name("without")
    path.write_text("\n".join(lines) + "\n")
    words = ("--sample", "--seed", "3", "--top-k", "5", "--min-length", "2")
    assert run("translate", trained / "run", "--input", path, *words)[0].splitlines() == drawn
    prefixes = [text.split()[0] for text in texts_of(trained, "target")]
    begun = model.translate(lines, prefixes=prefixes)
    assert all(text.startswith(prefix) for text, prefix in zip(begun, prefixes, strict=True))
    assert len(model.hypotheses(lines[:1], nbest=7, sampling={})[0]) == 7
    with pytest.raises(UserError, match="12 lines have 1 prefixes"):
        model.translate(lines, prefixes=["a"])
    with pytest.raises(UserError, match=r"sampling.temperature: a number above 0 is needed"):
        model.translate(lines, sampling={"temperature": -1})


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--temperature", "2"), "add --sample"),
        (("--nbest", "3", "--beam", "2"), "the beam keeps 2"),
        (
            ("--mbr", "2", "--nbest", "3", "--beam", "4"),
            "wanted of 2 candidates (--mbr); raise --mbr",
        ),
        (
            ("--mbr", "9", "--beam", "4"),
            "and the beam keeps 4 (--mbr); raise --beam",
        ),
        (("--coverage-penalty", "0.2", "--sample"), "not available with samples (--coverage-penalty); leave"),
        (("--max-source", "3"), "15 subwords, but decode.max_source allows 3 (and 11 more such lines)"),
        (
            ("--max-source", "3", "--engine", "ctranslate2"),
            "15 subwords, but decode.max_source allows 3 (and 11 more such lines)",
        ),
        (("--engine", "ctranslate2", "--sample"), "not available with CTranslate2 here (--sample)"),
        (("--engine", "ctranslate2", "--min-length", "3"), "not available with CTranslate2 here (--min-length)"),
    ],
)
def test_what_cannot_be_combined(trained, source, options, fault):
    [told] = refused("translate", trained / "run", "--input", source, *options)
    assert fault in told


def test_a_setting_of_the_configuration_is_named_as_such():
    with pytest.raises(UserError, match=r"wanted of 2 candidates \(decode\.mbr\)"), named_as_options({"nbest", "beam"}):
        Search(Decode(beam=4, mbr=2), 3).refuse_too_many()


def test_auto_takes_pytorch_where_it_must(trained, source):
    words = ("translate", trained / "run", "--input", source, "--sample", "--seed", "9")
    out, err = run(*words, "--engine", "auto")
    assert "note: translated by PyTorch: not available with CTranslate2 here (decode.sampling)\n" in err
    assert out == run(*words)[0]


@pytest.mark.parametrize("engine", ["torch", "ctranslate2", "auto"])
@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--max-ratio", "inf"), "--max-ratio: a number above 0 and of 1,000 or less is needed; got 'inf'"),
        (("--length-penalty", "1e9"), "--length-penalty: a number from 0 to 10 is needed; got '1e9'"),
        (("--beam", "9" * 20), f"--beam: a whole number from 1 to 1,000 is needed; got '{'9' * 20}'"),
    ],
)
def test_settings_out_of_range_for_every_engine(engine, options, fault):
    """No traceback of pydantic, nor of powers and sizes that overflow in search."""
    [line] = refused("translate", LEARNED, "--engine", engine, *options, stdin="uns\n")
    assert line.partition("; see ")[0] == f"error: {fault}"


def test_samples_have_no_beam():
    """As an option; that of a run's configuration is none, and does not matter."""
    [line] = refused("translate", LEARNED, "--sample", "--beam", "3", stdin="uns\n")
    assert "(--beam)" in line
    assert "--sample" in line
    assert run("translate", LEARNED, "--sample", stdin="uns\n")[0]
