"""Starts other toolkits' own commands where something must be done first; runs in their environments.

    python speed_launch.py fairseq-preprocess|fairseq-train|fairseq-generate|sockeye-train|joeynmt ARGUMENTS...

fairseq is not made for Python 3.11, which refuses default values that cannot be hashed in a dataclass: its
configurations get a hash. It evaluates with its own encoder layers, because it calls PyTorch's fused layer in a way
that today's PyTorch refuses. The logs of Sockeye (padded source tokens) and JoeyNMT (rates without counts) do not
contain the real target tokens: `Counter` counts the batches as they pass.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
import time
from collections.abc import Callable
from importlib.machinery import FileFinder
from typing import Any

EVERY = 10
"""Updates between two lines of a counter."""


class Counter:
    """Counts target tokens of updates and prints a line every 10: `updates N, target tokens T, seconds S`."""

    def __init__(self) -> None:
        self.updates, self.tokens, self.clock = 0, 0, time.perf_counter()

    def add(self, tokens: int) -> None:
        """One more update, which has ended, with so many real target tokens, ends of sentences included."""
        self.updates += 1
        self.tokens += tokens
        if self.updates % EVERY == 0:
            now = time.perf_counter()
            print(f"updates {self.updates}, target tokens {self.tokens}, seconds {now - self.clock:.3f}", flush=True)
            self.tokens, self.clock = 0, now


def count_calls(owner: Any, method: str, tokens: Callable[[Any], int]) -> None:
    """Let `owner.method(self, batch)` count its batch after it. What an update does after the call falls to the next
    one: from line to line it is the same work."""
    original, counter = getattr(owner, method), Counter()

    def counted(self: Any, batch: Any) -> Any:
        result = original(self, batch)
        counter.add(tokens(batch))
        return result

    setattr(owner, method, counted)


def fairseq(module: str) -> None:
    """One of fairseq's commands, made to work with today's Python and PyTorch."""
    plain = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        if cls.__module__.split(".")[0] in ("fairseq", "hydra"):
            options["unsafe_hash"] = True
        return plain(cls, **options)

    dataclasses.dataclass = dataclass  # type: ignore[assignment]
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # its checkpoints, made here, hold more than tensors
    # hydra-core 1.0.7 finds its plugins by a method that Python 3.12 no longer has.
    FileFinder.find_module = lambda finder, name: finder.find_spec(name).loader  # type: ignore[assignment, union-attr]
    command = importlib.import_module(f"fairseq_cli.{module}")
    layer = importlib.import_module("fairseq.modules.transformer_layer").TransformerEncoderLayerBase
    layer.load_to_BT = property(lambda self: False, lambda self, value: None)
    command.cli_main()


def sockeye_train() -> None:
    """Sockeye's training, its batches counted."""
    training = importlib.import_module("sockeye.training")
    constants = importlib.import_module("sockeye.constants")
    label = constants.TARGET_LABEL_NAME
    count_calls(
        training.EarlyStoppingTrainer, "_step", lambda batch: int((batch.labels[label] != constants.PAD_ID).sum())
    )
    importlib.import_module("sockeye.train").main()


def joeynmt() -> None:
    """JoeyNMT's command, its training batches counted."""
    training = importlib.import_module("joeynmt.training")
    count_calls(training.TrainManager, "_train_step", lambda batch: int(batch.ntokens))
    importlib.import_module("joeynmt.__main__").main()


COMMANDS = {
    "fairseq-preprocess": lambda: fairseq("preprocess"),
    "fairseq-train": lambda: fairseq("train"),
    "fairseq-generate": lambda: fairseq("generate"),
    "sockeye-train": sockeye_train,
    "joeynmt": joeynmt,
}

if __name__ == "__main__":
    del sys.argv[0]
    COMMANDS[sys.argv[0]]()
