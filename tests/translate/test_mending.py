"""Lines of several sentences whose second sentence a model drops: reported, or translated again."""

from __future__ import annotations

import json
import shutil
import warnings
from typing import get_args

import pytest
from safetensors.torch import load_file, save_file

import posnmt
from posnmt.config.schema import Split
from posnmt.data.subword import EOS
from posnmt.translate.omissions import intervals
from posnmt.translate.several import most_learned
from tests.support import single
from tests.support.commands import run

WARNING, NOTE = "translations leave out sentences of their lines", "were translated again a sentence at a time"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of single sentences; `learned` is the same with a record that says otherwise, `silent` writes nothing."""
    folder = single.learned(tmp_path_factory)
    for name in ("learned", "silent"):
        shutil.copytree(folder / "run", folder / name)
    record = posnmt.Run.open(folder / "learned").record
    counts = {"source": [1.0, 0.4], "target": [1.0, 0.4]}
    posnmt.Run.open(folder / "learned").write_record({**record, "sentences_per_line": counts})
    weights = load_file(folder / "silent" / "model.safetensors")
    weights["output.bias"][EOS] += 100.0
    save_file(weights, folder / "silent" / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def lines(folder):
    """One, two and three sentences a line, and an empty line."""
    known = single.sentences(folder)
    return [known[0], f"{known[1]} {known[8]}", "", f"{known[2]} {known[5]} {known[9]}", f"{known[3]} {known[11]}"]


def rows(folder, name, lines, *options):
    """JSONL and standard error of `translate`."""
    text = "".join(f"{line}\n" for line in lines).encode()
    out, err = run("translate", folder / name, "--format", "jsonl", *options, stdin=text)
    return [json.loads(row) for row in out.splitlines()], err


def own_text(text):
    """How many sentences a translation has."""
    return len(intervals(text, "de"))


@pytest.mark.parametrize(
    ("engine", "split", "complete"),
    [
        *(("torch", split, complete) for split in get_args(Split) for complete in ("as-trained", "mend", "warn")),
        ("ctranslate2", "huge", "mend"),
        ("ctranslate2", "huge", "warn"),
    ],
)
def test_every_sentence_has_text_of_its_own_or_is_reported(folder, lines, engine, split, complete):
    found, err = rows(folder, "run", lines, "--split", split, "--complete", complete, "--engine", engine)
    lost = 0
    for row in found:
        count = len(intervals(row["source"], "en"))
        written = own_text(row["hypotheses"][0]["text"]) if row["hypotheses"] else 0
        assert count <= written + len(row["omitted"])
        for each in row["omitted"]:
            assert row["source"][each["start"] : each["end"]] == each["text"]
            assert (each["start"], each["end"]) in intervals(row["source"], "en")
        lost += bool(row["omitted"])
    mended = sum(row["mended"] for row in found)
    assert (WARNING in err, NOTE in err) == (lost > 0, mended > 0)
    if complete == "warn" or split == complete == "off":
        assert not mended
    if split in ("huge", "off"):
        assert lost + mended > 0, "the model drops sentences"
    if "mend" in (complete, split) or split == "sentences":
        assert lost == 0


def test_a_mended_line_is_its_sentences_translated_alone(folder, lines):
    """Texts, scores, words, links and n-best lists are theirs."""
    options = ("--alignments", "--nbest", "2", "--beam", "2")
    apart, _ = rows(folder, "run", lines, *options, "--split", "sentences")
    whole, _ = rows(folder, "run", lines, *options, "--split", "off", "--complete", "off")
    found, err = rows(folder, "run", lines, *options, "--split", "huge")
    assert "of 5 lines were translated again a sentence at a time" in err
    changed = [row["line"] for row in found if row["mended"]]
    lost = [
        row["line"]
        for row in whole
        if row["hypotheses"] and own_text(row["hypotheses"][0]["text"]) < len(intervals(row["source"], "en"))
    ]
    assert changed == lost != []
    assert f"(lines {', '.join(map(str, changed))})" in err
    for one, other, unmended in zip(found, apart, whole, strict=True):
        wanted = other if one["mended"] else unmended
        assert one["source_words"] == wanted["source_words"]
        assert [each["alignment"] for each in one["hypotheses"]] == [each["alignment"] for each in wanted["hypotheses"]]
        for key in ("text", "subwords", "parts", "words", "ended"):
            assert [each[key] for each in one["hypotheses"]] == [each[key] for each in wanted["hypotheses"]]
        assert not one["omitted"]
        assert not one["in_sentences"]


def test_single_sentences_are_translated_as_before(folder):
    known = single.sentences(folder)
    before, _ = rows(folder, "run", known, "--split", "off", "--complete", "off")
    for complete in ("mend", "warn"):
        assert rows(folder, "run", known, "--split", "off", "--complete", complete)[0] == before


def test_what_the_training_had_decides_and_is_said(folder, lines, tmp_path):
    """By default: sentence by sentence where training had few such lines, two at a time where it had many of two."""
    found, err = rows(folder, "run", lines)
    assert [row["in_sentences"] for row in found] == [False, True, False, True, True]
    assert "note: 3 of 5 lines contain several sentences and were translated a sentence at a time, as 0 % of" in err
    assert "see --split (lines 2, 4, 5)" in err
    asked, err = rows(folder, "run", lines, "--split", "sentences")
    assert [row["hypotheses"] for row in asked] == [row["hypotheses"] for row in found]
    assert "several sentences" not in err, "who asks for it needs no note"
    whole, err = rows(folder, "learned", lines, "--complete", "warn")
    assert [row["hypotheses"][0]["parts"] for row in whole if row["hypotheses"]] == [1, 1, 2, 1]
    assert [row["in_sentences"] for row in whole] == [False, False, False, True, False]
    assert "1 of 5 lines contain more than 2 sentences and were translated at most 2 at a time, as 0 % of the" in err
    assert [bool(row["omitted"]) for row in whole] == [False, True, False, True, True], "it was trained on single ones"
    assert WARNING in err
    whole, _ = rows(folder, "learned", lines)
    assert [row["mended"] for row in whole] == [False, True, False, True, True]
    assert [own_text(row["hypotheses"][0]["text"]) for row in whole if row["hypotheses"]] == [1, 2, 3, 2]
    shutil.copytree(folder / "run", tmp_path / "unknown")
    opened = posnmt.Run.open(tmp_path / "unknown")
    record = opened.record
    del record["sentences_per_line"]
    opened.write_record(record)
    unknown, err = rows(tmp_path, "unknown", lines)
    assert [row["hypotheses"] for row in unknown] == [row["hypotheses"] for row in found]
    assert "as it is not recorded how many of the training lines had several" in err


def test_python_says_the_same(folder, lines):
    model = posnmt.load(folder / "run")
    with pytest.warns(posnmt.TranslationWarning, match="3 of 5 lines contain several sentences"):
        texts = model.translate(lines)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.translate(lines, split="sentences") == texts
    with pytest.warns(posnmt.TranslationWarning, match="contain sentences that their translations leave out"):
        model.translate(lines, split="off")
    with pytest.warns(posnmt.TranslationWarning, match="translated again a sentence at a time"):
        assert model.translate(lines, split="huge") == texts
    jsonl, _ = rows(folder, "run", lines, "--split", "off")
    for row, found in zip(jsonl, model.hypotheses(lines, split="off"), strict=True):
        for each in found:
            assert [(where.start, where.end) for where in each.omitted] == [
                (where["start"], where["end"]) for where in row["omitted"]
            ]
            assert (each.mended, each.in_sentences) == (row["mended"], row["in_sentences"])


def test_an_empty_translation_is_reported_and_tried_again(folder, lines):
    """Whatever the options: all sentences are missing. Another try has an output for each."""
    for options in (("--complete", "off"), ("--complete", "warn"), ("--complete", "off", "--split", "off")):
        found, err = rows(folder, "silent", lines, *options)
        for row in found:
            assert [each["text"] for each in row["omitted"]] == [
                row["source"][start:end] for start, end in intervals(row["source"], "en")
            ]
        assert "warning: 4 of 5 translations leave out" in err
    found, err = rows(folder, "silent", lines)
    assert sum(row["mended"] for row in found) >= 2
    assert all(bool(row["hypotheses"][0]["text"].strip()) == row["mended"] for row in found if row["hypotheses"])
    assert NOTE in err


def test_a_translation_that_its_limit_ends_is_tried_again_where_sentences_have_more_room(folder, lines):
    room = ("--max-ratio", "0.01", "--max-extra", "60", "--split", "huge")
    long = [" ".join(single.sentences(folder)[:4])]
    [alone], _ = rows(folder, "run", long, *room)
    assert (alone["mended"], alone["hypotheses"][0]["ended"], alone["omitted"]) == (True, True, [])
    tight = ("--max-ratio", "0.01", "--max-extra", "1", "--split", "huge")
    [cut], err = rows(folder, "run", long, *tight)
    assert not cut["hypotheses"][0]["ended"]
    assert "reached the output limit" in err


def test_samples_of_mended_lines_depend_on_the_line_alone(folder, lines):
    options = ("--sample", "--temperature", "0.2", "--split", "huge")

    def texts(*more, of=lines):
        return [
            [each["text"] for each in row["hypotheses"]] + [row["mended"]]
            for row in rows(folder, "run", of, *options, *more)[0]
        ]

    found = texts()
    assert any(mended for *_, mended in found)
    assert texts("--batch", "32") == found
    others = texts(of=[lines[0], lines[1], "", "", lines[4]])
    assert [others[place] for place in (0, 1, 4)] == [found[place] for place in (0, 1, 4)]


def test_terms_and_spans_hold_in_mended_lines(folder, tmp_path):
    """A part has the terms that its text asks for, and its own spans."""
    known = single.sentences(folder)
    word = known[8].split()[0]
    line = f"{known[1].rstrip('.')} {{name}}. {known[8]}"
    (tmp_path / "terms").write_text(f"{word}\tthok\n")
    [row], err = rows(folder, "run", [line], "--split", "huge", "--terms", tmp_path / "terms")
    assert (row["mended"], row["missing_terms"], row["protected"]) == (True, [], ["{name}"])
    [text] = [each["text"] for each in row["hypotheses"]]
    assert text.index("{name}") < text.index("thok")
    assert "other placeholders" not in err
    assert row["differing"] == []


def test_a_line_with_a_prefix_is_reported_and_not_mended(folder, lines, tmp_path):
    """As its parts cannot have the prefix; by default it stays whole."""
    (tmp_path / "input").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "prefix").write_text("\nSu\n\n\n\n")
    out, err = run(
        "translate", folder / "run", "--input", tmp_path / "input", "--prefix", tmp_path / "prefix", "--format", "jsonl"
    )
    found = [json.loads(row) for row in out.splitlines()]
    assert found[1]["hypotheses"][0]["text"].startswith("Su")
    assert [row["hypotheses"][0]["parts"] for row in found if row["hypotheses"]] == [1, 1, 3, 2]
    assert len(found[1]["omitted"]) >= 2 - own_text(found[1]["hypotheses"][0]["text"])
    assert not any(row["mended"] for row in found)
    assert ("(lines 2)" in err) == bool(found[1]["omitted"])


def test_lines_that_are_joined_stay_whole_and_are_mended_alone(folder, lines):
    (folder / "ids").write_text("book\n" * 20)
    context = ("--set", "data.train.documents=ids", "--set", "train.context=2", "--set", "train.steps=220")
    run("train", folder / "config.yaml", "--out", folder / "together", *context)
    known = single.sentences(folder)
    both = [f"{known[0]} {known[7]}", known[4]]
    found, _ = rows(folder, "together", both, "--join", "2")
    apart, _ = rows(folder, "together", both, "--split", "sentences")
    assert not any(row["in_sentences"] for row in found)
    for row, other in zip(found, apart, strict=True):
        count = len(intervals(row["source"], "en"))
        assert count <= own_text(row["hypotheses"][0]["text"]) + len(row["omitted"])
        if row["mended"]:
            assert row["hypotheses"][0]["text"] == other["hypotheses"][0]["text"]
            assert "joined" not in row["hypotheses"][0]
    assert found[0]["mended"], "the model drops sentences in company, too"


def test_an_exported_folder_does_the_same(folder, lines, tmp_path):
    for name in ("run", "learned"):
        run("export", folder / name, "--format", "ctranslate2", "--out", tmp_path / name)
        manifest = json.loads((tmp_path / name / "posnmt.json").read_text())
        record = posnmt.Run.open(folder / name).sentences_per_line
        assert manifest["sentences_per_line"] == record
        assert most_learned(record["source"]) == {"run": 1, "learned": 2}[name]
        ours, theirs = (
            rows(place, name, lines, "--engine", "ctranslate2", "--complete", "warn") for place in (folder, tmp_path)
        )
        assert [row["omitted"] for row in theirs[0]] == [row["omitted"] for row in ours[0]]
        assert [row["in_sentences"] for row in theirs[0]] == [row["in_sentences"] for row in ours[0]]
        assert sum(row["in_sentences"] for row in theirs[0]) == {"run": 3, "learned": 1}[name]
        mended, _ = rows(tmp_path, name, lines, "--split", "huge", "--complete", "mend")
        assert any(row["mended"] for row in mended)
