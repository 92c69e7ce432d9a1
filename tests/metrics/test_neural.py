"""Neural metrics: an environment of its own, a program in it, and its scores like any others.

The program is a plain one; tests/peers/test_neural.py has those of COMET and MetricX.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import posnmt
from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.sentence_scores import STEP
from posnmt.evaluation.analyse.settings import Settings
from posnmt.metrics.neural.environment import MARK, Environment, folder
from posnmt.metrics.neural.install import installed
from posnmt.metrics.registry import metric
from posnmt.study import evidence
from posnmt.study.database import read
from posnmt.study.load import load
from posnmt.study.plan import analyses as analyses_of
from posnmt.study.study import load_plan, plan_in
from posnmt.study.study import run as run_study
from posnmt.study.workflow.executors import Where
from tests.support.commands import refused, run
from tests.support.neural_case import expected, model, offered, wheel
from tests.support.recipe_case import SMALL, faults_of, written
from tests.support.sources import SOURCES

SOURCE = ["a", "b c", "d e f", "g", "h"]
REFERENCE = ["A", "B C", "D E F", "G G", "H i j k l m n o p q r"]
OUTPUTS = {"good": ["A", "B C", "D E", "G", "H i j k l m n o p q r"], "bad": ["A B", "C", "X", "", "H"]}
CALL = ["--source", "source", "--reference", "reference", "--samples", "100", "--bin-edges", "2", "--out", "out"]
NAMES = [part for name in OUTPUTS for part in ("--output", f"{name}={name}")]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A cache with the environment of the metric, and the package that offers it."""
    base = tmp_path_factory.mktemp("neural")
    with pytest.MonkeyPatch.context() as patch, offered(base / "site", patch) as site:
        patch.setenv("POSNMT_CACHE", str(base / "cache"))
        model(site / "from")
        out, err = run("metrics", "install", "overlap", "--model", "good", "--from", site / "from")
        assert out == f"{installed('overlap', metric('overlap')).signature}\n"
        assert "overlap is installed" in err
    return base


@pytest.fixture
def case(made, tmp_path, monkeypatch):
    """The same, and the texts in the current folder; records and scores are this test's own."""
    with offered(made / "site", monkeypatch) as site:
        monkeypatch.setenv("POSNMT_CACHE", str(tmp_path / "cache"))
        (tmp_path / "cache").mkdir()
        shutil.copytree(made / "cache" / "metrics" / "installed", folder() / "installed")
        ready = made / "cache" / "metrics" / "environments"
        shutil.copytree(ready, folder() / "environments", symlinks=True, copy_function=os.link)
        monkeypatch.setenv("COUNTED", str(tmp_path / "counted"))
        monkeypatch.chdir(tmp_path)
        for name, lines in {"source": SOURCE, "reference": REFERENCE, **OUTPUTS}.items():
            Path(name).write_text("".join(f"{line}\n" for line in lines))
        yield site


def counted():
    """The numbers of sentences that were scored together, since the last call."""
    path = Path("counted")
    numbers = [int(line) for line in path.read_text().split()] if path.exists() else []
    path.unlink(missing_ok=True)
    return numbers


def use(site, mode, batch=8):
    """Install another model, and the faults of an analysis with it."""
    run("metrics", "install", "overlap", "--model", model(site / "models", mode))
    counted()
    return refused("analyse", *CALL, *NAMES, "--metrics", "overlap", "--metric-batch", batch)


def test_its_packages_are_in_an_environment_apart(case):
    environment = Environment(metric("overlap").packages)
    assert environment.fault() is None

    def imports(python, module):
        call = [python, "-I", "-c", f"import {module}"]
        return subprocess.run(call, check=False, capture_output=True).returncode == 0

    assert imports(environment.python, "tinyscore")
    assert not imports(environment.python, "numpy")
    assert imports(sys.executable, "numpy")
    assert not imports(sys.executable, "tinyscore")


def test_what_is_complete_is_not_made_again(case):
    environment = Environment(metric("overlap").packages)
    before = (environment.folder / MARK).stat().st_mtime_ns
    assert "was installed already" in run("metrics", "install", "overlap")[1]
    assert (environment.folder / MARK).stat().st_mtime_ns == before


