"""The rules that choose settings from the corpus and the budget. Settings in the configuration are kept.

A configuration that names its format has the fixed defaults of the schema instead, as studies have.

Each `for_` function returns dotted key → value of the settings that are left out, and reads no file. docs/automatic.md
shows the rules as tables; `posnmt.training.choose` applies them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posnmt.config.marks import Chosen, marked
from posnmt.config.schema import Config, Model, Train, with_schemes
from posnmt.config.yaml import merge
from posnmt.data.survey import Survey

Tree = Mapping[str, Any]
Settings = dict[str, Any]

EVALUATING = 0.1
"""The largest share of a budget in minutes that evaluations may take."""

FEWEST_EVALUATIONS = 3
"""There are fewer only in budgets of less than a minute and a half."""

FEWEST_DEV_PAIRS = 100
"""Evaluations on fewer say too little; a smaller dev set is used whole."""

AVERAGED = 9
"""The number of evaluations from which on the last checkpoints are averaged, which takes an evaluation more."""

AUTO = "auto"
"""A value that means the same as leaving the setting out: it is chosen."""

CONTINUED = 0.5
"""The peak rate of a training that continues from a run, relative to that of a new one."""

FEWEST_SENTENCES = 16
"""The smallest batch that is chosen if batches are counted in sentences."""

BUDGETS = ("train.steps", "train.epochs", "train.minutes")

_SYSTEM = ("model.system", "model.architecture", "model.encoder.position", "model.decoder.position")
_SIZE = ("model.size", "model.d_model")
_NULL_IS_UNSET = ("train.init", "model.system", "model.size")
"""Settings for which null means that they are left out. For others null is a value, such as no limit."""
_CHOSEN = frozenset(marked(Config, Chosen))


def is_set(tree: Tree, key: str) -> bool:
    """Whether a configuration, as written, sets a dotted key."""
    value: Any = tree
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    return value is not None or key not in _NULL_IS_UNSET


def with_settings(tree: Tree, settings: Settings) -> dict[str, Any]:
    """A configuration with settings put in by their dotted keys.

    A section that is no mapping stays as it is; it is refused later.
    """
    result: dict[str, Any] = dict(tree)
    for key, value in settings.items():
        name, _, rest = key.partition(".")
        below = result.get(name, {})
        if not rest:
            result[name] = value
        elif isinstance(below, Mapping):
            result[name] = with_settings(below, {rest: value})
    return result


def without_autos(tree: Tree, prefix: str = "") -> dict[str, Any]:
    """A configuration, or a part of it, without empty sections and without `auto` for settings that can be chosen.

    A configuration that names its format is not changed.

    Args:
        prefix: of the keys of a part.
    """
    if "format" in tree and not prefix:
        return dict(tree)
    kept: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        is_section = not prefix or any(each.startswith(f"{key}.") for each in _CHOSEN)
        if (value == AUTO and key in _CHOSEN) or (value is None and is_section):
            continue
        if isinstance(value, Mapping):
            value = without_autos(value, f"{key}.")
        if key == "model" and isinstance(value, dict):
            value = merge(value, with_schemes(value, _without_distance))
        kept[name] = value
    return kept


def _without_distance(scheme: dict[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in scheme.items() if (option, value) != ("distance", AUTO)}


def for_text(
    tree: Tree, corpus: Survey, languages: tuple[str | None, str | None], minutes: float | None = None
) -> Settings:
    """The settings that preparing the text needs.

    The vocabulary grows with the square root of the text, from 8,000 for 2 million characters of a side; it has at
    least two entries for each character of the alphabet. Of more than 1,000 distinct characters the rarest are spelled
    in bytes: 1 in 2,000 of those that occur.

    Args:
        languages: the language codes in the names of the files.
        minutes: the budget of the training, if it is a time.
    """
    settings: Settings = {"data.max_length": 256, "train.bleu_tokenizer": corpus.target.bleu_tokenizer}
    for side, name, written in zip(("source", "target"), languages, (corpus.source, corpus.target), strict=True):
        if code := name or written.code:
            settings[f"data.{side}_language"] = code
    if not is_set(tree, "data.dev"):
        most = 1000 if minutes is None or minutes > 60 else 500  # translating them takes its part of the time
        settings["data.held_out"] = max(1, min(most, corpus.pairs // 20))
    if not is_set(tree, "subword.text"):
        thousands = 1000 * max(1, min(32, round(8 * math.sqrt(corpus.characters / 2e6))))
        size = max(1, 2 * corpus.alphabet, min(thousands, corpus.characters // 10))
        leaves_out = corpus.alphabet > 1000
        spells = leaves_out and not is_set(tree, "subword.sampling")  # which bytes are not sampled with
        settings["subword.character_coverage"] = 0.9995 if leaves_out else 1.0
        settings["subword.vocabulary"] = size + 256 * spells
        settings["subword.byte_fallback"] = spells
    return _left_out(tree, settings)


def for_model(tree: Tree, model: Model, shared: bool, pairs: int) -> Settings:
    """The system, its size and its dropout.

    Args:
        model: with the settings of the named system and size, if they are set.
        shared: whether both sides have one vocabulary.
        pairs: of the training corpus.
    """
    settings: Settings = {"model.dropout": 0.3 if pairs < 15_000 else 0.2 if pairs < 100_000 else 0.1}
    if not any(is_set(tree, key) for key in _SYSTEM):
        settings["model.system"] = "relative"
    if not any(is_set(tree, key) for key in _SIZE):
        settings["model.size"] = "base" if pairs >= 1_000_000 else "small"
    if shared:
        settings["model.tie_embeddings"] = "all"
    for key in ("dropout", "tie_embeddings"):
        if key in model.model_fields_set:  # by the named size or system, which counts as written
            settings.pop(f"model.{key}", None)
    return _left_out(tree, settings)


def for_embeddings(tree: Tree, model: Model) -> Settings:
    """Small initial word embeddings for a Transformer whose output projection is tied to them: it learns sooner.

    Args:
        model: with the settings of its system.
    """
    if model.architecture != "transformer" or model.tie_embeddings != "all":
        return {}
    if "embedding_init" in model.model_fields_set:  # by the system, which counts as written
        return {}
    return _left_out(tree, {"model.embedding_init": "small-normal"})


def distance(median: float) -> int:
    """A clipping distance for relative vectors: a quarter of the median length, from 2 to 16.

    Beyond the lengths of training, relative vectors help only if this distance is well below those lengths.

    Args:
        median: length of the training sentences, in subwords.
    """
    return max(2, round(min(16.0, median / 4)))


def for_distances(model: Model, median: float) -> Settings:
    """The position schemes with a clipping distance for relative vectors that lack one.

    Args:
        model: with the settings of its system.
        median: length of the training sentences, in subwords.
    """
    settings: Settings = {}
    for setting, schemes in model.schemes.items():
        choices = [choice.model_dump() for choice in schemes]
        if any(_lacks_distance(choice) for choice in choices):
            settings[f"model.{setting}"] = [
                {**choice, "distance": distance(median)} if _lacks_distance(choice) else choice for choice in choices
            ]
    return settings


def too_wide(model: Model, median: float) -> int | None:
    """The largest clipping distance of relative vectors, if it is more than half the median length; else None."""
    choices = [choice for schemes in model.schemes.values() for choice in schemes]
    distances = [int(choice.options.get("distance", 0)) for choice in choices if choice.scheme == "relative"]
    return max((distance for distance in distances if 2 * distance > median), default=None)


def _lacks_distance(choice: Tree) -> bool:
    return choice["scheme"] == "relative" and "distance" not in choice


def for_updates(tree: Tree, config: Config, pairs: int, length: float) -> Settings:
    """The batch, the optimizer and the learning rate: small batches and Muon learn sooner (docs/performance.md).

    Args:
        config: with its model chosen.
        pairs: of the training corpus.
        length: mean tokens of the longer side of a pair, the end symbol included.
    """
    tokens = 1024 if pairs < 100_000 else 2048 if pairs < 1_000_000 else 4096
    in_tokens = config.train.batch_unit == "tokens"
    settings: Settings = {"train.batch": tokens if in_tokens else max(FEWEST_SENTENCES, round(tokens / length))}
    muon = config.model.architecture == "transformer" and not config.train.shard
    settings["train.optimizer"] = "muon" if muon else "adam"
    optimizer = config.train.optimizer if is_set(tree, "train.optimizer") else settings["train.optimizer"]
    if optimizer == "muon":
        settings["train.muon_every"] = 4
    if config.train.schedule.type != "plateau":
        if config.train.schedule.type == "noam":
            peak = 1.0  # a factor of the formula, which has the width in it
        else:
            peak = 1e-3 * min(1.0, math.sqrt(256 / config.model.d_model)) * (2 if optimizer == "muon" else 1)
        settings["train.learning_rate"] = round(peak * (CONTINUED if is_set(tree, "train.init") else 1.0), 6)
    return _left_out(tree, settings)


def evaluations(minutes: float | None) -> int:
    """The number of evaluations on dev, if they take little time: 12, or in few minutes two a minute."""
    return 12 if minutes is None else max(1, min(12, int(2 * minutes)))


def warmup(updates: float, continued: bool = False) -> int:
    """Updates of warm-up of a training of so many updates.

    Args:
        continued: whether its weights are those of another run.
    """
    if continued:
        return int(min(4000, updates / 20))
    return int(updates / 5 if updates < 1500 else max(300, min(4000, updates / 25)))


def cooldown(updates: float) -> float:
    """The last share of a training of so many updates over which its rate falls: 0.3 up to 600, 0.6 from 1,000 on."""
    return 0.3 + 0.3 * max(0.0, min(1.0, (updates - 600) / 400))


def for_budget(tree: Tree, train: Train, updates: int, evaluations: int) -> Settings:
    """Warm-up, cool-down, and when to evaluate, for a training of so many updates and evaluations."""
    every = -(-updates // evaluations)  # rounded up
    settings = {"train.evaluate_every": every, **_for_evaluations(every, evaluations)}
    if train.schedule.type not in ("noam", "plateau"):
        settings["train.schedule.warmup"] = warmup(updates, is_set(tree, "train.init"))
    if train.schedule.type in ("constant", "inverse-square-root"):
        settings["train.schedule.cooldown"] = cooldown(updates)
    return _left_out(tree, settings)


def for_minutes(tree: Tree, evaluations: int, updates: int | None = None) -> Settings:
    """When to evaluate, in a training whose schedule and evaluations follow the clock.

    Args:
        evaluations: as planned.
        updates: as planned; None if they are not.
    """
    every = 50 if updates is None else max(1, updates // evaluations)
    return _left_out(tree, {"train.evaluate_every": None, **_for_evaluations(every, evaluations)})


def for_dev(tree: Tree, pairs: int | None, translates: bool) -> Settings:
    """How thorough each evaluation is.

    Args:
        pairs: of dev that it uses; None: all.
        translates: whether it translates them.
    """
    return _left_out(tree, {"train.dev_pairs": pairs, "train.dev_bleu": translates})


def _for_evaluations(every: int, evaluations: int) -> Settings:
    return {"train.log_every": min(50, every), "train.average": 3 if evaluations >= AVERAGED else 1}


def passes(pairs: int) -> int:
    """Passes over the corpus if there is no budget: 15 for 50,000 pairs, fewer for more pairs, from 3 to 40."""
    return max(3, min(40, round(15 * math.sqrt(50_000 / max(1, pairs)))))


def _left_out(tree: Tree, settings: Settings) -> Settings:
    """The settings that a configuration, as written, leaves out."""
    return {key: value for key, value in settings.items() if not is_set(tree, key)}
