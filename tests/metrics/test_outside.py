"""A metric of somebody else: the one that CONTRIBUTING.md writes, in an analysis and in a study."""

import json
import os
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import posnmt
from posnmt.base import plugins
from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.measures import MEASURES
from posnmt.metrics.metric import Metric
from posnmt.metrics.registry import METRICS, metric
from posnmt.study.database import read
from posnmt.study.load import load
from posnmt.study.plan import analyses as analyses_of
from posnmt.study.study import load_plan, plan_in
from posnmt.study.study import run as run_study
from posnmt.study.workflow.executors import Where
from tests.support.commands import refused, run
from tests.support.documents import blocks
from tests.support.plugin import install
from tests.support.recipe_case import SMALL, faults_of, written
from tests.support.sources import SOURCES

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
(EXACT,) = [text for _, kind, text in blocks(PAGE.split("## A metric")[1].split("\n## ")[0]) if kind == "python"]
SOURCE, REFERENCE = ["a b", "c", "d e f", "g"], ["A B", "C", "D E F", "G"]
OUTPUTS = {"good": ["A B", "C", "D E", "G"], "bad": ["A", "C", "D F", "G H"]}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages that Python knows; no part is loaded and none allowed, before and after."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(plugins, "_loaded", {})
    with patch.dict(os.environ):
        os.environ.pop(plugins.VARIABLE, None)
        yield folder
    sys.modules.pop("exact", None)


@pytest.fixture
def installed(site):
    return install(site, "exact-metric", "1.0", {"posnmt.metrics": {"exact": "exact:EXACT"}}, {"exact.py": EXACT})


def analysed(name, **settings):
    return posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, metrics=[name, "bleu"], samples=50, bin_edges=[2], **settings)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_metric_of_a_package_is_measured_like_any_other(installed, processes, monkeypatch):
    monkeypatch.setattr("posnmt.evaluation.analyse.extract.SLICE", 2)
    results = analysed("exact", processes=processes).results
    assert [system["overall"]["exact"] for system in results["systems"]] == [75, 25]
    assert [[part["exact"] for part in system["bins"]] for system in results["systems"]] == [[100, 50], [50, 0]]
    low, high = results["systems"][0]["intervals"]["overall"]["exact"]
    assert low <= 75 <= high
    assert results["significance"]["metrics"]["exact"]["differences"][0][1] == 50
    assert results["verdict"]["metric"] == "exact"
    assert results["signatures"]["exact"] == "nrefs:1"


def test_its_title_stands_in_the_report(installed, tmp_path):
    analysis = analysed("exact")
    text = analysis.report(tmp_path / "report").read_text(encoding="utf-8")
    assert "Exact matches" in text
    assert any("exact" in row for row in analysis.rows())


