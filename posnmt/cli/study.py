"""`posnmt study`: one thin function a command, as in main.py."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posnmt.cli.group import COMMAND
from posnmt.errors import UserError

if TYPE_CHECKING:
    from posnmt.study.plan import Plan

SCALES = click.Choice(["smoke", "small", "paper"])


@click.group(context_settings=COMMAND)
def study() -> None:
    """Many systems, many trainings, one report: a paper's experiments, or your own, by one command.

    RECIPE is neishi2019, rosendahl2019, rosendahl2019-zhen, chen2019a, chen2019b, choose, or a file of your own.

    \b
    Example: posnmt study run neishi2019 --scale smoke --out study
    """


def _options(command: Any) -> Any:
    """What every command needs to know which study is meant."""
    options = (
        click.argument("recipe"),
        click.option("--scale", type=SCALES, required=True, help="smoke: minutes; small: hours on a CPU; paper: a GPU"),
        click.option("--data", type=click.Path(path_type=Path), help="folder that the recipe's files are under"),
        click.option("--out", type=click.Path(path_type=Path), required=True, help="the study's folder"),
        click.option(
            "--set", "settings", multiple=True, metavar="KEY=VALUE", help="a setting that wins over the recipe"
        ),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


@study.command("list", context_settings=COMMAND)
def recipes() -> None:
    """The recipes that come with posnmt, and where they are: copy one to make your own.

    \b
    Example: posnmt study list
    """
    from posnmt.study.load import load, shipped

    for name, path in shipped().items():
        recipe = load(name, check_configs=False)
        click.echo(f"{name:14} {recipe.title} ({', '.join(recipe.scales)})\n{'':14} {path}")


@study.command(context_settings=COMMAND)
@_options
@click.option("--calibrate/--no-calibrate", default=True, show_default=True, help="time the systems on this machine")
def plan(recipe: str, scale: str, data: Path | None, out: Path, settings: tuple[str, ...], calibrate: bool) -> None:
    """What would run, what is done already, and the hours and the disk that it takes on this machine.

    \b
    Example: posnmt study plan neishi2019 --scale smoke --out study
    """
    from posnmt.progress import Display
    from posnmt.study.load import load
    from posnmt.study.plan import plan as make_plan
    from posnmt.study.show import print_plan
    from posnmt.study.study import config_format

    with Display() as display:
        study_plan = make_plan(load(recipe, settings), scale, data, config_format(out))  # type: ignore[arg-type]
        print_plan(study_plan, out, calibrate, display)


@study.command(context_settings=COMMAND)
@_options
@click.option("--executor", type=click.Choice(["local", "slurm", "submitit-local"]), default="local", show_default=True)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="steps at once; default: as many as there are cores or GPUs; on Slurm 50 jobs",
)
def run(
    recipe: str,
    scale: str,
    data: Path | None,
    out: Path,
    settings: tuple[str, ...],
    executor: str,
    jobs: int | None,
) -> None:
    """Run what is not done yet, and write the report; prints its path. Stop it whenever you like, and run it again.

    A step that fails is said, and those that do not need it go on; then the exit status is 1.

    \b
    Example: posnmt study run neishi2019 --scale smoke --out study
    """
    from posnmt.progress import Display
    from posnmt.study.load import load
    from posnmt.study.study import run as run_study

    with Display() as display:
        summary = run_study(load(recipe, settings), scale, data, out, executor, jobs, display.say)  # type: ignore[arg-type]
    if (out / "report.html").exists():
        click.echo(str(out / "report.html"))
    if summary.failed:
        sys.exit(1)


_FOLDER = click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="the study's folder, which knows its recipe and scale"
)


@study.command(context_settings=COMMAND)
@click.argument("recipe", required=False)
@click.option("--scale", type=SCALES, help="as it was run, if named at all")
@_FOLDER
def status(recipe: str | None, scale: str | None, out: Path) -> None:
    """How far a study has come, step by step.

    \b
    Example: posnmt study status --out study
    """
    from posnmt.study.show import print_status

    print_status(_load_plan(recipe, scale, out), out)


@study.command(context_settings=COMMAND)
@click.argument("recipe", required=False)
@click.option("--scale", type=SCALES, help="as it was run, if named at all")
@_FOLDER
def report(recipe: str | None, scale: str | None, out: Path) -> None:
    """Write the report of what is finished so far; prints its path.

    Finished steps with files that were changed are named and left out; then the exit status is 1.

    \b
    Example: posnmt study report --out study
    """
    from posnmt.progress import Display
    from posnmt.study import study
    from posnmt.workflow import status

    study_plan = _load_plan(recipe, scale, out)
    with Display() as display:
        altered = study.altered(study_plan, out)
        for state in altered.values():
            display.say(status.sentence(state))
        path = study.report(study_plan, out, display.say)
    click.echo(str(path))
    if altered:
        sys.exit(1)


def _load_plan(recipe: str | None, scale: str | None, out: Path) -> Plan:
    """The plan of the study in a folder, which must be of the recipe and the scale, if they are named."""
    from posnmt.study.study import load_plan

    study_plan = load_plan(out)
    for option, named, actual in (("RECIPE", recipe, study_plan.recipe.recipe), ("--scale", scale, study_plan.scale)):
        if named is not None and actual not in (named, Path(named).stem):
            raise UserError(
                f"the study here is of {actual}, not of {named}", out, f"leave {option} out, or name another --out"
            )
    return study_plan
