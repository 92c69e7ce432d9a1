"""Completes a configuration from its corpus, its budget and the speed of this machine.

`posnmt.run.defaults` has the rules. The chosen settings are printed, and written into the run's config.yaml and, as
`chosen`, into its record. A resumed run keeps them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posnmt.base import plugins
from posnmt.base.errors import UserError, UserErrors
from posnmt.config.schema import Config
from posnmt.config.yaml import Lines, merge, override
from posnmt.data.prepare import input_files, prepare
from posnmt.data.subword import VocabularyTooLarge
from posnmt.data.survey import language_of, survey
from posnmt.run import defaults
from posnmt.run.resolve import from_tree, read
from posnmt.run.run import LOCATIONS, Run
from posnmt.training.continued import with_origin
from posnmt.training.loggers import require_loggers

if TYPE_CHECKING:
    from posnmt.data.store import Store
    from posnmt.training.speed import Pace

Say = Callable[[str], None]

SHARE = 0.97
"""The part of a time budget that is planned for updates and evaluations; the rest is for checkpoints."""


@dataclass(frozen=True)
class Written:
    """A configuration as the user wrote it; with the file and the lines of its keys, if it is from a file."""

    tree: dict[str, Any]
    path: Path | None = None
    lines: Lines = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: Path, settings: tuple[str, ...] = ()) -> Written:
        """From a YAML file, with `key.key=value` settings that override it.

        Raises:
            UserError: no such file, or no YAML mapping.
        """
        tree, lines = read(path, settings)
        return cls(defaults.without_autos(tree), path, lines)

    @classmethod
    def from_settings(cls, tree: dict[str, Any], settings: tuple[str, ...] = ()) -> Written:
        """From a nested dictionary, with settings that override it."""
        for setting in settings:
            tree = override(tree, setting)
        return cls(defaults.without_autos(tree))

    def continued(self) -> Written:
        """The configuration with the settings that it takes from the run that `train.init` names, if it is set.

        Raises:
            UserError: `train.init` names no run folder.
        """
        return replace(self, tree=with_origin(self.tree, Path() if self.path is None else self.path.parent))

    def config(self, chosen: defaults.Settings) -> Config:
        """The whole configuration with the chosen settings, checked.

        Raises:
            UserError: every fault at once, each with its line.
        """
        with plugins.allowing():  # the user wrote it for this training
            return from_tree(defaults.with_settings(self.tree, chosen), self.path, self.lines)


@dataclass(frozen=True)
class Completed:
    """A whole configuration.

    Attributes:
        chosen: dotted key → the settings that were chosen.
        pace: of updates and evaluations, if it was measured to choose settings.
    """

    config: Config
    chosen: defaults.Settings
    pace: Pace | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The entries of the run's record; empty if nothing was chosen."""
        if not self.chosen:
            return {}
        seconds = {} if self.pace is None else self.pace._asdict()
        return {"chosen": self.chosen, **{f"seconds_an_{name}": round(each, 4) for name, each in seconds.items()}}


def for_preparing(written: Written, say: Say) -> Completed:
    """The configuration, completed for `prepare`: with languages, vocabulary and dev pairs.

    Raises:
        UserError: every fault of the configuration; files that are missing or empty.
    """
    if "format" in written.tree:
        return Completed(written.config({}), {})
    written = written.continued()
    # faults of the configuration are reported before its corpus is read; placeholders stand for what is chosen below
    budget = {} if _has_budget(written) else {"train.epochs": 1}
    dev = (
        {} if any(defaults.is_set(written.tree, key) for key in ("data.dev", "data.held_out")) else {"data.held_out": 1}
    )
    draft = written.config({**budget, **dev})
    train = draft.data.train
    languages = language_of((train.source,)), language_of((train.target,))
    corpus = survey(input_files(draft.data)["train"])
    chosen = defaults.for_text(written.tree, corpus, languages, draft.train.minutes)
    config = written.config({**budget, **chosen})
    _say_chosen(say, f"from a corpus of {corpus.pairs:,} pairs", chosen)
    return Completed(config, chosen)


def prepared(text: Completed, say: Say, out: Path | None = None) -> tuple[Completed, Store]:
    """The store of a completed configuration. If the text has fewer subwords than were chosen, fewer are chosen.

    Raises:
        UserError: as `prepare`.
    """
    try:
        return text, prepare(text.config, out, say)
    except UserError as error:
        faults = error.faults if isinstance(error, UserErrors) else [error]
        most = min((fault.largest for fault in faults if isinstance(fault, VocabularyTooLarge)), default=0)
        if most < 1 or "subword.vocabulary" not in text.chosen:
            raise
    fewer = {"subword.vocabulary": most}
    _say_chosen(say, "since the text has no more subwords", fewer)
    subword = text.config.subword.model_copy(update={"vocabulary": most})
    config = text.config.model_copy(update={"subword": subword})
    return prepared(Completed(config, {**text.chosen, **fewer}), say, out)


