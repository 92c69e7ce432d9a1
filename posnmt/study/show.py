"""Print a study's plan and status on a terminal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from posnmt.progress import Display
from posnmt.study.calibrate import Estimate, estimate
from posnmt.study.plan import KINDS, Plan, analyses
from posnmt.study.study import finished
from posnmt.workflow import status
from posnmt.workflow.graph import Graph


def full_graph(study_plan: Plan) -> Graph:
    """The graph of all steps, including all analyses."""
    steps, _ = analyses(study_plan, study_plan.steps)
    return Graph([*study_plan.steps.values(), *steps.values()], KINDS)


def print_plan(study_plan: Plan, out: Path, calibrate: bool, display: Display) -> None:
    """Print a table of steps by kind: their number, how many are done, and the estimated hours and disk space.

    Args:
        study_plan: the plan.
        out: the study's folder; it need not exist.
        calibrate: whether to time the systems and print estimates.
        display: shows which system is being timed.
    """
    graph = full_graph(study_plan)
    done = Counter(graph.steps[name].kind for name in finished(graph, out))
    counts = Counter(graph.steps[name].kind for name in graph.order())
    costs = estimate(study_plan, display.say) if calibrate else {}
    table = Table("step", "number", "done", *(["hours", "disk, GiB"] if calibrate else []))
    for column in table.columns[1:]:
        column.justify = "right"
    for kind, number in counts.items():
        table.add_row(kind, str(number), str(done[kind]), *(_cost(costs[kind]) if calibrate else ()))
    if calibrate:
        hours = [cost.hours for cost in costs.values()]
        disk = sum(cost.disk for cost in costs.values())
        total = None if None in hours else sum(hour or 0.0 for hour in hours)
        table.add_section()
        totals = (str(counts.total()), str(done.total()), *_cost(Estimate(0, total, disk)))
        table.add_row("all", *totals)
    console = Console()
    console.print(table)
    recipe, setting = study_plan.recipe, study_plan.setting
    trainings = len({(run.system, run.training) for run in study_plan.runs})
    console.print(
        f"{recipe.title}, scale {study_plan.scale}: {trainings} systems and trainings, {setting.seeds} seeds each.",
        highlight=False,
    )
    if calibrate:
        console.print(
            "Hours are for one step at a time, on one core (or one GPU); with --jobs N, divide them by N. "
            "They may be off by a factor of two; - is unknown until the texts are fetched.",
            highlight=False,
        )


def _cost(cost: Estimate) -> tuple[str, str]:
    """Hours and disk as text."""
    return "-" if cost.hours is None else f"{cost.hours:,.2f}", f"{cost.disk:,.2f}"


def print_status(study_plan: Plan, out: Path) -> None:
    """Print the state of every step."""
    Console().print(status.table(full_graph(study_plan), out))
