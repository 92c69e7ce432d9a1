"""The optimizer of training, `train.optimizer`: AdamW, or Muon.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon) updates matrices by orthogonalised momentum. Adam
changes a matrix most in the few directions of large gradients. Muon changes it by the orthogonal matrix nearest to its
momentum, equally in every direction, and needs fewer updates. AdamW updates all other parameters: vectors and embedding
tables.

torch.optim.Muon always computes in bfloat16, which a processor without bfloat16 instructions emulates, and handles one
matrix after the other. This implementation computes in float32 on such processors, on a CPU one matrix per core, and
elsewhere all matrices of a shape together.

`found_inf`, an attribute that PyTorch gives to optimizers, is 1 if an update is not to be made, and else 0: a tensor
that is read by the device alone. Without it every update is made.

Shapes: [m,n], one matrix; [N,m,n], N of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
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
            matrices take turns. This divides the work of orthogonalisation, which takes most of the step's time. Whose
            turn it is depends on `turn` in the groups of parameters, the number of the update.
        adam: further options of AdamW.

    Attributes:
        found_inf: see the module; None: every update is made.
    """

    def __init__(
        self, matrices: Iterable[Tensor], others: Iterable[Tensor], lr: float, factor: float, weight_decay: float,
        every: int = 1, **adam: Any,
    ) -> None:  # fmt: skip
        self.adam = AdamW([{"params": list(others)}], lr=lr, weight_decay=weight_decay, **adam)
        groups = [*self.adam.param_groups, {"params": list(matrices)}]
        defaults = {"lr": lr, "factor": factor, "weight_decay": weight_decay, "every": every, "turn": 0}
        super().__init__(groups, defaults)
        self.adam.state = self.state  # shared, for checkpoints
        self.found_inf: Tensor | None = None
        self.workers: Workers | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters that have gradients; gradients of matrices are overwritten."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        self.adam.found_inf = self.found_inf  # type: ignore[attr-defined]
        self.adam.step()
        group = self.param_groups[-1]
        matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
        for matrix in matrices:
            if "momentum" not in self.state[matrix]:
                self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        placed = list(enumerate(sorted(matrices, key=Tensor.numel, reverse=True)))
        if matrices and matrices[0].device.type == "cpu" and self.found_inf is None:
            self.workers = self.workers or Workers()
            self.workers.map(lambda each: self._update(*each, group), placed, alone=True)
        elif matrices:
            self._update_together(placed, group)
        return loss

    def _update(self, place: int, matrix: Tensor, group: dict[str, Any]) -> None:
        """Update the momentum of one matrix, and the matrix itself if it is its turn, which depends on its place."""
        with torch.no_grad():  # the mode is local to each thread
            gradient, momentum = cast(Tensor, matrix.grad), self.state[matrix]["momentum"]
            momentum.lerp_(gradient, 1 - MOMENTUM)
            if _waits(place, group):
                return
            direction = orthogonal(gradient.lerp_(momentum, MOMENTUM))  # the gradient is no longer needed
            rate = _rate(group)
            if group["weight_decay"]:
                matrix.mul_(1 - rate * group["weight_decay"])
            matrix.add_(direction, alpha=-rate * 0.2 * math.sqrt(max(matrix.shape)))

    def _update_together(self, placed: list[tuple[int, Tensor]], group: dict[str, Any]) -> None:
        """`_update` of all matrices, those of a shape at once; if `found_inf` is 1, no number changes."""
        gradients = [cast(Tensor, matrix.grad) for _, matrix in placed]
        momenta = [self.state[matrix]["momentum"] for _, matrix in placed]
        rate: float | Tensor = _rate(group)
        if self.found_inf is not None:  # a gradient equal to the momentum keeps it, and a rate of 0 the matrix
            is_left_out = self.found_inf.bool()
            gradients = [torch.where(is_left_out, *pair) for pair in zip(momenta, gradients, strict=True)]
            rate = rate * (1 - self.found_inf)
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        alike: defaultdict[torch.Size, list[int]] = defaultdict(list)
        for place, matrix in placed:
            if not _waits(place, group):
                alike[matrix.shape].append(place)
        for shape, places in alike.items():
            matrices = [placed[place][1] for place in places]
            chosen = torch.stack([gradients[place] for place in places])
            directions = orthogonal(chosen.lerp_(torch.stack([momenta[place] for place in places]), MOMENTUM))
            if group["weight_decay"]:
                torch._foreach_mul_(matrices, 1 - rate * group["weight_decay"])
            torch._foreach_sub_(matrices, list((directions * (rate * 0.2 * math.sqrt(max(shape)))).unbind()))


def _rate(group: dict[str, Any]) -> float:
    """The rate of a matrix whose turn it is."""
    return float(group["lr"] * group["factor"] * group["every"])


def _waits(place: int, group: dict[str, Any]) -> bool:
    """Whether it is not the turn of the matrix at this place."""
    return bool((group["turn"] + place) % group["every"])


def orthogonal(matrix: Tensor) -> Tensor:
    """Nearly U V^T of the singular value decomposition U S V^T, by Newton-Schulz iterations; [m,n] or [N,m,n].

    The singular values are divided by the Frobenius norm, and each iteration applies the polynomial of `COEFFICIENTS`
    to them: those above 0.05 of the norm end between about 0.7 and 1.2. Products are in bfloat16 if the hardware
    supports it.
    """
    a, b, c = COEFFICIENTS
    wide = matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT
    x = wide.to(_precision(matrix), copy=True)
    many = x.ndim == 3
    multiply = torch.baddbmm if many else torch.addmm
    x /= (x.flatten(1).norm(dim=1)[:, None, None] if many else x.norm()).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = multiply(x, multiply(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x if wide is matrix else x.mT).to(matrix.dtype)


def _precision(matrix: Tensor) -> torch.dtype:
    if matrix.dtype == torch.float64:
        return torch.float64
    in_hardware = multiplies_bf16() if matrix.device.type == "cpu" else torch.cuda.is_bf16_supported(False)
    return torch.bfloat16 if in_hardware else torch.float32
