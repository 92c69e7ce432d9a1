"""Steps as jobs of a cluster: Slurm through submitit, or submitit's stand-in for one on this machine.

A job bears a name that tells the study and the step, so that a runner that was killed between the submission and its
record still finds it in Slurm's queue. What `sbatch` is to be told besides (an account) comes from its own
environment variables, such as SBATCH_ACCOUNT. A submission that is refused for the moment is tried again after a while.
A job that reaches its time limit, or is preempted, is told before: its step saves its state, and Slurm starts the job
again.
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

from posnmt.errors import UserError
from posnmt.files import write_json
from posnmt.parallel.cores import available_cores
from posnmt.workflow.execute import STOPPED
from posnmt.workflow.executors import UNKNOWN, Job, Running, command, launch, stop_step
from posnmt.workflow.folder import DONE, FAILED, JOB, RUNNING, SHORT
from posnmt.workflow.kind import Resources
from posnmt.workflow.lock import holder
from posnmt.workflow.refusal import Backoff, TemporaryRefusal, is_temporary, reason

JOBS = "jobs"
NOTICE = 120  # seconds that a step has to save its state before its time is over
RESTARTS = 20  # of a job that reaches its time limit
QUERY_INTERVAL = 10.0  # seconds between two questions to Slurm
JOBS_AT_ONCE = 50  # in Slurm's queue, unless --jobs says otherwise


class StepJob:
    """What a job does: run a step. submitit calls it, on every node, and has it `checkpoint` when time is over."""

    def __init__(self, out: Path, folder: Path, key: str, resources: Resources) -> None:
        self.out, self.folder, self.key, self.resources = out, folder, key, resources

    def __call__(self) -> int:
        """The exit status of the step's process on this node."""
        import submitit

        job = submitit.JobEnvironment()
        rendezvous = None
        if self.resources.nodes > 1:
            # The port belongs to the job, so that jobs that share a node do not meet.
            rendezvous = [f"--nnodes={job.num_nodes}", f"--node-rank={job.node}", f"--master-addr={job.hostnames[0]}"]
            rendezvous.append(f"--master-port={20000 + int(job.job_id) % 10000}")
        words = command(self.out, self.key, self.resources, rendezvous)
        process = launch(words, self.folder, self.resources.cores, {})
        # `checkpoint` interrupts whatever stands here, so nothing may that holds a lock, as Popen.wait does.
        while (status := process.poll()) is None:
            time.sleep(0.1)
        if status == STOPPED and job.cluster == "slurm":
            # Before Slurm takes a node away it tells the step as well; the notice for us comes after.
            time.sleep(NOTICE)
        return status

    def checkpoint(self) -> Any:
        """Have the step save its state; what is to be done when the job is started again."""
        import submitit

        until = time.monotonic() + NOTICE
        stop_step(self.folder)
        while holder(self.folder / RUNNING) is not None and time.monotonic() < until:
            time.sleep(0.1)
        return submitit.helpers.DelayedSubmission(StepJob(self.out, self.folder, self.key, self.resources))


