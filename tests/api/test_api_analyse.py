"""`posnmt.analyse`: lists or files, rows, and the report."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, TER

import posnmt
from posnmt.evaluation.analyse.analyse import analyse as measure
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings

SOURCE = [f"one two three {number}" for number in range(6)] + [
    f"a b c d e f g h i j k l {number}" for number in range(6)
]
REFERENCE = [line.upper() for line in SOURCE]
OUTPUTS = {"good": REFERENCE, "poor": [line.upper().replace("T", "D").replace("A", "X") for line in SOURCE]}

SCORES = {name: [0.5] * len(SOURCE) for name in OUTPUTS}


@pytest.fixture
def files(tmp_path):
    texts = {"source": SOURCE, "reference": REFERENCE, **OUTPUTS}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {name: tmp_path / name for name in texts}


def test_lists_and_files_are_measured_alike(files):
    lists = posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, samples=50, max_trained_length=10)
    outputs = {name: files[name] for name in OUTPUTS}
    paths = posnmt.analyse(str(files["source"]), files["reference"], outputs, samples=50, trained_on=SOURCE[:1] * 3)
    settings = Settings(max_trained_length=10, resampling=Resampling(50))
    expected = measure(files["source"], files["reference"], outputs, settings).results
    differing = {key for key in expected if lists.results[key] != expected[key]}
    assert differing == {"inputs"}, "also the citation names the source alike"
    assert [each["path"] for each in lists.results["inputs"]] == [
        "source", "reference", "outputs['good']", "outputs['poor']",
    ]  # fmt: skip
    assert [each["sha256"] for each in lists.results["inputs"]] == [each["sha256"] for each in expected["inputs"]]
    assert paths.results["training"] == {"shortest": 4, "longest": 4}
    assert paths.results["inputs"][-1]["path"] == "trained_on"
    assert lists.verdict == expected["verdict"]["sentence"]


def test_rows_are_those_of_the_csv_files(tmp_path):
    analysis = posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, samples=50, bin_edges=[10])
    page = analysis.report(tmp_path / "report", examples=3)
    assert page.read_text(encoding="utf-8").startswith("<!")
    assert json.loads((page.parent / "results.json").read_text(encoding="utf-8")) == analysis.results
    for table in ("scores", "significance", "positions", "lengths"):
        with (page.parent / f"{table}.csv").open(encoding="utf-8", newline="") as stream:
            written = list(csv.DictReader(stream))
        shown = [{key: "" if each is None else str(each) for key, each in row.items()} for row in analysis.rows(table)]
        assert shown == written
    best = analysis.rows()[0]
    assert (best["system"], best["bin"], best["n"]) == ("good", "all", 12)
    assert best["bleu"] == pytest.approx(100)
    assert analysis.rows("seeds") == analysis.rows("swap") == []


def test_swapped_sources():
    swapped = {("good", 0.5): OUTPUTS["poor"]}
    rows = posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, swapped=swapped, samples=0).rows("swap")
    assert [(row["system"], row["share"]) for row in rows] == [("good", 0), ("good", 0.5)]


def test_several_references_and_scores_from_elsewhere(files):
    scores = {"comet": {"good": [0.5] * 12, "poor": [0.25] * 11 + [0.75]}}
    other = [line.lower() for line in REFERENCE]
    options = {"samples": 0, "metrics": ["bleu"], "scores": scores}
    analysis = posnmt.analyse(SOURCE, [files["reference"], other], OUTPUTS, **options)
    assert {row["system"]: row["comet"] for row in analysis.rows() if row["bin"] == "all"} == {
        "good": 0.5, "poor": pytest.approx(3.5 / 12),
    }  # fmt: skip
    paths = [each["path"] for each in analysis.results["inputs"]]
    assert paths[1:3] == [str(files["reference"]), "reference[1]"]
    assert "scores['comet']['poor']" in paths
    with pytest.raises(posnmt.UserError, match=r"scores\['comet'\]\['good'\]"):
        posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, scores={"comet": {"good": ["much"] * 12, "poor": [0.5] * 12}})


def test_none_is_a_reference_that_a_sentence_lacks():
    references = [[None, *REFERENCE[1:]], [REFERENCE[0].lower(), *[None] * 5, *REFERENCE[6:]]]
    analysis = posnmt.analyse(SOURCE, references, OUTPUTS, samples=0)
    overall = {row["system"]: row for row in analysis.rows() if row["bin"] == "all"}
    for name, lines in OUTPUTS.items():
        assert overall[name]["bleu"] == pytest.approx(BLEU(force=True).corpus_score(lines, references).score, rel=1e-12)
        assert overall[name]["ter"] == pytest.approx(TER().corpus_score(lines, references).score, rel=1e-12)
    empty = [[line or "" for line in text] for text in references]
    assert posnmt.analyse(SOURCE, empty, OUTPUTS, samples=0).results["systems"] == analysis.results["systems"]
    for alone in (references[0], [references[0]]):
        with pytest.raises(posnmt.UserError, match=r"type NoneType \(reference(\[0\])?\[0\]\)"):
            posnmt.analyse(SOURCE, alone, OUTPUTS, samples=0)


@pytest.mark.parametrize(
    ("outputs", "settings", "message"),
    [
        (OUTPUTS, {"sample": 3}, "no setting of an analysis is called 'sample'.*did you mean 'samples'"),
        (OUTPUTS, {"samples": -1}, "0 or more"),
        ({"short": REFERENCE[:3]}, {}, r"outputs\['short'\] has 3"),
        ({"bad": [*REFERENCE[:-1], 5]}, {}, r"type int \(outputs\['bad'\]\[11\]\)"),
        ({"path": "no/such/file"}, {}, "does not exist"),
        (REFERENCE, {}, r"\(outputs\); give a dictionary: name of a system"),
        ({}, {}, "no output to analyse"),
        ({3: REFERENCE}, {}, r"a text is needed; got 3 \(outputs\[3\]\)"),
        (OUTPUTS, {"metrics": []}, r"at least 1 item .*\(metrics\)"),
        (OUTPUTS, {"metrics": "blue"}, "no metric is called 'blue'"),
        (OUTPUTS, {"bin_edges": "10,20"}, r"a list is needed; got '10,20' \(bin_edges\)"),
        (OUTPUTS, {"bin_edges": [10, "x"]}, r"a whole number is needed; got 'x' \(bin_edges\[1\]\)"),
        (OUTPUTS, {"bin_width": "wide"}, r"a whole number is needed; got 'wide' \(bin_width\)"),
        (OUTPUTS, {"max_trained_length": [9]}, r"a whole number is needed; got \[9\] \(max_trained_length\)"),
        (OUTPUTS, {"samples": 40.5}, r"a whole number is needed; got 40.5 \(samples\)"),
        (OUTPUTS, {"samples": "many"}, r"a whole number is needed; got 'many' \(samples\)"),
        (OUTPUTS, {"subword_model": 5}, r"valid path.*; got 5 \(subword_model\)"),
        (OUTPUTS, {"processes": 0}, r"a number above 0 is needed; got 0 \(processes\)"),
        (OUTPUTS, {"scores": {"comet": [0.1] * 12}}, r"valid dictionary; got .* \(scores\['comet'\]\); give"),
        ({"x\x0by": REFERENCE}, {}, r"an output cannot be called 'x\\x0by'"),
        ({"": REFERENCE}, {}, "an output cannot be called ''"),
        ({"x" * 201: REFERENCE}, {}, "the name of an output has 201 characters"),
        (OUTPUTS, {"scores": {"bleu": SCORES}}, "'bleu' is counted here"),
        (OUTPUTS, {"scores": {"length-ratio": SCORES}}, "'length-ratio' is counted here"),
        (OUTPUTS, {"scores": {"name": SCORES}}, "'name' is a field of the results"),
        (OUTPUTS, {"scores": {"COMET/22": SCORES}}, "a metric's name has letters.*got 'COMET/22'"),
        (OUTPUTS, {"swapped": {("good", 0.0): SOURCE}}, "above 0 and at most 1; got 0 of 'good'"),
        (OUTPUTS, {"swapped": {("good", float("nan")): SOURCE}}, "above 0 and at most 1; got nan of 'good'"),
        (OUTPUTS, {"swapped": {("mine", 0.5): SOURCE}}, "no output is called 'mine'.*choose from good, poor"),
        (OUTPUTS, {"swapped": {"good": SOURCE}}, r"valid tuple; got 'good' \(swapped\['good'\]\); give"),
    ],
)
def test_faults_name_the_argument(outputs, settings, message):
    with pytest.raises(posnmt.UserError, match=message) as fault:
        posnmt.analyse(SOURCE, REFERENCE, outputs, **settings)
    assert "posnmt-" not in str(fault.value)


def test_what_is_no_list():
    for reference, settings, message in [
        (5, {}, "reference is of type int, not a list"),
        ([REFERENCE, 5], {}, r"reference\[1\] is of type int, not a list"),
        (REFERENCE, {"scores": {"comet": {"a": 5}}}, r"scores\['comet'\]\['a'\] is of type int, not a list"),
    ]:
        with pytest.raises(posnmt.UserError, match=message):
            posnmt.analyse(SOURCE, reference, OUTPUTS, **settings)


def test_numbers_of_numpy_and_one_metric():
    numbers = {"samples": np.int32(40), "bin_width": np.int64(5), "max_trained_length": np.uint8(9), "metrics": "bleu"}
    settings = posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, **numbers).results["settings"]
    assert (settings["samples"], settings["metrics"]) == (40, ["bleu"])


@pytest.mark.parametrize("value", [True, "40", 40.0])
@pytest.mark.parametrize("name", ["samples", "bin_width", "max_trained_length", "seed"])
def test_booleans_and_text_are_no_numbers(name, value):
    with pytest.raises(posnmt.UserError, match=rf"a whole number is needed; got {value!r} \({name}\)"):
        posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, **{name: value})


@pytest.mark.parametrize("examples", ["all", -1])
def test_examples_are_a_number(examples, tmp_path):
    analysis = posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, samples=0)
    with pytest.raises(posnmt.UserError, match=rf"; got {examples!r} \(examples\)"):
        analysis.report(tmp_path / "report", examples)
    assert not (tmp_path / "report").exists()


def test_no_such_table():
    with pytest.raises(posnmt.UserError, match="did you mean 'scores'"):
        posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, samples=0).rows("score")
