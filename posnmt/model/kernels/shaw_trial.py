"""The trial of `shaw_attention` against its equation, for each variant that Triton compiles.

The case is small, and the same for all inputs that the same compiled kernels serve: Triton compiles other ones for
other types, widths, distances, dropout and tensors that are missing, and for numbers that 16 divides.

Shapes: B rows, T tokens, H heads, D width of a head, R = 2k+1 distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from posnmt.model.kernels import shaw
from posnmt.model.kernels.operands import Attention
from posnmt.model.kernels.trial import WITHIN, WITHIN_TF32, Results, by_user, trusted, verdicts
from posnmt_position.distance_vectors import DistanceVectors

NAME = "the kernel for relative positions"
"""For people."""

SHORT = 32
"""Tokens of the longest input whose blocks are small."""

SEVERAL = 130
"""Tokens beyond the distance k, so that some blocks of keys are wholly beyond it."""


class Case(NamedTuple):
    """A small case of attention with vectors for distances.

    Attributes:
        dtype, width, heads, tokens: of queries, keys and values.
        reach: k.
        causal, dropout: see `shaw_attention`.
        on_keys, on_values: whether there are such vectors.
        masked: whether rows are padded.
        trains: whether gradients are needed.
        tf32: whether products of float32 may be in TF32.
    """

    dtype: torch.dtype
    width: int
    heads: int
    tokens: int
    reach: int
    causal: bool
    dropout: float
    on_keys: bool
    on_values: bool
    masked: bool
    trains: bool
    tf32: bool

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._asdict().items())


def trusts(attention: Attention) -> bool:
    """Whether these operands have vectors for distances, and the kernel agrees with the equation in their case."""
    q, vectors = attention.q, attention.distance_vectors
    if vectors is None:
        return False
    if torch.compiler.is_compiling():  # the numbers of a case may be symbols
        return in_graph(q.dtype, q.device)
    trains = torch.is_grad_enabled() and any(each.requires_grad for each in (q, attention.k, attention.v))
    return tried(_case(q, vectors, attention.mask, attention.causal, attention.dropout, trains), q.device)


def _case(
    q: Tensor, vectors: DistanceVectors, mask: Tensor | None, causal: bool, dropout: float, trains: bool = True
) -> Case:
    """The small case that compiles what these operands need."""
    tables = [table for table in vectors if table is not None]
    _, count, tokens, width = q.shape
    least = SHORT if tokens <= SHORT else -(-(len(tables[0]) // 2 + SEVERAL) // 16) * 16
    return Case(
        q.dtype,
        width,
        heads=1 if count == 1 else 16 if count % 16 == 0 else 2,
        tokens=least if tokens % 16 == 0 else least - 1,
        reach=len(tables[0]) // 2,
        causal=causal,
        dropout=dropout,
        on_keys=vectors.keys is not None,
        on_values=vectors.values is not None,
        masked=mask is not None,
        trains=trains or (torch.is_grad_enabled() and any(each.requires_grad for each in tables)),
        tf32=q.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest",
    )


def in_graph(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether a compiled graph uses the kernel: training in this type was tried on this device, and always agreed.

    torch.compile is to take it as a constant.
    """
    decided = by_user()
    if decided is not None:
        return decided
    found = [trust for case, trust in verdicts(NAME, device).items() if case.dtype == dtype and case.trains]  # type: ignore[attr-defined]
    return bool(found) and all(found)


def tried(case: Case, device: torch.device) -> bool:
    """Whether the kernel agrees with the equation in a case."""
    within = WITHIN_TF32 if case.tf32 else WITHIN[case.dtype]
    return trusted(
        NAME,
        case,
        device,
        lambda: _by_kernel(case, device),
        lambda: _by_equation(case, device),
        within,
    )


class _Operands(NamedTuple):
    """q, k, v [2,H,T,D], the vectors [R,D] or None, the mask [2,1,1,T] or None, and the output's gradient."""

    q: Tensor
    k: Tensor
    v: Tensor
    keys: Tensor | None
    values: Tensor | None
    mask: Tensor | None
    upstream: Tensor

    @property
    def leaves(self) -> dict[str, Tensor]:
        """The tensors that receive gradients, by name."""
        named = {"q": self.q, "k": self.k, "v": self.v, "keys": self.keys, "values": self.values}
        return {name: each for name, each in named.items() if each is not None}

    def results(self, attended: Tensor, trains: bool) -> Results:
        """The output, and the gradients if they are needed."""
        if not trains:
            return {"output": attended}
        gradients = torch.autograd.grad(attended, [*self.leaves.values()], self.upstream.to(attended.dtype))
        named = zip(self.leaves, gradients, strict=True)
        return {"output": attended, **{f"gradient of {name}": gradient for name, gradient in named}}


