"""Linear layers on rounded rows: the same values and gradients as PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from posnmt_position.linear import ROWS, Linear, rounded

SHAPES = [(1,), (ROWS - 1,), (ROWS,), (3, 11), (5, 7, 9), (0, 4)]
"""Of the rows: fewer than a multiple, a multiple, more; in several dimensions, and none."""


def layer(bias: bool) -> Linear:
    torch.manual_seed(1)
    return Linear(24, 16, bias=bias)


def values(module: Linear, x: Tensor, plain: bool) -> list[Tensor]:
    """The output and the gradients, under autocast."""
    with torch.autocast("cpu", torch.bfloat16):
        output = functional.linear(x, module.weight, module.bias) if plain else module(x)
    slope = torch.linspace(-1, 1, output.numel()).view_as(output).to(output.dtype)
    return [output, *torch.autograd.grad(output, [x, *module.parameters()], slope)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_pytorchs_layer(shape: tuple[int, ...], bias: bool, dtype: torch.dtype) -> None:
    module = layer(bias)
    x = torch.randn(*shape, 24, generator=torch.Generator().manual_seed(2)).to(dtype).requires_grad_()
    for own, plain in zip(values(module, x, False), values(module, x, True), strict=True):
        assert own.dtype == plain.dtype
        torch.testing.assert_close(own, plain, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_autocast_it_is_exactly_pytorchs(dtype: torch.dtype) -> None:
    module, x = layer(True).to(dtype), torch.randn(3, 11, 24, dtype=dtype)
    assert torch.equal(module(x), functional.linear(x, module.weight, module.bias))


def test_products_have_few_sizes() -> None:
    sizes = {len(rounded(torch.ones(count, 3), torch.bfloat16)) for count in range(1, 10 * ROWS)}
    assert sizes == {ROWS * number for number in range(1, 11)}
    assert len(rounded(torch.ones(5, 3), torch.float32)) == 5
    assert rounded(torch.ones(5, 3), torch.bfloat16)[5:].eq(0).all()
