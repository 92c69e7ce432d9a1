"""Training and greedy decoding speed of every named system, as ratios to `transformer`, on text made by formula.

    python benchmarks/schemes.py [--repeats 5] [--size small] [--systems relative rnn ...] [--precision bf16]

Decoding is what `posnmt translate` does with subwords: packed weights, a batch a core. `--precision` is that of its
products.

A system with more parameters has a base of its size beside it, `transformer+ffN`, whose feed-forward layer is N wide.
The last column is the ratio to that.

The systems take turns, and before each one `transformer` has one: a ratio is taken between the two, so that a machine
that speeds up or slows down does so for both. Its median and range over the turns are printed.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

from posnmt.base.parallel.cores import ENVIRONMENT

os.environ.update({**ENVIRONMENT, **os.environ})  # as the command line does: before PyTorch is loaded

import torch

from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Decode, Train
from posnmt.config.systems import SYSTEMS
from posnmt.data.batch import Pair
from posnmt.data.subword import EOS
from posnmt.model.base import TranslationModel
from posnmt.model.packed import pack
from posnmt.model.registry import build_model
from posnmt.run.resolve import from_tree
from posnmt.training.device import make_fabric
from posnmt.training.gradients import InParts
from posnmt.training.loss import TrainingLoss
from posnmt.translate.subwords import translate_subwords
from posnmt_position.processor import processor

VOCABULARY = 8004
LENGTHS = (8, 12, 16, 24, 32)
TOKENS = 4096
SENTENCES = 600

MORE = 0.05
"""Of the base's parameters: from so many more on, a system has a base of its size beside it."""


