"""What `posnmt train` does: a config, two files, or a run to go on with; then training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.run.run import Run, is_unfinished, refuse_existing
from posnmt.training.choose import Written, for_resuming, for_training
from posnmt.training.train import train

_KEYS = {
    "source": "data.train.source",
    "target": "data.train.target",
    "dev_source": "data.dev.source",
    "dev_target": "data.dev.target",
    "source_language": "data.source_language",
    "target_language": "data.target_language",
    "minutes": "train.minutes",
    "init": "train.init",
}
"""Option -> setting."""


def train_command(
    config: Path | Mapping[str, Any] | None,
    options: dict[str, Any],
    settings: tuple[str, ...],
    out: Path,
    resume: bool,
    display: Display,
) -> Run:
    """Train a model, or go on with one.

    Args:
        config: a YAML file, or what one holds; None: the training text is among the options.
        options: those of `_KEYS`; None where not given.
        settings: `key.key=value`, which win.
        out: the run folder.
        resume: go on with the run in it.
        display: where progress is shown.

    Raises:
        UserError: every fault of configuration and text.
        Interrupted: a signal to stop; the state is saved.
    """
    here = {"init", "dev_source", "dev_target"} if config is not None else {"init"}  # not relative to data.root
    options = {name: str(Path(value).resolve()) if name in here and value else value for name, value in options.items()}
    written = _written(config, {key: value for key, value in options.items() if value is not None}, settings, resume)
    if resume and not is_unfinished(out):
        return train(for_resuming(written, Run.open(out)), out, resume=True, display=display)
    if written is None:
        raise UserError("the run in this folder was stopped before it began", out, "name its config, or its text")
    refuse_existing(out)  # before any work
    completed = for_training(written, display.say)
    return train(completed.config, out, resume, display, completed.record)


def _written(
    config: Path | Mapping[str, Any] | None, options: dict[str, Any], settings: tuple[str, ...], resume: bool
) -> Written | None:
    """The configuration as written; None where a run goes on with its own.

    Raises:
        UserError: neither a config nor two files, or both.
    """
    files = {"source", "target"} & set(options)
    settings = (*_as_settings(options), *settings)
    if config is not None and files:
        place = config if isinstance(config, Path) else None
        raise UserError("both a config and --source or --target are given", place, "leave one of them out")
    if isinstance(config, Path):
        return Written.from_file(config, settings)
    if config is not None:
        return Written.from_settings(dict(config), settings)
    if len(files) == 1 or not (files or resume):
        what = f"--{files.pop()} is given without the other side" if files else "no training text is named"
        example = "posnmt train --source train.en --target train.de, or posnmt train CONFIG"
        raise UserError(what, None, f"{example}; see `posnmt train --help`")
    return Written.from_settings({}, settings) if files or settings else None


def _as_settings(options: dict[str, Any]) -> list[str]:
    """Options as `key.key=value`, the value in YAML."""
    return [f"{_KEYS[name]}={json.dumps(value, ensure_ascii=False)}" for name, value in options.items()]
