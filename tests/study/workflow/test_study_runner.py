"""The runner of studies, with real processes: it stops and goes on anywhere, and what fails stops nothing else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from posnmt.base.errors import UserError
from posnmt.study.workflow import runner, status
from posnmt.study.workflow.graph import Graph
from posnmt.study.workflow.kind import Resources
from tests.support.sources import SOURCES
from tests.support.study_case import Study, wait_for


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", SOURCES)


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def test_steps_run_after_those_that_they_need_and_once(study, tmp_path):
    (tmp_path / "file").write_text("!")
    study.step("both", needs={"a": "one", "b": "two"}, files={"file": tmp_path / "file"})
    study.step("one", text="1")
    study.step("two", text="2")
    summary = study.run()
    assert study.text("both") == "both12!"
    assert sorted(summary.finished) == ["both", "one", "two"]
    assert not summary.failed
    assert not summary.blocked
    assert study.run().finished == []
    assert len(study.written()) == 3


def test_what_a_finished_step_leaves(study):
    study.step("one", "link")
    study.run()
    folder = study.folder("one")
    assert folder == study.out / "steps" / "link" / study.graph.key("one")[:16]
    done = json.loads((folder / "done.json").read_text())
    assert sorted(done["files"]) == ["copy", "déjà/vu/a b"]
    assert done["files"]["copy"]["sha256"] == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert done["versions"]["python"] == sys.version.split()[0]
    assert not (folder / "running.json").exists()
    assert (folder / "log.txt").read_text().startswith("--- ")


def test_only_what_a_change_touches_is_made_again(study, tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    for name in ("one", "two"):
        study.step(name, files={"file": file} if name == "one" else {})
        study.step(f"after {name}", needs={"it": name})
    study.run()
    file.write_text("new")
    assert sorted(study.run().finished) == ["after one", "one"]
    assert study.text("after one") == "after oneonenew"
    moved = tmp_path / "moved"
    file.rename(moved)
    study.steps[0].files["file"] = moved
    assert study.run().finished == []
    newer = Graph(study.steps, "tests.support.study_kinds:NEWER")
    assert newer.key("one") != study.graph.key("one")


def test_steps_of_one_key_are_run_once(study):
    study.step("one", text="same")
    study.step("another", text="same")
    study.step("after", needs={"it": "another"})
    summary = study.run()
    assert len(study.written()) == 2
    assert set(study.states().values()) == {"done"}
    assert {each.state for each in summary.states.values()} == {"done"}


def test_two_at_once_where_there_is_room(study):
    """Steps that wait for one another end where there are two cores, and those of one job never overlap."""
    for number in range(2):
        study.step(str(number), "company", company=1)
    study.run(jobs=1)
    assert [line.split()[0] for line in study.written()] == ["begun", "ended"] * 2
    study.steps.clear()
    study.list.unlink()
    for number in range(2):
        study.step(str(number), "company", company=2)
    runner._Runner(study.graph, study.out, two_cores(), *quiet(study)).run()
    assert [line.split()[0] for line in study.written()] == ["begun"] * 2 + ["ended"] * 2


def two_cores():
    from posnmt.study.workflow.executors import Local

    return Local(2, ["0", "1"], None)


def quiet(study):
    from posnmt.base.interrupt import StopSignal

    return status.Board(study.graph, lambda line: None), StopSignal(), True, None


def test_a_step_is_given_its_share_of_the_machine(study):
    study.step("plain", "given")
    study.step("on a GPU", "on-gpu", resources=Resources(cores=5))
    study.step("too many GPUs", "given", resources=Resources(gpus=3))
    study.step("nodes", "given", resources=Resources(nodes=2))
    summary = runner._Runner(study.graph, study.out, two_cores(), *quiet(study)).run()
    assert study.text("plain") == "1 "
    assert study.text("on a GPU") in ("1 0", "1 1")  # of two cores those of one of two GPUs
    assert "asks for 3 GPUs, and this machine has 2" in summary.failed["too many GPUs"]
    assert "use --executor slurm" in summary.failed["nodes"]


@pytest.mark.slow
def test_several_gpus_are_a_process_each(study):
    study.step("ranks", "ranks", resources=Resources(gpus=2))
    summary = runner._Runner(study.graph, study.out, two_cores(), *quiet(study)).run()
    assert not summary.failed, (study.folder("ranks") / "log.txt").read_text()
    assert [(study.folder("ranks") / f"rank-{rank}").read_text() for rank in (0, 1)] == ["2 1", "2 1"]


@pytest.mark.parametrize(
    ("how", "status_", "message"),
    [
        ("mistake", 2, "the text is empty (some.txt:3); put something in"),
        ("fault", 1, "ZeroDivisionError: of ours"),
        ("killed", -9, "it was ended by signal 9, perhaps because memory ran out"),
        ("exit", 7, "it ended with status 7"),
    ],
)
def test_a_failed_step_is_recorded_and_the_others_go_on(study, tmp_path, how, status_, message):
    study.step("bad", "fail", how=how, mended=str(tmp_path / "mended"))
    study.step("after", needs={"it": "bad"})
    study.step("after that", needs={"it": "after"})
    study.step("other")
    summary = study.run()
    assert study.states() == {"bad": "failed", "other": "done", "after": "blocked", "after that": "blocked"}
    assert message in summary.failed["bad"]
    assert set(summary.blocked.values()) == {"it needs bad, which is failed"}
    failed = json.loads((study.folder("bad") / "failed.json").read_text())
    assert failed["status"] == status_
    assert failed["user_error"] == (how == "mistake")
    if how == "fault":
        assert "before the fault" in failed["lines"]
    assert study.run(retry=False).finished == []
    (tmp_path / "mended").touch()
    assert sorted(study.run().finished) == ["after", "after that", "bad"]
    assert set(study.states().values()) == {"done"}


def test_the_runner_is_killed_and_its_steps_live(study):
    study.long_step()
    study.step("after", needs={"it": "long"}, kind="given")
    first = study.in_a_process()
    study.process_of("long")
    first.kill()
    first.wait()
    assert study.states() == {"long": "running", "after": "waiting"}
    summary = study.run(release_at="long is running already")
    assert "long is running already" in study.lines
    assert summary.finished == ["long", "after"]
    assert study.written().count("begun long") == 1


def test_a_step_is_killed_and_goes_on(study):
    study.long_step()
    first = study.in_a_process()
    process = study.process_of("long")
    wait_for(lambda: "piece long" in study.written())
    os.kill(process, signal.SIGKILL)
    log = first.communicate()[0].decode()
    assert "failed  long: it was ended by signal 9" in log
    study.release()
    assert study.run().finished == ["long"]
    assert study.written().count("begun long") == 2
    assert study.written().count("piece long") == 10


def test_a_run_ends_with_its_time_and_its_steps_save_their_state(study):
    study.long_step()
    study.step("after", needs={"it": "long"}, kind="given")
    with pytest.raises(KeyboardInterrupt):
        study.run(until=time.monotonic() + 2)
    assert study.states() == {"long": "waiting", "after": "waiting"}
    study.release()
    assert study.run(until=time.monotonic() + 600).finished == ["long", "after"]


def test_runner_and_step_are_killed(study):
    study.long_step()
    first = study.in_a_process()
    process = study.process_of("long")
    wait_for(lambda: "piece long" in study.written())
    first.kill()
    first.wait()
    os.kill(process, signal.SIGKILL)
    wait_for(lambda: study.states() == {"long": "waiting"})
    study.release()
    assert study.run().finished == ["long"]
    assert study.written().count("piece long") == 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_the_steps_save_and_the_runner_waits(study, number):
    study.long_step()
    study.step("deaf", seconds=3600)
    study.step("after", needs={"it": "long"})
    first = study.in_a_process()
    study.process_of("long")
    study.process_of("deaf")
    wait_for(lambda: "piece long" in study.written())
    first.send_signal(number)
    log = first.communicate(timeout=300)[0].decode()
    assert first.returncode == 130, log
    assert "stopping: long, deaf save their state" in log
    assert "stopped; to go on, run the same command again" in log
    assert study.states() == {"long": "waiting", "deaf": "waiting", "after": "waiting"}
    assert study.written().count("piece long") == 1


def test_two_runners_do_not_share_a_folder(study):
    study.long_step()
    first = study.in_a_process()
    study.process_of("long")
    with pytest.raises(UserError, match=f"process {first.pid} on .* has been running this study since"):
        study.run()
    first.send_signal(signal.SIGTERM)
    first.wait()


@pytest.mark.parametrize("name", ["text", "done.json"])
@pytest.mark.parametrize("how", ["other bytes", "longer", "gone"])
def test_an_altered_output_is_told_and_not_used(study, name, how):
    study.step("one")
    study.step("two")
    study.run()
    study.step("after", needs={"it": "one"})
    path = study.folder("one") / name
    before = path.stat()
    if how == "gone":
        path.unlink()
    else:
        text = path.read_text()
        path.write_text(text.replace("e", "f") if how == "other bytes" else text + "more")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    if (name, how) == ("done.json", "gone"):
        assert study.run().finished == ["one", "after"]  # not finished, so it is made again
        return
    summary = study.run()
    what = f"the file {name} is" if name == "text" else "done.json is not as it was written"
    assert summary.failed["one"].startswith(what)
    assert f"delete {study.folder('one')} to make it again, or restore it" in summary.failed["one"]
    assert summary.blocked == {"after": "it needs one, which is altered"}
    assert summary.states["two"].state == "done"
    shutil.rmtree(study.folder("one"))
    assert study.run().finished == ["one", "after"]


def test_other_bytes_of_the_same_size_are_found_by_the_time_of_change(study):
    """Without the whole file being read: as the status and the report look at it."""
    study.step("one")
    study.run()
    path = study.folder("one") / "text"
    before = path.stat()
    path.write_text(path.read_text().replace("e", "f"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size
    assert study.states() == {"one": "altered"}


def test_a_copied_study_is_intact(study, tmp_path):
    study.step("one")
    study.step("after", needs={"it": "one"})
    study.run()
    shutil.copytree(study.out, tmp_path / "copy", copy_function=shutil.copyfile)
    study.out = tmp_path / "copy"
    assert study.states() == {"one": "done", "after": "done"}
    assert study.run().finished == []


def test_a_missing_input_file_fails_its_step_alone(study, tmp_path):
    study.step("one", files={"corpus": tmp_path / "absent"})
    study.step("after", needs={"it": "one"})
    study.step("two")
    summary = study.run()
    assert summary.failed == {
        "one": f"the corpus of the step 'one' does not exist ({tmp_path / 'absent'}); check the path",
        "after": f"the corpus of the step 'one' does not exist ({tmp_path / 'absent'}); check the path",
    }
    assert summary.finished == ["two"]


def test_an_input_that_changes_meanwhile_is_refused(study, tmp_path):
    (tmp_path / "file").write_text("before")
    study.step("one", "changes-input", files={"corpus": tmp_path / "file"})
    assert "the corpus was changed while the step ran" in study.run().failed["one"]


def test_no_space_is_a_sentence(study):
    study.step("one", "full")
    study.step("two")
    summary = study.run()
    assert "no space is left on the disk" in summary.failed["one"]
    assert "free some space and run the study again" in summary.failed["one"]
    assert summary.finished == ["two"]


def test_a_disk_without_room_even_for_the_record(study, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only")
    try:
        study.out = disk / "study"
        study.step("one", "fill", bytes=2**20)
        study.step("two")
        summary = study.run(jobs=1)
        assert "no space is left on the disk" in summary.failed["one"]
        try:
            failures = list(study.run(jobs=1).failed.values())
        except UserError as error:  # not even the runner can begin
            failures = [str(error)]
        assert failures
        assert all("no space is left on the disk" in each for each in failures)
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        assert "one" in study.run().finished
        assert set(study.states().values()) == {"done"}
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_an_unknown_executor(study):
    with pytest.raises(UserError, match="no executor is called 'slrum'; did you mean 'slurm'"):
        study.run(executor="slrum")