def test_scores_are_treated_like_those_from_files(case):
    for name, lines in OUTPUTS.items():
        values = [expected(line, reference) for line, reference in zip(lines, REFERENCE, strict=True)]
        Path(f"{name}.scores").write_text("".join(f"{value!r}\n" for value in values))
    scores = [part for name in OUTPUTS for part in ("--scores", f"given:{name}={name}.scores")]
    run("analyse", *CALL, *NAMES, *scores, "--metrics", "overlap,chrf")
    results = json.loads(Path("out/results.json").read_text())
    assert results["settings"]["metrics"] == ["overlap", "chrf", "given"]
    assert results["verdict"]["metric"] == "overlap"
    for system in results["systems"]:
        intervals = system["intervals"]
        for measured in (system["overall"], *system["bins"], intervals["overall"], *intervals["bins"]):
            assert measured["overlap"] == measured["given"]
    assert results["systems"][0]["overall"]["overlap"] == 1
    tests = results["significance"]["metrics"]
    assert tests["overlap"] == tests["given"]
    assert results["signatures"]["overlap"].startswith("nrefs:1|model:good|revision:")
    assert results["signatures"]["overlap"].endswith("|tinyscore:1.0")
    assert [each for each in results["warnings"] if "overlap" in each] == [
        "good: overlap read only the beginning of 1 sentences: they are too long for it."
    ]
    assert Path("out/figures/overlap-by-length.svg").exists()
    assert "Overlap" in Path("out/report.html").read_text()


def test_only_what_is_new_is_scored(case):
    call = ["analyse", *CALL, "--metrics", "overlap", "--metric-batch", 3]
    run(*call, "--output", "good=good")
    assert counted() == [3, 2]
    first = json.loads(Path("out/results.json").read_text())
    _, said = run(*call, *NAMES, "--output", "again=good")
    assert counted() == [3, 2]
    assert "scoring 5 of 10 different sentences" in said
    results = json.loads(Path("out/results.json").read_text())
    assert results["systems"][0] == first["systems"][0]
    assert results["systems"][2]["overall"] == first["systems"][0]["overall"]
    assert [each for each in first["warnings"] if "overlap" in each] == [
        each for each in results["warnings"] if each.startswith("good: overlap")
    ]
    run(*call, *NAMES)
    assert counted() == []
    run("metrics", "install", "overlap", "--model", model(case / "models", "other"))
    run(*call, "--output", "good=good")
    assert counted() == [3, 2]


def test_what_was_scored_before_a_crash_is_kept(case):
    (line,) = use(case, "crash 1", batch=5)
    assert "crashed with status 3" in line
    assert counted() == [5, 5]
    run("analyse", *CALL, *NAMES, "--metrics", "overlap")
    assert counted() == [5]


@pytest.mark.parametrize(
    ("mode", "what"),
    [
        ("crash", "overlap crashed with status 3: first line | second line | third line"),
        ("raise", "overlap failed: KeyError: 'a name'"),
        ("kill", "overlap was killed, as a rule because memory ran out"),
        ("memory", "overlap ran out of memory: CUDA out of memory. Tried to allocate 2 GiB"),
        ("fewer", "overlap failed: ValueError: it gave 7 scores for 8 sentences"),
        ("nan", "overlap gave nan to the output"),
        ("infinite", "overlap gave inf to the output"),
    ],
)
def test_a_program_that_fails_gives_one_line(case, mode, what):
    (line,) = use(case, mode)
    assert line.startswith(f"error: {what}")
    assert ("--metric-batch 1" in line) == (mode in ("kill", "memory"))
    if mode in ("crash", "raise"):
        assert str(folder() / "logs" / "overlap.log") in line


