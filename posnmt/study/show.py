"""Print a study's plan and status on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from rich.console import Console
from rich.table import Table

from posnmt.base.progress import Display
from posnmt.study.calibrate import Cost, Estimate, costs, total
from posnmt.study.plan import Plan
from posnmt.study.points import points
from posnmt.study.power import ENOUGH, Power, of_recipe
from posnmt.study.study import complete_graph, finished
from posnmt.study.wording import amount, asked, percent
from posnmt.study.workflow import status


def print_plan(
    study_plan: Plan, out: Path, calibrate: bool, display: Display, tokens_per_second: float | None = None
) -> None:
    """Print the steps by kind, the trainings, and the power of the claims.

    Args:
        study_plan: the plan.
        out: the study's folder; it need not exist.
        calibrate: whether to print hours and disk space, and to time the systems for them.
        display: shows which system is being timed.
        tokens_per_second: see `posnmt.study.calibrate.costs`; given, hours are printed and nothing is timed.
    """
    graph = complete_graph(study_plan)
    kinds = {name: graph.steps[name].kind for name in graph.order()}
    done = set(finished(graph, out))
    estimated = calibrate or tokens_per_second is not None
    step_costs = costs(study_plan, display.say, tokens_per_second) if estimated else {}
    console = Console()
    console.print(_steps(kinds, done, step_costs))
    console.print(_trainings(study_plan, step_costs))
    recipe = study_plan.recipe
    for line in _sweeps(study_plan, step_costs):
        console.print(line, highlight=False)
    console.print(f"{recipe.title}, scale {study_plan.scale}: {len(study_plan.trainings)} trainings.", highlight=False)
    if estimated:
        how = "as timed here" if tokens_per_second is None else f"at {tokens_per_second:,.0f} target tokens a second"
        console.print(
            f"Hours are for one step at a time, on one core (or one GPU), {how}; with --jobs N, divide them by N. "
            "They may be off by a factor of two; - is unknown until the texts are fetched.",
            highlight=False,
        )
    if powers := of_recipe(recipe, study_plan.scale):
        console.print(_powers(study_plan, powers))
        console.print(
            "Power: the share of simulated studies that would support the claim if the expected effect were true. "
            f"Below {percent(ENOUGH)} the study as planned cannot decide it; the margin stays.",
            highlight=False,
        )


def _table(*heads: str, left: int = 1) -> Table:
    """A table whose columns are right-justified after the first ones."""
    table = Table(*heads)
    for column in table.columns[left:]:
        column.justify = "right"
    return table


def _steps(kinds: Mapping[str, str], done: Set[str], step_costs: Mapping[str, Cost]) -> Table:
    """A row for each kind of step, and one for all; without costs if there are none."""
    table = _table("step", "number", "done", *(["hours", "hours left", "disk, GiB"] if step_costs else []))

    def add(head: str, names: Sequence[str]) -> None:
        left = [name for name in names if name not in done]
        every, unfinished = (_cost(total([step_costs.get(name, Cost()) for name in each])) for each in (names, left))
        table.add_row(
            head,
            str(len(names)),
            str(len(names) - len(left)),
            *([every[0], unfinished[0], every[1]] if step_costs else []),
        )

    for kind in dict.fromkeys(kinds.values()):
        add(kind, [name for name in kinds if kinds[name] == kind])
    if step_costs:
        table.add_section()
        add("all", list(kinds))
    return table


def _trainings(study_plan: Plan, step_costs: Mapping[str, Cost]) -> Table:
    """A row for each system and training."""
    table = _table(
        "system",
        "training",
        "seeds",
        *(["target tokens each, million", "hours, all seeds"] if step_costs else []),
        left=2,
    )
    of_variant: dict[tuple[str, str], list[str]] = {}
    for run in study_plan.runs:
        of_variant.setdefault((run.system, run.training), []).append(run.train)
    for (system, training), steps in of_variant.items():
        each = [step_costs[step] for step in steps if step in step_costs]
        cost = (f"{each[0].tokens / 1e6:,.2f}", _cost(total(each))[0]) if each else ()
        table.add_row(system, training, str(len(steps)), *cost)
    return table


def _sweeps(study_plan: Plan, step_costs: Mapping[str, Cost]) -> Iterator[str]:
    """A line for each sweep: its points, trainings and hours."""
    recipe, scale = study_plan.recipe, study_plan.scale
    for name, sweep in recipe.sweep.items():
        variants = {(point.system, point.training) for point in points(recipe, sweep, scale)}
        trainings = dict.fromkeys(run.train for run in study_plan.runs if (run.system, run.training) in variants)
        hours = f", {_cost(total([step_costs[each] for each in trainings]))[0]} hours" if step_costs else ""
        yield (
            f"Sweep {name}: {len(variants)} points ({sweep.formula(scale)}), {len(trainings)} trainings with all "
            f"seeds{hours}."
        )


def _powers(study_plan: Plan, powers: Sequence[Power]) -> Table:
    """A row for each claim of the scale."""
    recipe = study_plan.recipe
    table = _table("claim", "test", "expected", "sentences", "seeds", "block", "power", left=2)
    for each in powers:
        primary, expected = each.primary, each.expected
        joined = primary.analysis in recipe.joined()
        statement = asked(primary, study_plan.scale, lambda text: recipe.label(recipe.variant(text)), joined)
        least, most = each.seeds
        figures = ("-", "-") if expected is None else (
            amount(primary, expected.effect), " and ".join(f"{count:,}" for count in expected.sentences)
        )  # fmt: skip
        seeds = str(most) if least == most else f"{least} to {most}"
        table.add_row(
            str(each.claim.claim),
            statement,
            *figures,
            seeds,
            f"{each.systems} systems" if each.systems > 1 else "-",
            "-"
            if each.power is None
            else percent(round(each.power, 2)) + ", cannot be decided" * each.cannot_be_decided,
        )
    return table


def _cost(cost: Estimate) -> tuple[str, str]:
    return "-" if cost.hours is None else f"{cost.hours:,.2f}", f"{cost.disk:,.2f}"


def print_status(study_plan: Plan, out: Path) -> None:
    """Print the state of every step."""
    graph = complete_graph(study_plan)
    kinds = {name: step.kind for name, step in graph.steps.items()}
    Console().print(status.Table(status.states(graph, out).values(), kinds))
