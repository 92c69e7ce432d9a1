"""How long an update of a real training takes on a GPU, and what share of the peak it reaches.

    python benchmarks/gpu_step.py [--out FILE.jsonl] [--limit 240] [--combinations relative/new/eager ...]
    python benchmarks/gpu_step.py --profile relative/new/eager       its 25 longest kernels
    python benchmarks/gpu_step.py --tiny                             that it runs, on a CPU

A combination is SYSTEM/LOSS/LAYERS: a system of `SYSTEMS`; the loss old (the form of all devices) or new (what a
training chooses on this device); the layers eager or compiled (`train.compile`). Its training is
`posnmt.training.build.build` on a store of synthetic pairs, 10 to 60 subwords long. An update is
`posnmt.training.train.update` with the next batch of the plan: pairs are read, padded and copied, gradients clipped,
and values read as `posnmt.training.train.loop` reads them. Each combination has one line of JSON as it ends:

- milliseconds: the median of an update, and the slowest, by events of the GPU; their mean by the clock, and real target
  tokens a second; over at least `--seconds`;
- compiled_while_timed: the graphs that `torch.compile` compiled meanwhile; there should be none;
- tflops and share: the products of `products`, without those of positions, over the time; of real tokens, and of padded
  ones; the share is of `PEAK`;
- waits: how often an update makes the CPU wait for the GPU, as `torch.cuda.set_sync_debug_mode` counts;
- warm_up: seconds of the first updates, in which kernels and layers are compiled, and warm_up_updates: how many.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

PEAK = 989
"""TFLOP/s of dense bf16 products that NVIDIA states for an H100 SXM."""

SYSTEMS = ("relative", "transformer", "rope", "alibi")
COMBINATIONS = [f"relative/new/{layers}" for layers in ("eager", "compiled")]
COMBINATIONS += [f"transformer/new/{layers}" for layers in ("eager", "compiled")]
COMBINATIONS += [f"{system}/old/eager" for system in ("relative", "transformer")]
COMBINATIONS += [f"{system}/new/{layers}" for system in ("rope", "alibi") for layers in ("eager", "compiled")]
COMBINATIONS += [f"{system}/old/compiled" for system in SYSTEMS]
COMBINATIONS += [f"{system}/old/eager" for system in ("rope", "alibi")]
WARM_UP = (8, 60)
"""The fewest updates before any is timed, and the most; see `warm`."""
QUIET = 4
"""Updates in a row that compile no graph, before any is timed."""


def main() -> None:
    """Measure each combination."""
    arguments = parse_arguments()
    if arguments.tiny:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        arguments.size, arguments.vocabulary, arguments.tokens = "tiny", 300, 256
    import torch

    if not arguments.tiny and not torch.cuda.is_available():
        sys.exit("error: no GPU is here; --tiny shows without one that it runs")
    with tempfile.TemporaryDirectory() as folder:
        store = synthetic_store(Path(folder) / "train.arrow", 400 if arguments.tiny else 60_000, arguments.vocabulary)
        chosen = [arguments.profile] if arguments.profile else arguments.combinations
        for number, name in enumerate(chosen[arguments.first :], arguments.first):
            if time.time() > arguments.end:
                say(arguments, {"left out for want of time": chosen[number:]})
                return
            failed = False
            try:
                for line in profiled(arguments, name, store) if arguments.profile else measured(arguments, name, store):
                    say(arguments, {"combination": name, "size": arguments.size, **line})
            except Exception as fault:
                failed = True
                say(arguments, {"combination": name, "failed": f"{type(fault).__name__}: {str(fault)[:1500]}"})
            gc.collect()
            if failed and not arguments.tiny:  # after an error in a kernel, CUDA works in a new process alone
                rest = ["--first", str(number + 1), "--end", str(arguments.end)]
                os.execv(sys.executable, [sys.executable, *sys.argv, *rest])  # noqa: S606


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="append the lines here too")
    parser.add_argument("--limit", type=float, default=240.0, help="begin no combination after so many seconds")
    parser.add_argument("--combinations", nargs="+", choices=COMBINATIONS, default=COMBINATIONS, metavar="NAME")
    parser.add_argument("--seconds", type=float, default=4.0, help="of timed updates (%(default)s)")
    parser.add_argument("--size", default="base")
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--tokens", type=int, default=25_600, help="padded tokens of a batch on a side (%(default)s)")
    parser.add_argument("--profile", choices=COMBINATIONS, metavar="NAME")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, on a CPU")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.end = arguments.end or time.time() + arguments.limit
    return arguments


def say(arguments: argparse.Namespace, line: dict[str, Any]) -> None:
    """Print a line, and append it to the file."""
    print(text := json.dumps(line), flush=True)
    if arguments.out:
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def synthetic_store(path: Path, pairs: int, vocabulary: int) -> Any:
    """A store as far as a training reads it: log-normal lengths from 10 to 60, and subwords by Zipf's law."""
    from posnmt.data.store import SCHEMA, Split, SplitWriter

    generator = np.random.default_rng(1)
    source = np.exp(generator.normal(3.2, 0.45, pairs)).clip(10, 60).astype(int)
    target = (source * np.exp(generator.normal(0, 0.15, pairs))).clip(10, 60).astype(int)
    weights = 1 / (2.7 + np.arange(vocabulary - 4))

    def lines(lengths: NDArray[np.int64]) -> pa.Array:
        words = 4 + generator.choice(vocabulary - 4, int(lengths.sum()), p=weights / weights.sum()).astype(np.int32)
        return pa.LargeListArray.from_arrays(np.concatenate([[0], lengths.cumsum()]), words)

    nothing = pa.nulls(pairs, pa.large_string())
    columns = [np.arange(pairs), nothing, lines(source), lines(target), nothing, nothing]
    with SplitWriter(path) as writer:
        writer.add(pa.RecordBatch.from_arrays([pa.array(each) for each in columns], schema=SCHEMA))
    side = SimpleNamespace(size=vocabulary)
    split = Split(path)
    return SimpleNamespace(text=SimpleNamespace(source=side, target=side, pairs=None), trained=lambda: [split])


