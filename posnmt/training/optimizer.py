"""The optimizer of training, `train.optimizer`: AdamW, or Muon.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon) updates matrices by orthogonalised momentum. Adam
changes a matrix most in the few directions of large gradients. Muon changes it by the orthogonal matrix nearest to its
momentum, equally in every direction, and needs fewer updates. AdamW updates all other parameters: vectors and embedding
tables.

torch.optim.Muon always computes in bfloat16, which a processor without bfloat16 instructions emulates, and handles one
matrix after the other. This implementation computes in float32 on such processors, and on a CPU one matrix per core.

Shapes: [m,n], one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Train
from posnmt.model.base import TranslationModel
from posnmt_position.processor import multiplies_bf16

MOMENTUM = 0.95

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of x, x^3 and x^5: a polynomial that quickly moves small singular values towards 1 (Jordan et al.)."""

ITERATIONS = 3
"""Number of iterations. The 5 of Jordan et al. take longer and gain nothing here: see benchmarks/notes/learning.md."""


def make_optimizer(model: TranslationModel, train: Train) -> Optimizer:
    """A new optimizer for the parameters of a model that are not frozen, or for this process's slices of them."""
    adam: dict[str, Any] = {"betas": train.adam_betas, "eps": train.adam_epsilon, "fused": True}
    rate, decay = train.learning_rate, train.weight_decay
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if train.optimizer == "adam":
        return AdamW(trained, lr=rate, weight_decay=decay, **adam)
    chosen = [matrix for matrix in matrices(model) if matrix.requires_grad]
    known = set(map(id, chosen))
    others = [parameter for parameter in trained if id(parameter) not in known]
    return Muon(chosen, others, rate, train.muon_factor, decay, train.muon_every, **adam)


def matrices(model: TranslationModel) -> list[Tensor]:
    """The parameters that Muon updates: weights of linear layers, but not of the output projection.

    The output projection, like an embedding, is a table of word vectors rather than a linear map (Jordan et al. 2024).
    A weight with a single row or column is a vector.
    """
    linear = [
        module.weight for module in model.modules() if isinstance(module, nn.Linear) and module is not model.output
    ]
    return [weight for weight in linear if min(weight.shape) > 1]


class Muon(Optimizer):
    """Muon for matrices and AdamW for everything else, as one optimizer.

    The update of a matrix has the typical root mean square of Adam's updates, 0.2 times the rate (Liu et al. 2025,
    "Muon is scalable for LLM training", eq. 4), so that both can have the same schedule.

    Args:
        matrices: parameters [m,n].
        others: all other parameters.
        factor: rate of the matrices relative to that of the others.
        weight_decay: decoupled, for both.
        every: a matrix changes in one of so many updates, by as many times the rate; its momentum changes in all. The
            matrices take turns. This divides the work of orthogonalisation, which takes most of the step's time.
        adam: further options of AdamW.
    """

    def __init__(
        self, matrices: Iterable[Tensor], others: Iterable[Tensor], lr: float, factor: float, weight_decay: float,
        every: int = 1, **adam: Any,
    ) -> None:  # fmt: skip
        self.adam = AdamW([{"params": list(others)}], lr=lr, weight_decay=weight_decay, **adam)
        groups = [*self.adam.param_groups, {"params": list(matrices)}]
        super().__init__(groups, {"lr": lr, "factor": factor, "weight_decay": weight_decay, "every": every})
        self.adam.state = self.state  # shared, for checkpoints
        self.workers: Workers | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters that have gradients; gradients of matrices are overwritten."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        self.adam.step()
        group = self.param_groups[-1]
        matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
        if matrices:
            self.workers = self.workers or Workers.of(matrices[0].device)
            largest_first = sorted(matrices, key=Tensor.numel, reverse=True)
            self.workers.map(lambda each: self._update(*each, group), enumerate(largest_first), alone=True)
        return loss

    def _update(self, place: int, matrix: Tensor, group: dict[str, Any]) -> None:
        """Update the momentum of one matrix, and the matrix itself if it is its turn, which depends on its place."""
        with torch.no_grad():  # the mode is local to each thread
            gradient, state = cast(Tensor, matrix.grad), self.state[matrix]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(matrix)
            state["momentum"].lerp_(gradient, 1 - MOMENTUM)
            if group["every"] > 1:
                state["step"] = state.get("step", torch.zeros(())) + 1  # a tensor, for checkpoints
                if (int(state["step"]) + place) % group["every"]:
                    return
            direction = orthogonal(gradient.lerp_(state["momentum"], MOMENTUM))  # the gradient is no longer needed
            rate = group["lr"] * group["factor"] * group["every"]
            if group["weight_decay"]:
                matrix.mul_(1 - rate * group["weight_decay"])
            matrix.add_(direction, alpha=-rate * 0.2 * math.sqrt(max(matrix.shape)))


def orthogonal(matrix: Tensor) -> Tensor:
    """Nearly U V^T of the singular value decomposition U S V^T of [m,n], by Newton-Schulz iterations.

    The singular values are divided by the Frobenius norm, and each iteration applies the polynomial of `COEFFICIENTS`
    to them: those above 0.05 of the norm end between about 0.7 and 1.2. Products are in bfloat16 if the hardware
    supports it.
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
    if matrix.dtype == torch.float64:
        return torch.float64
    in_hardware = multiplies_bf16() if matrix.device.type == "cpu" else torch.cuda.is_bf16_supported(False)
    return torch.bfloat16 if in_hardware else torch.float32
