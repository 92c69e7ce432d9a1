"""`posnmt.train`: the command `posnmt train` as a function."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from posnmt.api.arguments import checked, typed
from posnmt.base import plugins
from posnmt.base.errors import UserError, quoted
from posnmt.base.progress import Display
from posnmt.config.schema import Config
from posnmt.run.options import TrainOptions
from posnmt.run.run import Run
from posnmt.training.command import TrainRequest, train_command


@typed
def train(
    config: str | Path | Mapping[str, Any] | Config | None = None,
    out: str | Path = "runs/mine",
    *,
    settings: Mapping[str, Any] | Sequence[str] = (),
    resume: bool = False,
    allow_plugins: bool = False,
    show_progress: bool = True,
    **options: Unpack[TrainOptions],
) -> Run:
    """Train a model, and write a run folder. Text is prepared first, if it is not yet.

    Settings that a YAML file or a dictionary leaves out are chosen from the corpus, the budget and the speed of this
    machine, as in `posnmt train` (docs/train.md), and written into the run's config.yaml. A `Config` is complete, so
    nothing is chosen.

    Args:
        config: a YAML file, its content as a dictionary, or a checked `Config` such as `Run.config`; in the last two,
            relative paths are relative to `data.root`, by default the working directory. None: `source` and `target`
            are the training text, or `resume` continues the run in `out`.
        out: the run folder, which must not exist unless `resume`.
        source, target: the training text, one sentence a line, in place of a config.
        dev_source, dev_target: text to measure on during training; default: pairs drawn from the training text.
        source_language, target_language: codes such as `de`; default: the ending of the file's name.
        minutes: the time to train.
        init: a trained run, or its folder; the training starts from its weights and subwords.
        settings: settings that override all others: `{"train.epochs": 5}`, or a list of texts `key=value`.
        resume: continue the run in `out` as if it had never stopped.
        allow_plugins: with `resume` or `init`, import the classes that the run's config names by `module:Class`.
        show_progress: whether to show progress, chosen settings and warnings on standard error.

    Returns:
        The run: its `folder`, its `config`, its `record`; `posnmt.load` takes it.

    Raises:
        UserError: an argument has another type, the folder exists, or the configuration or text has faults, which are
            all reported.
        Interrupted: stopped by Ctrl-C or SIGTERM. The state is saved, and `resume` continues from there.
    """
    if isinstance(config, Config):
        tree: Path | Mapping[str, Any] | None = config.model_dump(mode="json")
    elif isinstance(config, str):
        tree = Path(config)
    else:
        tree = config
    if tree is not None and not isinstance(tree, Path | Mapping):
        kind = type(config).__name__
        raise UserError(f"a config is a YAML file, a dictionary or a Config; got {kind}", "config")
    init = options.get("init")
    options["init"] = checked(init.folder if isinstance(init, Run) else init, Path | None, "init")
    request = TrainRequest(Path(out), tree, options, _settings(settings), resume)
    with Display(quiet=not show_progress) as display, plugins.allowing(allow_plugins):
        return train_command(request, display)


def _settings(settings: Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    """Settings as `key=value`, the value in YAML.

    Raises:
        UserError: they are neither a dictionary nor a list of strings.
    """
    if isinstance(settings, str):
        return (settings,)
    if not isinstance(settings, Mapping):
        listed = tuple(settings) if isinstance(settings, Iterable) else (settings,)
        if not all(isinstance(each, str) for each in listed):
            what = f"settings are a dictionary, or a list of `key=value`; got {quoted(settings)}"
            raise UserError(what, "settings", 'for example {"train.epochs": 5}')
        return listed
    return tuple(f"{key}={json.dumps(value, ensure_ascii=False, default=_plain)}" for key, value in settings.items())


def _plain(value: Any) -> Any:
    """A value that JSON has: a number or list for NumPy's numbers and arrays, text for anything else."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)
