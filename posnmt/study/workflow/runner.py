"""Run the unfinished steps of a study, each after the steps that it needs.

The steps' folders hold all state, so that nothing has to be repaired after a kill. A step is finished if its done.json
exists; it is running while its lock is held or its job is queued; otherwise it has not been run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, refuse_unknown
from posnmt.base.files import read_json
from posnmt.base.interrupt import StopSignal
from posnmt.base.lock import Lock, holder
from posnmt.base.output import is_draft, write_json
from posnmt.base.parallel.cores import available_cores
from posnmt.base.progress import duration
from posnmt.base.version import FORMAT, __version__, check_format
from posnmt.study.workflow import status
from posnmt.study.workflow.cluster import Cluster
from posnmt.study.workflow.execute import DISK_FULL, STOPPED, disk_full, is_disk_full, record_failure
from posnmt.study.workflow.executors import LOCAL, NAMES, UNKNOWN, Executor, Job, Local, Where, gpus
from posnmt.study.workflow.folder import DONE, FAILED, PROGRESS, STEP, STUDY, alteration
from posnmt.study.workflow.graph import Graph
from posnmt.study.workflow.kind import Resources
from posnmt.study.workflow.refusal import TemporaryRefusal
from posnmt.study.workflow.status import State

RUNNER = "runner.json"
PAUSE = 0.1


@dataclass(frozen=True)
class Summary:
    """The result of a run.

    Attributes:
        states: step -> its state.
        finished: the steps that this run finished.
    """

    states: dict[str, State]
    finished: list[str] = field(default_factory=list)

    @property
    def failed(self) -> dict[str, str]:
        """Failed or altered step -> what is wrong, and how to fix it."""
        return {name: each.line for name, each in self.states.items() if each.state in ("failed", "altered")}

    @property
    def blocked(self) -> dict[str, str]:
        """Step that cannot start -> the failed step that it needs."""
        return {name: each.line for name, each in self.states.items() if each.state == "blocked"}


def check_study(out: Path, recipe_name: str) -> None:
    """Refuse a folder in which this recipe cannot be run; write nothing.

    Raises:
        UserError: `out` is a file, or the folder belongs to something else, another recipe or a newer posnmt.
    """
    another = "choose another --out"
    if out.exists() and not out.is_dir():
        raise UserError("the study's folder is a file", out, another)
    if out.is_dir() and not all(path.name.startswith(RUNNER) or is_draft(path.name) for path in out.iterdir()):
        if not (out / STUDY).exists():
            raise UserError("the folder is not empty, and is not a study's", out, another)
        record = read_json(out / STUDY)
        if record is None or not isinstance(record.get("format"), int) or not isinstance(record.get("recipe"), str):
            raise UserError("the study's file cannot be read", out / STUDY, f"restore it, or {another}")
        check_format(record["format"], out / STUDY)
        if record["recipe"] != recipe_name:
            what = f"the study was made by the recipe {record['recipe']!r}, not {recipe_name!r}"
            raise UserError(what, out, f"{another}, or run that recipe")


def open_study(out: Path, recipe_name: str, recipe_hash: str) -> None:
    """Create a study's folder, or reopen it. The recipe may have changed, but not its name.

    Other entries of study.json are kept.

    Raises:
        UserError: see `check_study`.
    """
    check_study(out, recipe_name)
    about = {"format": FORMAT, "recipe": recipe_name, "hash": recipe_hash, "posnmt": __version__}
    before = read_json(out / STUDY) or {}
    if before != {**before, **about}:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / STUDY, {**before, **about})


def run(
    graph: Graph,
    out: Path,
    where: Where = LOCAL,
    say: Callable[[str], None] = lambda line: None,
    retry: bool = True,
    until: float | None = None,
) -> Summary:
    """Run the steps that are not finished.

    A failed step does not stop the steps that do not need it. On a signal, the steps of this machine save their state
    and `run` waits for them; jobs of a cluster continue, and the next run finds them.

    Args:
        graph: all steps.
        out: the study's folder.
        where: the executor, and how many steps it runs at a time.
        say: called with progress lines.
        retry: whether to run steps again that failed in an earlier run.
        until: the time (`time.monotonic`) to stop at, as on a signal; None: no limit.

    Raises:
        UserError: another runner uses the folder, the executor cannot be used, or the disk is full.
        KeyboardInterrupt: a signal or the end of the time stopped the run; all state is saved.
    """
    with only_runner(out), StopSignal() as stop, status.Board(graph, say) as board:
        return _Runner(graph, out, _executor(out, where), board, stop, retry, until).run()


def only_runner(out: Path) -> Lock:
    """The lock of the only process that may start steps of this study."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return Lock(out / RUNNER)
    except BlockingIOError:
        owner = holder(out / RUNNER) or {}
        started = owner.get("started")
        what = f"process {owner.get('process')} on {owner.get('host')} has been running this study since {started}"
        raise UserError(what, out, "wait for it, or stop it; `posnmt study status` shows its progress") from None
    except OSError as error:
        if is_disk_full(error):
            raise UserError(disk_full(out)) from None
        raise


