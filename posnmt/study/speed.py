"""Training and decoding speeds of several trained systems, measured in turn in one process.

Speeds of trainings that ran at different times cannot be compared, since other work on the machine may slow only one of
them. Here all systems take turns, so that the ratio of two systems is taken within a turn.

In its turn, a system trains on a few batches with a learning rate of 0 and then translates a few lines. Each turn loads
the model anew into another place in memory, which alone changes the speed by some per cent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PositiveFloat
from typing_extensions import TypedDict

from posnmt.base.files import load_json
from posnmt.study.measures import SPEEDS

RESULTS = "speeds.json"
SHARE = 0.1
"""Of the updates of a training: those of all turns together are at most so many, from 30 updates on."""
FEWEST_TURNS, FEWEST_LINES = 2, 50

Variant = tuple[str, str]
Speeds = dict[str, list[float]]
"""`training_speed` and `decoding_speed` -> source tokens a second of each turn."""


class SystemSpeeds(TypedDict):
    """The speeds of a system in each turn, in source tokens a second, as in the file `RESULTS`."""

    system: str
    training: str
    training_speed: list[PositiveFloat]
    decoding_speed: list[PositiveFloat]


@dataclass(frozen=True)
class Turns:
    """How much is measured.

    Attributes:
        turns: that count, of each system; one more is made first.
        updates: of one turn.
        lines: that are translated in one turn, evenly spread over the test text.
    """

    turns: int = 9
    updates: int = 5
    lines: int = 200

    @classmethod
    def beside(cls, steps: int | None) -> Turns:
        """As much as is in proportion to a training, so that a small study is not all measurement of speeds.

        Args:
            steps: updates of the shortest training; None: not known, and everything is measured.
        """
        full = cls()
        most = math.inf if steps is None else SHARE * steps
        part = min(1.0, most / ((full.turns + 1) * full.updates))
        turns = max(FEWEST_TURNS, math.floor(part * (full.turns + 1)) - 1)
        updates = max(1, math.floor(min(full.updates, most / (turns + 1))))
        return cls(turns, updates, max(FEWEST_LINES, math.floor(part * full.lines)))

    def seconds(self, update: float, line: float) -> float:
        """The time of a system, by that of an update and of a line."""
        return (self.turns + 1) * (self.updates * update + self.lines * line)


@dataclass(frozen=True)
class TimedSystem:
    """One of the systems.

    Attributes:
        run: its run folder.
        store: the store that it was trained on.
        search: settings of `decode` that override the run's.
    """

    run: Path
    store: Path
    search: Mapping[str, Any]


def in_turn(
    systems: Sequence[TimedSystem], lines: Sequence[str], turns: Turns, say: Callable[[str], None]
) -> list[Speeds]:
    """Measure all systems in turn; the first turn, which allocates memory and chooses kernels, is not counted.

    Args:
        systems: the systems.
        lines: the test text.
        turns: how many, and what each has.
        say: called before each turn.

    Returns:
        For each system the speeds of every turn.
    """
    count = min(turns.lines, len(lines))
    chosen = [lines[place * len(lines) // count] for place in range(count)]
    speeds: list[Speeds] = [{name: [] for name in SPEEDS} for _ in systems]
    for turn in range(turns.turns + 1):
        say(f"turn {turn} of {turns.turns}")
        for system, own in zip(systems, speeds, strict=True):
            training, decoding = _training(system, turn, turns.updates), _decoding(system, chosen)
            if turn:
                own["training_speed"].append(training)
                own["decoding_speed"].append(decoding)
    return speeds


def _training(system: TimedSystem, turn: int, updates: int) -> float:
    """Source tokens a second of a few updates; batches differ by turn, not between systems of the same corpus."""
    from posnmt.data.store import Store
    from posnmt.run.run import Run
    from posnmt.training.build import build
    from posnmt.training.device import make_fabric
    from posnmt.training.train import update

    config = Run.open(system.run).config
    with closing(build(config, Store.open(system.store), make_fabric(config.train))) as t:
        _, t.progress.cursor = t.plan.take(t.progress.cursor, turn * updates * t.batches)
        tokens = 0
        synchronise(t.fabric.device)
        began = time.perf_counter()
        for _ in range(updates):
            batches, t.progress.cursor = t.plan.take(t.progress.cursor, t.batches)
            t.progress.step += 1
            update(t, 0.0, batches)
            tokens += t.plan.tokens(batches)[0]
        synchronise(t.fabric.device)
        return tokens / (time.perf_counter() - began)


def _decoding(system: TimedSystem, lines: Sequence[str]) -> float:
    """Source tokens a second of translating some lines."""
    from posnmt.run.run import Run
    from posnmt.study.trainings import searched
    from posnmt.translate.options import with_options
    from posnmt.translate.requests import Search, numbered
    from posnmt.translate.translator import Translator

    run = Run.open(system.run)
    decode = with_options(run.config.decode, searched(run.config.decode, system.search))
    translator = Translator.load([run], precision=decode.precision, cuda_graphs=decode.cuda_graphs)
    synchronise(translator.device)
    began = time.perf_counter()
    translations = translator.translate(numbered(lines), Search(decode, scored=False))
    synchronise(translator.device)
    return sum(len(each.source) for each in translations) / (time.perf_counter() - began)


def synchronise(device: Any) -> None:
    """Wait for a GPU's work to end."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def read(folder: Path) -> list[SystemSpeeds]:
    """The speeds that a step has measured.

    Raises:
        UserError: their file is damaged.
    """
    return load_json(folder / RESULTS, list[SystemSpeeds], "speeds measured in turn", "measure them again")


def load(folder: Path) -> dict[Variant, Speeds]:
    """System and training -> the speeds that a step has measured.

    Raises:
        UserError: their file is damaged.
    """
    return {
        (each["system"], each["training"]): {
            "training_speed": each["training_speed"],
            "decoding_speed": each["decoding_speed"],
        }
        for each in read(folder)
    }
