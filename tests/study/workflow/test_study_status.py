"""How a study stands, as it is shown; and its steps as jobs of submitit's executor for one machine."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from rich.console import Console

from posnmt.study.workflow import status
from posnmt.study.workflow.kind import Resources
from posnmt.study.workflow.status import State, Table
from tests.support.sources import SOURCES
from tests.support.study_case import RUN_IT, Study, wait_for

KINDS = {"train/a": "train", "train/b": "train", "translate/a": "translate", "translate/b": "translate"}
FOUND = [
    State("train/a", "done", 7260.0),
    State("train/b", "failed", None, "the loss is no longer a number [step 3]; lower it"),
    State("translate/a", "running", 61.0, "step 20  4.1 tokens/s"),
    State("translate/b", "blocked", None, "it needs train/b, which is failed"),
]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", SOURCES)


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def shown(terminal):
    stream = io.StringIO()
    Console(file=stream, force_terminal=terminal, width=100, color_system=None).print(Table(FOUND, KINDS))
    return stream.getvalue()


def test_plain_lines_where_there_is_no_terminal():
    assert shown(False).splitlines() == [
        "done     train/a (2 h 01 min)",
        "failed   train/b the loss is no longer a number [step 3]; lower it",
        "running  translate/a (1 min 01 s) step 20  4.1 tokens/s",
        "blocked  translate/b it needs train/b, which is failed",
    ]


def test_a_table_on_a_terminal():
    lines = [" ".join(line.replace("│", " ").split()) for line in shown(True).splitlines()]
    assert "train 1 1 2" in lines
    assert "translate 1 1 2" in lines
    assert any(line.startswith("train/b failed the loss is no longer a number [step 3];") for line in lines)
    assert any(line.startswith("translate/a running 1 min 01 s step 20 4.1 tokens/s") for line in lines)
    assert not any(line.startswith("translate/b") for line in lines)


def test_a_study_that_was_never_begun_waits_and_nothing_is_written(study):
    study.step("one")
    assert study.states() == {"one": "waiting"}
    assert not study.out.exists()


def test_what_a_running_step_says_and_how_long_it_runs(study):
    study.long_step()
    runner = study.in_a_process()
    study.process_of("long")
    found = wait_for(lambda: (now := status.states(study.graph, study.out)["long"]).line and now)
    assert found.state == "running"
    assert found.line.startswith("piece ")
    assert found.seconds >= 0
    runner.send_signal(signal.SIGTERM)
    runner.wait()


@pytest.mark.slow
def test_on_a_terminal_the_table_and_the_lines_are_both_seen(study):
    study.long_step()
    steps = json.dumps([{"name": s.name, "kind": s.kind, "settings": s.settings} for s in study.steps])
    display = RUN_IT.replace(
        "runner.run(", "from posnmt.base.progress import Display\n    with Display() as display: runner.run("
    ).replace("lambda line: print(line, flush=True)", "display.say")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", display, str(study.out), steps]
    process = subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # so Linux ends what comes from a terminal that is closed
        while more := os.read(ours, 65536):
            seen += more
            if b"piece 0" in seen:
                study.release()
    assert process.wait() == 0, seen
    text = seen.decode()
    assert "started long" in text
    assert "done    long" in text
    assert "│ pieces │" in text
    assert "piece 0" in text


class TestSubmitit:
    """The executor that makes jobs, without a cluster."""

    def test_steps_as_jobs(self, study, tmp_path):
        study.step("one")
        study.step("two")
        study.step("both", needs={"a": "one", "b": "two"})
        study.step("bad", "fail", how="mistake", mended=str(tmp_path / "mended"))
        study.step("nodes", resources=Resources(nodes=2))
        summary = study.run(executor="submitit-local")
        assert study.text("both") == "bothonetwo"
        assert set(summary.failed) == {"bad", "nodes"}
        assert "the text is empty (some.txt:3); put something in" in summary.failed["bad"]
        assert not list(study.out.glob("steps/*/*/job.json"))
        assert study.run(executor="submitit-local", retry=False).finished == []

    @pytest.mark.slow  # test_several_gpus_are_a_process_each has them without jobs
    def test_processes_of_torchrun(self, study):
        study.step("ranks", "ranks", resources=Resources(gpus=2))
        summary = study.run(executor="submitit-local")
        assert not summary.failed, (study.folder("ranks") / "log.txt").read_text()
        assert [(study.folder("ranks") / f"rank-{rank}").read_text() for rank in (0, 1)] == ["2 1", "2 1"]

    def test_a_job_outlives_its_runner_and_its_end_is_seen(self, study):
        study.long_step()
        runner = study.in_a_process("submitit-local")
        study.process_of("long")
        runner.kill()
        runner.wait()
        assert study.run(release_at="long is running already", executor="submitit-local").finished == ["long"]
        assert study.written().count("begun long") == 1

    def test_told_to_stop_the_job_saves(self, study):
        study.long_step()
        runner = study.in_a_process("submitit-local")
        study.process_of("long")
        wait_for(lambda: "piece long" in study.written())
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(timeout=300) == 130
        assert study.states() == {"long": "waiting"}
        study.release()
        assert study.run(executor="submitit-local").finished == ["long"]
        assert study.written().count("piece long") == 10

    def test_a_job_that_is_killed(self, study):
        study.long_step()
        runner = study.in_a_process("submitit-local")
        os.kill(study.process_of("long"), signal.SIGKILL)
        log = runner.communicate()[0].decode()
        assert "failed  long: it was ended by signal 9" in log
        study.release()
        assert study.run().finished == ["long"]