def _executor(out: Path, where: Where) -> Executor:
    """The executor that is asked for.

    Raises:
        UserError: there is no such executor, or it is not installed.
    """
    refuse_unknown(where.executor, NAMES, "executor")
    if where.executor == "local":
        return Local(available_cores(), gpus(), where.jobs, where.per_gpu)
    return Cluster(out, where.executor.removeprefix("submitit-"), where.jobs)


class _Runner:
    """The states of all steps, and the running jobs. If several steps have the same key, only the first is run."""

    def __init__(
        self,
        graph: Graph,
        out: Path,
        executor: Executor,
        board: status.Board,
        stop: StopSignal,
        retry: bool,
        until: float | None,
    ) -> None:
        self._graph, self._out, self._executor, self._board, self._stop = graph, out, executor, board, stop
        self._retry = retry
        self._until = math.inf if until is None else until
        self._states: dict[str, State] = {}
        self._running: dict[str, tuple[Path, Job]] = {}
        self._trusted: dict[Path, State | None] = {}
        self._first_of: dict[Path, str] = {}
        self._twins: dict[str, str] = {}
        self._finished: list[str] = []
        self._announced = False
        self._postponed: set[str] = set()  # steps that the executor may accept later

    def run(self) -> Summary:
        """Run until all steps are done, no further step can start, a signal arrives, or the time is over."""
        for name in self._graph.order():
            self._inspect(name)
        while True:
            self._collect()
            if time.monotonic() >= self._until:
                self._stop.heard = True
            if not self._stop.heard:
                self._start_ready()
            elif not self._announced:
                self._stop_running()
            if not self._running and (self._stop.heard or not self._postponed):
                break
            self._board.show(self._look)
            time.sleep(PAUSE)
        if self._stop.heard:
            self._board.say("stopped; to go on, run the same command again")
            raise KeyboardInterrupt
        return Summary(self._states, self._finished)

    def _inspect(self, name: str) -> None:
        """Determine the state of a step before any is started."""
        state = status.own_state(self._graph, self._out, name)
        if state.state in ("waiting", "running", "failed"):
            state = self._unfinished(name, state)
        self._record(name, state)

    def _record(self, name: str, state: State) -> None:
        """Keep the state of a step, and report what is wrong with it."""
        self._states[name] = state
        if state.state in status.UNSUCCESSFUL:
            self._board.say(status.sentence(state))

    def _unfinished(self, name: str, state: State) -> State:
        """The state of a step that is not done: running, failed, or waiting to be run."""
        try:
            folder, key = self._graph.folder(self._out, name), self._graph.key(name)
        except UserError:
            return state
        if (twin := self._first_of.setdefault(folder, name)) != name:
            self._twins[name] = twin
            return State(name, "waiting")
        if state.state == "failed":
            return State(name, "waiting") if self._retry else state
        if (job := self._executor.running(folder, key)) is not None:
            self._running[name] = folder, job
            self._board.say(f"{name} is running already")
            return State(name, "running")
        return State(name, "waiting")

    def _look(self) -> list[State]:
        """The state of every step, with the progress of those that run."""
        return [
            status.own_state(self._graph, self._out, name) if name in self._running else each
            for name, each in self._states.items()
        ]

    def _collect(self) -> None:
        """Record the steps that have ended."""
        for name, (folder, job) in list(self._running.items()):
            ended = job.poll()
            if ended is None:
                continue
            self._executor.ended(folder)
            del self._running[name]
            state = self._result(name, folder, ended)
            self._record(name, state)
            if state.state == "done":
                self._finished.append(name)
                self._trusted[folder] = None
                done = sum(each.state == "done" for each in self._states.values())
                took = duration(state.seconds or 0.0)
                self._board.say(f"done    {name} ({took}); {done} of {len(self._states)}")

    def _result(self, name: str, folder: Path, ended: int) -> State:
        """The state of a step whose process or job has ended."""
        if (folder / DONE).exists() or (folder / FAILED).exists():
            return status.own_state(self._graph, self._out, name)
        if (job := self._executor.running(folder, self._graph.key(name))) is not None:
            self._running[name] = folder, job  # another process had started it
            return State(name, "running")
        if self._stop.heard and ended in (STOPPED, -15, -2, UNKNOWN):
            return State(name, "waiting")
        return self._fail(name, folder, None if ended == UNKNOWN else ended, _why(folder, ended))

    def _fail(self, name: str, folder: Path, ended: int | None, message: str, user_error: bool = False) -> State:
        """Record a failure that the step could not record itself."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            record_failure(folder, ended, message, user_error)
        except OSError:  # the disk is full; the message is reported, and the next run runs the step again
            return State(name, "failed", None, message)
        return status.own_state(self._graph, self._out, name)

    def _start_ready(self) -> None:
        """Start the steps that have all they need, as far as the executor has capacity."""
        for name, state in list(self._states.items()):
            if state.state != "waiting":
                continue
            if name in self._twins:
                twin = self._states[self._twins[name]]
                if twin.state not in ("waiting", "running"):
                    self._states[name] = replace(twin, step=name)
                continue
            ready = self._ready(name)
            if (blocked := status.blocked(self._graph, name, self._states)) is not None:
                self._record(name, blocked)
            elif ready:
                self._start(name)

    def _ready(self, name: str) -> bool:
        """Whether all steps that a step needs are finished and unaltered."""
        needs = self._graph.steps[name].needs.values()
        if any(self._states[need].state != "done" for need in needs):
            return False
        for need in needs:
            folder = self._graph.folder(self._out, need)
            if folder not in self._trusted:
                what = alteration(folder, thorough=True)
                self._trusted[folder] = None if what is None else status.altered(need, folder, what)
            if (problem := self._trusted[folder]) is not None:
                self._record(need, problem)
                return False
        return True

    def _start(self, name: str) -> None:
        """Start a step, if the executor has capacity."""
        folder, key = self._graph.folder(self._out, name), self._graph.key(name)
        step = self._graph.steps[name]
        if self._postponed and (folder / DONE).exists():  # finished by a job of an earlier run while squeue was down
            self._postponed.discard(name)
            self._states[name] = status.own_state(self._graph, self._out, name)
            return
        try:
            resources = self._executor.resources(step.resources, self._graph.uses_gpu(name))
            if not self._executor.has_capacity(resources):
                return
            self._write_step(name, folder, resources)
            job = self._executor.start(self._out, folder, key, resources)
        except TemporaryRefusal as refusal:  # `has_capacity` is False until the next attempt
            self._postponed.add(name)
            self._board.say(f"waiting {name}: {refusal}")
            return
        except (UserError, OSError) as error:
            message = disk_full(folder) if is_disk_full(error) else str(error)
            self._postponed.discard(name)
            self._record(name, self._fail(name, folder, None, message, isinstance(error, UserError)))
            return
        self._postponed.discard(name)
        self._running[name] = folder, job
        self._states[name] = State(name, "running")
        self._board.say(f"started {name}")

    def _write_step(self, name: str, folder: Path, resources: Resources) -> None:
        """Write step.json, which the step's process reads."""
        step = self._graph.steps[name]
        needs = {
            role: {"step": need, "folder": self._graph.folder(self._out, need).relative_to(self._out).as_posix()}
            for role, need in step.needs.items()
        }
        about: dict[str, Any] = {
            "name": name, "kind": step.kind, "key": self._graph.key(name), "settings": step.settings, "needs": needs,
            "files": self._graph.files(name), "resources": asdict(resources), "kinds": self._graph.kinds,
        }  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        for old in (FAILED, PROGRESS):
            (folder / old).unlink(missing_ok=True)
        write_json(folder / STEP, about)

    def _stop_running(self) -> None:
        """Ask the running steps to save their state; steps on other machines continue."""
        self._announced = True
        for name, (_, job) in list(self._running.items()):
            if not job.stop():
                self._board.say(f"{name} continues; the next run finds it")
                del self._running[name]
        if self._running:
            self._board.say(f"stopping: {', '.join(self._running)} save their state; a second signal does not wait")


def _why(folder: Path, ended: int) -> str:
    """The error message for a step that left no record."""
    if ended == DISK_FULL:
        return disk_full(folder)
    if ended == UNKNOWN:
        return "it ended without recording a result; run the study again to continue it"
    if ended in (STOPPED, -15, -2):
        return "it was stopped by another process; run the study again to continue it"
    if ended < 0:
        return f"it was ended by signal {-ended}" + (
            ", perhaps because memory ran out; run the study again to continue it" if ended == -9 else ""
        )
    return f"it ended with status {ended}"
