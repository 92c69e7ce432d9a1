"""What the steps of a recipe ask for, what a job of Slurm is told of it, and submissions that are refused."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from posnmt.study.load import load, shipped
from posnmt.study.plan import KINDS, analyses, plan
from posnmt.study.resources import ByKind
from posnmt.study.workflow import cluster, runner
from posnmt.study.workflow.executors import Local
from posnmt.study.workflow.folder import RUNNING
from posnmt.study.workflow.graph import Graph
from posnmt.study.workflow.kind import Resources
from posnmt.study.workflow.refusal import Backoff, TemporaryRefusal, is_temporary, reason
from tests.support.recipe_case import SMALL, faults_of, written
from tests.support.sources import SOURCES
from tests.support.study_case import Study

ACCOUNTING = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
FAILED = "sbatch: error: Batch job submission failed: "


def resources_of(name, *settings, scale="smoke", data=None):
    """Kind -> what its first step asks for."""
    made = plan(load(name, settings), scale, data)
    steps = {**made.steps, **analyses(made, made.steps)[0]}
    return {step.kind: step.resources for step in reversed([*steps.values()])}


def test_a_scale_says_what_steps_ask_for(tmp_path):
    own = {"all": {"partition": "cpu", "hours": 0.5}, "train": {"gpus": 1, "cores": 4, "partition": "gpu"}}
    tree = {**SMALL, "scales": {"smoke": {**SMALL["scales"]["smoke"], "resources": own}}}
    asked = resources_of(written(tmp_path, tree), "scales.smoke.resources.train.memory=12.5")
    assert asked["train"] == Resources(4, 1, 12.5, 30, 1, "gpu")
    assert asked["translate"] == Resources(1, 0, 4, 30, 1, "cpu")
    assert asked["analyse"] == Resources(2, 0, 4, 30, 1, "cpu")
    assert asked["artificial"] == asked["prepare"] == Resources(1, 0, 2, 30, 1, "cpu")


@pytest.mark.parametrize("name", [name for name in shipped() if "paper" in load(name, check_configs=False).scales])
def test_the_paper_scale_trains_on_a_gpu(name, data):
    asked = resources_of(name, scale="paper", data=data)
    assert asked.pop("train") == Resources(cores=8, gpus=1, memory_gib=32, minutes=24 * 60)
    assert asked.pop("translate").gpus == 1
    assert asked.pop("speed", Resources(gpus=1)).gpus == 1
    assert {each.gpus for each in asked.values()} == {0}
    assert asked["prepare"].memory_gib >= 32
    assert {each.gpus for each in resources_of(name).values()} == {0}


def test_unknown_and_impossible_resources_are_told_with_their_line(tmp_path):
    own = {"train": {"gpu": 1, "memory": 0}, "training": {"gpus": 1}}
    scale = {"resources": own, **SMALL["scales"]["smoke"]}
    path = written(tmp_path, {**SMALL, "scales": {"smoke": scale}})
    lines = Path(path).read_text().splitlines()
    told = faults_of(path).split("\n")
    for key, message in {
        "gpu: 1": "unknown key scales.smoke.resources.train.gpu (own.yaml:{line}); did you mean 'gpus'?",
        "memory: 0": "scales.smoke.resources.train.memory: a number above 0 is needed, got 0 (own.yaml:{line})",
        "training:": "unknown key scales.smoke.resources.training (own.yaml:{line}); did you mean 'train'?",
    }.items():
        [line] = [number for number, text in enumerate(lines, 1) if text.strip() == key]
        assert message.format(line=line) in [each.replace(f"{tmp_path}/", "") for each in told]


@pytest.mark.parametrize("setting", ["translate.gpus=2", "analyse.nodes=2", "all.gpus=2"])
def test_only_training_is_given_several_gpus_or_nodes(tmp_path, setting):
    told = faults_of(written(tmp_path, SMALL), f"scales.smoke.resources.{setting}")
    assert "asks for several GPUs or nodes, and only training uses more than one" in told
    resources_of(written(tmp_path, SMALL), "scales.smoke.resources.train={gpus: 2, nodes: 2}")


def test_resources_change_no_key_but_the_number_of_processes_does(tmp_path):
    def keys(*settings):
        steps = plan(load(written(tmp_path, SMALL), settings), "smoke", None).steps
        graph = Graph(steps.values(), KINDS)
        return {name: graph.key(name) for name in graph.order()}

    of = "scales.smoke.resources"
    assert keys() == keys(
        f"{of}.train={{gpus: 1, cores: 7, memory: 99, hours: 3, partition: gpu}}", f"{of}.all.cores=3"
    )
    two = keys(f"{of}.train.gpus=2")
    changed = {name.split("/")[0] for name, key in keys().items() if two[name] != key}
    assert changed == {"train", "translate"}
    assert two == keys(f"{of}.train.nodes=2") != keys(f"{of}.train={{gpus: 2, nodes: 2}}")


@pytest.mark.parametrize(
    ("cores", "gpus", "wanted", "given"),
    [
        (16, 8, Resources(cores=8, gpus=1), (2, 1)),
        (16, 8, Resources(cores=8), (2, 1)),
        (64, 2, Resources(cores=8, gpus=1), (8, 1)),
        (2, 0, Resources(cores=8, gpus=1), (2, 0)),
    ],
)
def test_training_on_this_machine(cores, gpus, wanted, given):
    got = Local(cores, [str(number) for number in range(gpus)], None).resources(wanted, uses_gpu=True)
    assert (got.cores, got.gpus) == given


def test_steps_may_share_a_gpu():
    """As many as are asked for, each with its share of the cores, on the GPU that fewest use."""
    local = Local(16, ["0", "1"], None, per_gpu=3)
    wanted = local.resources(Resources(cores=8), uses_gpu=True)
    assert (wanted.cores, wanted.gpus) == (2, 1)
    used = []
    for number in range(6):
        assert local.has_capacity(wanted)
        used += local._free()[:1]
        local._taken[Path(str(number))] = wanted.cores, used[-1:]
    assert used == ["0", "1"] * 3
    assert not local.has_capacity(wanted)
    local.ended(Path("1"))
    assert local._free() == ["1"]


def write_program(path, does):
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """The programs of a Slurm that accepts what it is told, and keeps each script as `NUMBER.sh`; their folder."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    sbatch = f'number=$(ls {folder} | grep -c "[.]sh$"); cp $1 {folder}/$number.sh; echo "Submitted batch job $number"'
    for name, does in {"sbatch": sbatch, "srun": "", "squeue": "", "scancel": ""}.items():
        write_program(folder / name, does)
    monkeypatch.setenv("PATH", f"{folder}:{Path('/usr/bin')}:{Path('/bin')}")
    return folder