def test_a_metric_that_is_not_installed_is_refused_before_a_text_is_read(case):
    run("metrics", "remove", "overlap")
    (line,) = refused("analyse", "--source", "no", "--reference", "no", "--output", "a=no", "--metrics", "overlap,bleu")
    assert line == "error: the metric overlap is not installed; run `posnmt metrics install overlap`"
    with pytest.raises(UserError, match="posnmt metrics install comet`"):
        posnmt.analyse(SOURCE, REFERENCE, OUTPUTS, metrics="comet")
    (line,) = refused("metrics", "remove", "overlap")
    assert "the metric overlap is not installed" in line


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda path: shutil.rmtree(path), "the model of overlap is no longer there"),
        (lambda path: (path / "mode").write_text("else"), "the model of overlap has changed since it was installed"),
        (lambda path: (path / "more").touch(), "the model of overlap has changed since it was installed"),
    ],
)
def test_a_model_that_has_changed_is_refused(case, change, what):
    path = model(case / "models", "changing")
    run("metrics", "install", "overlap", "--model", path)
    run("analyse", *CALL, *NAMES, "--metrics", "overlap")
    change(path)
    (line,) = refused("analyse", *CALL, *NAMES, "--metrics", "overlap")
    assert line.startswith(f"error: {what}")
    assert "posnmt metrics install overlap --model" in line
    assert what in run("metrics", "list")[0]


def unpacked(environment):
    """The folder of its packages."""
    return next(environment.folder.glob("lib/python*/site-packages"))


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (lambda one: (one.folder / MARK).unlink(), "it is half made"),
        (lambda one: one.python.unlink(), "its Python is no longer there"),
        (lambda one: shutil.rmtree(unpacked(one) / "tinyscore-1.0.dist-info"), "its packages are not those"),
        (lambda one: shutil.rmtree(one.folder), "it is not made"),
    ],
)
def test_a_broken_environment_is_detected(case, harm, what):
    environment = Environment(metric("overlap").packages)
    assert environment.fault() is None
    harm(environment)
    (line,) = refused("analyse", *CALL, *NAMES, "--metrics", "overlap")
    assert line.startswith(f"error: the environment of overlap cannot be used: {what}")
    assert line.endswith("; run `posnmt metrics install overlap`")


def test_a_broken_environment_is_made_again(case):
    environment = Environment(metric("overlap").packages)
    run("metrics", "install", "overlap", "--model", model(case / "models", "kept"))
    (environment.folder / MARK).unlink()
    (environment.folder / "left").touch()
    out, _ = run("metrics", "install", "overlap", "--from", case / "from")
    assert "|model:kept|" in out
    assert environment.fault() is None
    assert not (environment.folder / "left").exists()
    run("analyse", *CALL, *NAMES, "--metrics", "overlap")
    gone = run("metrics", "remove", "overlap")[0].splitlines()
    assert gone == [str(folder() / "installed" / "overlap.json"), str(environment.folder)]
    assert not any(map(os.path.exists, gone))


def test_an_environment_stays_while_another_metric_uses_it(case):
    from posnmt.metrics.neural.install import remove

    overlap = metric("overlap")
    other = folder() / "installed" / "other.json"
    shutil.copy(folder() / "installed" / "overlap.json", other)
    assert remove("overlap", overlap, {"other": overlap}) == [folder() / "installed" / "overlap.json"]
    assert Environment(overlap.packages).fault() is None


@pytest.mark.parametrize(
    ("options", "what", "todo"),
    [
        (["--model", "no/model", "--from", "from"], "the model no/model is not here", "copy FOLDER here"),
        (["--model", "/no/model"], "there is no such model (/no/model)", "its id on the hub"),
        (["--model", "empty"], "empty has no mode", "--model ID or PATH"),
        (["--from", "nowhere"], "there is no such folder (nowhere)", "--from FOLDER"),
    ],
)
def test_a_model_that_cannot_be_had_is_named(case, options, what, todo):
    Path("empty").mkdir()
    Path("from").mkdir()
    (line,) = refused("metrics", "install", "overlap", *options)
    assert what in line
    assert todo in line


@pytest.mark.parametrize("cached", [False, True])
def test_without_the_hub_a_model_that_is_not_here_is_said_before_packages_are_fetched(case, monkeypatch, cached):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HOME", str(Path("hub").resolve()))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9")
    if cached:
        Path("hub/hub/models--no--model").mkdir(parents=True)
    shutil.rmtree(place := Environment(metric("overlap").packages).folder)
    (line,) = refused("metrics", "install", "overlap", "--model", "no/model")
    assert ("the packages could not be installed" in line) == cached
    assert ("the model no/model is not here: http://127.0.0.1:9 cannot be reached" in line) != cached
    assert "add --from FOLDER" in line
    assert place.exists() == cached


