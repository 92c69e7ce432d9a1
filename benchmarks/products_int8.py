"""What 8-bit products could gain in decoding: the products of a model's layers on one core, against float32.

    python benchmarks/products_int8.py [--rows 64 256] [--turns 9]

Weights are quantised by output channel to 7 bits, since processors without VNNI add two products of 8 bits in 16, and
each row of the input by its own largest value, so that a translation does not depend on its neighbours: the row is
divided by it, and the product has one constant scale. `product` is oneDNN's 8-bit product alone, `whole` is what takes
the place of the layer: the largest value of each row, rounding, the product, and the bias. Both are ratios to the speed
of PyTorch's float32 product, measured in turn; `error` is that of the result, relative.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

LAYERS = {
    "attention, 256 wide": (256, 256),
    "feed-forward in, 256": (256, 1024),
    "feed-forward out, 256": (1024, 256),
    "output, 256 x 8,000": (256, 8000),
    "attention, 512 wide": (512, 512),
    "feed-forward in, 512": (512, 2048),
    "feed-forward out, 512": (2048, 512),
    "output, 512 x 32,000": (512, 32000),
}
LEAST = 0.02
"""Seconds of a turn."""


class Int8Linear:
    """A linear layer in 8 bits."""

    def __init__(self, weight: Tensor, bias: Tensor, rows: int) -> None:
        self.bias = bias
        self.scales = weight.abs().amax(1) / 63
        self.zeros = torch.zeros(len(weight), dtype=torch.int64)
        rounded = (weight / self.scales[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(rounded, [rows, weight.shape[1]])

    @staticmethod
    def quantise(rows: Tensor) -> tuple[Tensor, Tensor]:
        """The rows as unsigned bytes around 128, and the largest value of each."""
        largest = rows.abs().amax(-1, keepdim=True)
        return torch.add(rows * (127 / largest), 128.5).to(torch.uint8), largest

    def product(self, quantised: Tensor) -> Tensor:
        """The product of rows whose largest value is 1."""
        output: Tensor = torch.ops.onednn.qlinear_pointwise(
            quantised, 1 / 127, 128, self.packed, self.scales, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return output

    def __call__(self, rows: Tensor) -> Tensor:
        quantised, largest = self.quantise(rows)
        return torch.addcmul(self.bias, self.product(quantised), largest)


def seconds(call: Callable[[], object]) -> float:
    """Seconds of one call, of as many as take a while."""
    begun, calls = time.perf_counter(), 0
    while (spent := time.perf_counter() - begun) < LEAST:
        call()
        calls += 1
    return spent / calls


def ratios(inner: int, outer: int, rows: int, turns: int) -> str:
    """A row of the table."""
    generator = torch.Generator().manual_seed(1)
    given, weight = torch.randn(rows, inner, generator=generator), torch.randn(outer, inner, generator=generator)
    weight, bias = weight / inner**0.5, torch.randn(outer, generator=generator)
    layer = Int8Linear(weight, bias, rows)
    quantised, _ = layer.quantise(given)
    wanted = functional.linear(given, weight, bias)
    error = float((layer(given) - wanted).norm() / wanted.norm())
    gains: dict[str, list[float]] = {"product": [], "whole": []}
    for turn in range(turns + 1):
        plain = seconds(lambda: functional.linear(given, weight, bias))
        measured = {"product": seconds(lambda: layer.product(quantised)), "whole": seconds(lambda: layer(given))}
        if turn:  # the first prepares
            for name, each in measured.items():
                gains[name].append(plain / each)
    shown = [f"{statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})" for each in gains.values()]
    return f"{rows:5}  {shown[0]:>18}  {shown[1]:>18}  {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--turns", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, {platform.machine()}, {torch.backends.cpu.get_cpu_capability()}")
    print(f"{'layer':24} {'rows':>5}  {'product':>18}  {'whole':>18}  error")
    for name, (inner, outer) in LAYERS.items():
        for rows in arguments.rows:
            print(f"{name:24} {ratios(inner, outer, rows, arguments.turns)}", flush=True)


if __name__ == "__main__":
    main()