def script(folder, number):
    """The options of `sbatch` in a script."""
    lines = (folder / f"{number}.sh").read_text().splitlines()
    return {match[1]: match[2] for line in lines if (match := re.match(r"#SBATCH --([\w-]+)=(.*)", line))}


def submitted(jobs, out, key, given):
    (out / key).mkdir(parents=True)
    return jobs.start(out, out / key, key, given)


def test_a_job_is_told_what_its_step_asks_for_and_the_next_one_nothing_of_it(slurm, tmp_path):
    jobs, out = cluster.Cluster(tmp_path / "study", "slurm", None), tmp_path / "study"
    asked = ByKind.model_validate({"train": {"gpus": 1, "cores": 8, "memory": 32, "hours": 24, "partition": "a100"}})
    submitted(jobs, out, "train", asked.of("train"))
    submitted(jobs, out, "corpus", asked.of("corpus"))
    first, second = script(slurm, 0), script(slurm, 1)
    shown = {name: first[name] for name in ("gpus-per-node", "cpus-per-task", "mem", "time", "partition", "nodes")}
    assert shown == {
        "gpus-per-node": "1", "cpus-per-task": "8", "mem": "32GB", "time": "1440", "partition": "a100", "nodes": "1",
    }  # fmt: skip
    assert (second["cpus-per-task"], second["mem"], second["time"]) == ("1", "2GB", "60")
    assert not {"gpus-per-node", "partition"} & second.keys()


@pytest.mark.parametrize(("jobs", "most"), [(None, cluster.JOBS_AT_ONCE), (2, 2)])
def test_jobs_at_once_are_bounded(slurm, tmp_path, jobs, most):
    made, out = cluster.Cluster(tmp_path / "study", "slurm", jobs), tmp_path / "study"
    made._active = most - 1
    assert made.has_capacity(Resources())
    submitted(made, out, "one", Resources())
    assert not made.has_capacity(Resources())
    made.ended(out / "one")
    assert made.has_capacity(Resources())