def measured(arguments: argparse.Namespace, name: str, store: Any) -> Iterator[dict[str, Any]]:
    """The figures of a combination."""
    import torch

    on_gpu = torch.cuda.is_available()
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with loss_of(name):
        began = time.perf_counter()
        t = training(arguments, name, store)
        updates = Updates(t)
        warmed = warm(updates)
        wait()
        warm_up, compiled = time.perf_counter() - began, graphs()
        began, batches, marks = time.perf_counter(), list[NDArray[np.int64]](), [mark()]
        while time.perf_counter() - began < arguments.seconds or len(marks) < 4:
            batches += updates.advance()
            marks.append(mark())
        wait()
        seconds, compiled = time.perf_counter() - began, graphs() - compiled
        waiting = waits(updates) if on_gpu else None
        updates.close()
    split = store.trained()[0]
    real = sum(products(t.model, split, each, padded=False) for each in batches)
    padded = sum(products(t.model, split, each, padded=True) for each in batches)
    tokens = sum(int(split.target_lengths[each].sum()) + len(each) for each in batches)
    each = [milliseconds(one, other) for one, other in pairwise(marks)]
    line: dict[str, Any] = {
        "milliseconds": statistics.median(each), "slowest": max(each), "mean": 1000 * seconds / len(each),
        "compiled_while_timed": compiled, "warm_up_updates": warmed, "tokens_per_second": tokens / seconds,
        "tflops": real / seconds / 1e12, "share": real / seconds / 1e12 / PEAK,
        "tflops_padded": padded / seconds / 1e12, "share_padded": padded / seconds / 1e12 / PEAK,
        "loss": updates.loss, "updates": len(each), "tokens": tokens / len(each), "warm_up": warm_up,
    }  # fmt: skip
    if on_gpu:
        line |= {
            "waits": waiting, "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
            "device": torch.cuda.get_device_name(),
        }  # fmt: skip
    yield line


def profiled(arguments: argparse.Namespace, name: str, store: Any) -> Iterator[dict[str, Any]]:
    """The 25 longest kernels of three updates, in milliseconds an update; on a CPU the longest operations."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    on_gpu = torch.cuda.is_available()
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    with loss_of(name):
        t = training(arguments, name, store)
        updates = Updates(t)
        warm(updates)
        wait()
        began = time.perf_counter()
        with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as found:
            for _ in range(3):
                updates.advance()
            wait()
        seconds = time.perf_counter() - began
        updates.close()
    events = [each for each in found.key_averages() if not each.is_user_annotation]  # which contain kernels
    took = {each: each.self_device_time_total if on_gpu else each.self_cpu_time_total for each in events}
    yield {"milliseconds": 1000 * seconds / 3, "of_kernels": sum(took.values()) / 3000}
    for each in sorted(took, key=lambda each: -took[each])[:25]:
        yield {"kernel": each.key[:120], "milliseconds": took[each] / 3000, "calls": each.count / 3}


def warm(updates: Updates) -> int:
    """Make updates until `QUIET` in a row compiled no graph, within the limits of `WARM_UP`, and return their number.

    Graphs are compiled anew for shapes of batches that they do not serve.
    """
    fewest, most = WARM_UP
    made = quiet = 0
    while made < fewest or (quiet < QUIET and made < most):
        before = graphs()
        updates.advance()
        made, quiet = made + 1, quiet + 1 if graphs() == before else 0
    return made


def graphs() -> int:
    """How many graphs `torch.compile` has compiled in this process."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def mark() -> Any:
    """Now: on a GPU an event behind all work that it was given, which does not wait; else the clock, in seconds."""
    import torch

    if not torch.cuda.is_available():
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def milliseconds(one: Any, other: Any) -> float:
    """Between two marks that have happened."""
    return 1000 * (other - one) if isinstance(one, float) else float(one.elapsed_time(other))


