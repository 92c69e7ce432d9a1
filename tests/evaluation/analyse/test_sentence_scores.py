"""Sentence scores from elsewhere: a metric like any other, from files to the report."""

import json
import random

import numpy as np
import pytest
from click.testing import CliRunner

from posnmt.base.errors import UserError
from posnmt.cli.main import main
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.resample import bootstrap_sums, half_sums
from posnmt.evaluation.analyse.sentence_scores import STEP, parse_scores
from posnmt.evaluation.analyse.settings import Settings
from tests.support.analyse_case import OUTPUT, REFERENCE, SOURCE

SCORES = {"mine": [0.91, 0.4, 0.5, -0.25, 1, 0.333333333, 0.75], "other": [0.8, 0.45, 0.3, -0.5, 0.9, 0.1, 0.5]}
OUTPUTS = {"mine": REFERENCE, "other": OUTPUT}
FAVOUR = [[[0, 0], [6, 1]], [[1, 6], [0, 0]]]
"""Of each baseline, the sentences for the output of the row and for that of the column, if higher scores are better."""


@pytest.fixture
def case(files):
    """The paths of an analysis, and those of scores of its outputs."""
    outputs = {name: files(f"{name}.out", lines) for name, lines in OUTPUTS.items()}
    scores = {name: files(f"{name}.comet", values) for name, values in SCORES.items()}
    return files("s", SOURCE), files("r", REFERENCE), outputs, scores