HOLDS = """
import sys
from pathlib import Path
from posnmt.base.lock import Lock
with Lock(Path(sys.argv[1])):
    print(flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("executor", ["local", "submitit-local", "slurm"])
def test_steps_that_an_earlier_runner_started_count(slurm, tmp_path, executor):
    """Until they end; what does not run counts nothing."""
    out, wanted = tmp_path / "study", Resources()
    (folder := out / "one").mkdir(parents=True)
    held = [sys.executable, "-c", HOLDS, folder / RUNNING]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as step:
        assert step.stdout.readline() == b"\n"
        made = Local(1, [], 1) if executor == "local" else cluster.Cluster(out, executor.removeprefix("submitit-"), 1)
        if executor == "slurm":
            write_program(slurm / "squeue", f'echo "7 {made._prefix}one"')
        assert made.running(out / "other", "other") is None
        assert made.has_capacity(wanted)
        assert made.running(folder, "one").poll() is None
        assert not made.has_capacity(wanted)
        step.stdin.close()
    made.ended(folder)
    assert made.has_capacity(wanted)


@pytest.mark.parametrize(
    "message",
    [
        f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{FAILED}{ACCOUNTING}",
        f"sbatch: error: AssocGrpSubmitJobsLimit\n{FAILED}{ACCOUNTING}",
        f"{FAILED}{ACCOUNTING}",
        f"{FAILED}Required partition not available (inactive or drain)",
        f"{FAILED}Socket timed out on send/recv operation",
        f"{FAILED}Unable to contact slurm controller (connect failure)",
        f"{FAILED}Zero Bytes were transmitted or received",
        f"{FAILED}Resource temporarily unavailable",
        f"{FAILED}Slurm backup controller in standby mode",
    ],
)
def test_refusals_that_pass(message):
    assert is_temporary(message)


@pytest.mark.parametrize(
    "message",
    [
        "sbatch: error: invalid partition specified: nix\n" + FAILED + "Invalid partition name specified",
        FAILED + "Requested node configuration is not available",
        FAILED + "Invalid generic resource (gres) specification",
        FAILED + "Invalid account or account/partition combination specified",
        FAILED + "Requested time limit is invalid (missing or exceeds some limit)",
        f"sbatch: error: QOSMaxMemoryPerJob\n{FAILED}{ACCOUNTING}",
        f"sbatch: error: AssocMaxWallDurationPerJobLimit\n{FAILED}{ACCOUNTING}",
        f"sbatch: error: QOSMaxGRESPerUser\n{FAILED}{ACCOUNTING}",
        FAILED + "words of a plug-in that we do not know",
        "",
    ],
)
def test_refusals_that_do_not(message):
    assert not is_temporary(message)


def test_what_sbatch_says_in_one_line():
    message = f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{FAILED}{ACCOUNTING}\n"
    assert reason(message) == f"QOSMaxSubmitJobPerUserLimit; Batch job submission failed: {ACCOUNTING}"
    assert reason("sbatch: Verify your account\n") == "Verify your account"
    assert reason("squeue: error: Invalid user: 9\n") == "Invalid user: 9"
    assert reason("") == "Slurm does not say why"


def test_waits_grow_until_a_job_is_accepted():
    backoff = Backoff(first=15, longest=100)
    assert backoff.is_over()
    assert [backoff.refused() for _ in range(5)] == [15, 30, 60, 100, 100]
    assert not backoff.is_over()
    backoff.accepted()
    assert backoff.is_over()
    assert backoff.refused() == 15


class Refusing(Local):
    """This machine, but the first few starts are refused."""

    def __init__(self, refusals):
        super().__init__(2, [], None)
        self.refusals = refusals

    def start(self, out, folder, key, given):
        if self.refusals:
            self.refusals -= 1
            raise TemporaryRefusal("too many jobs")
        return super().start(out, folder, key, given)


def test_a_study_waits_for_an_executor_that_refuses(tmp_path, monkeypatch):
    """Nothing runs meanwhile, and another step fails for good, and yet the run does not end."""
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.setattr(runner, "_executor", lambda *arguments: Refusing(3))
    study = Study(tmp_path)
    study.step("one")
    study.step("nodes", resources=Resources(nodes=2))
    study.step("after", needs={"it": "one"})
    summary = study.run()
    assert summary.finished == ["one", "after"]
    assert list(summary.failed) == ["nodes"]
    assert study.lines.count("waiting one: too many jobs") == 3
