"""The test cluster itself: it starts, stops, heals, and says what is wrong with what it was asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from posnmt.base.errors import UserError
from tests.slurm import cluster as programs
from tests.slurm.cluster import Cluster
from tests.slurm.queue_control import wait_for

SCRIPT = Path(programs.__file__)


def processes(cluster):
    return {daemon.name: cluster.process(daemon.name) for daemon in cluster.daemons()}


def answer(cluster, *command):
    return subprocess.check_output(command, env=cluster.environment, text=True).strip()


def cluster_command(*arguments):
    """What the script says, with its exit status."""
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def another(cluster_folder):
    """A cluster beside the one that runs. munged wants a folder that everybody may enter, which tmp_path is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        made = Cluster(Path(folder) / "another")
        yield made
        made.stop()


def test_a_second_start_changes_nothing(another):
    assert another.start()
    running = processes(another)
    assert all(running.values())
    assert not another.start()
    assert processes(another) == running
    with pytest.raises(UserError, match="the cluster runs with 1 nodes"):
        Cluster(another.state, nodes=2).start()


def test_a_cluster_with_a_dead_daemon_is_started_anew(another):
    another.start()
    before = processes(another)
    os.kill(before["slurmctld"], signal.SIGKILL)
    assert cluster_command("--state", str(another.state), "status")[0] == 3
    assert another.start()
    after = processes(another)
    assert all(after.values())
    assert set(after.values()).isdisjoint(before.values())
    assert answer(another, "srun", "echo", "works") == "works"


def test_stopping_ends_the_jobs_and_leaves_the_logs(another, tmp_path):
    another.start()
    number = tmp_path / "number"
    answer(another, "sbatch", "--output=/dev/null", "--wrap", f"echo $$ > {number}; exec sleep 600")
    assert wait_for(lambda: number.exists() and number.read_text().strip())
    another.stop()
    another.stop()
    assert not Path(f"/proc/{number.read_text().strip()}").exists()
    assert not any(processes(another).values())
    assert sorted(path.name for path in another.state.iterdir()) == sorted([programs.MARK, "log"])
    assert "slurmctld" in (another.state / "log" / "slurmctld").read_text()


def test_a_stopped_cluster_says_so(tmp_path):
    status, out, _ = cluster_command("--state", str(tmp_path / "none"), "status")
    assert status == 3
    assert out.count("stopped") == len(Cluster(tmp_path / "none").daemons())


def test_missing_programs_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "PROGRAMS", ["ls", "slurm-of-nobody"])
    with pytest.raises(UserError, match=r"are missing: slurm-of-nobody; run `python .*cluster.py install`"):
        Cluster(tmp_path / "none").start()


@pytest.mark.parametrize(
    ("folder", "fault"),
    [("full", "not empty, nor that of a cluster"), ("full/file", "a file stands"), ("n" * 81, "longer than 80")],
)
def test_a_folder_that_is_not_the_clusters_is_left_alone(monkeypatch, folder, fault):
    monkeypatch.setattr(programs, "PROGRAMS", [])
    with tempfile.TemporaryDirectory() as name:  # shorter than pytest's
        place = Path(name)
        (place / "full").mkdir()
        (place / "full" / "file").write_text("kept")
        with pytest.raises(UserError, match=fault):
            Cluster(place / folder).start()
        assert (place / "full" / "file").read_text() == "kept"
        Cluster(place / "full").stop()
        assert (place / "full" / "file").read_text() == "kept"


def test_a_failing_command_gives_its_status_and_a_fault_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    status, _, error = cluster_command("--state", str(tmp_path), "run", "true")
    assert status == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert cluster_command("run")[0] == 2
