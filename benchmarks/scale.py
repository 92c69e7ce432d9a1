"""What several GPUs would bring, calculated: the tables of benchmarks/notes/scale.md. Nothing here is measured.

python benchmarks/scale.py [--vocabulary 32004] [--tokens 25000] [--peak 989] [--utilisation 0.45]
"""

from __future__ import annotations

import argparse

from posnmt.config.schema import Model
from posnmt.model.registry import count_parameters
from posnmt.run.resolve import from_tree

SIZES = ("small", "base", "big")
LINKS = {"NVLink": 450.0, "InfiniBand 400 Gb/s": 50.0, "Ethernet 100 Gb/s": 12.5, "Ethernet 10 Gb/s": 1.25}
"""Gigabytes a second in one direction: of a GPU inside a node (NVLink 4), else of a node's one adapter."""

GPUS_A_NODE = 8
SHARE_OF_LINK = 0.7
"""What an all-reduce reaches of a link's bandwidth."""

WIDTH = 4
"""Bytes of a parameter, a gradient and each of Adam's two moments: all float32, whatever autocast multiplies in."""


def main() -> None:
    """Print both tables; the second in percent, for the base size: the others have the same, see the notes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=32004, help="entries, special symbols included")
    parser.add_argument(
        "--tokens", type=int, default=25_000, help="target tokens of a GPU's batch; as many source tokens"
    )
    parser.add_argument("--peak", type=float, default=989.0, help="the GPU's bf16 TFLOP/s, dense")
    parser.add_argument("--utilisation", type=float, default=0.45, help="share of it that a step reaches")
    arguments = parser.parse_args()
    models = {size: model_section(size) for size in SIZES}
    counts = {
        size: count_parameters(model, arguments.vocabulary, arguments.vocabulary) for size, model in models.items()
    }

    print(
        "| size | parameters | gradients, MB | parameters, gradients, Adam, MB | FLOPs of a batch, T | its time, ms |"
    )
    print("|---|---|---|---|---|---|")
    seconds = {}
    for size, model in models.items():
        operations = flops(model, arguments.vocabulary, arguments.tokens)
        seconds[size] = operations / (arguments.peak * 1e12 * arguments.utilisation)
        held = counts[size] * WIDTH / 1e6
        row = f"{counts[size]:,} | {held:,.0f} | {4 * held:,.0f} | {operations / 1e12:.1f} | {1000 * seconds[size]:.0f}"
        print(f"| {size} | {row} |")

    print("\n| between nodes | batches an update | 1 | 2 | 8 | 64 |\n|---|---|---|---|---|---|")
    volume, batch = counts["base"] * WIDTH, seconds["base"]
    for link in list(LINKS)[1:]:
        for accumulate in (1, 8):
            row = " | ".join(efficiency(accumulate, batch, exchange(volume, gpus, link)) for gpus in (1, 2, 8, 64))
            print(f"| {link} | {accumulate} | {row} |")


def model_section(size: str) -> Model:
    """The `model` section of `transformer` in a named size, with one matrix for all embeddings."""
    tree = {"data": {"train": {"source": "-", "target": "-"}}, "train": {"steps": 1, "dev_bleu": False}}
    return from_tree({**tree, "model": {"system": "transformer", "size": size, "tie_embeddings": "all"}}).model


def flops(model: Model, vocabulary: int, tokens: int) -> float:
    """Floating-point operations of a forward and a backward pass: 6 a weight that multiplies and a token.

    Embeddings multiply nothing; attention's products of words by words are left out (1 to 2 % at 30 subwords).
    """
    d, inner = model.d_model, model.feed_forward
    encoder = model.encoder.layers * (4 * d * d + 2 * d * inner)
    decoder = model.decoder.layers * (8 * d * d + 2 * d * inner)
    return 6.0 * tokens * (encoder + decoder + d * vocabulary)


def exchange(volume: float, gpus: int, link: str) -> float:
    """Seconds of a ring all-reduce of so many bytes: each GPU sends 2 (N - 1) / N of them.

    Inside a node the ring goes over NVLink. Over several nodes a node's one adapter carries the ring on to the next
    node, which is its slowest part.
    """
    bandwidth = LINKS["NVLink" if gpus <= GPUS_A_NODE else link]
    return 2 * (gpus - 1) / gpus * volume / (SHARE_OF_LINK * bandwidth * 1e9)


def efficiency(accumulate: int, batch: float, exchanged: float) -> str:
    """Share of N times one GPU's speed: where the exchange waits for the backward pass, and where it overlaps with it.

    The gradients are exchanged once an update, in the backward pass of its last batch: two thirds of a batch's time.
    """
    compute = accumulate * batch
    overlapping = max(0.0, exchanged - batch * 2 / 3)
    low, high = (f"{100 * compute / (compute + each):.0f}" for each in (exchanged, overlapping))
    return low if low == high else f"{low}-{high}"


if __name__ == "__main__":
    main()