def training(arguments: argparse.Namespace, name: str, store: Any) -> Any:
    """The training of a combination, new."""
    import torch

    from posnmt.run.resolve import from_tree
    from posnmt.training.build import build
    from posnmt.training.device import make_fabric

    torch.compiler.reset()
    system, _, layers = name.split("/")
    train = {"steps": 1000, "batch": arguments.tokens, "dev_bleu": False, "compile": layers == "compiled"}
    model = {"system": system, "size": arguments.size, "tie_embeddings": "all"}
    tree = {"data": {"train": {"source": "-", "target": "-"}}, "train": train, "model": model}
    config = from_tree(tree)
    return build(config, store, make_fabric(config.train))


class Updates:
    """The updates of a training, whose values are read as `posnmt.training.train.loop` reads them.

    Attributes:
        loss: nats a target token of the last update whose values were read.
    """

    def __init__(self, t: Any) -> None:
        self.t, self.loss = t, float("nan")
        self._given: list[tuple[Any, list[NDArray[np.int64]]]] = []

    def advance(self) -> list[NDArray[np.int64]]:
        """Make the next update; the numbers of the pairs of its batches."""
        from posnmt.training.train import update

        t = self.t
        batches, t.progress.cursor = t.plan.take(t.progress.cursor, t.batches)
        t.progress.step += 1
        self._given.append((update(t, 1e-4, batches), batches))
        if len(self._given) > t.lag:
            oldest, of = self._given.pop(0)
            self.loss = oldest.outcome().loss / t.plan.tokens(of)[1]
        return list(batches)

    def close(self) -> None:
        """End the threads of the training."""
        self.t.close()


def loss_of(name: str) -> AbstractContextManager[object]:
    """A block with the old loss, or with the one that a training takes."""
    if name.split("/")[1] == "new":
        return nullcontext()
    return patch("posnmt.training.loss_fused.serves", lambda *_: False)


def products(model: Any, split: Any, numbers: NDArray[np.int64], padded: bool) -> int:
    """Operations of the matrix products of an update: two a multiplication, and twice as many backward as forward.

    A token is multiplied with each matrix of its side; a source token also with those that make the keys and values
    that the decoder attends to. Only real target tokens are projected to the vocabulary. A query of d numbers is
    multiplied with each key that it may see, and its weights with the values. Products of positions are left out.

    Args:
        model: a Transformer.
        split: which has the pairs.
        numbers: of the pairs of a batch.
        padded: count padding as well.
    """
    source, target = split.source_lengths[numbers].astype(int) + 1, split.target_lengths[numbers].astype(int) + 1
    real = int(target.sum())
    if padded:
        source, target = np.full_like(source, source.max()), np.full_like(target, target.max())
    memory = sum(_matrices(layer.cross.memory) for layer in model.decoder)
    of_source, of_target = _matrices(model.encoder) + memory, _matrices(model.decoder) - memory
    d = model.config.d_model
    keys = len(model.encoder) * (source**2).sum()
    keys += len(model.decoder) * (target * (target + 1) // 2 + target * source).sum()
    forward = of_source * source.sum() + of_target * target.sum() + model.output.weight.numel() * real + 2 * d * keys
    return int(6 * forward)


def _matrices(module: Any) -> int:
    """Numbers in the matrices of linear layers."""
    from torch import nn

    return sum(each.weight.numel() for each in module.modules() if isinstance(each, nn.Linear))


def waits(updates: Updates, count: int = 3) -> float:
    """How often the CPU waits for the GPU in an update."""
    import torch

    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(count):
                updates.advance()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(each.message) for each in caught) / count


if __name__ == "__main__":
    main()