def test_the_mean_and_all_that_comes_with_it(case, tmp_path):
    source, reference, outputs, scores = case
    call = ["analyse", "--source", str(source), "--reference", str(reference), "--bin-edges", "3,6"]
    for name in outputs:
        call += ["--output", f"{name}={outputs[name]}", "--scores", f"comet:{name}={scores[name]}"]
    call += ["--samples", "200", "--correction", "holm", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0, done.output
    results = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    assert results["settings"]["metrics"] == ["bleu", "chrf", "ter", "comet"]
    assert results["settings"]["scores"] == {"comet": {"higher_is_better": True, "decimals": 4}}
    lengths = np.array([len(line.split()) for line in SOURCE])
    parts = [lengths >= 0, lengths < 3, (lengths >= 3) & (lengths < 6), lengths >= 6]
    for system in results["systems"]:
        values = np.array(SCORES[system["name"]])
        for part, scored in zip(parts, [system["overall"], *system["bins"]], strict=True):
            assert scored["comet"] == pytest.approx(values[part].mean(), abs=STEP)
        low, high = system["intervals"]["overall"]["comet"]
        assert min(values) <= low < system["overall"]["comet"] < high <= max(values)
    tests = results["significance"]["metrics"]["comet"]["tests"]
    assert tests["sign_test"]["sentences"] == FAVOUR
    assert tests["paired_bootstrap"]["wins"][0][1] > 0.9
    rows = [each for each in results["inputs"] if each["role"].startswith("comet of")]
    assert [(each["role"], each["system"], each["lines"]) for each in rows] == [
        ("comet of mine", "mine", 7),
        ("comet of other", "other", 7),
    ]
    assert "higher is better" in results["signatures"]["comet"]
    for name in (
        "figures/comet-by-length.svg",
        "tables/comet-by-length.tex",
        "tables/significance-comet-sign-test.tex",
    ):
        assert (tmp_path / "out" / name).exists()
    mean = np.mean(SCORES["mine"])
    assert f"{mean:.4f}" in (tmp_path / "out/tables/overall.tex").read_text(encoding="utf-8")
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert f"{mean:.4f}" in page
    assert '<option value="3">comet</option>' in page


def test_lower_can_be_better(case):
    source, reference, outputs, scores = case
    options = {"metrics": ["bleu"], "resampling": Resampling(100)}
    higher = analyse(source, reference, outputs, Settings(**options), scores={"x": scores})
    lower = analyse(source, reference, outputs, Settings(lower_is_better=["x"], **options), scores={"x": scores})
    one, other = (each.results["significance"]["metrics"]["x"]["tests"] for each in (higher, lower))
    assert one["sign_test"]["sentences"] == FAVOUR == np.flip(other["sign_test"]["sentences"], axis=2).tolist()
    for test in ("paired_bootstrap", "sign_test", "approximate_randomisation"):
        assert one[test]["p"] == other[test]["p"]
    assert one["paired_bootstrap"]["wins"][0][1] == other["paired_bootstrap"]["wins"][1][0] > 0.9
    assert higher.results["systems"] == lower.results["systems"]
    assert lower.results["settings"]["scores"]["x"]["higher_is_better"] is False


def test_scores_of_another_metric_change_no_other(case):
    source, reference, outputs, scores = case
    settings = Settings(resampling=Resampling(100))
    without = analyse(source, reference, outputs, settings).results
    beside = analyse(source, reference, outputs, settings, scores={"comet": scores}).results
    for one, other in zip(without["systems"], beside["systems"], strict=True):
        assert one["overall"].items() <= other["overall"].items()
        assert one["intervals"]["overall"].items() <= other["intervals"]["overall"].items()
    metrics = beside["significance"]["metrics"]
    assert {name: each for name, each in metrics.items() if name != "comet"} == without["significance"]["metrics"]
    assert without["verdict"] == beside["verdict"]


def test_seeds_and_swapped_sources(case, files):
    source, reference, outputs, scores = case
    named = {"a:1": outputs["mine"], "a:2": outputs["other"]}
    swapped = {("a:1", 0.5): outputs["other"]}
    of_scores = {"a:1": scores["mine"], "a:2": scores["other"]}
    settings = Settings(metrics=["chrf"], resampling=Resampling(0))
    with pytest.raises(UserError, match=r"no scores of mqm for a:1:0.5 .*mqm:a:1:0.5=FILE"):
        analyse(source, reference, named, settings, swapped, scores={"mqm": of_scores})
    of_scores["a:1:0.5"] = scores["other"]
    results = analyse(source, reference, named, settings, swapped, scores={"mqm": of_scores}).results
    with pytest.raises(UserError, match=r"two outputs are called 'a:1', one of them swapped.*--swapped"):
        analyse(source, reference, {"a": outputs["mine"], "a:1": outputs["other"]}, settings, {("a", 1.0): reference})
    means = [np.mean(SCORES[name]) for name in ("mine", "other")]
    assert results["seeds"]["systems"][0]["overall"]["mqm"]["mean"] == pytest.approx(np.mean(means))
    assert results["swap"][0]["mqm"] == pytest.approx(means, abs=STEP)


def test_files_that_are_no_scores(case, files):
    source, reference, outputs, scores = case
    lines = ["0.5", "", "x", "nan", "1e9", "0.1", "1", "2"]
    with pytest.raises(UserError) as caught:
        analyse(source, reference, outputs, scores={"comet": {**scores, "other": files("bad", lines)}})
    text = "\n".join(caught.value.lines)
    for number, line in ((2, "''"), (3, "'x'"), (4, "'nan'")):
        assert f"comet of other: {line} is no number from -10,000 to 10,000" in text
        assert f"bad:{number})" in text
    assert "4 of 8 lines are no numbers" in text
    assert "8 lines for 7 sentences" in text
    with pytest.raises(UserError, match="does not exist"):
        analyse(source, reference, outputs, scores={"comet": {**scores, "other": source.parent / "gone"}})


def test_options_that_do_not_go(case):
    source, reference, outputs, scores = case
    with pytest.raises(
        UserError, match=r"no scores of comet for other .*give a file for every output: comet:other=FILE"
    ):
        analyse(source, reference, outputs, scores={"comet": {"mine": scores["mine"]}})
    with pytest.raises(UserError, match=r"no output is called 'she', of which there are scores of comet"):
        analyse(source, reference, outputs, scores={"comet": {**scores, "she": scores["mine"]}})
    with pytest.raises(UserError, match=r"no scores are called 'ter' \(--lower-is-better\)"):
        analyse(source, reference, outputs, Settings(lower_is_better=["ter"]), scores={"comet": scores})
    with pytest.raises(UserError, match="names that differ in case alone: comet, COMET"):
        analyse(source, reference, outputs, scores={"comet": scores, "COMET": scores})


def test_scores_on_the_command_line():
    parsed = parse_scores(["comet:a:1=x=y", "comet:b=z", "MetricX-24:a:1=q"])
    paths = {metric: {name: str(path) for name, path in each.items()} for metric, each in parsed.items()}
    assert paths == {"comet": {"a:1": "x=y", "b": "z"}, "MetricX-24": {"a:1": "q"}}
    with pytest.raises(UserError) as caught:
        parse_scores(
            ["comet=x", "comet:a", "x y:a=f", "BLEU:a=f", "length-ratio:a=f", "name:a=f", "comet:a=f", "comet:a=g"]
        )
    assert len(caught.value.lines) == 7
    assert "'BLEU' is counted here" in "\n".join(caught.value.lines)
    assert "'a' has two files of comet" in caught.value.lines[-1]


def test_sums_of_scores_are_exact():
    """Fractions and negative numbers beside counts, in every resample: equal to Python's own sums."""
    draw = random.Random(2)
    counts = [[draw.randrange(100), round(draw.uniform(-30, 1) / STEP) * STEP, 1] for _ in range(300)]
    rows = np.array(counts)[:, None]
    weights = [np.bincount(each, minlength=300) for each in np.random.default_rng([5, 0]).integers(0, 300, (4, 300))]
    (sums,) = bootstrap_sums(rows, np.zeros(300, int), 1, 4, 5)
    for total, times in zip(sums[:, 0, 0], weights, strict=True):
        expected = [
            sum(int(count) * row[column] for count, row in zip(times, counts, strict=True)) for column in range(3)
        ]
        assert total.tolist() == expected
    (halves,) = half_sums(rows, 50, 1)
    assert (halves % STEP == 0).all()
    assert halves[:, 0, 1].std() > 0
