"""Completes a configuration from its corpus, its budget and the speed of this machine.

`posnmt.run.defaults` has the rules. The chosen settings are written into the run's config.yaml and, as `chosen`, into
its record. A resumed run keeps them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posnmt.base import plugins
from posnmt.base.errors import UserError, UserErrors
from posnmt.base.words import counted
from posnmt.config.schema import Config
from posnmt.config.yaml import Lines, merge, override
from posnmt.data.mixture import in_a_pass
from posnmt.data.prepare import input_files, prepare
from posnmt.data.subword import VocabularyTooLarge
from posnmt.data.survey import languages_of, survey
from posnmt.data.text import SIDES
from posnmt.run import defaults
from posnmt.run.resolve import from_tree, read
from posnmt.run.run import LOCATIONS, Run
from posnmt.training.continued import with_origin
from posnmt.training.evaluations import Dev, at_intervals, plan_evaluations
from posnmt.training.loggers import require_loggers
from posnmt.training.plan import counted_updates, planned
from posnmt.translate.device import batch_size, usual_device

if TYPE_CHECKING:
    from posnmt.data.store import Store

Say = Callable[[str], None]


def unsaid(message: str) -> None:
    """Print nothing, where details are not wanted."""


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
        planned: further entries of the run's record, of a plan from measured speeds.
    """

    config: Config
    chosen: defaults.Settings
    planned: Mapping[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """The entries of the run's record; empty if nothing was chosen."""
        return {"chosen": self.chosen, **self.planned} if self.chosen else {}


def for_preparing(written: Written) -> Completed:
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
    languages = languages_of(draft.data)
    named = {f"data.{side}_language": code for side, code in zip(SIDES, languages, strict=True) if code is not None}
    named = {key: code for key, code in named.items() if not defaults.is_set(written.tree, key)}
    if draft.data.corpora and named:  # a translation memory is read by them
        draft = written.config({**budget, **dev, **named})
    corpus = survey(input_files(draft.data)["train"])
    chosen = defaults.for_text(written.tree, corpus, languages, draft.train.minutes)
    return Completed(written.config({**budget, **chosen}), chosen)


def prepared(text: Completed, say: Say, detail: Say = unsaid, out: Path | None = None) -> tuple[Completed, Store]:
    """The store of a completed configuration. If the text has fewer subwords than were chosen, fewer are chosen.

    Args:
        detail: gets the chosen settings, if the text has no fault.

    Raises:
        UserError: as `prepare`.
    """
    try:
        store = prepare(text.config, out, say)
        read = store.manifest["splits"]["train"]["read"]
        _say_chosen(detail, f"from a corpus of {counted(read, 'pair')}", text.chosen)
        return text, store
    except UserError as error:
        faults = error.faults if isinstance(error, UserErrors) else [error]
        most = min((fault.largest for fault in faults if isinstance(fault, VocabularyTooLarge)), default=0)
        if most < 1 or "subword.vocabulary" not in text.chosen:
            raise
    fewer = {"subword.vocabulary": most}
    _say_chosen(detail, "since the text has no more subwords", fewer)
    subword = text.config.subword.model_copy(update={"vocabulary": most})
    config = text.config.model_copy(update={"subword": subword})
    return prepared(Completed(config, {**text.chosen, **fewer}), say, detail, out)


def for_training(written: Written, say: Say, detail: Say = unsaid) -> Completed:
    """The configuration, completed for training. Prepares the text, and measures the speed if the budget is a time.

    Args:
        detail: gets the chosen settings.

    Raises:
        UserError: every fault of the configuration, every fault of the text.
        Interrupted: a signal to stop, while measuring.
    """
    text = for_preparing(written)
    if "format" in written.tree:
        return text
    require_loggers(text.config.train.loggers)
    written = written.continued()
    text, store = prepared(text, say, detail)
    split = store.split("train")
    pairs, median = len(split), float(np.median(split.source_lengths))
    length = float(np.maximum(split.source_lengths, split.target_lengths).mean()) + 1
    chosen = dict(text.chosen)
    if not _has_budget(written):
        chosen["train.epochs"] = defaults.passes(in_a_pass(text.config.data.corpora, split.corpora))
    config = written.config(chosen)
    can_share = config.subword.shared and config.model.architecture == "transformer"
    chosen |= defaults.for_model(written.tree, config.model, can_share, pairs)
    chosen |= defaults.for_embeddings(written.tree, written.config(chosen).model)
    chosen |= defaults.for_distances(written.config(chosen).model, median)
    chosen |= defaults.for_updates(written.tree, written.config(chosen), pairs, length)
    config = written.config(chosen)
    since = {key: value for key, value in chosen.items() if key not in text.chosen}
    _say_chosen(detail, f"from {counted(pairs, 'pair')} with a median of {counted(round(median), 'subword')}", since)
    if (wide := defaults.too_wide(config.model, median)) is not None:
        say(
            f"warning: relative vectors are clipped at a distance of {wide}, and half of the training sentences have at"
            f" most {median:.0f} subwords: such vectors help little beyond these lengths; distance: auto chooses"
        )
    return _with_schedule(written, chosen, store, say, detail)


def _with_schedule(written: Written, chosen: defaults.Settings, store: Store, say: Say, detail: Say) -> Completed:
    """The configuration with the settings that depend on the number of updates in the budget."""
    from posnmt.training.build import batch_plan, training_pairs

    config, about = written.config(chosen), dict[str, Any]()
    train, processes = config.train, int(os.environ.get("WORLD_SIZE", "1"))
    an_update = processes * train.accumulate
    batches = batch_plan(config, training_pairs(train, store), an_update).batches_of_a_pass()
    updates = counted_updates(train, batches, an_update)
    if updates is not None:
        schedule = defaults.for_budget(written.tree, train, updates, defaults.evaluations(train.minutes))
        reason = f"for {counted(updates, 'update')}"
    elif processes > 1:
        schedule = defaults.for_minutes(written.tree, defaults.evaluations(train.minutes))
        reason = "for several processes, whose speed is not measured"
    else:
        schedule, about = _in_minutes(written.tree, config, store, say)
        reason = f"for {counted(about['planned_updates'], 'update')} in {counted(train.minutes or 0, 'minute')}"
    _say_chosen(detail, reason, schedule)
    chosen = {**chosen, **schedule}
    return Completed(written.config(chosen), chosen, about)


def _in_minutes(
    tree: defaults.Tree, config: Config, store: Store, say: Say
) -> tuple[defaults.Settings, dict[str, Any]]:
    """The settings of evaluations in a budget in minutes, and the plan for the record, by the speed of this machine.

    Raises:
        UserError: not even the cheapest evaluations fit.
        Interrupted: a signal to stop, while measuring.
    """
    from posnmt.training.speed import measure

    train = config.train
    assert train.minutes is not None
    say("measuring how long updates and evaluations take")
    pace = measure(config, store, max(3.0, min(30.0, 1.2 * train.minutes)))
    if not config.data.has_dev:
        updates, number = max(1, int(60 * train.minutes / pace.update)), defaults.evaluations(train.minutes)
        return defaults.for_minutes(tree, number, updates), planned(updates, pace, None)
    split = store.split("dev")
    dev = Dev(split.source_lengths, split.target_lengths, batch_size(config.decode, usual_device()))
    if defaults.is_set(tree, "train.evaluate_every") and train.evaluate_every is not None:
        pairs = min(len(split), train.dev_pairs or len(split))
        evaluations = at_intervals(train.minutes, pace, dev, pairs, train.dev_bleu, train.evaluate_every)
    else:
        translates = train.dev_bleu if defaults.is_set(tree, "train.dev_bleu") else None
        evaluations = plan_evaluations(train.minutes, pace, dev, train.dev_pairs, translates)
    updates = max(1, int((60 * train.minutes - evaluations.total) / pace.update))
    part = None if evaluations.pairs == len(split) else evaluations.pairs
    settings = defaults.for_minutes(tree, evaluations.number, updates)
    settings |= defaults.for_dev(tree, part, evaluations.translates)
    return settings, planned(updates, pace, evaluations)


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
    tree = merge(begun, written.tree)
    for setting in run.config.model.schemes:
        if defaults.is_set(tree, f"model.{setting}"):  # else one of them is no section: refused below
            side, name = setting.split(".")
            stack = tree["model"][side]
            stack[name] = _begun_with(begun["model"][side][name], stack[name])
    return from_tree(tree, written.path, written.lines)


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
