"""Sentences that a study shows with the translations of two systems: which, and what stands beside them."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from posnmt.evaluation.analyse.additive import Additive
from posnmt.study import evidence
from posnmt.study.examples import examples
from posnmt.study.figures import plates
from posnmt.study.layout import Figure
from posnmt.study.measured import StudyResults
from posnmt.study.page import render
from tests.support.study_report_case import FAILED, made_recipe, made_runs, write_lines
from tests.support.verdict_case import output

FIGURE = """
figure: 6
caption: Two <translations>
kind: examples
measure: ter
panels: [{analysis: test, systems: [transformer, relative]}]
published: It shows two.
"""
# Wrong words of 10 in each of five sentences, of both systems' first seeds; relative is ahead by 1, 5, -3, 0 and 2.
WRONG = {"transformer": [3, 6, 1, 2, 4], "relative": [2, 1, 4, 2, 2]}


@pytest.fixture
def study(tmp_path):
    recipe = made_recipe([("figures", [yaml.safe_load(FIGURE)])])
    analysis, text = tmp_path / "analysis", tmp_path / "text"
    analysis.mkdir()
    text.mkdir()
    write_lines(text / "source", [f"quelle {row}" for row in range(5)])
    write_lines(text / "target", [f"reference {row} & <more>" for row in range(5)])
    rows, outputs, translations = [], [], {}
    for system, wrong in WRONG.items():
        for seed in (1, 2):
            edits = np.array(wrong if seed == 1 else wrong[::-1])
            rows.append(np.stack([edits, np.full(5, 10)], axis=1))
            outputs.append(vars(output(system, seed)))
            folder = translations[system, "all", seed, "test"] = tmp_path / f"{system}-{seed}"
            folder.mkdir()
            write_lines(folder / "output", [f"{system} {seed} {row}" for row in range(5)])
    lengths = np.full(5, 10)
    evidence.save(analysis, Additive.of({"ter": rows}, [lengths] * 4, lengths), lengths, outputs)
    results = {"systems": [{"name": each["name"]} for each in outputs]}
    (analysis / "results.json").write_text(json.dumps(results))
    return StudyResults(
        recipe=recipe, scale="smoke", runs=made_runs(recipe, 2), analyses={"test": analysis}, texts={"test": text},
        translations=translations,
    )  # fmt: skip


def shown(study, figure=None):
    figure = figure or study.recipe.figures[0]
    return examples(study, figure, figure.panels[0])


def test_the_second_system_is_most_ahead_in_the_middle_and_most_behind(study):
    found, rule = shown(study)
    assert [(each.number, each.place) for each in found] == [
        (2, "most ahead"),
        (1, "in the middle"),
        (3, "most behind"),
    ]
    assert found[0].texts == [
        ("Source", "quelle 1"),
        ("Reference", "reference 1 & <more>"),
        ("Transformer (TER 60.0)", "transformer 1 1"),
        ("+Relative_PE & <more> (TER 10.0)", "relative 1 1"),
    ]
    assert rule == (
        "Not chosen by hand: of 5 sentences, seed 1, those on which +Relative_PE & <more> is most ahead of Transformer "
        "in TER, in the middle, and most behind."
    )


def test_why_there_are_none(study):
    figure = study.recipe.figures[0]
    found, why = shown(study, figure.model_copy(update={"measure": "chrf"}))
    assert (found, why) == ([], "Not shown, because the analysis test does not measure chrF.")
    found, why = shown(replace(study, translations={}))
    assert (found, why) == ([], "Not shown, because a translation is missing.")
    failed = replace(study, runs=made_runs(study.recipe, 2, [(("relative", 1), FAILED)]))
    found, why = examples(failed, figure, figure.panels[0])
    assert (found, why) == ([], "+Relative_PE & <more>: seed 1 failed: the loss is not a number.")


def test_a_figure_of_examples_names_two_systems_and_a_measure_of_quality():
    for change in ({"panels": [{"analysis": "test"}]}, {"measure": "length_ratio"}):
        with pytest.raises(ValidationError, match="kind examples"):
            Figure.model_validate({**yaml.safe_load(FIGURE), **change})


def test_the_page_and_a_file_have_them(study, tmp_path, monkeypatch):
    monkeypatch.setattr("posnmt.study.page.every_output", lambda results: [])
    tables = study.recipe.model_copy(update={"tables": []})
    study = replace(study, recipe=tables)
    (plate,) = plates(study)
    assert plate.legend[-1] == "In the paper: It shows two."
    render(study, tmp_path / "out")
    page = (tmp_path / "out/report.html").read_text()
    assert '<dd dir="auto">reference 1 &amp; &lt;more&gt;</dd>' in page
    assert "<h4>Sentence 3: most behind</h4>" in page
    with (tmp_path / "out/figures/figure-6.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[1] == ["2", "most ahead", "Source", "quelle 1"]
    assert len(rows) == 1 + 3 * 4
