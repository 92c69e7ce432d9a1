"""A study on Slurm: its steps are jobs, and stop, fail and go on as on one machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from posnmt.study.load import load
from posnmt.study.plan import KINDS, plan
from posnmt.study.workflow.executors import Where
from posnmt.study.workflow.graph import Graph, Step
from posnmt.study.workflow.kind import Resources
from posnmt.study.workflow.runner import run
from posnmt.study.workflow.status import states
from tests.slurm import step_kinds
from tests.slurm.queue_control import begin_again_soon, wait_for
from tests.support.sources import SOURCES

SMALL = Resources(memory_gib=0.5, minutes=5)


@pytest.fixture
def out(cluster_folder, tmp_path, monkeypatch):
    """A study's folder, whose jobs can import the kinds of steps."""
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    return tmp_path / "study"


def graph(*steps):
    return Graph(steps, "tests.slurm.step_kinds:KINDS")


def add(name, number, needs=(), **settings):
    return Step(name, "add", {"number": number, **settings}, {each: each for each in needs}, resources=SMALL)


def wrote(study, out, name, file):
    return (study.folder(out, name) / file).read_text()


def jobs_of(out):
    return len(list((out / "jobs").glob("*_submission.sh")))


def test_steps_are_jobs_and_run_once(out):
    study = graph(add("one", 1), add("left", 10, ["one"]), add("right", 100, ["one"]), add("all", 0, ["left", "right"]))
    assert sorted(run(study, out, Where("slurm")).finished) == ["all", "left", "one", "right"]
    assert wrote(study, out, "all", "number") == "112"
    assert jobs_of(out) == 4
    assert run(study, out, Where("slurm")).finished == []
    assert jobs_of(out) == 4


def test_a_failed_step_and_one_that_no_node_can_run_stop_only_those_that_need_them(out):
    odd = Step("odd", "refuse", {}, resources=SMALL)
    huge = Step("huge", "add", {"number": 3}, resources=Resources(memory_gib=99999))
    study = graph(odd, add("after", 1, ["odd"]), huge, add("other", 5))
    summary = run(study, out, Where("slurm"))
    assert summary.finished == ["other"]
    assert sorted(summary.failed) == ["huge", "odd"]
    assert "the number is odd; give an even one" in summary.failed["odd"]
    assert "the cluster refuses the job" in summary.failed["huge"]
    assert list(summary.blocked) == ["after"]


def test_a_job_outlives_its_runner_and_is_not_submitted_twice(out):
    study = step_kinds.STUDIES["slow"]
    runner = subprocess.Popen([sys.executable, "-m", step_kinds.__name__, "slow", str(out)])
    folder = study.folder(out, "slow")
    assert wait_for((folder / "running.json").exists)
    runner.kill()
    runner.wait()
    assert not (folder / "done.json").exists()
    assert run(study, out, Where("slurm")).finished == ["slow"]
    assert wrote(study, out, "slow", "number") == "7"
    assert jobs_of(out) == 1


@pytest.mark.parametrize(("nodes", "gpus", "met"), [(1, 2, "2 1 0,1"), (2, 1, "2 1 0"), (2, 2, "4 6 0,1")])
def test_a_step_of_several_gpus_or_nodes_has_a_process_for_each(out, nodes, gpus, met):
    study = graph(Step("meet", "meet", {}, resources=Resources(nodes=nodes, gpus=gpus, minutes=5)))
    assert run(study, out, Where("slurm")).failed == {}
    assert wrote(study, out, "meet", "met") == met


@pytest.fixture
def endured(out):
    """A step in its first attempt, with its runner and the number of its job."""
    runner = subprocess.Popen([sys.executable, "-m", step_kinds.__name__, "endure", str(out)])
    folder = step_kinds.STUDIES["endure"].folder(out, "endure")
    assert wait_for((folder / "attempts").exists)
    yield runner, json.loads((folder / "job.json").read_text())["id"]
    runner.kill()


def test_a_step_whose_time_is_over_goes_on_in_the_same_job(out, endured):
    runner, number = endured
    subprocess.check_call(["scancel", "--signal=USR2", number])  # as Slurm does before the limit
    begin_again_soon(number)
    assert runner.wait(timeout=90) == 0
    assert wrote(step_kinds.STUDIES["endure"], out, "endure", "attempts").split() == ["begun", "begun"]
    assert jobs_of(out) == 1


def test_a_job_that_is_cancelled_is_a_failure_and_the_next_run_submits_another(out, endured):
    runner, number = endured
    subprocess.check_call(["scancel", number])
    assert runner.wait(timeout=90) == 1
    study = step_kinds.STUDIES["endure"]
    assert states(study, out)["endure"].state == "failed"
    assert run(study, out, Where("slurm")).finished == ["endure"]
    assert jobs_of(out) == 2


def test_the_steps_of_a_recipe_run_as_jobs(out):
    """Real steps, from the text to the translation: those of one system with one seed."""
    steps = plan(load("choose"), "smoke", None).steps.values()
    mine = [step for step in steps if "seed-" not in step.name or "/relative/all/seed-1" in step.name]
    study = Graph(mine, KINDS)
    assert run(study, out, Where("slurm")).failed == {}
    translated = wrote(study, out, "translate/relative/all/seed-1/test", "output")
    assert translated.count("\n") == 60  # as many as the recipe's test set has
    assert jobs_of(out) == len(mine)
