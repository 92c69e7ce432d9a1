"""Steps on a Dask cluster of two worker processes: they stop and go on, and so do those of workers that are lost."""

from __future__ import annotations

import os
import signal
import time

import pytest

from posnmt.base.errors import UserError
from posnmt.study.workflow import dask_cluster
from posnmt.study.workflow.kind import Resources
from tests.support.sources import SOURCES
from tests.support.study_case import Study, wait_for

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")
from tests.support.dask_case import DaskCluster, free_address  # noqa: E402


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = DaskCluster(tmp_path_factory.mktemp("dask"), workers=2)
    yield cluster
    cluster.close()


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", SOURCES)


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def worker_of(process):
    """The worker that started a step's process."""
    return psutil.Process(process).ppid()


def test_steps_run_on_both_workers(study, cluster):
    for number in range(2):
        study.step(str(number), "company", company=2)  # each ends once the other has begun
    study.step("text")
    study.step("after", needs={"it": "text"})
    study.step("nodes", resources=Resources(nodes=2))
    study.step("bad", "fail", how="mistake", mended="-")
    summary = study.run(executor="dask", scheduler=cluster.address)
    assert sorted(summary.finished) == ["0", "1", "after", "text"]
    assert study.text("after") == "aftertext"
    assert study.written()[:2] == ["begun 0", "begun 1"] or study.written()[:2] == ["begun 1", "begun 0"]
    assert "use --executor slurm" in summary.failed["nodes"]
    assert summary.failed["bad"].startswith("the text is empty (some.txt:3); put something in")
    assert study.run(executor="dask", scheduler=cluster.address).finished == []


@pytest.mark.slow
def test_a_step_whose_machine_is_lost_goes_on_elsewhere(study, cluster):
    study.long_step()
    study.step("after", "given", needs={"it": "long"})
    runner = study.in_a_process("dask", scheduler=cluster.address)
    process = study.process_of("long")
    wait_for(lambda: "piece long" in study.written())
    os.kill(worker_of(process), signal.SIGKILL)
    os.kill(process, signal.SIGKILL)
    wait_for(lambda: study.written().count("begun long") == 2)
    study.release()
    log = runner.communicate()[0].decode()
    assert runner.returncode == 0, log
    assert set(study.states().values()) == {"done"}, log
    assert study.written().count("piece long") == 10
    assert "failed" not in log
    cluster.worker()


@pytest.mark.slow
def test_a_step_whose_worker_is_lost_alone_is_waited_for(study, cluster):
    study.long_step()
    runner = study.in_a_process("dask", scheduler=cluster.address)
    process = study.process_of("long")
    os.kill(worker_of(process), signal.SIGKILL)
    log = study.folder("long") / "log.txt"
    wait_for(lambda: log.read_text().count("--- ") == 2)  # the other worker starts it, and finds its lock taken
    study.release()
    assert runner.wait() == 0
    assert study.states() == {"long": "done"}
    assert study.written().count("begun long") == 1
    cluster.worker()


@pytest.mark.slow
def test_told_to_stop_the_steps_save_and_the_runner_waits(study, cluster):
    study.long_step()
    study.step("deaf", seconds=3600)
    study.step("after", "given", needs={"it": "long"})
    runner = study.in_a_process("dask", scheduler=cluster.address)
    processes = [study.process_of(name) for name in ("long", "deaf")]
    wait_for(lambda: "piece long" in study.written())
    runner.send_signal(signal.SIGINT)
    log = runner.communicate(timeout=300)[0].decode()
    assert runner.returncode == 130, log
    assert "stopping: long, deaf save their state" in log
    assert not any(map(psutil.pid_exists, processes))
    assert study.states() == {"long": "waiting", "deaf": "waiting", "after": "waiting"}
    study.release()
    study.steps = [step for step in study.steps if step.name != "deaf"]
    assert study.run(executor="dask", scheduler=cluster.address).finished == ["long", "after"]
    assert study.written().count("piece long") == 10


@pytest.mark.slow
def test_the_runner_is_killed_and_its_steps_live(study, cluster):
    study.long_step()
    first = study.in_a_process("dask", scheduler=cluster.address)
    study.process_of("long")
    first.kill()
    first.wait()
    summary = study.run("long is running already", executor="dask", scheduler=cluster.address)
    assert summary.finished == ["long"]
    assert study.written().count("begun long") == 1


@pytest.mark.slow
def test_steps_wait_for_workers(study, tmp_path):
    own = DaskCluster(tmp_path, workers=0)
    try:
        study.step("one")
        study.step("nodes", resources=Resources(nodes=2))  # fails for good, which does not end the wait
        with pytest.raises(KeyboardInterrupt):  # its time is over
            study.run(executor="dask", scheduler=own.address, until=time.monotonic() + 2)
        assert study.lines[0] == "waiting one: the scheduler has no worker; looking again in 1 s"
        assert study.states() == {"one": "waiting", "nodes": "failed"}
    finally:
        own.close()


def test_steps_wait_for_gpus(study, cluster):
    study.step("gpu", resources=Resources(gpus=1))
    with pytest.raises(KeyboardInterrupt):
        study.run(executor="dask", scheduler=cluster.address, until=time.monotonic() + 2)
    assert "the scheduler has no worker that was started with --resources GPU=1; looking again in" in study.lines[0]
    assert study.states() == {"gpu": "waiting"}


@pytest.mark.slow
def test_a_scheduler_that_ends(study, tmp_path):
    """Its running steps go on, and the others are not begun."""
    own = DaskCluster(tmp_path, workers=1)
    try:
        study.long_step()
        study.step("after", "given", needs={"it": "long"})
        runner = study.in_a_process("dask", scheduler=own.address)
        wait_for(lambda: "piece long" in study.written())
        own.end_scheduler()
        study.release()
        log = runner.communicate()[0].decode()
    finally:
        own.close()
    assert runner.returncode == 0, log
    assert f"failed  after: the Dask scheduler at {own.address} has ended (--scheduler); start one" in log
    assert study.states() == {"long": "done", "after": "failed"}
    assert study.written().count("begun long") == 1


def test_a_scheduler_that_is_not_there(study, monkeypatch):
    monkeypatch.setattr(dask_cluster, "CONNECT", 1.0)
    study.step("one")
    for address in (free_address(), "nowhere://at-all"):
        with pytest.raises(UserError) as raised:
            study.run(executor="dask", scheduler=address)
        [line] = raised.value.lines
        assert line.startswith(f"no Dask scheduler answers at {address}: ")
        assert line.endswith("(--scheduler); start one with `dask scheduler`, or check the address")
    with pytest.raises(UserError, match="add --scheduler ADDRESS"):
        study.run(executor="dask")
