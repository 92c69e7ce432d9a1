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

GROUP = 64
"""Vocabulary entries that are compared together before single ones are."""

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
) -> tuple[Tensor, Tensor]:
    """The likeliest next subwords of each hypothesis under the mean of the models' probabilities, in no order.

    Args:
        states: of the models; they move on by `tokens` [N,1].
        count: how many are asked for; c may be more where logits are narrow, or fewer in a small vocabulary.
        at_limit: for each of the N hypotheses, whether nothing but eos may follow.

    Returns:
        Log-probabilities [N,c], float32 or wider, and subwords [N,c].
    """
    hidden = [model.advance(tokens, state)[:, -1] for model, state in zip(models, states, strict=True)]
    logits = [model.project(each) for model, each in zip(models, hidden, strict=True)]
    normalisers = [log_normaliser(each) for each in logits]
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
    exact = [_log_probabilities(*each, chosen) for each in zip(models, hidden, logits, normalisers, strict=True)]
    return _mean(exact).masked_fill(best.isneginf(), -torch.inf), chosen


def _log_probabilities(
    model: TranslationModel, hidden: Tensor, logits: Tensor, normaliser: Tensor, chosen: Tensor
) -> Tensor:
    """Log-probabilities [N,c] of chosen subwords; narrow logits are computed again as wide as the weights are.

    The normaliser takes the change of the chosen ones over: they are most of it.
    """
    rough = logits.gather(1, chosen).to(normaliser.dtype)
    if logits.dtype not in NARROW:
        return rough - normaliser
    exact = model.logits_of(hidden, chosen).masked_fill(rough.isneginf(), -torch.inf)
    grown = ((exact - normaliser).exp() - (rough - normaliser).exp()).sum(-1, keepdim=True)
    return exact - normaliser - grown.log1p()


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
    where some are, each choice among them is one that topk may make.
    """
    rows, size = logits.shape
    groups = size // GROUP
    if groups <= 2 * count:
        return logits.topk(count)
    cut = groups * GROUP  # what is left over stands beside the groups that are chosen
    chosen = logits[:, :cut].unflatten(1, (groups, GROUP)).amax(-1).topk(count, sorted=False).indices
    places = (chosen[..., None] * GROUP + torch.arange(GROUP, device=logits.device)).flatten(1)  # [N, count x GROUP]
    rest = torch.arange(cut, size, device=logits.device).expand(rows, -1)
    places = torch.cat([places, rest], dim=1)
    found = logits.gather(1, places).topk(count)
    return found.values, places.gather(1, found.indices)


def _leave_only_eos(logits: Tensor, rows: Tensor) -> None:
    """Give the rows of logits [N,V] where `rows` [N] is true no continuation but eos."""
    ending = logits[rows, EOS].clone()
    logits[rows] = -torch.inf
    logits[rows, EOS] = ending
