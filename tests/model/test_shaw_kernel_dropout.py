"""Dropout of the Triton kernels for Shaw's vectors in narrow types, against the equation in float64, with gradients.

On a GPU where there is one; else by Triton's interpreter, on tensors of the CPU.
"""

from __future__ import annotations

import os
from unittest.mock import patch

import pytest
import torch

from posnmt.model.kernels import shaw
from tests.support import triton_interpreter

if not triton_interpreter.INSTALLED:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

DEVICE = "cuda" if triton_interpreter.ON_GPU else "cpu"
REACH, SHARE = 16, 0.1
ON_A_GPU = pytest.mark.skipif(not triton_interpreter.ON_GPU, reason="Triton's interpreter has no bf16")
IN_BF16 = [
    pytest.param(torch.bfloat16, 0.015, tokens, width, marks=ON_A_GPU)
    for tokens, width in ((30, 64), (65, 128), (300, 64))
]


def weights_by_equation(q, k, keys, visible):
    """[B,H,T,T] softmax(q_i k_j + q_i w^K_r), and r = clip(j - i, -k, k) + k."""
    places = torch.arange(q.shape[2], device=q.device)
    distances = ((places - places[:, None]).clamp(-REACH, REACH) + REACH).expand(*q.shape[:3], -1)
    scores = q @ k.mT + (q @ keys.mT).gather(-1, distances)
    return scores.masked_fill(~visible, -torch.inf).softmax(-1), distances


def kept_by_kernel(q, k, keys, mask, causal):
    """[B,H,T,T] the weights that are not dropped: those that are returned where the values are parts of a basis."""
    basis, width, parts = torch.eye(q.shape[2], device=DEVICE, dtype=q.dtype), q.shape[-1], []
    for part in basis.split(width, -1):
        values = torch.nn.functional.pad(part, (0, width - part.shape[1])).expand_as(q)
        torch.manual_seed(7)
        weights = shaw.shaw_attention(q, k, values, keys, None, mask, causal, SHARE)
        parts.append(weights[..., : part.shape[1]] > 0)
    return torch.cat(parts, -1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "within", "tokens", "width"), [(torch.float16, 0.002, 20, 16), *IN_BF16])
def test_dropout_in_narrow_types_is_that_of_the_equation_in_float64(dtype, within, tokens, width, causal):
    torch.manual_seed(1)
    with patch.dict(os.environ, triton_interpreter.VARIABLES):
        inputs = [torch.randn(2, 2, tokens, width, device=DEVICE) for _ in range(3)]
        inputs += [torch.randn(2 * REACH + 1, width, device=DEVICE) for _ in range(2)]
        inputs[0] /= width**0.5
        narrow = [each.to(dtype).requires_grad_() for each in inputs]
        exact = [each.detach().double().requires_grad_() for each in narrow]
        lengths = torch.tensor([tokens, tokens // 2], device=DEVICE)
        mask = (torch.arange(tokens, device=DEVICE) < lengths[:, None])[:, None, None]
        visible = mask & torch.ones(tokens, tokens, dtype=torch.bool, device=DEVICE).tril(0 if causal else tokens)
        kept = kept_by_kernel(*(each.detach() for each in (narrow[0], narrow[1], narrow[3])), mask, causal)
        assert (kept.sum() / visible.expand_as(kept).sum()).item() == pytest.approx(1 - SHARE, abs=0.03)

        torch.manual_seed(7)
        got = shaw.shaw_attention(*narrow, mask, causal, SHARE)
        upstream = torch.randn_like(got)
        found = [got, *torch.autograd.grad(got, narrow, upstream)]

    q, k, v, keys, values = exact
    weights, distances = weights_by_equation(q, k, keys, visible)
    weights = weights * kept / (1 - SHARE)
    sums = weights.new_zeros(2, 2, tokens, 2 * REACH + 1).scatter_add(-1, distances, weights)
    want = weights @ v + sums @ values
    wanted = [want, *torch.autograd.grad(want, exact, upstream.double())]
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == dtype
        assert (ours.double() - theirs).norm() < within * theirs.norm()
