"""Which trainings share their seeds, so that systems can be compared seed by seed (in blocks).

Two trainings with the same seed share it if they have the same initial weights outside the position scheme, the same
order of batches and the same number of updates. This is read from their configurations and records: all settings of
data, text, model and updates must be equal, except for the scheme. So an RNN and a Transformer share no seeds, and
neither do Transformers with different numbers of layers, or trainings on different texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from posnmt.base import plugins
from posnmt.config.schema import SCHEME_LISTS
from posnmt.config.yaml import read_yaml
from posnmt.evaluation.analyse.moderated import suffices
from posnmt.run.run import read_record
from posnmt.study.plan import PlannedRun
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.trainings import resolved, train_config

Variant = tuple[str, str]

FEWEST_PAIRED = 5
"""From this number of seeds on, the systems of a block that is too small for peers are compared seed by seed."""
# Settings that affect neither weights nor batches nor updates: folders, logging, and the longest input.
_FREE = {"data": {"root", "train", "dev", "held_out", "store"}, "subword": {"text"}, "train": {"log_every", "loggers"}}
_SCHEME = {"system", "without", "max_length"}


@dataclass(frozen=True)
class Training:
    """A training, as far as sharing seeds is concerned.

    Attributes:
        step: name of its step; systems that differ only in search have the same one.
        shares: digest of everything that trainings with a shared seed have in common.
    """

    step: str
    shares: str


Trainings = Mapping[Variant, Mapping[int, Training]]
"""System and training -> seed -> `Training`."""


@dataclass(frozen=True)
class Unit:
    """Systems of a contrast that are compared seed by seed, or a single system.

    Attributes:
        variants: systems of the contrast.
        seeds: the seeds that all of them have and share.
        peers: further systems of the block, each with those of `seeds` that it has. Empty if the block has fewer
            systems than `posnmt.evaluation.analyse.moderated.FEWEST_SYSTEMS`.
    """

    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    peers: Mapping[Variant, tuple[int, ...]] = field(default_factory=dict)

    @property
    def members(self) -> list[Variant]:
        """The systems of the block, those of the contrast first."""
        return [*self.variants, *self.peers]

    @property
    def systems(self) -> int:
        """The number of systems of the block."""
        return len(self.members)

    @property
    def present(self) -> np.ndarray:
        """`[systems, seeds]` whether each system of the block has each seed."""
        return np.array([np.isin(self.seeds, self.peers.get(system, self.seeds)) for system in self.members])

    @property
    def is_block(self) -> bool:
        """Whether several systems are compared seed by seed, or peers help to estimate the variance over seeds."""
        return self.systems > 1


def shares(config: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """The digest of everything that determines a training's initial weights outside the scheme, batches and updates.

    Args:
        config: complete, as in config.yaml.
        record: of the run, of which the data, the number of updates and the version of posnmt are used.
    """
    sections = {
        name: {key: value for key, value in config[name].items() if key not in _FREE.get(name, ())}
        for name in ("data", "subword", "train")
    }
    if sections["train"].get("optimizer") != "muon":  # its settings then do nothing
        sections["train"] = {key: value for key, value in sections["train"].items() if not key.startswith("muon")}
    model = {key: value for key, value in config["model"].items() if key not in _SCHEME}
    for side in ("encoder", "decoder"):
        model[side] = {key: value for key, value in model[side].items() if (side, key) not in SCHEME_LISTS}
    known = {name: record.get(name) for name in ("data", "steps", "posnmt")}
    text = json.dumps({**sections, "model": model, "record": known}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def recorded(runs: Iterable[PlannedRun], folders: Mapping[str, Path]) -> Trainings:
    """The trainings of some runs, from their configurations and records.

    Args:
        runs: with finished trainings.
        folders: of the steps.
    """
    known: dict[str, Training] = {}
    trainings: dict[Variant, dict[int, Training]] = {}
    for run in runs:
        if run.train not in known:
            folder = folders[run.train] / "run"
            config, _ = read_yaml(folder / "config.yaml", "config", "a config is a YAML mapping")
            known[run.train] = Training(run.train, shares(config, read_record(folder)))
        trainings.setdefault((run.system, run.training), {})[run.seed] = known[run.train]
    return trainings


def planned(recipe: Recipe, scale: Scale) -> Trainings:
    """The trainings of a recipe before they are run, from their configurations; imports PyTorch."""
    trainings: dict[Variant, dict[int, Training]] = {}
    for variant in recipe.variants(scale):
        system, training = variant
        with plugins.allowing():
            config = resolved(train_config(recipe, scale, system, training, 1)).model_dump(mode="json")
        # Trainings of the same name have the same text.
        digest = shares(config, {"data": training})
        step = json.dumps({name: config[name] for name in ("data", "subword", "model", "train")}, sort_keys=True)
        trainings[variant] = dict.fromkeys(range(1, recipe.seeds(variant, scale) + 1), Training(step, digest))
    return trainings


def units(seeds: Mapping[Variant, Sequence[int]], trainings: Trainings) -> list[Unit]:
    """The systems of a contrast, grouped by the blocks that they are in.

    A block that is large enough has peers. The systems of a smaller block are compared seed by seed if they share at
    least `FEWEST_PAIRED` seeds. Otherwise each system is a unit with all of its seeds, as in Welch's test.

    Args:
        seeds: of each system of the contrast.
        trainings: of all systems with the same figures; if empty, all units are single systems.
    """
    groups: list[list[Variant]] = []
    for variant in seeds:
        for group in groups:
            if len(_common([*group, variant], seeds, trainings)) > 1:
                group.append(variant)
                break
        else:
            groups.append([variant])
    grouped: list[Unit] = []
    for group in groups:
        common = _common(group, seeds, trainings)
        peers = _peers(group, common, seeds, trainings)
        outputs = len(group) * len(common) + sum(map(len, peers.values()))
        if suffices(len(group) + len(peers), len(common), outputs):  # they say enough of the variance over seeds
            grouped.append(Unit(tuple(group), common, peers))
        elif len(group) > 1 and len(common) >= FEWEST_PAIRED:
            grouped.append(Unit(tuple(group), common))
        else:
            grouped += [Unit((variant,), tuple(seeds[variant])) for variant in group]
    return grouped


def paired_unit(seeds: Mapping[Variant, Sequence[int]], trainings: Trainings) -> Unit:
    """The systems of a contrast as one unit that is compared seed by seed, whether or not they share their seeds.

    Args:
        seeds: of each system of the contrast.
        trainings: of all systems with the same figures; the unit has peers if its block is large enough.
    """
    first, *others = units(seeds, trainings)
    if not others:
        return first
    return Unit(tuple(seeds), tuple(sorted(set.intersection(*map(set, seeds.values())))))


def _common(group: Sequence[Variant], seeds: Mapping[Variant, Sequence[int]], trainings: Trainings) -> tuple[int, ...]:
    """The seeds that all systems of a group have and share; for a single system, its seeds."""
    first, *others = group
    if not others:
        return tuple(seeds[first])
    return tuple(
        seed
        for seed in seeds[first]
        if all(seed in seeds[other] and _share(first, other, seed, trainings) for other in others)
    )


def _share(one: Variant, other: Variant, seed: int, trainings: Trainings) -> bool:
    """Whether the trainings of two systems share a seed."""
    mine, its = (trainings.get(variant, {}).get(seed) for variant in (one, other))
    return mine is not None and its is not None and mine.shares == its.shares


def _peers(
    group: Sequence[Variant], common: Sequence[int], seeds: Mapping[Variant, Sequence[int]], trainings: Trainings
) -> dict[Variant, tuple[int, ...]]:
    """Systems outside the contrast that share at least two seeds with a group, one for each training."""
    peers: dict[Variant, tuple[int, ...]] = {}
    steps = {trainings[each][seed].step for each in group for seed in common if seed in trainings.get(each, {})}
    for variant in trainings:
        own = tuple(seed for seed in common if _share(group[0], variant, seed, trainings))
        its_steps = {trainings[variant][seed].step for seed in own}
        if variant not in seeds and len(own) > 1 and not steps & its_steps:
            peers[variant] = own
            steps |= its_steps
    return peers
