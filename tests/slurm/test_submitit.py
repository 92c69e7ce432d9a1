"""What the executor on Slurm relies on: submitit and a real Slurm do together what they say."""

from __future__ import annotations

import os
import subprocess

import pytest
import submitit

from tests.slurm.cluster_jobs import Counted, end_hard, everything_read, gpus, stay, sum_of_ranks
from tests.slurm.queue_control import begin_again_soon, wait_for


def state_of(job, *wanted):
    """The job's state by sacct, once it begins as wanted or the time is over; accounting lags behind a little."""
    wait_for(lambda: job.watcher.get_state(job.job_id, mode="force").startswith(wanted))
    return job.watcher.get_state(job.job_id, mode="cache")


def go_on_soon(job):
    """Have a job that is put back into the queue begin again, until submitit knows of it."""
    begin_again_soon(job.job_id)
    # Between two attempts accounting calls the job REQUEUED, and submitit would take it for ended.
    assert state_of(job, "RUNNING", "COMPLETED") in ("RUNNING", "COMPLETED")


@pytest.fixture
def first_node(cluster_folder):
    """The name of a node and its memory in MB."""
    told = subprocess.check_output(["sinfo", "--noheader", "--Node", "--format=%N %m"], text=True)
    name, memory = told.splitlines()[0].split()
    return name, int(memory)


def test_a_function_returns_its_result(executor):
    job = executor.submit(divmod, 7, 2)
    assert job.result() == (3, 1)
    assert state_of(job, "COMPLETED") == "COMPLETED"


def test_a_failure_says_why(executor, tmp_path):
    job = executor.submit(everything_read, tmp_path / "absent")
    with pytest.raises(submitit.core.utils.FailedJobError, match="No such file or directory"):
        job.result()
    assert state_of(job, "FAILED") == "FAILED"


def test_a_job_that_is_killed_is_known_to_have_failed(executor):
    job = executor.submit(end_hard)
    assert state_of(job, "FAILED") == "FAILED"
    assert job.done(force_check=True)


def test_a_cancelled_job_ends(executor):
    job = executor.submit(stay, 300)
    assert state_of(job, "RUNNING") == "RUNNING"
    job.cancel()
    assert state_of(job, "CANCELLED").startswith("CANCELLED")
    assert job.done(force_check=True)


def test_what_no_node_has_is_refused_at_once(executor):
    executor.update_parameters(mem="99999GB")
    with pytest.raises(submitit.core.utils.FailedJobError, match="Memory specification can not be satisfied"):
        executor.submit(divmod, 7, 2)


def test_jobs_run_side_by_side_as_far_as_the_memory_goes(executor, first_node):
    name, memory = first_node
    executor.update_parameters(mem=f"{memory * 45 // 100}MB", nodelist=name)
    spans = [job.result() for job in [executor.submit(stay, 4) for _ in range(3)]]
    at_once = max(sum(start <= moment < end for start, end in spans) for moment, _ in spans)
    assert at_once == min(2, os.cpu_count() or 1)


def test_a_job_sees_the_gpus_that_it_was_given(executor):
    executor.update_parameters(gpus_per_node=1)
    jobs = [executor.submit(gpus) for _ in range(2)]
    assert all(job.result() in ("0", "1") for job in jobs)


@pytest.mark.parametrize(("nodes", "processes"), [(1, 2), (2, 1)])
def test_processes_of_torchrun_meet(executor, nodes, processes):
    executor.update_parameters(nodes=nodes, ntasks_per_node=1, mem="2GB")
    told = executor.submit(sum_of_ranks, processes).results()
    assert len(told) == nodes
    assert sum(text.count("2 processes, ranks add up to 1") for text in told) == 2


def test_a_job_that_is_preempted_goes_on_where_it_was(executor, tmp_path):
    job = executor.submit(Counted(10, tmp_path / "begun"))
    assert wait_for((tmp_path / "begun").exists)
    job._interrupt(timeout=False)
    go_on_soon(job)
    starts, done = job.result()
    assert (starts > 1, done) == (True, 10)


def test_a_job_that_reaches_its_time_limit_goes_on_where_it_was(executor, tmp_path):
    # A minute is the least that Slurm knows; it warns a job that many seconds before the end.
    executor.update_parameters(time=1, signal_delay_s=45)
    job = executor.submit(Counted(10, tmp_path / "begun"))
    assert wait_for((tmp_path / "begun").exists)
    go_on_soon(job)
    starts, done = job.result()
    assert (starts > 1, done) == (True, 10)
