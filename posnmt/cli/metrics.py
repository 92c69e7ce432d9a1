"""`posnmt metrics`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from posnmt.base.errors import UserError, choices
from posnmt.cli.group import COMMAND, Group, allow_plugins
from posnmt.cli.help import Command, option


@click.group(cls=Group, heading="Compare", context_settings=COMMAND)
def metrics() -> None:
    """List metrics; install and remove neural ones, such as COMET.

    A neural metric runs in an environment of its own, in `metrics` of the cache folder. posnmt's own environment stays
    as it is.
    """


@metrics.command("list", cls=Command, context_settings=COMMAND)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_metrics(as_json: bool) -> None:
    """List all metrics, and the models of neural ones.

    \b
    Example: posnmt metrics list
    """
    from posnmt.base.plugins import usable
    from posnmt.base.progress import warn
    from posnmt.metrics.registry import OWN, metric

    every = {**OWN, **{origin.name: one for origin, one in usable("metric", OWN, metric, warn)}}
    rows = {name: _described(name, each) for name, each in every.items()}
    if as_json:
        click.echo(json.dumps(rows))
        return
    width = max(map(len, rows))
    for name, row in rows.items():
        click.echo(f"{name:{width}}  {row['title']} ({row['better']}){row['state'] and ': '}{row['state']}")


def _described(name: str, metric: Any) -> dict[str, str]:
    """Title and direction of a metric; of a neural one also whether it is installed, and its model and versions."""
    from posnmt.metrics.neural.install import installed
    from posnmt.metrics.neural.metric import NeuralMetric

    row = {"title": metric.title, "better": metric.better, "state": ""}
    if not isinstance(metric, NeuralMetric):
        return row
    try:
        found = installed(name, metric)
    except UserError as fault:
        return {**row, "state": fault.line()}
    return {**row, "state": f"installed, {found.signature}"}


@metrics.command(cls=Command, context_settings=COMMAND)
@click.argument("name")
@option(
    "--model",
    metavar="ID|PATH",
    help="its id on the hub, or its path; default: the one that is installed, else that of NAME",
    heading="Model",
)
@option(
    "--from",
    "origin",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="a folder with wheels, models or both; default: load them from the network",
    heading="Model",
)
@option(
    "--python",
    metavar="PROGRAM",
    help="Python that makes the environment; default: the one that runs posnmt",
    heading="Model",
)
@allow_plugins
def install(name: str, model: str | None, origin: Path | None, python: str | None) -> None:
    """Make the environment of a neural metric.

    Its model is found or downloaded, and the signature of its scores is printed. NAME is comet, comet-qe,
    metricx, or one of another package. An environment that is complete is kept; a broken
    one is made again.

    \b
    Example: posnmt metrics install comet
    Example: posnmt metrics install comet-qe --model models/kiwi --from wheels
    """
    from posnmt.base.progress import Display
    from posnmt.metrics.neural.install import Request
    from posnmt.metrics.neural.install import install as make

    with Display() as display:
        found, new = make(name, _neural(name), Request(model, origin, python), display)
        display.say(f"{name} is installed" if new else f"{name} was installed already")
    click.echo(found.signature)


@metrics.command(cls=Command, context_settings=COMMAND)
@click.argument("name")
@allow_plugins
def remove(name: str) -> None:
    """Remove a neural metric.

    Its environment is removed unless another metric has the same. What is removed is printed. Cached scores
    stay, and so do models: those of the hub are in the hub's own cache.

    \b
    Example: posnmt metrics remove comet
    """
    from posnmt.metrics.neural.install import remove as remove_all
    from posnmt.metrics.neural.metric import NEURAL

    gone = remove_all(name, _neural(name), {other: each for other, each in NEURAL.items() if other != name})
    if not gone:
        raise UserError(f"the metric {name} is not installed", None, "`posnmt metrics list` lists what is")
    for path in gone:
        click.echo(str(path))


def _neural(name: str) -> Any:
    """The neural metric of a name.

    Raises:
        UserError: there is none, or posnmt computes it itself.
    """
    from posnmt.base.errors import refuse_unknown
    from posnmt.base.plugins import is_class, names
    from posnmt.metrics.neural.metric import NEURAL, NeuralMetric
    from posnmt.metrics.registry import OWN, metric

    if name not in OWN and not is_class(name):
        refuse_unknown(name, [*NEURAL, *names("metric")], "neural metric", "NAME")
    known = metric(name)
    if not isinstance(known, NeuralMetric):
        raise UserError(f"{name} needs no installation: posnmt counts it itself", "NAME", choices(name, NEURAL))
    return known
