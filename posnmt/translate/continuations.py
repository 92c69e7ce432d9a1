"""What may follow a hypothesis: the likeliest next subwords and their log-probabilities.

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
"""Rows of logits that are summed at a time on a CPU."""

SHARE = 64
"""topk is quick where no more than one of so many is asked for: torch then sorts a part of them only."""

CANDIDATES = 4
"""Continuations that are looked at at least where logits are narrow: the best of them may be in a wrong order."""

NARROW = (torch.bfloat16, torch.float16)
"""What logits are computed again from."""


def continuations(
    models: Sequence[TranslationModel],
    states: Sequence[State],
    tokens: Tensor,
    count: int,
    at_limit: Sequence[bool],
    scored: bool = True,
) -> tuple[Tensor, Tensor]:
    """The likeliest next subwords of each hypothesis under the mean of the models' probabilities, in no order.

    Args:
        states: of the models; they move on by `tokens` [N,1].
        count: how many are asked for; c may be more where logits are narrow, or fewer in a small vocabulary.
        at_limit: for each of the N hypotheses, whether nothing but eos may follow.
        scored: whether probabilities matter; without, there is one model, whose logits will do.

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
    """Log-probabilities [N,c] of chosen subwords, or logits where there is no normaliser.

    Narrow logits are computed again as wide as the weights are. The normaliser takes the change of the chosen ones
    over: they are most of it.
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
    """`log sum_v exp(z_v)` [N,1] of logits [N,V], in float32 or wider, few rows at a time: they stay in the cache.

    By PyTorch's log-softmax, one kernel where its logsumexp is five, of which one column is read.
    """
    rows = ROWS if logits.device.type == "cpu" else len(logits)
    wide = torch.promote_types(logits.dtype, torch.float32)
    return torch.cat([part[:, :1].to(wide) - part.log_softmax(-1, dtype=wide)[:, :1] for part in logits.split(rows)])


def largest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`logits.topk(count)` of [N,V], best first: by the largest of each group first, which takes one quick pass.

    The `count` largest stand in the `count` groups whose largest are largest, and nowhere else where no two are equal;
    where some are, each choice among them is one that topk may make. Neighbours stand in different groups, so that
    whole vectors are compared.
    """
    size = logits.shape[1]
    groups = SHARE * count
    members = size // groups
    if members < 2:
        return logits.topk(count)
    if count * members + size - groups * members < groups:  # too few are left to choose from quickly
        members -= 1
    cut = groups * members  # what is left over stands beside the groups that are chosen
    table = logits[:, :cut].unflatten(1, (members, groups))
    chosen = table.amax(1).topk(count, sorted=False).indices
    candidates = table.gather(2, chosen[:, None].expand(-1, members, -1)).flatten(1)  # [N, members x count]
    top = torch.cat([candidates, logits[:, cut:]], dim=1).topk(count)
    grouped = chosen.gather(1, top.indices % count) + top.indices // count * groups
    alone = top.indices - members * count
    return top.values, torch.where(alone < 0, grouped, cut + alone)


def _leave_only_eos(logits: Tensor, rows: Tensor) -> None:
    """Give the rows of logits [N,V] where `rows` [N] is true no continuation but eos."""
    ending = logits[rows, EOS].clone()
    logits[rows] = -torch.inf
    logits[rows, EOS] = ending
