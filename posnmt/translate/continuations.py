"""The continuations of a hypothesis: the most probable next subwords and their log-probabilities.

Shapes: N hypotheses, V vocabulary entries, c continuations of a hypothesis, d model width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from posnmt.data.subword import BOS, EOS, PAD
from posnmt.model.base import State, TranslationModel

ROWS = 64
"""Rows of logits that are normalised at a time on a CPU."""

SHARE = 64
"""topk is fast if at most one of this number of elements is selected: PyTorch then sorts only a part of them."""

CANDIDATES = 4
"""Fewest continuations that are rescored if logits are narrow, whose rounding may change the order."""

NARROW = (torch.bfloat16, torch.float16)
"""Types of logits that are recomputed in the precision of the weights."""


def continuations(
    models: Sequence[TranslationModel],
    states: Sequence[State],
    tokens: Tensor,
    count: int,
    at_limit: Sequence[bool],
    scored: bool = True,
) -> tuple[Tensor, Tensor]:
    """The most probable next subwords of each hypothesis by the mean of the models' probabilities, unordered.

    Args:
        states: of the models; updated with `tokens` [N,1].
        count: number of continuations; c may be larger if logits are narrow, or smaller for a small vocabulary.
        at_limit: for each of the N hypotheses, whether only eos may follow.
        scored: whether to compute probabilities; False requires a single model and returns logits.

    Returns:
        Log-probabilities or logits [N,c], float32 or wider, and subwords [N,c].
    """
    hidden = [model.advance(tokens, state)[:, -1] for model, state in zip(models, states, strict=True)]
    logits = [model.project(each) for model, each in zip(models, hidden, strict=True)]
    normalisers = [log_normaliser(each) for each in logits] if scored else []
    if len(models) == 1:
        mean = logits[0]
    else:
        mean = _mean([each - normaliser for each, normaliser in zip(logits, normalisers, strict=True)])
    mean[:, [PAD, BOS]] = -torch.inf
    if any(at_limit):
        _leave_only_eos(mean, torch.tensor(at_limit, device=mean.device))
    if any(each.dtype in NARROW for each in logits):
        count = max(count, CANDIDATES)
    best, chosen = largest(mean, min(count, mean.shape[-1]))
    by: Sequence[Tensor | None] = normalisers or [None]
    exact = [_exactly(*each, chosen) for each in zip(models, hidden, logits, by, strict=True)]
    return _mean(exact).masked_fill(best.isneginf(), -torch.inf), chosen


def _exactly(
    model: TranslationModel, hidden: Tensor, logits: Tensor, normaliser: Tensor | None, chosen: Tensor
) -> Tensor:
    """Log-probabilities [N,c] of chosen subwords, or logits without a normaliser.

    Narrow logits are recomputed in the precision of the weights. The normaliser is corrected for the change of the
    chosen ones, which dominate it.
    """
    exact = rough = logits.gather(1, chosen).to(torch.promote_types(logits.dtype, torch.float32))
    if logits.dtype in NARROW:
        exact = model.logits_of(hidden, chosen).masked_fill(rough.isneginf(), -torch.inf)
    if normaliser is None:
        return exact
    if exact is not rough:
        grown = ((exact - normaliser).exp() - (rough - normaliser).exp()).sum(-1, keepdim=True)
        normaliser = normaliser + grown.log1p()
    return exact - normaliser


def _mean(log_probabilities: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of probabilities."""
    if len(log_probabilities) == 1:
        return log_probabilities[0]
    return torch.stack(tuple(log_probabilities)).logsumexp(0) - math.log(len(log_probabilities))


def log_normaliser(logits: Tensor) -> Tensor:
    """`log sum_v exp(z_v)` [N,1] of logits [N,V], in float32 or wider, in groups of rows that fit a CPU's cache.

    Computed from one column of PyTorch's log-softmax, which is one kernel; its logsumexp takes five.
    """
    rows = ROWS if logits.device.type == "cpu" else len(logits)
    wide = torch.promote_types(logits.dtype, torch.float32)
    return torch.cat([part[:, :1].to(wide) - part.log_softmax(-1, dtype=wide)[:, :1] for part in logits.split(rows)])


def largest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`logits.topk(count)` of [N,V], best first, in two stages: groups by their maximum, then elements of those groups.

    The `count` largest elements are in the `count` groups with the largest maxima; with ties the result is one that
    topk may return. Adjacent elements are in different groups, so that the maxima are computed with vector operations.
    """
    size = logits.shape[1]
    groups = SHARE * count
    members = size // groups
    if members < 2:
        return logits.topk(count)
    if count * members + size - groups * members < groups:  # topk is fast only for enough elements
        members -= 1
    cut = groups * members  # the remaining elements are compared with those of the chosen groups
    table = logits[:, :cut].unflatten(1, (members, groups))
    chosen = table.amax(1).topk(count, sorted=False).indices
    candidates = table.gather(2, chosen[:, None].expand(-1, members, -1)).flatten(1)  # [N, members x count]
    top = torch.cat([candidates, logits[:, cut:]], dim=1).topk(count)
    grouped = chosen.gather(1, top.indices % count) + top.indices // count * groups
    alone = top.indices - members * count
    return top.values, torch.where(alone < 0, grouped, cut + alone)


def _leave_only_eos(logits: Tensor, rows: Tensor) -> None:
    """Mask all continuations but eos in the rows of logits [N,V] where `rows` [N] is true."""
    ending = logits[rows, EOS].clone()
    logits[rows] = -torch.inf
    logits[rows, EOS] = ending