def test_packages_that_cannot_be_had_are_named_with_what_to_copy(case):
    (Environment(metric("overlap").packages).folder / MARK).unlink()
    Path("from").mkdir()
    wheel(Path("from"), "2.0")
    (line,) = refused("metrics", "install", "overlap", "--from", "from")
    assert "the packages could not be installed: No matching distribution found for tinyscore==1.0" in line
    assert f"-m pip download --only-binary :all: -r {case / 'packages.txt'} -d FOLDER`" in line
    with pytest.raises(UserError, match="it is half made"):
        installed("overlap", metric("overlap"))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["overlap_metric:OLD", "--allow-plugins"], "the packages are for Python 2.7; this is"),
        (["overlap_metric:OLD"], "--allow-plugins"),
        (["overlap_metric:OLD", "--allow-plugins", "--python", "/no/python"], "Python cannot be started"),
        (["bleu"], "bleu needs no installation"),
        (["komet"], "no neural metric is called 'komet' (NAME); did you mean 'comet'?"),
    ],
)
def test_what_cannot_be_installed_is_named(case, options, what):
    (line,) = refused("metrics", "install", *options)
    assert what in line


def test_the_list_says_what_is_installed(case):
    rows = json.loads(run("metrics", "list", "--json")[0])
    assert {*rows} == {"bleu", "chrf", "chrf++", "ter", "multi-bleu", "comet", "comet-qe", "metricx", "overlap"}
    assert rows["overlap"]["state"] == f"installed, {installed('overlap', metric('overlap')).signature}"
    assert rows["bleu"]["state"] == ""
    assert "posnmt metrics install comet`" in rows["comet"]["state"]
    assert rows["metricx"]["better"] == "lower is better"


def test_one_reference_is_read_and_files_that_cannot_be_scored_are_refused(case):
    Path("second").write_text("".join(f"{line}\n" for line in ["A B", "", "X", "G", "H"]))
    run("analyse", *CALL, *NAMES, "--reference", "second", "--metrics", "overlap")
    results = json.loads(Path("out/results.json").read_text())
    assert results["systems"][0]["overall"]["overlap"] == 1
    assert "overlap reads one reference: the first one of each line." in results["warnings"]
    (line,) = refused("analyse", *CALL, *NAMES, "--metrics", "overlap", "--swapped", "good:0.1=good")
    assert line.startswith("error: overlap would need the swapped sources")
    scores = [part for name in OUTPUTS for part in ("--scores", f"Overlap:{name}={name}")]
    (line,) = refused("analyse", *CALL, *NAMES, "--metrics", "overlap", *scores)
    assert line.startswith("error: overlap is computed here, and its scores are given")


def test_a_record_that_is_damaged_is_named(case):
    (folder() / "installed" / "overlap.json").write_text("{}")
    (line,) = refused("analyse", *CALL, *NAMES, "--metrics", "overlap")
    assert line.startswith("error: the record of overlap is damaged: model: Field required")
    assert refused("metrics", "install", "overlap") == [line]


def test_a_cache_of_scores_that_is_damaged_is_named(case):
    (folder() / "scores.sqlite").write_text("no database, but long enough to be read as the header of one")
    (line,) = refused("analyse", *CALL, *NAMES, "--metrics", "overlap")
    assert str(folder() / "scores.sqlite") in line


MEASURED = {"test": {"test": "test", "trainings": ["all"], "metrics": ["overlap", "chrf"]}}


def test_a_study_without_it_is_refused_before_anything_runs(case):
    run("metrics", "remove", "overlap")
    recipe = written(Path(), {**SMALL, "analyses": MEASURED})
    (line,) = refused("study", "run", recipe, "--scale", "smoke", "--out", "study")
    assert line == "error: the metric overlap is not installed; run `posnmt metrics install overlap`"
    assert not Path("study").exists()


