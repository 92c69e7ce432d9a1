"""Linear layers for training in bfloat16 on a CPU, whose products have few different sizes.

For bfloat16, oneDNN compiles code for each size of a product, and keeps the code of the last 1,024 sizes. Batches of
sentences hardly ever have the same size, so code would be compiled for nearly every product. That takes milliseconds,
and the product itself a fraction of one. Here the rows of a product are rounded up with zeros.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

ROWS = 32
"""The rows of a product in bfloat16 on a CPU are rounded up to a multiple of this: two tiles of AMX."""


class Linear(nn.Linear):
    """`W x + b`; see `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Multiply x [..,d] by the matrix, and add the bias if there is one: [..,d']."""
        return linear(x, self.weight, self.bias)


class Matrix(nn.Linear):
    """A linear layer whose owner reads the matrix and the bias, instead of calling the layer or as well.

    So a program that replaces layers in order to change what they return must leave it alone.
    """


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`x W^T + b`, [..,d] -> [..,d'], as PyTorch's; under autocast to bfloat16 on a CPU with its rows rounded up."""
    if not torch.is_autocast_enabled("cpu") or x.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.linear(x, weight, bias)
    output: Tensor = _Rounded.apply(x, weight, bias, torch.get_autocast_dtype("cpu"))
    return output


def rounded(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows [n,d] in `dtype`; in bfloat16 on a CPU followed by zeros up to a multiple of `ROWS`."""
    if rows.device.type != "cpu" or dtype != torch.bfloat16:
        return rows.to(dtype)
    count = len(rows)
    padded = rows.new_empty(-(-count // ROWS) * ROWS, rows.shape[1], dtype=dtype)
    padded[:count] = rows
    padded[count:] = 0
    return padded


class _Rounded(torch.autograd.Function):
    """A linear layer on rounded rows, forward and backward; each gradient has the type of its tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        rows, narrow = rounded(x.flatten(0, -2), dtype), weight.to(dtype)
        ctx.save_for_backward(rows, narrow)
        ctx.types = x.dtype, weight.dtype, None if bias is None else bias.dtype
        output = functional.linear(rows, narrow, None if bias is None else bias.to(dtype))
        return output[: x.shape[:-1].numel()].view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        [gradient] = upstream
        (rows, narrow), (of_x, of_weight, of_bias) = ctx.saved_tensors, ctx.types
        slope = rounded(gradient.flatten(0, -2), narrow.dtype)
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = (slope @ narrow)[: gradient.shape[:-1].numel()].view(*gradient.shape[:-1], narrow.shape[1]).to(of_x)
        if ctx.needs_input_grad[1]:
            d_weight = (slope.t() @ rows).to(of_weight)
        if of_bias is not None and ctx.needs_input_grad[2]:
            d_bias = slope.sum(0, dtype=of_bias)
        return d_x, d_weight, d_bias, None
