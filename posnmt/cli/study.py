"""`posnmt study`."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posnmt.base.errors import UserError
from posnmt.base.extras import requires
from posnmt.cli.group import COMMAND, Group, NumberRange

if TYPE_CHECKING:
    from posnmt.study.plan import Plan

SCALES = click.Choice(["smoke", "small", "paper"])


@click.group(cls=Group, heading="Research", context_settings=COMMAND)
def study() -> None:
    """Run a paper's experiments, or your own, and write a report.

    One command trains and compares many systems.

    RECIPE is neishi2019, neishi2019-aspec, rosendahl2019, rosendahl2019-zhen, chen2019a, chen2019a-aspec, chen2019b,
    clip-by-cap, schemes, schemes-enja, natural, choose, one of an installed package, or a file of your own.

    \b
    Example: posnmt study run neishi2019 --scale smoke --out study
    """


def _options(command: Any) -> Any:
    """Add the arguments and options that define a study."""
    options = (
        click.argument("recipe"),
        click.option("--scale", type=SCALES, required=True, help="smoke: minutes; small: hours on a CPU; paper: a GPU"),
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            help="folder of the recipe's files; needed, unless the recipe fetches or makes all of them",
        ),
        click.option("--out", type=click.Path(path_type=Path), required=True, help="the study's folder"),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="a setting that overrides the recipe; default: none",
        ),
        click.option(
            "--sweep",
            "sweeps",
            multiple=True,
            metavar="KEY=VALUES",
            help="vary a setting, such as relative.distance=2,4,8, in all systems of the recipe that have it;"
            " default: none",
        ),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


@study.command("list", context_settings=COMMAND)
def recipes() -> None:
    """List the recipes with their paths. Copy one to make your own.

    The recipes are those of posnmt and of installed packages.

    \b
    Example: posnmt study list
    """
    from posnmt.base.plugins import usable
    from posnmt.base.progress import warn
    from posnmt.study.load import load, recipe_file, shipped

    files = {name: (path, "") for name, path in shipped().items()}
    files |= {each.name: (path, f"   ({each.shown})") for each, path in usable("recipe", files, recipe_file, warn)}
    for name, (path, origin) in files.items():
        recipe = load(str(path), check_configs=False)
        click.echo(f"{name:14} {recipe.title} ({', '.join(recipe.scales)})\n{'':14} {path}{origin}")


@study.command(context_settings=COMMAND)
@_options
@click.option("--calibrate/--no-calibrate", default=True, help="time the systems on this machine")
@click.option(
    "--speed",
    type=NumberRange(min=0, min_open=True),
    help="target tokens per second of one core, from which to estimate the hours without timing anything; default: see"
    " --calibrate",
)
def plan(
    recipe: str,
    scale: str,
    data: Path | None,
    out: Path,
    settings: tuple[str, ...],
    sweeps: tuple[str, ...],
    calibrate: bool,
    speed: float | None,
) -> None:
    """Show which steps are done, and what the others would take.

    Also shows the estimated hours and disk space, and each claim's power.

    \b
    Example: posnmt study plan neishi2019 --scale smoke --out study
    """
    requires("train", "analyse")
    from posnmt.base.progress import Display
    from posnmt.study.load import load
    from posnmt.study.show import print_plan
    from posnmt.study.study import plan_in

    with Display() as display:
        chosen = load(recipe, settings, sweeps=sweeps)
        study_plan = plan_in(out, chosen, scale, data, display.say)  # type: ignore[arg-type]
        print_plan(study_plan, out, calibrate, display, speed)


@study.command(context_settings=COMMAND)
@_options
@click.option(
    "--executor",
    type=click.Choice(["local", "slurm", "submitit-local"]),
    default="local",
    help="where steps run; submitit-local: on this machine, in the way of Slurm",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="most steps at a time; default: as many as cores or GPUs allow; Slurm: 50",
)
@click.option("--jobs-per-gpu", type=click.IntRange(min=1), default=1, help="steps that share a GPU")
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="only steps that match, such as train/relative/*, and the steps that they need; default: all steps",
)
@click.option(
    "--minutes",
    type=NumberRange(min=0, min_open=True),
    help="stop after this time; run the command again to continue; default: when all is done",
)
@click.option(
    "--adopt",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="a copy that `study publish` wrote; steps that are finished there are not run again; default: none",
)
def run(
    recipe: str,
    scale: str,
    data: Path | None,
    out: Path,
    settings: tuple[str, ...],
    sweeps: tuple[str, ...],
    executor: str,
    jobs: int | None,
    jobs_per_gpu: int,
    only: tuple[str, ...],
    minutes: float | None,
    adopt: Path | None,
) -> None:
    """Run all unfinished steps, write the report, and print its path.

    You can interrupt and repeat it at any time. If a step fails, it is reported, the steps that do not need it still
    run, and the exit status is 1. If a test text cannot be fetched or made, nothing is trained.

    \b
    Example: posnmt study run neishi2019 --scale smoke --out study
    """
    requires("train", "analyse")
    from posnmt.base.progress import Display
    from posnmt.study.load import load
    from posnmt.study.study import run as run_study
    from posnmt.study.workflow.executors import Where

    where, asked = Where(executor, jobs, jobs_per_gpu), load(recipe, settings, sweeps=sweeps)
    with Display() as display:
        summary = run_study(asked, scale, data, out, where, display.say, only, minutes, adopt)  # type: ignore[arg-type]
    if (out / "report.html").exists():
        click.echo(str(out / "report.html"))
    if summary.failed:
        sys.exit(1)


_FOLDER = click.option("--out", type=click.Path(path_type=Path), required=True, help="the study's folder")


@study.command(context_settings=COMMAND)
@click.argument("recipe", required=False)
@click.option("--scale", type=SCALES, help="fail if the study has another scale; default: any scale")
@_FOLDER
def status(recipe: str | None, scale: str | None, out: Path) -> None:
    """Show the progress of a study, step by step.

    \b
    Example: posnmt study status --out study
    """
    from posnmt.study.show import print_status

    print_status(_load_plan(recipe, scale, out), out)


@study.command(context_settings=COMMAND)
@click.argument("recipe", required=False)
@click.option("--scale", type=SCALES, help="fail if the study has another scale; default: any scale")
@_FOLDER
def report(recipe: str | None, scale: str | None, out: Path) -> None:
    """Write the report of all finished steps, and print its path.

    Finished steps whose files have changed since are reported and left out; the exit status is then 1.

    \b
    Example: posnmt study report --out study
    """
    requires("analyse")
    from posnmt.base.progress import Display
    from posnmt.study import study
    from posnmt.study.workflow import status

    study_plan = _load_plan(recipe, scale, out)
    with Display() as display:
        altered = study.altered(study_plan, out)
        for state in altered.values():
            display.say(status.sentence(state))
        path = study.report(study_plan, out, display.say)
    click.echo(str(path))
    if altered:
        sys.exit(1)


@study.command(context_settings=COMMAND)
@_FOLDER
@click.option("--to", type=click.Path(path_type=Path), required=True, help="the folder of the copy")
@click.option(
    "--translations",
    type=click.IntRange(min=1),
    metavar="SEEDS",
    help="copy the translations of this number of seeds only, to save space; default: all",
)
@click.option(
    "--losses",
    multiple=True,
    metavar="LIKELIHOOD",
    help="copy the losses of this section of `likelihoods` only, to save space; can be repeated; default: all",
)
def publish(out: Path, to: Path, translations: int | None, losses: tuple[str, ...]) -> None:
    """Copy the finished part of a study for publication.

    Prints the path of the copy's README. The copy has the report without sentences, all results as CSV, the recipe, and
    the configuration, record and translations of each training. It has no weights, no corpora and no paths of this
    machine. While the study goes on, repeat the command to update the copy.

    \b
    Example: posnmt study publish --out study --to results/neishi2019
    """
    requires("analyse")
    from posnmt.study.publish import publish as write_copy

    click.echo(str(write_copy(_load_plan(None, None, out), out, to, translations, losses)))


def _load_plan(recipe: str | None, scale: str | None, out: Path) -> Plan:
    """The plan of the study in a folder, after checking that it has the named recipe and scale."""
    from posnmt.study.study import load_plan

    study_plan = load_plan(out)
    for option, named, actual in (("RECIPE", recipe, study_plan.recipe.recipe), ("--scale", scale, study_plan.scale)):
        if named is not None and actual not in (named, Path(named).stem):
            raise UserError(
                f"the study in this folder is of {actual}, not {named}", out, f"leave {option} out, or change --out"
            )
    return study_plan
