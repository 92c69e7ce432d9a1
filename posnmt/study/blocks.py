"""Which trainings share their seeds, so that systems can be compared seed by seed (in blocks).

Two trainings of one seed share it if they have the same initial weights outside the position scheme, the same order of
batches and the same number of updates. Their configurations and records say so: all settings of the data, the text, the
model and the updates are equal but for the scheme. So an RNN and a Transformer do not share seeds, nor do Transformers
with other numbers of layers, nor trainings on other texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posnmt.base import plugins
from posnmt.config.yaml import merge, read_yaml
from posnmt.evaluation.analyse.moderated import suffices
from posnmt.run.run import read_record
from posnmt.study.plan import PlannedRun
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.trainings import train_config, with_distance

Variant = tuple[str, str]

FEWEST_PAIRED = 5
"""Seeds of a smaller block that are compared seed by seed all the same."""
# What is no part of the weights, the batches or the updates: folders, what is logged, and the longest input.
_FREE = {"data": {"root", "train", "dev", "held_out", "store"}, "subword": {"text"}, "train": {"log_every", "loggers"}}
_SCHEME = {"system", "without", "max_length"}


@dataclass(frozen=True)
class Training:
    """What is known of one training.

    Attributes:
        step: its name; systems that differ in search alone have the same one.
        shares: digest of what it shares with others of its seed.
    """

    step: str
    shares: str


Trainings = Mapping[Variant, Mapping[int, Training]]
"""System and training -> seed -> what is known of it."""


@dataclass(frozen=True)
class Unit:
    """Systems of a contrast whose seeds count together; without block, one system.

    Attributes:
        variants: of the contrast.
        seeds: that all of them have, and share.
        peers: further systems of the block, with those of `seeds` that they have; empty if there is no block of
            `posnmt.evaluation.analyse.moderated.FEWEST_SYSTEMS`.
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
        """How many these are."""
        return len(self.members)

    @property
    def is_block(self) -> bool:
        """Whether seeds are compared one by one, or other systems say how much they vary."""
        return self.systems > 1


def shares(config: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """The digest of all that fixes the initial weights outside the scheme, the batches and the updates of a training.

    Args:
        config: complete, as in config.yaml.
        record: of the run; its data, its number of updates and the version that trained it count.
    """
    sections = {
        name: {key: value for key, value in config[name].items() if key not in _FREE.get(name, ())}
        for name in ("data", "subword", "train")
    }
    if sections["train"].get("optimizer") != "muon":  # its settings then do nothing
        sections["train"] = {key: value for key, value in sections["train"].items() if not key.startswith("muon")}
    model = {key: value for key, value in config["model"].items() if key not in _SCHEME}
    for side in ("encoder", "decoder"):
        model[side] = {key: value for key, value in model[side].items() if key != "position"}
    known = {name: record.get(name) for name in ("data", "steps", "posnmt")}
    text = json.dumps({**sections, "model": model, "record": known}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def recorded(runs: Iterable[PlannedRun], folders: Mapping[str, Path]) -> Trainings:
    """What the configurations and records of finished trainings say.

    Args:
        runs: whose trainings are finished.
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
    """What the configurations of a recipe say of its trainings before they are run; imports PyTorch."""
    from posnmt.run.resolve import from_tree

    corpora = {name: {"source": "-", "target": "-"} for name in ("train", "dev")}
    trainings: dict[Variant, dict[int, Training]] = {}
    for variant in recipe.variants(scale):
        system, training = variant
        with plugins.allowing():
            tree = with_distance(train_config(recipe, scale, system, training, 1))
            config = from_tree(merge({"data": corpora}, tree)).model_dump(mode="json")
        # Trainings of the same name have the same text.
        digest = shares(config, {"data": training})
        step = json.dumps({name: config[name] for name in ("data", "subword", "model", "train")}, sort_keys=True)
        every = range(1, recipe.seeds(variant, scale) + 1)
        trainings[variant] = {seed: Training(step, digest) for seed in every}
    return trainings


def units(seeds: Mapping[Variant, Sequence[int]], trainings: Trainings) -> list[Unit]:
    """The systems of a contrast, grouped by the blocks that they are in.

    A block that is large enough has peers. The systems of a smaller one are compared seed by seed from `FEWEST_PAIRED`
    seeds on. Otherwise each system is a unit of its own with all of its seeds, as in Welch's test.

    Args:
        seeds: of each system of the contrast.
        trainings: of all systems with the same figures; without any, all units are single systems.
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
        if _is_large(len(group), len(common), peers):
            grouped.append(Unit(tuple(group), common, peers))
        elif len(group) > 1 and len(common) >= FEWEST_PAIRED:
            grouped.append(Unit(tuple(group), common))
        else:
            grouped += [Unit((variant,), tuple(seeds[variant])) for variant in group]
    return grouped


def paired_unit(seeds: Mapping[Variant, Sequence[int]], trainings: Trainings) -> Unit:
    """The systems of a contrast that are compared seed by seed, whether or not their trainings share what seeds fix.

    Args:
        seeds: of each system of the contrast.
        trainings: of all systems with the same figures; a block that is large enough has peers.
    """
    first, *others = units(seeds, trainings)
    if not others:
        return first
    common = set.intersection(*(set(each) for each in seeds.values()))
    return Unit(tuple(seeds), tuple(sorted(common)))


def _common(group: Sequence[Variant], seeds: Mapping[Variant, Sequence[int]], trainings: Trainings) -> tuple[int, ...]:
    """The seeds that all systems of a group have and share; of one system, those that it has."""
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
    """Systems outside the contrast that share two seeds or more with a group; of those with one training, the first."""
    peers: dict[Variant, tuple[int, ...]] = {}
    steps = {trainings[each][seed].step for each in group for seed in common if seed in trainings.get(each, {})}
    for variant in trainings:
        own = tuple(seed for seed in common if _share(group[0], variant, seed, trainings))
        its_steps = {trainings[variant][seed].step for seed in own}
        if variant not in seeds and len(own) > 1 and not steps & its_steps:
            peers[variant] = own
            steps |= its_steps
    return peers


def _is_large(members: int, seeds: int, peers: Mapping[Variant, Sequence[int]]) -> bool:
    """Whether the systems of a block, members and peers, say enough of the variance over seeds."""
    return suffices(members + len(peers), seeds, members * seeds + sum(map(len, peers.values())))