def test_a_study_notices_another_model(case):
    recipe = load(written(Path(), {**SMALL, "analyses": MEASURED}), check_configs=False)
    out, said = Path("study"), []
    run_study(recipe, "smoke", None, out, say=said.append, only=["corpus/artificial"])
    before = load_plan(out)
    assert not [line for line in said if "overlap" in line]
    run("metrics", "install", "overlap", "--model", model(case / "models", "better"))
    after = plan_in(out, recipe, "smoke", None, said.append)
    assert said[-1].startswith("the metric overlap was good ")
    assert said[-1].endswith(": analyses with it are run again")
    (old,), (new,) = (analyses_of(each, each.steps)[0]["test"].settings["plugins"] for each in (before, after))
    assert (old["distribution"], new["distribution"]) == ("good", "better")
    assert old["sha256"] != new["sha256"] == installed("overlap", metric("overlap")).identity


@pytest.mark.parametrize("more", [{"text": "words"}, {"text": {"small": "subwords"}}, {"test": "swapped"}])
def test_a_recipe_that_it_cannot_score_is_refused(case, more):
    faults = faults_of(written(Path(), {**SMALL, "analyses": {"test": {**MEASURED["test"], **more}}}))
    assert "overlap scores raw text, by the source of each output" in faults


def test_its_scores_are_kept_exactly_for_the_verdicts(case, tmp_path):
    run("analyse", *CALL, *NAMES, "--metrics", "overlap,chrf")
    paths = {name: tmp_path / name for name in OUTPUTS}
    settings = Settings(metrics=["overlap", "chrf"], resampling=Resampling(0))
    additive = analyse(tmp_path / "source", tmp_path / "reference", paths, settings).additive
    outputs = [{"system": name, "training": "all", "seed": 1, "share": 0.0} for name in OUTPUTS]
    more = dict.fromkeys(("parameters", "training_speed", "decoding_speed", "longest_target", "trained_lengths"))
    facts = [{**each, **more, "name": each["system"]} for each in outputs]
    evidence.save(tmp_path, additive, np.arange(5), facts)
    stored = evidence.load(tmp_path)
    assert stored.counts.dtype == np.float64
    assert np.array_equal(stored.counts, additive.rows)
    values = [expected(line, reference) for line, reference in zip(OUTPUTS["bad"], REFERENCE, strict=True)]
    table = stored.table("overlap", np.arange(5), [0, 1])
    assert table.measure(table.rows.sum(0))["overlap"][1] == pytest.approx(np.mean(values), abs=STEP)
    rows = additive.rows.copy()
    rows[0, 0, additive.columns["chrf"].start] += 0.5
    with pytest.raises(ValueError, match="integers"):
        evidence.save(tmp_path, dataclasses.replace(additive, rows=rows), np.arange(5), facts)


@pytest.mark.slow
def test_a_study_measures_and_judges_by_it(case, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(case), SOURCES]))  # of the steps' processes
    sides = {"of": {"system": "relative"}, "than": {"system": "transformer"}}
    claim = {"claim": 1, "says": "x", "test": {"analysis": "test", "measure": "overlap", "is": "higher", **sides}}
    config = {
        "subword": {"vocabulary": 120}, "model": {"size": "tiny"}, "train": {"steps": 1},
        "decode": {"beam": 1, "max_ratio": 0.1, "max_extra": 5},
    }  # fmt: skip
    tree = {
        **SMALL, "scales": {"smoke": {**SMALL["scales"]["smoke"], "seeds": 1, "config": config}}, "claims": [claim],
        "analyses": MEASURED, "tests": {"test": {"corpus": "test"}},
        "recommend": {"analyses": ["test"], "measure": "overlap"},
        "runs": [{"systems": ["transformer", "relative"], "trainings": ["all"], "tests": ["test"]}],
        "tables": [
            {"table": 1, "caption": "x", "rows": ["relative"],
             "columns": [{"title": "overlap", "measure": "overlap", "analysis": "test"}]}
        ],
    }  # fmt: skip
    recipe, out = load(written(Path(), tree)), Path("study")
    run_study(recipe, "smoke", None, out, Where(jobs=1))
    scored = [row["value"] for row in read(out) if row["measure"] == "overlap"]
    assert scored
    assert all(0 <= value <= 1 for value in scored)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "the Overlap of" in page
    assert "the best mean Overlap" in page
