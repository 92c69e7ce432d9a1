"""Training and decoding speeds of several trained systems, measured in turn in one process.

Speeds of trainings that ran at different times cannot be compared, since other work on the machine may slow only one of
them. Here all systems take turns, so that the ratio of two systems is taken within a turn.

In its turn, a system trains on a few batches with a learning rate of 0 and then translates a few lines. Each turn loads
the model anew into another place in memory, which alone changes the speed by some per cent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PositiveFloat
from typing_extensions import TypedDict

from posnmt.base.files import load_json
from posnmt.study.measures import SPEEDS

RESULTS = "speeds.json"
UPDATES, LINES = 5, 200
"""Of one turn: updates, and lines that are translated, evenly spread over the test text."""

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
    systems: Sequence[TimedSystem], lines: Sequence[str], turns: int, say: Callable[[str], None]
) -> list[Speeds]:
    """Measure all systems in turn; the first turn, which allocates memory and chooses kernels, is not counted.

    Args:
        systems: the systems.
        lines: the test text.
        turns: number of turns that count.
        say: called before each turn.

    Returns:
        For each system the speeds of every turn.
    """
    count = min(LINES, len(lines))
    chosen = [lines[place * len(lines) // count] for place in range(count)]
    speeds: list[Speeds] = [{name: [] for name in SPEEDS} for _ in systems]
    for turn in range(turns + 1):
        say(f"turn {turn} of {turns}")
        for system, own in zip(systems, speeds, strict=True):
            training, decoding = _training(system, turn), _decoding(system, chosen)
            if turn:
                own["training_speed"].append(training)
                own["decoding_speed"].append(decoding)
    return speeds


def _training(system: TimedSystem, turn: int) -> float:
    """Source tokens a second of a few updates; batches differ by turn, not between systems of the same corpus."""
    from posnmt.data.store import Store
    from posnmt.run.run import Run
    from posnmt.training.build import build
    from posnmt.training.device import make_fabric
    from posnmt.training.train import update

    config = Run.open(system.run).config
    t = build(config, Store.open(system.store), make_fabric(config.train))
    batches, _ = t.plan.take(t.progress.cursor, (turn + 1) * UPDATES * t.batches)
    batches = batches[turn * UPDATES * t.batches :]
    synchronise(t.fabric.device)
    began = time.perf_counter()
    for number in range(UPDATES):
        t.progress.step += 1
        update(t, 0.0, batches[number * t.batches : (number + 1) * t.batches])
    synchronise(t.fabric.device)
    seconds = time.perf_counter() - began
    t.gradients.close()
    return t.plan.tokens(batches)[0] / seconds


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
