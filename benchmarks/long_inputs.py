"""Time and peak memory of every named Transformer on inputs of 32 to 4,096 subwords, as ratios to `transformer`.

    python benchmarks/long_inputs.py [--mode train|translate] [--systems relative alibi ...] [--lengths 32 2048 ...]
                                     [--repeats 5] [--size small]

One encoder layer and one decoder layer, with embeddings and without the projection to the vocabulary. `train` is what
an update takes its gradients by: a forward and a backward pass in the precision of training, of about 4,096 tokens a
side at every length, many short sentences or one long, in parts a core. `translate` is the encoder and the decoder over
one whole sentence and its translation, without gradients, in float32. Each combination is a process of its own, forked
before PyTorch has computed anything, so that one that does not fit into memory takes no other with it; for a length the
systems take turns, and a ratio is taken within a turn.

Memory is the most that PyTorch's allocator held during the pass, in training all sentences as one part on one core,
beyond what it held before, by PyTorch's profiler. It sees each allocation, so the figure has no spread, and what other
processes, freed pages or the allocator's own reserve do to the memory of the process is not in it; what oneDNN and MKL
take for themselves is not in it either.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from posnmt.base.parallel.cores import ENVIRONMENT

os.environ.update({**ENVIRONMENT, **os.environ})  # as the command line does: before PyTorch is loaded

import torch
from torch.profiler import ProfilerActivity, profile

from posnmt.config.schema import Train
from posnmt.config.systems import SYSTEMS
from posnmt.model.registry import architecture, build_model
from posnmt.model.transformer import Transformer
from posnmt.run.resolve import from_tree
from posnmt.training.device import make_fabric
from posnmt.training.gradients import Gradients, InParts, Whole
from posnmt_position.processor import processor

VOCABULARY = 104
TOKENS = 4096
BASE = "transformer"


@dataclass(frozen=True)
class Cell:
    """What one pass took: seconds, and bytes at the peak, which are the same in every turn and counted in one."""

    seconds: float
    memory: int


def main() -> None:
    """Measure all combinations, and print the tables."""
    systems = [
        name for name in SYSTEMS if issubclass(architecture(model_section(name, "small").architecture), Transformer)
    ]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["train", "translate"], default="train")
    parser.add_argument("--systems", nargs="*", default=systems, choices=systems, metavar="ID")
    parser.add_argument("--lengths", nargs="*", type=int, default=[2**power for power in range(5, 13)])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", default="small", choices=["small", "base", "big"])
    arguments = parser.parse_args()
    chosen = [BASE, *(name for name in arguments.systems if name != BASE)]
    cells: dict[tuple[str, int], list[Cell | None]] = {}
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    print(
        f"{processor()}, {torch.get_num_threads()} threads, {versions}; {arguments.mode}, {arguments.size}", flush=True
    )
    for number, length in enumerate(arguments.lengths):
        for turn in range(arguments.repeats):
            for system in chosen:
                found = in_a_process(system, length, arguments.mode, arguments.size, turn == 0)
                cells.setdefault((system, length), []).append(found)
            print(f"{length:,} subwords, turn {turn + 1} done", file=sys.stderr)
        for title, quantity, shown in (  # after each length, so that what was measured is there whatever comes
            ("time", lambda cell: cell.seconds, lambda base: f"{1000 * base:,.0f} ms"),
            ("peak memory", lambda cell: cell.memory, lambda base: f"{base / 2**20:,.1f} MiB"),
        ):
            print_table(title, quantity, shown, chosen, arguments.lengths[: number + 1], cells)


def in_a_process(system: str, length: int, mode: str, size: str, counted: bool) -> Cell | None:
    """`measured` in a fresh process; None where it did not fit into memory or the system places no sentence so long."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        try:
            return pool.submit(measured, system, length, mode, size, counted).result()
        except BrokenProcessPool:  # killed for its memory
            return None
        except RuntimeError as error:
            if "can't allocate memory" in str(error):
                return None
            raise


def measured(system: str, length: int, mode: str, size: str, counted: bool) -> Cell | None:
    """Seconds of the second pass, and bytes at the peak of the third (0 if not counted): the first chooses kernels."""
    limit = build(system, length, size).train(mode == "train").longest_target
    if limit is not None and limit < length:
        return None
    timed, counted_step = (
        training(system, length, size) if mode == "train" else (translating(system, length, size),) * 2
    )
    timed()
    began = time.perf_counter()
    timed()
    return Cell(time.perf_counter() - began, peak(counted_step) if counted else 0)


