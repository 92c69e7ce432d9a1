"""The progress of a study, read from its folder and displayed."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from posnmt.base.errors import UserError
from posnmt.base.files import read_json
from posnmt.base.lock import holder, now
from posnmt.base.progress import duration
from posnmt.study.workflow.folder import DONE, FAILED, JOB, RUNNING, alteration, last_progress
from posnmt.study.workflow.graph import Graph

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.live import Live

STATES = ("done", "running", "waiting", "failed", "altered", "blocked")
UNSUCCESSFUL = ("failed", "altered", "blocked")
ON_TERMINAL, IN_LINES = 0.5, 30.0
"""Seconds between two reports of a run."""


@dataclass(frozen=True)
class State:
    """The state of a step.

    Attributes:
        step: its name.
        state: one of `STATES`. `altered`: finished, but one of its files has changed; `blocked`: it needs a step that
            failed, was altered or is blocked.
        seconds: how long it took, or has been running; None: unknown.
        line: its latest progress line, or what is wrong and how to fix it.
    """

    step: str
    state: str
    seconds: float | None = None
    line: str = ""


def states(graph: Graph, out: Path) -> dict[str, State]:
    """Step -> its state, in the graph's order; the study's folder `out` need not exist."""
    known: dict[str, State] = {}
    for name in graph.order():
        own = own_state(graph, out, name)
        known[name] = (blocked(graph, name, known) or own) if own.state == "waiting" else own
    return known


def finished(graph: Graph, out: Path, name: str) -> bool:
    """Whether a step is done and its output unaltered."""
    return own_state(graph, out, name).state == "done"


def blocked(graph: Graph, name: str, known: Mapping[str, State]) -> State | None:
    """The state of a step that can never start, which is `blocked`; None if it can start.

    Args:
        known: the states of the steps that it needs.
    """
    for need in graph.steps[name].needs.values():
        if known[need].state in UNSUCCESSFUL:
            # In a chain of blocked steps, report the first cause.
            why = (
                known[need].line if known[need].state == "blocked" else f"it needs {need}, which is {known[need].state}"
            )
            return State(name, "blocked", None, why)
    return None


def own_state(graph: Graph, out: Path, name: str) -> State:
    """The state of a step regardless of the steps that it needs: a blocked step is `waiting`."""
    try:
        folder = graph.folder(out, name)
    except UserError as missing:
        return State(name, "failed", None, missing.line())
    if (folder / DONE).exists():
        if (what := alteration(folder, thorough=False)) is not None:
            return altered(name, folder, what)
        return State(name, "done", (read_json(folder / DONE) or {}).get("seconds"), "")
    if (owner := holder(folder / RUNNING)) is not None:
        moment = now()
        began, here = (datetime.fromisoformat(each) for each in (owner.get("started", moment), moment))
        return State(name, "running", max(0.0, (here - began).total_seconds()), last_progress(folder))
    if (failure := read_json(folder / FAILED)) is not None:
        return State(name, "failed", None, f"{failure['message']} (log: {folder / 'log.txt'})")
    job = read_json(folder / JOB)
    return State(name, "waiting", None, "" if job is None else f"job {job['id']} is submitted")


def altered(name: str, folder: Path, what: str) -> State:
    """The state of a finished step whose files have changed."""
    return State(name, "altered", None, f"{what}; delete {folder} to make it again, or restore it")


def sentence(state: State) -> str:
    """A line about what is wrong with a step."""
    return f"{state.state:7} {state.step}: {state.line}"


class Table:
    """Counts by kind, and the steps that run or failed; without a terminal, one plain line per step.

    Args:
        states: of the steps.
        kinds: step -> its kind.
    """

    def __init__(self, states: Collection[State], kinds: Mapping[str, str]) -> None:
        self._states, self._kinds = states, kinds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.table import Table as Grid
        from rich.text import Text

        if not console.is_terminal:
            for each in self._states:
                yield Text(plain(each), no_wrap=True, overflow="ignore")
            return
        counts: Counter[tuple[str, str]] = Counter((self._kinds[each.step], each.state) for each in self._states)
        seen = [state for state in STATES if any(key[1] == state for key in counts)]
        grid = Grid("kind", *seen, "of")
        for column in grid.columns[1:]:
            column.justify = "right"
        for kind in dict.fromkeys(self._kinds[each.step] for each in self._states):
            cells = [counts[kind, state] for state in seen]
            grid.add_row(kind, *(str(count or "") for count in cells), str(sum(cells)))
        yield grid
        busy = Grid("step", "", "time", "", box=None)
        for each in self._states:
            if each.state in ("running", "failed", "altered"):
                busy.add_row(each.step, each.state, _time(each), Text(each.line))
        if busy.row_count:
            yield busy


def plain(each: State) -> str:
    """The state of a step as a line."""
    words = [f"{each.state:8}", each.step, f"({_time(each)})" if each.seconds is not None else "", each.line]
    return " ".join(word for word in words if word)


def _time(each: State) -> str:
    """The duration as text; empty if unknown."""
    return "" if each.seconds is None else duration(each.seconds)


class Board:
    """Displays a run: a live table on a terminal, plain lines elsewhere.

    Args:
        graph: the steps.
        say: called with the plain lines.
    """

    def __init__(self, graph: Graph, say: Callable[[str], None]) -> None:
        self.say = say
        self._kinds = {name: step.kind for name, step in graph.steps.items()}
        self._live: Live | None = None
        self._shown = time.monotonic()

    def __enter__(self) -> Board:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, read_states: Callable[[], Sequence[State]]) -> None:
        """Update the display, unless it was updated a moment ago.

        Args:
            read_states: returns the states of all steps.
        """
        if time.monotonic() - self._shown < (IN_LINES if self._live is None else ON_TERMINAL):
            return
        self._shown = time.monotonic()
        states = read_states()
        if self._live is not None:
            self._live.update(Table(states, self._kinds), refresh=True)
            return
        done = sum(each.state == "done" for each in states)
        self.say(f"{done} of {len(states)} steps are done")
        for each in states:
            if each.state == "running":
                self.say(plain(each))