def batches() -> list[list[Pair]]:
    """One batch of each length, about 4,096 target tokens each; no row is padded by much."""
    made = []
    for length in LENGTHS:
        rows = torch.arange(TOKENS // length)
        made.append(
            [
                (
                    ((torch.arange(length - row % 3) * 7 + row) % 7000 + 4).int().numpy(),
                    ((torch.arange(length - row % 2) * 11 + row) % 7000 + 4).int().numpy(),
                )
                for row in rows.tolist()
            ]
        )
    return made


def training(system: str, size: str) -> Callable[[], float]:
    """A function that makes one update for each batch and gives target tokens a second."""
    loss_of = TrainingLoss(build(system, size), 0.1)
    fabric = make_fabric(Train(steps=1))
    optimizer = torch.optim.AdamW(loss_of.parameters(), lr=1e-4, fused=True)
    shared, shared_optimizer = fabric.setup(loss_of, optimizer)
    gradients = InParts(fabric, loss_of)
    data = [(batch, sum(len(target) + 1 for _, target in batch)) for batch in batches()]

    def turn() -> float:
        began = time.perf_counter()
        for number, (batch, tokens) in enumerate(data):
            gradients.add(batch, 1 / tokens, (number,), last=True)
            fabric.clip_gradients(shared, shared_optimizer, max_norm=1.0)
            shared_optimizer.step()
            shared_optimizer.zero_grad(set_to_none=True)
        return sum(tokens for _, tokens in data) / (time.perf_counter() - began)

    return turn


def decoding(system: str, size: str, precision: str) -> Callable[[], float]:
    """A function that decodes `SENTENCES` sources greedily, 14 subwords each, and gives sentences a second."""
    sources = [[(place * 13 + row) % 7000 + 4 for place in range(8 + row % 9)] for row in range(SENTENCES)]
    return lambda: len(sources) / search_seconds(system, size, precision, 1, sources, 14)


def search_seconds(
    system: str, size: str, precision: str, beam: int, sources: Sequence[Sequence[int]], written: int
) -> float:
    """Seconds of posnmt's search for the translations of sources, each of so many subwords.

    The model is a new one, somewhere else in memory: where one lies makes a difference of some 10 %, which is none
    between systems.
    """
    narrow, device = precision == "bf16", torch.device("cpu")
    decode, workers = Decode(beam=beam, max_ratio=0.001, max_extra=written), Workers.of(device)
    between = [torch.empty(random.randrange(1, 1 << 17), dtype=torch.uint8) for _ in range(64)]
    model = endless(system, size)
    pack(model, torch.bfloat16 if narrow else torch.float32)
    del between
    began = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        found = translate_subwords([model], sources, decode, device, workers, scored=False)
    seconds = time.perf_counter() - began
    workers.close()
    assert all(len(each.tokens) == written for hypotheses in found for each in hypotheses)
    return seconds


def endless(system: str, size: str) -> TranslationModel:
    """A model of a system whose outputs do not end by themselves, so that every system writes as much."""
    model = build(system, size).eval()
    with torch.no_grad():
        model.output.bias[EOS] = -100.0
    return model


def build(system: str, size: str) -> TranslationModel:
    """The system with weights from one seed; `transformer+ffN` has a feed-forward layer of N."""
    system, _, wider = system.partition("+ff")
    tree = {"data": {"train": {"source": "-", "target": "-"}}, "train": {"steps": 1, "dev_bleu": False}}
    model = {"system": system, "size": size, "tie_embeddings": "all"} | ({"feed_forward": int(wider)} if wider else {})
    torch.manual_seed(1)
    return build_model(from_tree({**tree, "model": model}).model, VOCABULARY, VOCABULARY)


def parameters(system: str, size: str) -> int:
    """Trained numbers."""
    return sum(parameter.numel() for parameter in build(system, size).parameters())


def twin(system: str, size: str) -> str:
    """`transformer` with the parameters of the system, to within one unit a layer, where it has many more."""
    config = build("transformer", size).config
    plain = parameters("transformer", size)
    more = parameters(system, size) - plain
    if more < MORE * plain:
        return "transformer"
    units = round(more / (2 * config.d_model + 1) / (config.encoder.layers + config.decoder.layers))
    return f"transformer+ff{config.feed_forward + units}"


def main() -> None:
    """Print one table for each kind of work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", default="small", choices=["small", "base", "big"])
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=SYSTEMS, metavar="ID")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16", help="of decoding (%(default)s)")
    parser.add_argument("--only", choices=["training", "decoding"], help="one of the two tables")
    arguments = parser.parse_args()
    systems = ["transformer", *(system for system in arguments.systems if system != "transformer")]
    twins = {system: twin(system, arguments.size) for system in systems}
    systems = [*dict.fromkeys([*sorted(set(twins.values()), key=lambda name: (len(name), name)), *systems])]
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    print(f"{processor()}, {torch.get_num_threads()} threads, {versions}")
    tables: dict[str, tuple[str, str, Callable[[str, str], Callable[[], float]]]] = {
        "training": ("training", "target tokens/s", training),
        "decoding": (
            f"greedy decoding, {arguments.precision}",
            "sentences/s",
            partial(decoding, precision=arguments.precision),
        ),
    }
    for title, unit, kind in (tables[name] for name in tables if arguments.only in (None, name)):
        turns = {system: kind(system, arguments.size) for system in systems}
        for turn in turns.values():
            turn()  # memory is allocated and kernels are chosen
        speeds: dict[str, list[tuple[float, float]]] = {system: [] for system in systems}
        for _ in range(arguments.repeats):
            for system in systems:
                base = turns["transformer"]()
                speeds[system].append((base if system == "transformer" else turns[system](), base))
        print(f"\n{title}, {arguments.size}: median {unit}; ratio to transformer (median, range); parameters; ratio")
        print("to a base of that size, where the parameters are many more")
        all_ratios = {system: [ours / base for ours, base in found] for system, found in speeds.items()}
        for system, ratios in all_ratios.items():
            spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
            million = parameters(system, arguments.size) / 1e6
            speed, ratio = statistics.median(ours for ours, _ in speeds[system]), statistics.median(ratios)
            beside = ratio / statistics.median(all_ratios[twins[system]]) if system in twins else 1.0
            print(f"{system:21} {speed:10,.0f}   {ratio:.2f}  {spread}   {million:6.1f} M   {beside:.2f}")


if __name__ == "__main__":
    main()
