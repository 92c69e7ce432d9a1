"""Jobs have what their recipe asks for, by Slurm's own account, and refused submissions are tried again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from posnmt.study.load import load
from posnmt.study.plan import KINDS, plan
from posnmt.study.workflow import cluster
from posnmt.study.workflow.executors import Where
from posnmt.study.workflow.graph import Graph, Step
from posnmt.study.workflow.kind import Resources
from posnmt.study.workflow.refusal import Backoff
from posnmt.study.workflow.runner import run
from tests.slurm import step_kinds
from tests.slurm.queue_control import begin_again_soon, wait_for
from tests.support.sources import SOURCES

NAMES = ("a", "to", "the")
SMALL = Resources(memory_gib=0.5, minutes=5)
ASKED = {
    "train": "{gpus: 1, cores: 2, memory: 1.5, hours: 0.5, partition: gpu}",
    "all": "{cores: 1, memory: 1, hours: 0.2}",
}


@pytest.fixture
def out(cluster_folder, tmp_path, monkeypatch):
    """A study's folder, whose jobs can import the kinds of steps; refused submissions do not wait long."""
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.setattr(cluster, "Backoff", partial(Backoff, first=1, longest=4))
    return tmp_path / "study"


def add(name, number, **resources):
    return Step(name, "add", {"number": number}, resources=Resources(**{"memory_gib": 0.5, "minutes": 5, **resources}))


def jobs(out):
    """Name of the step's key -> what Slurm says of its last job."""
    told = {}
    for script in sorted(out.glob("jobs/*_submission.sh")):
        number = script.name.split("_")[0]
        line = subprocess.check_output(["scontrol", "--oneliner", "show", "job", number], text=True)
        facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
        told[facts["JobName"].rpartition("-")[2]] = facts
    return told


def requested(facts):
    """The trackable resources that a job asked for; Slurm before 23.02 has one name for these and what it was given."""
    return facts.get("ReqTRES") or facts["TRES"]


def of_step(out, study, name):
    return jobs(out)[study.key(name)[:16]]


def test_jobs_have_the_resources_of_the_recipe(out):
    """The steps of one system, from the text to the translation; training alone asks for a GPU."""
    settings = tuple(f"scales.smoke.resources.{kind}={asked}" for kind, asked in ASKED.items())
    steps = plan(load("choose", settings), "smoke", None).steps.values()
    study = Graph([step for step in steps if "seed-" not in step.name or "/relative/all/seed-1" in step.name], KINDS)
    assert run(study, out, Where("slurm")).failed == {}
    trained = of_step(out, study, "train/relative/all/seed-1")
    assert trained["Partition"] == "gpu"
    assert trained["TimeLimit"] == "00:30:00"
    assert trained["NumCPUs"] == "2"
    tres = dict(each.split("=") for each in requested(trained).split(","))
    assert (tres["cpu"], tres["mem"], tres["node"], tres["gres/gpu"]) == ("2", "1.50G", "1", "1")
    translated = of_step(out, study, "translate/relative/all/seed-1/test")
    assert translated["Partition"] == "all"
    assert translated["TimeLimit"] == "00:12:00"
    assert "cpu=1,mem=1G," in requested(translated)
    assert "gres/gpu" not in requested(translated)


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"partition": "nix"}, "Invalid partition name specified"),
        ({"gpus": 3}, "Requested node configuration is not available"),
        ({"memory_gib": 99999}, "Memory specification can not be satisfied"),
    ],
)
def test_what_can_never_run_is_a_failed_step_with_the_reason(out, resources, message):
    study = Graph([add("never", 1, **resources), add("other", 2)], "tests.slurm.step_kinds:KINDS")
    summary = run(study, out, Where("slurm"))
    assert summary.finished == ["other"]
    assert message in summary.failed["never"]


@pytest.fixture
def one_job_a_user(cluster_folder):
    """The cluster takes one job of each user at a time."""
    limit = ["sacctmgr", "--immediate", "modify", "qos", "normal", "set"]
    subprocess.check_call([*limit, "MaxSubmitJobsPerUser=1"])
    yield
    subprocess.check_call([*limit, "MaxSubmitJobsPerUser=-1"])


def test_a_limit_of_submissions_is_waited_for(out, one_job_a_user):
    study, lines = Graph([add(name, len(name)) for name in NAMES], "tests.slurm.step_kinds:KINDS"), []
    summary = run(study, out, Where("slurm"), lines.append)
    assert sorted(summary.finished) == sorted(NAMES)
    refused = [line for line in lines if "accepts no job now: QOSMaxSubmitJobPerUserLimit" in line]
    assert [line.split("trying again in ")[1] for line in refused][:2] == ["1 s", "2 s"]
    assert len(jobs(out)) == 3


def test_a_partition_under_maintenance_is_waited_for(out):
    """And a stop is heard while nothing but that goes on."""
    study, lines = Graph([add("one", 1, partition="gpu")], "tests.slurm.step_kinds:KINDS"), []

    def open_the_partition(line):
        lines.append(line)
        if sum("inactive or drain" in each for each in lines) == 2:
            subprocess.check_call(["scontrol", "update", "PartitionName=gpu", "State=UP"])

    subprocess.check_call(["scontrol", "update", "PartitionName=gpu", "State=INACTIVE"])
    try:
        with pytest.raises(KeyboardInterrupt):
            run(study, out, Where("slurm"), lambda line: os.kill(os.getpid(), signal.SIGINT))
        assert run(study, out, Where("slurm"), open_the_partition).finished == ["one"]
    finally:
        subprocess.check_call(["scontrol", "update", "PartitionName=gpu", "State=UP"])
    assert sum("inactive or drain" in line for line in lines) == 2


