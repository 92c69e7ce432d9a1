"""Run steps as jobs of a cluster: Slurm through submitit, or submitit's local executor.

The name of a job identifies the study and the step, so that the next runner finds the job in Slurm's queue even if this
runner was killed after submitting the job and before recording it. Further options of `sbatch`, such as the account,
come from its environment variables (SBATCH_ACCOUNT). A submission that Slurm refuses temporarily is retried later.
Before a job reaches its time limit or is preempted, it gets a signal: its step saves its state, and Slurm requeues it.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import time
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.base.lock import holder
from posnmt.base.output import write_json
from posnmt.base.parallel.cores import available_cores
from posnmt.study.workflow.execute import STOPPED
from posnmt.study.workflow.executors import UNKNOWN, Executor, Job, Running, command, launch, stop_step
from posnmt.study.workflow.folder import DONE, FAILED, JOB, RUNNING, SHORT
from posnmt.study.workflow.kind import Resources
from posnmt.study.workflow.refusal import Backoff, TemporaryRefusal, is_temporary, reason

JOBS = "jobs"
NOTICE = 120  # seconds that a step has to save its state before its time limit
RESTARTS = 20  # of a job that reaches its time limit
QUERY_INTERVAL = 10.0  # seconds between two calls of squeue
JOBS_AT_ONCE = 50  # in Slurm's queue, unless --jobs says otherwise


class StepJob:
    """The callable that a job runs. submitit calls it on every node, and calls `checkpoint` before the time limit."""

    def __init__(self, out: Path, folder: Path, key: str, resources: Resources) -> None:
        self.out, self.folder, self.key, self.resources = out, folder, key, resources

    def __call__(self) -> int:
        """Run the step's process on this node; return its exit status."""
        import submitit

        job = submitit.JobEnvironment()
        rendezvous = None
        if self.resources.nodes > 1:
            # The port depends on the job, so that jobs that share a node do not collide.
            rendezvous = [
                f"--nnodes={job.num_nodes}", f"--node-rank={job.node}", f"--master-addr={job.hostnames[0]}",
                f"--master-port={20000 + int(job.job_id) % 10000}",
            ]  # fmt: skip
        process = launch(command(self.out, self.key, self.resources, rendezvous), self.folder, self.resources.cores, {})
        # `checkpoint` interrupts this loop, which therefore must not hold a lock, as Popen.wait does.
        while (status := process.poll()) is None:
            time.sleep(0.1)
        if status == STOPPED and job.cluster == "slurm":
            # Before Slurm preempts a node it signals the step, too; the signal for this process comes later.
            time.sleep(NOTICE)
        return status

    def checkpoint(self) -> Any:
        """Make the step save its state; return the submission that continues it."""
        import submitit

        until = time.monotonic() + NOTICE
        stop_step(self.folder)
        while holder(self.folder / RUNNING) is not None and time.monotonic() < until:
            time.sleep(0.1)
        return submitit.helpers.DelayedSubmission(StepJob(self.out, self.folder, self.key, self.resources))


