"""`posnmt train`: from a config, two files, or a run to resume, to a training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.config.yaml import override
from posnmt.run.options import SETS, TrainOptions
from posnmt.run.run import Run, is_unfinished, refuse_existing
from posnmt.training.choose import Written, for_resuming, for_training
from posnmt.training.train import train


@dataclass(frozen=True)
class TrainRequest:
    """A requested training.

    Attributes:
        out: the run folder.
        config: a YAML file, or its content; None if the options name the training text, or the run is resumed.
        options: settings with a short name.
        settings: `key.key=value`, which override the others.
        resume: whether to resume the run in the folder.
    """

    out: Path
    config: Path | Mapping[str, Any] | None = None
    options: TrainOptions = field(default_factory=TrainOptions)
    settings: Sequence[str] = ()
    resume: bool = False


def train_command(request: TrainRequest, display: Display) -> Run:
    """Train a model, or resume a training.

    Raises:
        UserError: every fault of configuration and text.
        Interrupted: a signal to stop; the state is saved.
    """
    out, written = request.out, _written(request)
    if request.resume and not is_unfinished(out):
        return train(for_resuming(written, Run.open(out)), out, resume=True, display=display)
    if written is None:
        raise UserError("the run in this folder was stopped before it began", out, "name its config, or its text")
    refuse_existing(out)  # before any work
    completed = for_training(written, display.say, display.detail)
    return train(completed.config, out, request.resume, display, completed.record)


def _written(request: TrainRequest) -> Written | None:
    """The configuration as written; None if a run is resumed with its own.

    Raises:
        UserError: neither a config nor two files, or both.
    """
    config, options = request.config, {name: value for name, value in request.options.items() if value is not None}
    files = {"source", "target"} & set(options)
    for setting in request.settings:
        override({}, setting)  # a fault of one is clearer than those that follow from it
    settings = (*_as_settings(options, config is not None), *request.settings)
    if config is not None and files:
        place = config if isinstance(config, Path) else None
        raise UserError("both a config and --source or --target are given", place, "leave one of them out")
    if isinstance(config, Path):
        return Written.from_file(config, settings)
    if config is not None:
        return Written.from_settings(dict(config), settings)
    if len(files) == 1 or not (files or request.resume):
        what = f"--{files.pop()} is given without the other side" if files else "no training text is named"
        example = "posnmt train --source train.en --target train.de, or posnmt train CONFIG"
        raise UserError(what, None, f"{example}; see `posnmt train --help`")
    return Written.from_settings({}, settings) if files or settings else None


def _as_settings(options: dict[str, Any], beside_config: bool) -> list[str]:
    here = {"init", "dev_source", "dev_target"} if beside_config else {"init"}  # not relative to data.root
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    whole = {name: str(Path(value).resolve()) if name in here and value else value for name, value in plain.items()}
    return [f"{SETS[name].key}={json.dumps(value, ensure_ascii=False)}" for name, value in whole.items()]