def _operands(case: Case, device: torch.device, dtype: torch.dtype) -> _Operands:
    """The numbers of a case, the same in each type up to its rounding to that of the case."""
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape: int, scale: float = 1.0) -> Tensor:
        numbers = (torch.randn(shape, generator=generator) * scale).to(case.dtype)
        return numbers.to(device, dtype).requires_grad_(case.trains)

    shape, distances = (2, case.heads, case.tokens, case.width), 2 * case.reach + 1
    q = drawn(*shape, scale=case.width**-0.5)
    k, v = drawn(2, case.tokens, 2, case.heads, case.width).permute(2, 0, 3, 1, 4)  # of one projection, as in a model
    keys, values = (drawn(distances, case.width) if has else None for has in (case.on_keys, case.on_values))
    lengths = torch.tensor([case.tokens, case.tokens // 2 + 1], device=device)
    mask = (torch.arange(case.tokens, device=device) < lengths[:, None])[:, None, None] if case.masked else None
    return _Operands(q, k, v, keys, values, mask, drawn(*shape).detach())


def _by_kernel(case: Case, device: torch.device) -> Results:
    """Compute a case with the kernel that is on trial."""
    given = _operands(case, device, case.dtype)
    with _same_draws(device):
        attended = shaw.shaw_attention(*given[:6], case.causal, case.dropout)
    return given.results(attended, case.trains)


def _by_equation(case: Case, device: torch.device) -> Results:
    """By the equation, in float64, with the dropout that the kernel draws."""
    given, places = _operands(case, device, torch.float64), torch.arange(case.tokens, device=device)
    q, k, v, keys, values, mask, _ = given
    offsets = places - places[:, None]
    distances = (offsets.clamp(-case.reach, case.reach) + case.reach).expand(*q.shape[:3], -1)
    scores = q @ k.mT
    if keys is not None:
        scores = scores + (q @ keys.mT).gather(-1, distances)
    seen = offsets <= 0 if case.causal else offsets == offsets
    seen = seen if mask is None else seen & mask
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    if case.dropout:
        weights = weights * _kept(case, device) / (1 - case.dropout)
    attended = weights @ v
    if values is not None:
        sums = weights.new_zeros(*q.shape[:3], len(values)).scatter_add(-1, distances, weights)
        attended = attended + sums @ values
    return given.results(attended, case.trains)


@torch.no_grad()
def _kept(case: Case, device: torch.device) -> Tensor:
    """[2,H,T,T] which weights the kernel keeps: those that it returns where the values of the keys are a basis.

    Raises:
        ArithmeticError: it does not keep the share that it should.
    """
    given, parts = _operands(case, device, case.dtype), []
    for start in range(0, case.tokens, case.width):
        basis = torch.eye(case.tokens, device=device, dtype=case.dtype)[:, start : start + case.width]
        values = torch.zeros_like(given.v)
        values[..., : basis.shape[1]] = basis
        vectors = None if given.values is None else torch.zeros_like(given.values)
        with _same_draws(device):
            attended = shaw.shaw_attention(
                given.q, given.k, values, given.keys, vectors, given.mask, case.causal, case.dropout
            )
        parts.append(attended[..., : basis.shape[1]])
    kept = torch.cat(parts, -1) > 0
    seen = torch.ones(case.tokens, case.tokens, dtype=torch.bool, device=device)
    seen = (seen.tril() if case.causal else seen) & (True if given.mask is None else given.mask)
    share = float(kept.sum() / seen.expand_as(kept).sum())
    if not abs(share - (1 - case.dropout)) < 0.1:
        raise ArithmeticError(f"dropout of {case.dropout:g} keeps a share of {share:.2f}")
    return kept


@contextmanager
def _same_draws(device: torch.device) -> Iterator[None]:
    """A block that draws the same numbers each time, and leaves the device's generator as it was."""
    generator = torch.default_generator
    if device.type == "cuda":
        torch.cuda.init()  # before its first use of a GPU a process has no generators for it
        generator = torch.cuda.default_generators[device.index]
    state = generator.get_state()
    generator.manual_seed(1)
    try:
        yield
    finally:
        generator.set_state(state)
