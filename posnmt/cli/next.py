"""What a command that has ended suggests to run next, with the paths of this work, so that it can be pasted."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from posnmt.data.corpus import corpus_files
from posnmt.run.run import DEV, Run


def suggest(commands: Sequence[Sequence[str]]) -> None:
    """Print commands on standard error, one on a line."""
    click.echo("\n".join(["Next:", *(f"  {shlex.join(['posnmt', *command])}" for command in commands)]), err=True)


def after_training(run: Run) -> list[list[str]]:
    """The commands that translate with a trained run, measure it, serve it, and go on with its training."""
    folder, output = _shown(run.folder), _shown(run.folder / "dev.output")
    commands = [["serve", folder], ["train", "--out", folder, "--resume", *_more(run)]]
    if not run.config.data.has_dev:
        return [["translate", folder], *commands]
    source, target = map(_shown, dev_files(run))
    system = re.sub(r"[^\w.-]", "-", run.folder.resolve().name) or "mine"
    again = ["--force"] if (run.folder / "dev.output").exists() else []
    measured = ["--output", f"{system}={output}", "--run", folder, "--out", _shown(run.folder / "analysis")]
    return [
        ["translate", folder, "--input", source, "--output", output, *again],
        ["analyse", "--source", source, "--reference", target, *measured],
        *commands,
    ]


def after_preparing(config: Path, settings: Sequence[str], out: Path | None) -> list[list[str]]:
    """The command that trains on a prepared store; the arguments are those of `posnmt prepare`."""
    store = [] if out is None else [f"data.store={out.resolve()}"]
    chosen = [word for setting in (*settings, *store) for word in ("--set", setting)]
    return [["train", str(config), *chosen, "--out", str(Path("runs") / config.stem)]]


def dev_files(run: Run) -> list[Path]:
    """The source and the target of dev: the files that the configuration names, or the run's own copies."""
    own = [run.folder / name for name in DEV]
    data = run.config.data
    if own[0].exists() or data.dev is None:
        return own
    files = corpus_files(data.dev, data.root, "data.dev")
    return [files[side].path for side in ("source", "target")]


def _more(run: Run) -> list[str]:
    """Options that double the limit at which a training ended."""
    train = run.config.train
    unit = run.record["stopped"].rpartition(" ")[2].removesuffix("s")  # as `why_stop` writes it: "1 step", "2 minutes"
    ended = f"{unit}s" if unit in ("minute", "step", "epoch") else "patience"
    doubled = 2 * getattr(train, ended)
    return ["--minutes", f"{doubled:g}"] if ended == "minutes" else ["--set", f"train.{ended}={doubled}"]


def _shown(path: Path) -> str:
    """A path as people write it: relative to the working directory, if it is inside."""
    whole = path.resolve()
    return os.path.relpath(whole) if whole.is_relative_to(Path.cwd()) else str(whole)