class Cluster(Executor):
    """Executor that submits steps as jobs through submitit.

    Args:
        out: the study's folder, on a file system that all nodes share.
        cluster: `slurm`, or `local`.
        jobs: maximum number of jobs that are queued or running; None: `JOBS_AT_ONCE` on Slurm, else one per core.

    Raises:
        UserError: submitit or Slurm is not installed.
    """

    def __init__(self, out: Path, cluster: str, jobs: int | None) -> None:
        try:
            import submitit
        except ImportError:
            raise UserError("submitit is not installed", "--executor", "pip install 'posnmt[slurm]'") from None
        self.name = "slurm" if cluster == "slurm" else f"submitit-{cluster}"
        self._queue = Queue() if cluster == "slurm" else None
        self._active = 0  # number of its jobs that have not ended
        self._jobs = jobs or (JOBS_AT_ONCE if self._queue is not None else available_cores())
        self._backoff = Backoff()
        self._unsure: set[str] = set()  # names of jobs that may have been submitted although sbatch failed
        self._unknown: set[str] = set()  # names of jobs that may be in the queue, because squeue did not answer
        restarts: dict[str, Any] = {f"{cluster}_max_num_timeout": RESTARTS}
        # One executor per job: an executor keeps the parameters of earlier jobs.
        self._executor = partial(submitit.AutoExecutor, out / JOBS, cluster=cluster, **restarts)
        try:
            self._executor()
        except RuntimeError as error:
            raise UserError(f"submitit finds no Slurm: {error}", "--executor", "run it where sbatch works") from None
        # Job names are visible to all users, and one cluster may run several studies.
        self._prefix = f"posnmt-{hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:8]}-"

    def resources(self, requested: Resources, uses_gpu: bool) -> Resources:
        """What the step asks for: Slurm itself refuses what it does not have."""
        return requested if self._queue is not None else super().resources(requested, uses_gpu)

    def has_capacity(self, requested: Resources) -> bool:
        """Whether another job may be submitted: below the maximum number, and not waiting after a refusal."""
        return self._active < self._jobs and self._backoff.is_over()

    def start(self, out: Path, folder: Path, key: str, resources: Resources) -> Job:
        """Submit a step as a job, unless its job is in the queue already.

        Raises:
            TemporaryRefusal: the cluster refuses the job, but may accept it later.
            UserError: the cluster refuses the job permanently.
        """
        import submitit

        name = self._prefix + key[:SHORT]
        if name in self._unsure:
            self._cancel(name)
        if name in self._unknown:
            self._unknown.discard(name)
            if (queued := self.running(folder, key)) is not None:
                return queued
            if self._queue is not None and not self._queue.answers:
                raise self._refused(self._queue.error)
        executor = self._executor()
        executor.update_parameters(**self._parameters(name, resources))
        try:
            with redirect_stderr(io.StringIO()):  # submitit prints the output of sbatch, which is in the error, too
                job = executor.submit(StepJob(out.resolve(), folder.resolve(), key, resources))
        except submitit.core.utils.FailedJobError as error:
            message = str(error)
            if self._queue is not None and is_temporary(message):
                self._unsure.add(name)
                raise self._refused(reason(message)) from None
            raise UserError(f"the cluster refuses the job: {reason(message)}", folder, "ask for what it has") from None
        self._backoff.accepted()
        self._unsure.discard(name)
        self._active += 1
        write_json(folder / JOB, {"id": job.job_id, "cluster": "slurm" if self._queue else "local"})
        return _SlurmJob(folder, job.job_id, self._queue) if self._queue else _LocalJob(folder, job)

    def _parameters(self, name: str, resources: Resources) -> dict[str, Any]:
        """The submitit parameters of a job."""
        return {
            "name": name,
            "timeout_min": max(1, round(resources.minutes)),
            "mem_gb": resources.memory_gib,
            "nodes": resources.nodes,
            "tasks_per_node": 1,
            "cpus_per_task": resources.cores,
            # Since Slurm 22.05, srun does not inherit it from its job.
            "slurm_srun_args": [f"--cpus-per-task={resources.cores}"],
            # None requests nothing; a cluster without GPUs refuses even a request for 0.
            "gpus_per_node": resources.gpus or None,
            "slurm_partition": resources.partition,
            "slurm_signal_delay_s": round(min(NOTICE, 30 * resources.minutes)),
        }

    def _cancel(self, name: str) -> None:
        """Cancel a job that Slurm accepted although sbatch failed; such a job lacks its pickled callable.

        Raises:
            TemporaryRefusal: Slurm does not answer.
        """
        words = ["scancel", f"--user={os.getuid()}", f"--name={name}"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            raise self._refused("scancel does not answer") from None
        if done.returncode:
            raise self._refused(reason(done.stderr))

    def _refused(self, why: str) -> TemporaryRefusal:
        """The exception for a refusal, which also delays the next attempt."""
        return TemporaryRefusal(
            f"the cluster accepts no job now: {why}; trying again in {self._backoff.refused():.0f} s"
        )

    def running(self, folder: Path, key: str) -> Job | None:
        """The job of a step, if it is queued or running."""
        job = self._local(folder) if self._queue is None else self._queued(self._queue, folder, key)
        self._active += job is not None
        return job

    def _local(self, folder: Path) -> Job | None:
        return Running(folder) if holder(folder / RUNNING) is not None else None

    def _queued(self, queue: Queue, folder: Path, key: str) -> Job | None:
        number = queue.find(name := self._prefix + key[:SHORT])
        if not queue.answers:
            self._unknown.add(name)
        return None if number is None else _SlurmJob(folder, number, queue)

    def ended(self, folder: Path) -> None:
        """Free the place of a job that ended, and remove the record of it."""
        self._active -= 1
        (folder / JOB).unlink(missing_ok=True)


class Queue:
    """The user's jobs in Slurm's queue, from one call of squeue for all steps.

    sacct is not used: it lags behind, reports a requeued job as failed, and is not available on every cluster.

    Attributes:
        answers: number of successful calls.
        error: why the last failed call failed.
    """

    def __init__(self) -> None:
        self._queried, self._names, self.answers = 0.0, dict[str, str](), 0
        self.error = "squeue does not answer"

    def _refresh(self) -> None:
        if time.monotonic() - self._queried < QUERY_INTERVAL and self.answers:
            return
        words = ["squeue", "--noheader", f"--user={os.getuid()}", "--format=%i %j"]
        try:
            query = subprocess.run(words, capture_output=True, text=True, timeout=60)
        except FileNotFoundError:
            raise UserError("there is no squeue here", "--executor slurm", "run it where Slurm is") from None
        except subprocess.TimeoutExpired:
            return
        self._queried = time.monotonic()
        if query.returncode == 0:  # otherwise Slurm is temporarily unavailable, and the last answer holds
            self._names = dict(line.split(maxsplit=1) for line in query.stdout.splitlines())
            self.answers += 1
        else:
            self.error = reason(query.stderr)

    def find(self, name: str) -> str | None:
        """The number of the job with this name; None if it has ended."""
        self._refresh()
        return next((number for number, each in self._names.items() if each.strip() == name), None)

    def holds(self, number: str) -> bool:
        """Whether a job has not ended."""
        self._refresh()
        return number in self._names


class _SlurmJob:
    """A Slurm job. It has ended when its folder holds a result, or when two answers of squeue do not list it."""

    def __init__(self, folder: Path, number: str, queue: Queue) -> None:
        self._folder, self._number, self._queue = folder, number, queue
        self._first = queue.answers

    def poll(self) -> int | None:
        """None while it waits or runs, then `UNKNOWN`."""
        if (self._folder / DONE).exists() or (self._folder / FAILED).exists():
            return UNKNOWN
        if self._queue.holds(self._number):
            self._first = self._queue.answers
        # One answer is not enough: the job may be newer than it, and a file may not be visible on this node yet.
        return UNKNOWN if self._queue.answers >= self._first + 2 else None

    def stop(self) -> bool:
        """Return False: jobs continue without the runner."""
        return False


class _LocalJob:
    """A job of submitit's local executor."""

    def __init__(self, folder: Path, job: Any) -> None:
        self._folder, self._job = folder, job

    def poll(self) -> int | None:
        """None while it runs, then its exit status."""
        if not self._job.done():
            return None
        try:
            return int(self._job.result())
        except Exception:  # the folder, if anything, records why it ended
            return UNKNOWN

    def stop(self) -> bool:
        return stop_step(self._folder)