def test_the_command_takes_it_by_name_and_an_object_where_it_is_allowed(installed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lines in {"source": SOURCE, "reference": REFERENCE, "output": OUTPUTS["good"]}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    command = ["analyse", "--source", "source", "--reference", "reference", "--output", "a=output", "--samples", "0"]
    for name, more in (("exact", []), ("exact:EXACT", ["--allow-plugins"])):
        run(*command, "--metrics", name, "--out", "out", *more)
        assert json.loads(Path("out/results.json").read_text())["systems"][0]["overall"][name] == 75
    os.environ.pop(plugins.VARIABLE, None)
    plugins._loaded.clear()
    assert "--allow-plugins" in refused(*command, "--metrics", "exact:EXACT", "--out", "other")[0]


@pytest.mark.parametrize(
    ("counter", "what"),
    [
        ("lambda outputs: np.ones(len(outputs))", "counted 4 sentences as"),
        ("lambda outputs: np.full((len(outputs), 2), 0.5)", "counted 4 sentences as"),
        ("lambda outputs: np.full((len(outputs), 2), -1)", "counted 4 sentences as"),
        ("lambda outputs: np.ones((2, 2))", "counted 4 sentences as"),
        ("lambda outputs: outputs[0].none", "raised AttributeError"),
    ],
)
def test_what_its_counter_returns_is_looked_at(site, counter, what):
    wrong = EXACT.replace(EXACT[EXACT.index("lambda") : EXACT.index("\n", EXACT.index("lambda"))], counter)
    install(site, "exact-metric", "1.0", {"posnmt.metrics": {"exact": "exact:EXACT"}}, {"exact.py": wrong})
    with pytest.raises(UserError, match=f"exact.*{what}"):
        analysed("exact")


def test_what_is_no_metric_is_refused(site):
    (site / "exact.py").write_text(f"{EXACT}\nNONE = 3\nEMPTY = Metric('Empty')\n")
    for name, what in (("exact:NONE", "is no object"), ("exact:EMPTY", "has no counter")):
        with plugins.allowing(), pytest.raises(UserError, match=what):
            metric(name)
    with pytest.raises(UserError, match="did you mean 'chrf'"):
        metric("chfr")


@pytest.mark.parametrize("name", [name for name, each in MEASURES.items() if isinstance(each, Metric)])
def test_differences_are_positive_where_the_better_one_is_ahead(name):
    ahead = MEASURES[name].ahead(np.array([1.0]))[0]
    assert ahead == (-1 if MEASURES[name].better.endswith("lower is better") else 1)


@pytest.mark.parametrize("name", [*METRICS, "exact"])
def test_a_recipe_takes_every_metric_that_an_analysis_takes(installed, tmp_path, name):
    analyses = {"test": {"test": "test", "trainings": ["all"], "metrics": [name]}}
    sides = {"of": {"system": "relative"}, "than": {"system": "transformer"}}
    claim = {"claim": 1, "says": "x", "test": {"analysis": "test", "measure": name, "is": "higher", **sides}}
    column = {"title": "x", "measure": name, "analysis": "test"}
    panel = {"analysis": "test", "systems": ["relative", "transformer"]}
    tree = {
        **SMALL, "analyses": analyses, "claims": [claim], "recommend": {"analyses": ["test"], "measure": name},
        "tables": [{"table": 1, "caption": "x", "rows": ["relative"], "columns": [column]}],
        "figures": [{"figure": 1, "caption": "x", "kind": "examples", "measure": name, "panels": [panel]}],
    }  # fmt: skip
    recipe = load(written(tmp_path, tree), check_configs=False)
    assert recipe.claims[0].test.measure == name
    other = next(each for each in METRICS if each != name)
    tree["analyses"] = {"test": {**analyses["test"], "metrics": [other]}}
    assert f"the analysis test does not measure {name}" in faults_of(written(tmp_path, tree))
    tree["analyses"] = {"test": {**analyses["test"], "metrics": ["blue"]}}
    assert "no measure here is called 'blue'; did you mean 'bleu'" in faults_of(written(tmp_path, tree))


def test_a_study_notices_that_a_metric_has_changed(installed, tmp_path):
    analyses = {"test": {"test": "test", "trainings": ["all"], "metrics": ["exact"]}}
    recipe = load(written(tmp_path, {**SMALL, "analyses": analyses}), check_configs=False)
    out, said = tmp_path / "study", []
    run_study(recipe, "smoke", None, out, say=said.append, only=["corpus/artificial"])
    before = load_plan(out)
    (installed / "exact.py").write_text(f"{EXACT}# changed\n")
    plugins._loaded.clear()
    changed = plan_in(out, recipe, "smoke", None, said.append)
    assert "the metric exact (exact:EXACT) has changed" in said[-1]
    assert said[-1].endswith("analyses with it are run again")
    (old,), (new,) = (analyses_of(each, each.steps)[0]["test"].settings["plugins"] for each in (before, changed))
    assert old["name"] == new["name"] == "exact"
    assert old["sha256"] != new["sha256"]


@pytest.mark.slow
def test_a_study_measures_and_judges_by_it(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed), SOURCES]))  # of the steps' processes
    metrics = ["exact", "chrf++"]
    sides = {"of": {"system": "relative"}, "than": {"system": "transformer"}}
    claims = [
        {"claim": number, "says": "x", "test": {"analysis": "test", "measure": name, "is": "higher", **sides}}
        for number, name in enumerate(metrics)
    ]
    columns = [{"title": name, "measure": name, "analysis": "test"} for name in metrics]
    config = {
        "subword": {"vocabulary": 120}, "model": {"size": "tiny"}, "train": {"steps": 1},
        "decode": {"beam": 1, "max_ratio": 0.1, "max_extra": 5},
    }  # fmt: skip
    smoke = {**SMALL["scales"]["smoke"], "config": config}
    tree = {
        **SMALL, "scales": {"smoke": smoke}, "claims": claims, "recommend": {"analyses": ["test"], "measure": "exact"},
        "analyses": {"test": {"test": "test", "trainings": ["all"], "metrics": metrics}},
        "tests": {"test": {"corpus": "test"}},
        "runs": [{"systems": ["transformer", "relative"], "trainings": ["all"], "tests": ["test"]}],
        "tables": [{"table": 1, "caption": "x", "rows": ["relative"], "columns": columns}],
    }  # fmt: skip
    recipe, out = load(written(tmp_path, tree)), tmp_path / "study"
    run_study(recipe, "smoke", None, out, Where(jobs=1))
    assert {row["measure"] for row in read(out)} >= {*metrics}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "the Exact matches of" in page
    assert "the chrF++ of" in page
    assert "the best mean Exact matches" in page
