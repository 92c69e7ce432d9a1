"""Shaw's attention on a GPU, forward and backward: our kernel, FlexAttention, the plain path, and none of it.

    python benchmarks/gpu_attention.py [--lengths 64 128 ...] [--causal] [--dropout 0.1] [--repeats 5]
    python benchmarks/gpu_attention.py --smoke      that it runs, without a GPU: tiny, by Triton's interpreter

One layer's attention from projected queries, keys and values: time of a forward and a backward pass, and the memory
that it takes beyond its inputs at its highest. Each length has as many rows as make --tokens. The paths take turns; a
ratio is taken within a turn, and medians and ranges over the turns are printed. FlexAttention can add to logits but not
to values, so it stands beside the systems with keys alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from unittest.mock import patch

import torch
import triton
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from posnmt.model.kernels import shaw
from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt_position.relative import RelativeKeys, RelativeKeysAndValues
from posnmt_position.seam import LayerPositions, Span

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
FLOOR = "no positions, scaled_dot_product_attention"


@dataclass
class Path:
    """One way to compute attention of (q, k, v) [B,H,T,D], and what was measured of it.

    Attributes:
        tables: the vectors that it has gradients for.
        tile: rows, columns, warps and stages of our kernel, if not those of `shaw_triton.TILES`.
        seconds: of a forward and a backward pass, one a turn.
        memory: MiB, or None where they are not counted.
    """

    name: str
    attention: Callable[[Tensor, Tensor, Tensor], Tensor]
    tables: list[nn.Parameter]
    tile: tuple[int, ...] = ()
    seconds: list[float] = field(default_factory=list)
    memory: float | None = None


def main() -> None:
    """Measure each length and print its table."""
    arguments = parse_arguments()
    if arguments.smoke:
        if os.environ.get("TRITON_INTERPRET") != "1":  # it is read when Triton is imported, and PyTorch imports it
            os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "TRITON_INTERPRET": "1"})  # noqa: S606
        arguments.lengths, arguments.tokens, arguments.heads, arguments.width = [40], 80, 2, 16
        arguments.type, arguments.repeats, arguments.passes = "fp32", 1, 1
    elif not torch.cuda.is_available():
        sys.exit("error: no GPU is here; run it where there is one, or with --smoke to see that it runs")
    device = torch.device("cpu" if arguments.smoke else "cuda")
    name = "a CPU, interpreted: the times say nothing" if arguments.smoke else torch.cuda.get_device_name()
    versions = f"torch {torch.__version__}, triton {triton.__version__}, Python {platform.python_version()}"
    print(f"{name}, {versions}")
    print(
        f"{arguments.type}, {arguments.heads} heads of {arguments.width}, k = {arguments.distance}, "
        f"{'causal' if arguments.causal else 'not causal'}, dropout {arguments.dropout:g}, "
        f"some {arguments.tokens:,} tokens, {arguments.repeats} turns of {arguments.passes} passes"
    )
    failed = [name for length in arguments.lengths for name in measure(arguments, length, device)]
    if any(name.endswith("our kernel") for name in failed):
        sys.exit("error: our kernel failed: see its rows")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048, 4096, 8192])
    parser.add_argument("--tokens", type=int, default=32768, help="tokens of a batch; a row at least")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64, help="of a head")
    parser.add_argument("--distance", type=int, default=16, help="clipping distance k")
    parser.add_argument("--type", choices=TYPES, default="bf16")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--dropout", type=float, default=0.0, help="on the weights; FlexAttention has none")
    parser.add_argument("--repeats", type=int, default=5, help="turns")
    parser.add_argument("--passes", type=int, default=10, help="forward and backward passes a turn")
    parser.add_argument(
        "--tiles", nargs="*", default=[], metavar="ROWSxCOLUMNSxWARPSxSTAGES", help="our kernel with these too"
    )
    parser.add_argument("--smoke", action="store_true")
    return parser.parse_args()


def measure(arguments: argparse.Namespace, length: int, device: torch.device) -> list[str]:
    """Warm up, compare, then let the paths take turns; print the table of one length. Returns the paths that failed."""
    torch.manual_seed(1)
    rows, dtype = max(1, arguments.tokens // length), TYPES[arguments.type]
    mixed = torch.randn(
        rows, length, 3, arguments.heads, arguments.width, device=device, dtype=dtype, requires_grad=True
    )
    upstream = torch.randn(rows, arguments.heads, length, arguments.width, device=device, dtype=dtype)
    print(f"\n{rows} x {length} tokens\n")
    print("| path | forward and backward, ms | ratio | peak memory, MiB |\n|---|---|---|---|")
    running, failed, ours = [], {}, dict[str, list[Tensor]]()
    for path in paths(arguments, length, rows, device):
        try:
            found = once(path, mixed, upstream)  # also compiles
            path.memory = peak(path, mixed, upstream)
        except torch.OutOfMemoryError:
            failed[path.name] = "out of memory"
            continue
        except Exception as fault:  # FlexAttention on a CPU, or a kernel that does not compile: the others still run
            failed[path.name] = f"{type(fault).__name__}: {str(fault).partition(chr(10))[0]}"
            continue
        vectors, _, kind = path.name.partition(": ")
        if kind == "our kernel":
            ours[vectors] = found
        if kind == "plain path" and vectors in ours and not arguments.dropout:
            pairs = zip(ours[vectors], found, strict=True)
            difference = max((a.float() - b.float()).abs().max().item() for a, b in pairs)
            path.name += f" (largest difference from our kernel, gradients included: {difference:.1e})"
        running.append(path)
    for _ in range(arguments.repeats):
        for path in running:
            path.seconds.append(timed(path, mixed, upstream, arguments.passes))
    floor = next((path.seconds for path in running if path.name == FLOOR), [])
    for path in running:
        ratios = [took / least for took, least in zip(path.seconds, floor, strict=False)]
        memory = "-" if path.memory is None else f"{path.memory:,.0f}"
        ratio = spread(ratios, 2) if ratios else "-"
        print(f"| {path.name} | {spread([1000 * took for took in path.seconds], 3)} | {ratio} | {memory} |")
    for name, why in failed.items():
        print(f"| {name} | {why} | | |")
    print("| keys and values: FlexAttention | cannot be said: it adds nothing to values | | |", flush=True)
    return list(failed)


def paths(arguments: argparse.Namespace, length: int, rows: int, device: torch.device) -> list[Path]:
    """Every way, the floor first; our kernel before the plain path that is compared with it."""
    causal, dropout, scale = arguments.causal, arguments.dropout, arguments.width**-0.5
    span = Span(0, length, device)
    keys = RelativeKeys(arguments.distance, arguments.width, True).to(device)
    both = RelativeKeysAndValues(arguments.distance, arguments.width, True).to(device)

    def floor(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)

    def ours(view: RelativeKeys) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        return lambda q, k, v: shaw.shaw_attention(q * scale, k, v, *view.distance_vectors(), None, causal, dropout)

    def plain(view: RelativeKeys) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            with patch.object(shaw, "serves", lambda *_: False):
                return attend(Attention(q * scale, k, v, LayerPositions([view]), span, None, causal, dropout))

        return attention

    found = [Path(FLOOR, floor, [])]
    for name, view in (("keys", keys), ("keys and values", both)):
        tables = list(view.parameters())
        found += [Path(f"{name}: our kernel", ours(view), tables), Path(f"{name}: plain path", plain(view), tables)]
    for each in arguments.tiles:
        tile = tuple(map(int, each.split("x")))
        found.append(Path(f"keys and values: our kernel, {each}", ours(both), list(both.parameters()), tile))
    if not dropout:
        flex = flexible(keys, causal, rows, length, device)
        found.insert(3, Path("keys: FlexAttention", flex, list(keys.parameters())))
    return found


def flexible(
    view: RelativeKeys, causal: bool, rows: int, length: int, device: torch.device
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """FlexAttention with the key term by distance, compiled on a GPU."""
    torch.compiler.reset()  # it is compiled anew for each length, and PyTorch gives up after some
    run = torch.compile(flex_attention, dynamic=False) if device.type == "cuda" else flex_attention
    reach = len(view.keys) // 2
    blocks = create_block_mask(lambda b, h, i, j: j <= i, None, None, length, length, device=device) if causal else None

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = q * q.shape[-1] ** -0.5
        key_term = q @ view.keys.to(q.dtype).transpose(0, 1)  # [B,H,T,2k+1]

        def score(logit: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return logit + key_term[b, h, i, torch.clamp(j - i, -reach, reach) + reach]

        attended = run(q, k, v, score_mod=score, block_mask=blocks, scale=1.0)
        assert isinstance(attended, Tensor)
        return attended

    return attention


def once(path: Path, mixed: Tensor, upstream: Tensor) -> list[Tensor]:
    """One forward and backward pass as training makes it: the attended values, and every gradient."""
    with tiled(path.tile):
        with precision(mixed):
            q, k, v = mixed.permute(2, 0, 3, 1, 4)
            attended = path.attention(q, k, v)
        return [attended, *torch.autograd.grad(attended, [mixed, *path.tables], upstream.to(attended.dtype))]


def tiled(tile: tuple[int, ...]) -> AbstractContextManager[object]:
    """A block in which our kernel has another tile."""
    if not tile:
        return nullcontext()
    from posnmt.model.kernels import shaw_triton

    return patch.dict(shaw_triton.TILES, {name: shaw_triton.Tile(*tile) for name in shaw_triton.TILES})


def precision(mixed: Tensor) -> AbstractContextManager[object]:
    """Autocast where the type is a narrow one."""
    narrow = mixed.dtype != torch.float32
    return torch.autocast(mixed.device.type, mixed.dtype) if narrow else nullcontext()


def peak(path: Path, mixed: Tensor, upstream: Tensor) -> float | None:
    """MiB that one pass takes at its highest, beyond what was there before; None on a CPU."""
    if mixed.device.type != "cuda":
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    once(path, mixed, upstream)
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def timed(path: Path, mixed: Tensor, upstream: Tensor, passes: int) -> float:
    """Seconds of one pass, over so many."""
    wait = torch.cuda.synchronize if mixed.device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    for _ in range(passes):
        once(path, mixed, upstream)
    wait()
    return (time.perf_counter() - began) / passes


def spread(values: list[float], digits: int) -> str:
    """Median and range."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


if __name__ == "__main__":
    main()
