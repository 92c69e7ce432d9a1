"""The continuations of a hypothesis: the most probable next subwords and their log-probabilities.

Shapes: N hypotheses, V vocabulary entries, c continuations of a hypothesis, d model width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from posnmt.base.cancel import check_cancelled
from posnmt.data.subword import BREAK, EOS, PAD, UNK
from posnmt.model.base import State, TranslationModel
from posnmt.translate.bounds import Next
from posnmt.translate.traffic import sent

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
    following: Sequence[Next],
    scored: bool = True,
) -> tuple[Tensor, Tensor]:
    """The most probable next subwords of each hypothesis by the mean of the models' probabilities, unordered.

    Args:
        states: of the models; updated with `tokens` [N,1].
        count: number of continuations; c may be larger if logits are narrow, or smaller for a small vocabulary.
        following: what may follow each of the N hypotheses.
        scored: whether to compute probabilities; False requires a single model and returns logits.

    Returns:
        Log-probabilities or logits [N,c], float32 or wider, and subwords [N,c].
    """
    step = Step(models, states, tokens, following, scored)
    if any(each.dtype in NARROW for each in step.logits):
        count = max(count, CANDIDATES)
    best, chosen = largest(step.mean, min(count, step.mean.shape[-1]))
    return step.exactly(chosen).masked_fill(best.isneginf(), -torch.inf), chosen


class Step:
    """The next subwords of N hypotheses, by the mean of the models' probabilities.

    Args: as of `continuations`.

    Attributes:
        mean: [N,V] log-probabilities, or the logits of a single model, -inf where a subword may not follow.
        normalisers: [N,1] of the logits of each model; none if not scored.

    Raises:
        Cancelled: see `check_cancelled`.
    """

    def __init__(
        self,
        models: Sequence[TranslationModel],
        states: Sequence[State],
        tokens: Tensor,
        following: Sequence[Next],
        scored: bool,
    ) -> None:
        check_cancelled()
        self.models = models
        self.hidden = [model.advance(tokens, state)[:, -1] for model, state in zip(models, states, strict=True)]
        self.logits = [model.project(each) for model, each in zip(models, self.hidden, strict=True)]
        self.normalisers = [log_normaliser(each) for each in self.logits] if scored else []
        if len(models) == 1:
            self.mean = self.logits[0]
        else:
            self.mean = _mean([each - by for each, by in zip(self.logits, self.normalisers, strict=True)])
        self.mean[:, PAD] = -torch.inf
        _restrict(self.mean, following)

    @property
    def log_probabilities(self) -> Tensor:
        """Log-probabilities [N,V] of the next subword, if the step is scored."""
        return self.mean - self.normalisers[0] if len(self.models) == 1 else self.mean

    def exactly(self, chosen: Tensor) -> Tensor:
        """Log-probabilities [N,c] of chosen subwords, or logits if not scored; float32 or wider."""
        by: Sequence[Tensor | None] = self.normalisers or [None]
        parts = zip(self.models, self.hidden, self.logits, by, strict=True)
        return _mean([_exactly(*each, chosen) for each in parts])


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


def _restrict(logits: Tensor, following: Sequence[Next]) -> None:
    """Mask in the rows of logits [N,V] what may not follow."""
    for symbol, allowed in (
        (EOS, [each.may_end for each in following]),
        (BREAK, [each.may_break for each in following]),
        (UNK, [each.may_be_unknown for each in following]),
    ):
        if not any(allowed):
            logits[:, symbol] = -torch.inf
        elif not all(allowed):
            logits[:, symbol].masked_fill_(sent([not each for each in allowed], logits.device), -torch.inf)
    forced = [(row, each.only) for row, each in enumerate(following) if each.only is not None]
    if forced:
        rows, only = sent(forced, logits.device).unbind(1)
        kept = logits[rows, only]
        logits.index_fill_(0, rows, -torch.inf)
        logits[rows, only] = kept