class Cluster:
    """Steps as jobs through submitit.

    Args:
        out: the study's folder, which every node must see.
        cluster: `slurm`, or `local`.
        jobs: jobs at once, in Slurm's queue or running; None: `JOBS_AT_ONCE` on Slurm, else one for each core.

    Raises:
        UserError: submitit or Slurm is not there.
    """

    def __init__(self, out: Path, cluster: str, jobs: int | None) -> None:
        try:
            import submitit
        except ImportError:
            raise UserError("submitit is not installed", "--executor", "pip install 'posnmt[slurm]'") from None
        self._out, self._active = out, 0
        self._queue = Queue() if cluster == "slurm" else None
        self._jobs = jobs or (JOBS_AT_ONCE if self._queue is not None else available_cores())
        self._backoff = Backoff()
        self._unsure: set[str] = set()  # names of jobs whose submission may have succeeded though sbatch says no
        self._unknown: set[str] = set()  # names of jobs that may be in the queue, which did not answer
        restarts: dict[str, Any] = {f"{cluster}_max_num_timeout": RESTARTS}
        # One for each job: what an executor was once told to ask for, it asks for ever after.
        self._executor = partial(submitit.AutoExecutor, out / JOBS, cluster=cluster, **restarts)
        try:
            self._executor()
        except RuntimeError as error:
            raise UserError(f"submitit finds no Slurm: {error}", "--executor", "run it where sbatch works") from None
        # Names of jobs are seen by all users of a cluster, and one cluster may work for several studies.
        self._prefix = f"posnmt-{hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:8]}-"

    def resources(self, wanted: Resources, uses_gpu: bool) -> Resources:
        """As wanted: the cluster says what it has."""
        if wanted.nodes > 1 and self._queue is None:
            raise UserError(
                f"the step asks for {wanted.nodes} nodes", "--executor submitit-local", "use --executor slurm"
            )
        return wanted

    def has_capacity(self, wanted: Resources) -> bool:
        """Whether there may be one job more, and the cluster is to be asked again where it refused the last one."""
        return self._active < self._jobs and self._backoff.is_over()

    def start(self, out: Path, folder: Path, key: str, resources: Resources) -> Job:
        """Submit it, unless it is in the queue already.

        Raises:
            TemporaryRefusal: the cluster refuses it for the moment.
            UserError: the cluster refuses it for good.
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
            with redirect_stderr(io.StringIO()):  # submitit prints what sbatch says, which is in the error too
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
        return self._job(folder, job.job_id) if self._queue else _LocalJob(folder, job)

    def _parameters(self, name: str, resources: Resources) -> dict[str, Any]:
        """What submitit is told of a job."""
        asked: dict[str, Any] = {
            "name": name,
            "timeout_min": max(1, round(resources.minutes)),
            "mem_gb": resources.memory_gib,
            "nodes": resources.nodes,
            "tasks_per_node": 1,
            "cpus_per_task": resources.cores,
            # From Slurm 22.05 on srun does not take them over from its job.
            "slurm_srun_args": [f"--cpus-per-task={resources.cores}"],
            # A cluster without GPUs refuses even to be asked for none; None is not to ask.
            "gpus_per_node": resources.gpus or None,
            "slurm_partition": resources.partition,
            "slurm_signal_delay_s": round(min(NOTICE, 30 * resources.minutes)),
        }
        return asked

    def _cancel(self, name: str) -> None:
        """Cancel a job that was accepted though sbatch was not told so; it could not find what it is to do.

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
        """A refusal, and that the next try comes later."""
        return TemporaryRefusal(f"the cluster takes no job now: {why}; trying again in {self._backoff.refused():.0f} s")

    def running(self, folder: Path, key: str) -> Job | None:
        """Its job, if it waits in the queue or runs."""
        job: Job | None = None
        if self._queue is not None:
            number = self._queue.find(name := self._prefix + key[:SHORT])
            if not self._queue.answers:
                self._unknown.add(name)
            job = None if number is None else self._job(folder, number)
        elif holder(folder / RUNNING) is not None:
            job = Running(folder)
        self._active += job is not None
        return job

    def ended(self, folder: Path) -> None:
        """One job less."""
        self._active -= 1
        (folder / JOB).unlink(missing_ok=True)

    def _job(self, folder: Path, number: str) -> Job:
        assert self._queue is not None
        return _SlurmJob(folder, number, self._queue)


class Queue:
    """Our jobs in Slurm's queue, asked for once for all steps. (Accounting lags behind, and calls a job that is to be
    started again failed; some clusters have none.)
    """

    def __init__(self) -> None:
        self._queried, self._names, self.answers = 0.0, dict[str, str](), 0
        self.error = "squeue does not answer"  # of the last question without an answer

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
        if query.returncode == 0:  # else Slurm is away for a moment, and what was known holds
            self._names = dict(line.split(maxsplit=1) for line in query.stdout.splitlines())
            self.answers += 1
        else:
            self.error = reason(query.stderr)

    def find(self, name: str) -> str | None:
        """The number of the job of a name, if it has not ended."""
        self._refresh()
        return next((number for number, each in self._names.items() if each.strip() == name), None)

    def holds(self, number: str) -> bool:
        """Whether a job has not ended."""
        self._refresh()
        return number in self._names


class _SlurmJob:
    """A job of Slurm. It ends when its folder says so, or when it was not in the queue twice."""

    def __init__(self, folder: Path, number: str, queue: Queue) -> None:
        self._folder, self._number, self._queue = folder, number, queue
        self._first = queue.answers

    def poll(self) -> int | None:
        """None while it waits or runs, then `UNKNOWN`."""
        if (self._folder / DONE).exists() or (self._folder / FAILED).exists():
            return UNKNOWN
        if self._queue.holds(self._number):
            self._first = self._queue.answers
        # Once is not enough: it may have been submitted after the question, and a file may not be seen here yet.
        return UNKNOWN if self._queue.answers >= self._first + 2 else None

    def stop(self) -> bool:
        """Jobs go on without the runner."""
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
        except Exception:  # whatever ended it: its folder, or nothing, tells
            return UNKNOWN

    def stop(self) -> bool:
        """Tell the step."""
        return stop_step(self._folder)