class States(torch.nn.Module):
    """A model with the sum of its states as its loss."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: torch.Tensor, lengths: torch.Tensor, target: torch.Tensor, right: torch.Tensor) -> Any:
        """The loss, and a likelihood that there is none of."""
        return self.model(source, lengths, target).sum(), torch.zeros(())


def training(system: str, length: int, size: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Functions that take the gradients of about 4,096 tokens a side: in parts, and all at once."""
    fabric, loss_of = make_fabric(Train(steps=1)), States(build(system, length, size).train())
    source, lengths, target = sentences(max(1, TOKENS // length), length)
    rows = zip(source.tolist(), lengths.tolist(), target.tolist(), strict=True)
    pairs = [(words[: size - 1], translation[1:]) for words, size, translation in rows]  # eos and bos are added
    in_parts, whole = InParts(fabric, loss_of), Whole(fabric, fabric.setup_module(loss_of))

    def step(how: Gradients) -> None:
        how.add(how.prepared(pairs), 1.0, (1,), True)
        loss_of.zero_grad(set_to_none=True)

    return lambda: step(in_parts), lambda: step(whole)


def translating(system: str, length: int, size: str) -> Callable[[], None]:
    """A function that encodes a sentence and decodes its whole translation at once, both of `length` subwords."""
    model = build(system, length, size).eval()
    source, lengths, target = sentences(1, length)

    def step() -> None:
        with torch.inference_mode():
            model(source, lengths, target)

    return step


def peak(step: Callable[[], None]) -> int:
    """The most bytes that the allocator held while `step` ran, beyond what it held before."""
    torch.set_num_threads(1)  # the profiler does not see what other threads allocate
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
    held = most = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def sentences(rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Source subwords [rows,length], their lengths [rows], the longest first and none much shorter, and a target."""
    places = torch.arange(rows)[:, None] * 13 + torch.arange(length)
    lengths = length - torch.arange(rows) % 3
    return places * 7 % (VOCABULARY - 4) + 4, lengths, places * 11 % (VOCABULARY - 4) + 4


def build(system: str, length: int, size: str) -> torch.nn.Module:
    """The system with a layer a side, weights from one seed, and finite tables that are long enough."""
    torch.manual_seed(1)
    return build_model(model_section(system, size, max_length=length), VOCABULARY, VOCABULARY)


def model_section(system: str, size: str, **more: Any) -> Any:
    """The `model` section of a system with one layer a side."""
    sides = {"encoder": {"layers": 1}, "decoder": {"layers": 1}}
    model = {"system": system, "size": size, "tie_embeddings": "all", **sides, **more}
    tree = {"data": {"train": {"source": "-", "target": "-"}}, "train": {"steps": 1, "dev_bleu": False}}
    return from_tree({**tree, "model": model}).model


def print_table(
    title: str,
    quantity: Callable[[Cell], float],
    shown: Callable[[float], str],
    systems: list[str],
    lengths: list[int],
    cells: dict[tuple[str, int], list[Cell | None]],
) -> None:
    """Ratios to `transformer` at the same length, median (range) over the turns; its own values in the first row."""
    print(f"\n{title}, ratio to {BASE}\n\n| system | " + " | ".join(f"{length:,}" for length in lengths) + " |")
    print("|---" * (len(lengths) + 1) + "|")
    for system in systems:
        row = []
        for length in lengths:
            turns = [
                (quantity(ours), quantity(base))
                for ours, base in zip(cells[system, length], cells[BASE, length], strict=True)
                if ours is not None and base is not None and quantity(base)
            ]
            if not turns:
                row.append("–")
            elif system == BASE:
                row.append(shown(statistics.median(base for _, base in turns)))
            else:
                row.append(spread([ours / base for ours, base in turns]))
        print(f"| {system} | " + " | ".join(row) + " |")


def spread(ratios: list[float]) -> str:
    """Median, and the range where there is one."""
    middle, low, high = (f"{value:.2f}" for value in (statistics.median(ratios), min(ratios), max(ratios)))
    return middle if low == high else f"{middle} ({low}-{high})"


if __name__ == "__main__":
    main()