def for_training(written: Written, say: Say) -> Completed:
    """The configuration, completed for training. Prepares the text, and measures the speed if the budget is a time.

    Raises:
        UserError: every fault of the configuration, every fault of the text.
        Interrupted: a signal to stop, while measuring.
    """
    text = for_preparing(written, say)
    if "format" in written.tree:
        return text
    require_loggers(text.config.train.loggers)
    written = written.continued()
    text, store = prepared(text, say)
    split = store.split("train")
    pairs, median = len(split), float(np.median(split.source_lengths))
    length = float(np.maximum(split.source_lengths, split.target_lengths).mean()) + 1
    chosen = dict(text.chosen)
    if not _has_budget(written):
        chosen["train.epochs"] = defaults.passes(pairs)
    config = written.config(chosen)
    can_share = config.subword.shared and config.model.architecture == "transformer"
    chosen |= defaults.for_model(written.tree, config.model, can_share, pairs)
    chosen |= defaults.for_embeddings(written.tree, written.config(chosen).model)
    chosen |= defaults.for_distances(written.config(chosen).model, median)
    chosen |= defaults.for_updates(written.tree, written.config(chosen), pairs, length)
    config = written.config(chosen)
    since = {key: value for key, value in chosen.items() if key not in text.chosen}
    _say_chosen(say, f"from {pairs:,} pairs with a median of {median:.0f} subwords", since)
    if (wide := defaults.too_wide(config.model, median)) is not None:
        say(
            f"warning: relative vectors are clipped at a distance of {wide}, and half of the training sentences have at"
            f" most {median:.0f} subwords: such vectors help little beyond these lengths; distance: auto chooses"
        )
    return _with_schedule(written, chosen, store, say)


def _with_schedule(written: Written, chosen: defaults.Settings, store: Store, say: Say) -> Completed:
    """The configuration with the settings that depend on the number of updates in the budget."""
    config = written.config(chosen)
    train, pace = config.train, None
    evaluations = defaults.evaluations(train.minutes)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    counts = [] if train.steps is None else [train.steps]
    if train.epochs is not None:
        from posnmt.training.build import batch_plan, training_pairs

        batches = len(batch_plan(train, training_pairs(train, store)).epoch(0))
        counts.append(train.epochs * batches // (processes * train.accumulate))
    if not counts:
        if processes > 1:
            say("several processes train: the schedule of a budget in minutes follows the clock alone")
            return Completed(config, chosen)
        from posnmt.training.speed import measure

        assert train.minutes is not None
        say("measuring how long updates and evaluations take")
        pace = measure(config, store, max(3.0, min(30.0, 1.2 * train.minutes)))
        evaluations = defaults.evaluations(train.minutes, pace.evaluation)
        left = max(0.5, SHARE - evaluations * pace.evaluation / (60 * train.minutes))
        counts.append(max(1, int(left * 60 * train.minutes / pace.update)))
        chosen = {**chosen, "train.steps": counts[0]}
    updates = max(1, min(counts))
    schedule = defaults.for_budget(written.tree, train, updates, evaluations)
    reason = f"for {updates:,} updates"
    if pace is not None:
        times = f" and {evaluations} evaluations of {pace.evaluation:.0f} s" if pace.evaluation else ""
        reason += f" of {pace.update:.2f} s{times} in {train.minutes:g} minutes"
    _say_chosen(say, reason, schedule)
    chosen = {**chosen, **schedule}
    return Completed(written.config(chosen), chosen, pace)


def for_resuming(written: Written | None, run: Run) -> Config:
    """The configuration for resuming a run: settings that are not written are those of the run.

    Args:
        written: the configuration that is given; None if none is.

    Raises:
        UserError: every fault of the configuration.
    """
    if written is None:
        return run.config
    if "format" in written.tree:
        return written.config({})
    begun = run.config.model_dump(mode="json")
    if defaults.is_set(written.tree, "data.train"):  # which may have moved
        for key in LOCATIONS:
            section, name = key.split(".")
            begun[section].pop(name)
    if defaults.is_set(written.tree, "data.dev"):
        begun["data"].pop("held_out")
    if not _same_budget(written, run) and "train.steps" in run.record.get("chosen", {}):
        begun["train"].pop("steps", None)  # they were planned for another budget
    tree = merge(begun, written.tree)
    for setting in run.config.model.schemes:
        if defaults.is_set(tree, f"model.{setting}"):  # else one of them is no section: refused below
            side, name = setting.split(".")
            stack = tree["model"][side]
            stack[name] = _begun_with(begun["model"][side][name], stack[name])
    return from_tree(tree, written.path, written.lines)


def _same_budget(written: Written, run: Run) -> bool:
    set_here = [key for key in defaults.BUDGETS if defaults.is_set(written.tree, key)]
    return all(written.tree["train"][name] == getattr(run.config.train, name) for name in (key[6:] for key in set_here))


def _begun_with(begun: list[Any], written: Any) -> Any:
    """Position schemes as written, with options that are left out taken from the run."""
    names = [choice["scheme"] for choice in begun]
    if not isinstance(written, list) or names != [isinstance(each, dict) and each.get("scheme") for each in written]:
        return written
    return [{**before, **now} for before, now in zip(begun, written, strict=True)]


def _has_budget(written: Written) -> bool:
    return any(defaults.is_set(written.tree, key) for key in defaults.BUDGETS)


def _say_chosen(say: Say, reason: str, chosen: defaults.Settings) -> None:
    if chosen:
        settings = ", ".join(f"{key}={_brief(value)}" for key, value in chosen.items())
        say(f"chosen {reason}: {settings}")


def _brief(value: Any) -> str:
    if isinstance(value, list):  # position schemes
        return "[" + ", ".join(_brief(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {each}" for key, each in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