class Controller:
    """The cluster's controller, which can be made to keep silent; what a study says meanwhile."""

    def __init__(self, folder):
        self.process, self.lines = int((folder / "slurmctld.process").read_text()), []

    def sleep(self):
        os.kill(self.process, signal.SIGSTOP)

    def wake(self):
        os.kill(self.process, signal.SIGCONT)

    def hear(self, line):
        """Sleep when the first step is done, wake when a submission is postponed."""
        self.lines.append(line)
        if line.startswith("done    first"):
            self.sleep()
        if "accepts no job now" in line:
            self.wake()


@pytest.fixture
def controller(cluster_folder):
    made = Controller(cluster_folder)
    yield made
    made.wake()


def test_a_controller_that_does_not_answer_is_waited_for(out, controller):
    """It reads the submission when it goes on, after sbatch has given up: that job is cancelled."""
    after = Step("after", "add", {"number": 2}, {"it": "first"}, resources=SMALL)
    study = Graph([add("first", 1), after], "tests.slurm.step_kinds:KINDS")
    assert run(study, out, Where("slurm"), controller.hear).finished == ["first", "after"]
    assert any("accepts no job now" in line for line in controller.lines)
    name = jobs(out)[study.key("after")[:16]]["JobName"]
    states = ["sacct", "--noheader", "--parsable2", "--allocations", f"--name={name}", "--format=State"]
    assert wait_for(lambda: "COMPLETED" in subprocess.check_output(states, text=True))
    told = subprocess.check_output(states, text=True).split("\n")[:-1]
    assert [state.split()[0] for state in told] == ["CANCELLED", "COMPLETED"]


def test_a_job_is_not_submitted_again_while_nobody_knows_whether_it_is_there(out, controller):
    """The controller keeps silent when a second runner begins, and a job of the first one runs."""
    study = step_kinds.STUDIES["slow"]
    first = subprocess.Popen([sys.executable, "-m", step_kinds.__name__, "slow", str(out)])
    assert wait_for((study.folder(out, "slow") / "running.json").exists)
    first.kill()
    first.wait()
    controller.sleep()
    assert run(study, out, Where("slurm"), controller.hear).states["slow"].state == "done"
    assert any("waiting slow: the cluster accepts no job now" in line for line in controller.lines)
    assert len(list(out.glob("jobs/*_submission.sh"))) == 1


def test_jobs_at_once_are_as_many_as_it_says(out):
    study = Graph([add(name, len(name)) for name in NAMES], "tests.slurm.step_kinds:KINDS")
    assert len(run(study, out, Where("slurm", jobs=1)).finished) == 3
    scripts = sorted(path.stat().st_mtime_ns for path in out.glob("jobs/*_submission.sh"))
    finished = sorted((study.folder(out, name) / "done.json").stat().st_mtime_ns for name in NAMES)
    assert all(done < next_script for done, next_script in zip(finished[:-1], scripts[1:], strict=True))


def test_a_training_that_slurm_puts_back_goes_on_from_its_checkpoint(out, monkeypatch):
    """Told in the middle of a training that its time is over, as Slurm tells a job."""
    steps = plan(load("choose", ("scales.smoke.config.train.log_every=1",)), "smoke", None).steps.values()
    name = "train/relative/all/seed-1"
    mine = [step for step in steps if "seed-" not in step.name or step.name == name]
    disturbed = Graph(mine, "tests.support.disturbed_training:KINDS")
    assert disturbed.key(name) == Graph(mine, KINDS).key(name)
    monkeypatch.setenv("DISTURB", "runner SIGUSR2 7")  # whoever started the step is the job
    told = [json.dumps([vars(step) for step in mine], default=vars), str(out)]
    script = (
        "import json, sys; from pathlib import Path;"
        "from posnmt.study.workflow.executors import Where; from posnmt.study.workflow.runner import run;"
        "from posnmt.study.workflow.graph import Graph, Step; from posnmt.study.workflow.kind import Resources;"
        "steps = [Step(**{**step, 'resources': Resources(**step['resources'])}) for step in json.loads(sys.argv[1])];"
        "graph = Graph(steps, 'tests.support.disturbed_training:KINDS');"
        "failed = run(graph, Path(sys.argv[2]), Where('slurm')).failed;"
        "sys.exit(str(failed) if failed else 0)"
    )
    runner = subprocess.Popen([sys.executable, "-c", script, *told])
    folder = disturbed.folder(out, name)
    try:
        assert wait_for((folder / "run" / "checkpoints").exists, 120)
        begin_again_soon(json.loads((folder / "job.json").read_text())["id"])
        assert runner.wait(timeout=240) == 0
    finally:
        runner.kill()
    written = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in written if line["kind"] == "train"] == list(range(1, 21))
    assert (folder / "log.txt").read_text().count("--- ") == 2
    assert of_step(out, disturbed, name)["Restarts"] == "1"
