"""Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): momentum, made orthogonal, updates a matrix.

Adam moves a matrix most along the few directions in which its gradients are large. Muon moves it by the nearest
orthogonal matrix to its momentum, as far along every direction, and needs fewer updates. AdamW updates the rest of a
model, vectors and tables of embeddings.

torch.optim.Muon computes in bfloat16 always, which a processor without such instructions emulates, and one matrix after
the other. This one computes in float32 there, and on a CPU one matrix on each core.

Shapes: [m,n], one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from posnmt.parallel.threads import Workers
from posnmt.processor import multiplies_bf16

MOMENTUM = 0.95

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of x, x^3 and x^5: a polynomial that raises small singular values quickly towards 1 (Jordan et al. 2024)."""

ITERATIONS = 3
"""Of the polynomial. Jordan et al. have 5, which learn no more from an update here and take longer: see
benchmarks/notes/learning.md."""


class Muon(Optimizer):
    """Muon for matrices and AdamW for everything else, as one optimizer.

    The update of a matrix has the root mean square that Adam's often has, 0.2 times the rate (Liu et al. 2025, "Muon is
    scalable for LLM training", eq. 4), so that one schedule serves both.

    Args:
        matrices: parameters [m,n].
        others: all other parameters.
        factor: the rate of the matrices, as a multiple of that of the others.
        weight_decay: decoupled, of both.
        adam: further options of AdamW.
    """

    def __init__(
        self, matrices: Iterable[Tensor], others: Iterable[Tensor], lr: float, factor: float, weight_decay: float,
        **adam: Any,
    ) -> None:  # fmt: skip
        self.adam = AdamW(others, lr=lr, weight_decay=weight_decay, **adam)
        groups = [*self.adam.param_groups, {"params": list(matrices)}]
        super().__init__(groups, {"lr": lr, "factor": factor, "weight_decay": weight_decay})
        self.adam.state = self.state  # one state, for checkpoints
        self.workers: Workers | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of all parameters that have gradients, which it overwrites."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        self.adam.step()
        group = self.param_groups[-1]
        matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
        if matrices:
            self.workers = self.workers or Workers.of(matrices[0].device)
            largest_first = sorted(matrices, key=Tensor.numel, reverse=True)
            self.workers.map(lambda matrix: self._update(matrix, group), largest_first, alone=True)
        return loss

    def _update(self, matrix: Tensor, group: dict[str, Any]) -> None:
        """Update one matrix."""
        with torch.no_grad():  # which holds in one thread alone
            gradient, state = cast(Tensor, matrix.grad), self.state[matrix]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(matrix)
            state["momentum"].lerp_(gradient, 1 - MOMENTUM)
            direction = orthogonal(gradient.lerp_(state["momentum"], MOMENTUM))  # the gradient is not needed any more
            rate = group["lr"] * group["factor"]
            if group["weight_decay"]:
                matrix.mul_(1 - rate * group["weight_decay"])
            matrix.add_(direction, alpha=-rate * 0.2 * math.sqrt(max(matrix.shape)))


def orthogonal(matrix: Tensor) -> Tensor:
    """Nearly U V^T of the singular value decomposition U S V^T of [m,n], by Newton-Schulz iterations.

    Each iteration applies the polynomial of `COEFFICIENTS` to the singular values, first divided by the root of the sum
    of their squares: those above 0.05 of it end between about 0.7 and 1.2. Products are in bfloat16 where the hardware
    has it.
    """
    a, b, c = COEFFICIENTS
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide.to(_precision(matrix), copy=True)
    x /= x.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x if wide is matrix else x.T).to(matrix.dtype)


def _precision(matrix: Tensor) -> torch.dtype:
    """What products of a matrix are computed in."""
    if matrix.dtype == torch.float64:
        return torch.float64
    in_hardware = multiplies_bf16() if matrix.device.type == "cpu" else torch.cuda.is_bf16_supported(False)
    return torch.bfloat16 if in_hardware else torch.float32
