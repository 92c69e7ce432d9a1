"""Greedy and beam search over a batch. Search knows no position scheme: it advances a state and selects rows of it.

Shapes: S sentences, k hypotheses each (the beam), N = S x k rows, V vocabulary entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from posnmt.data.subword import BOS, EOS, PAD
from posnmt.model.base import State, TranslationModel

ROWS = 64
"""Rows of logits that are summed at a time on a CPU."""

GROUP = 64
"""Vocabulary entries that are compared together before single ones are."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation.

    Attributes:
        tokens: subwords, without bos and eos.
        log_probability: natural logarithm of its probability, eos included: what forced scoring gives.
        score: log_probability / (len(tokens) + 1)^length_penalty, what hypotheses are ranked by.
        ended: False where the length limit, not the model, ended it.
    """

    tokens: list[int]
    log_probability: float
    score: float
    ended: bool


@torch.inference_mode()
def search(
    models: Sequence[TranslationModel],
    source: Tensor,
    lengths: Tensor,
    limits: Sequence[int],
    beam: int = 1,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """Translate a batch with one model or an ensemble (the mean of the models' probabilities).

    A sentence is finished when `beam` hypotheses have ended among the best `beam` continuations of a step, or at its
    limit, where every open hypothesis is ended (eos is forced, and its probability counted). Beam 1 is greedy search.
    Sentences that are finished leave the batch, some of them a little later: see `_with_company`.

    Args:
        source: [S,J] subwords with eos, right-padded.
        lengths: [S] real source tokens.
        limits: for each sentence the most subwords of an output.
        beam: k, hypotheses kept for each sentence.
        length_penalty: a in log-probability / length^a.

    Returns:
        For each sentence its finished hypotheses, best score first; at least one.
    """
    device, sentences = source.device, source.shape[0]
    states = [model.start(model.encode(source, lengths), lengths) for model in models]
    first = torch.arange(sentences, device=device).repeat_interleave(beam)
    for state in states:
        state.select(first)  # nothing is cached yet; carries of recurrent schemes get their k rows
    finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
    alive = list(range(sentences))  # sentence numbers still in the batch
    scores = torch.full((sentences, beam), -torch.inf, device=device)
    scores[:, 0] = 0.0  # the hypotheses of a sentence start alike: only one of them counts
    written = torch.empty(sentences, beam, 0, dtype=torch.long, device=device)
    tokens = torch.full((sentences * beam, 1), BOS, device=device)
    step = 0
    while alive:
        logits, normaliser = _next(models, tokens, states)  # [N,V], [N,1]
        logits[:, [PAD, BOS]] = -torch.inf
        _end_at_limit(logits.view(len(alive), beam, -1), [limits[sentence] <= step for sentence in alive])
        # each row gives at most 2k continuations, so that k are left when k of them end the sentence
        row_logits, row_tokens = largest(logits, min(2 * beam, logits.shape[-1]))  # [N,2k]
        row_scores = (row_logits.to(normaliser.dtype) - normaliser).view(len(alive), beam, -1)
        total = (scores[..., None] + row_scores).flatten(1)
        candidates, places = total.topk(min(2 * beam, total.shape[1]), dim=-1)  # [S,2k] best first
        width = row_tokens.shape[-1]
        parents = places // width
        chosen = row_tokens.view(len(alive), -1).gather(1, places)
        ends = chosen == EOS
        _collect_ended(finished, alive, candidates, parents, ends, written, limits, beam, length_penalty)
        step += 1
        going_on = [
            place for place, sentence in enumerate(alive) if len(finished[sentence]) < beam and limits[sentence] >= step
        ]
        if not going_on:
            break
        scores, order = candidates.masked_fill(ends, -torch.inf).topk(beam, dim=-1)  # [S,k] the open ones
        parents, chosen = parents.gather(1, order), chosen.gather(1, order)
        written = torch.cat(
            [written.gather(1, parents[..., None].expand(-1, -1, written.shape[2])), chosen[..., None]], dim=2
        )
        keep = _with_company(going_on, len(alive))
        leaving = len(keep) < len(alive)
        kept = torch.tensor(keep, device=device)
        if leaving:
            alive = [alive[place] for place in keep]
            scores, parents, written, chosen = scores[kept], parents[kept], written[kept], chosen[kept]
        if leaving or beam > 1:
            rows = (kept[:, None] * beam + parents).flatten()
            for state in states:
                state.select(rows, kept if leaving else None)
        tokens = chosen.reshape(-1, 1)
    return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in finished]


def _next(models: Sequence[TranslationModel], tokens: Tensor, states: Sequence[State]) -> tuple[Tensor, Tensor]:
    """[N,V] and [N,1], float32 or wider, whose difference is the logarithm of the mean probability of next subwords."""
    logits = [model.project(model.advance(tokens, state))[:, -1] for model, state in zip(models, states, strict=True)]
    if len(logits) == 1:
        return logits[0], log_normaliser(logits[0])
    each = torch.stack([(one - log_normaliser(one)) for one in logits])
    count = each.new_full((len(each[0]), 1), len(each))
    return each.logsumexp(0), count.log()


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


def _end_at_limit(logits: Tensor, at_limit: list[bool]) -> None:
    """Leave sentences [S,k,V] that are at their limit no continuation but eos."""
    if any(at_limit):
        rows = torch.tensor(at_limit, device=logits.device)
        ending = logits[rows, :, EOS].clone()
        logits[rows] = -torch.inf
        logits[rows, :, EOS] = ending


def _with_company(going_on: list[int], sentences: int) -> list[int]:
    """Places that stay in a batch of so many sentences: those that go on, and finished ones up to a round number.

    So a batch has few sizes on its way down, eight between one power of two and the next: at each new size the products
    are prepared anew and the whole state is copied.
    """
    count = len(going_on)
    step = max(1, (1 << (count.bit_length() - 1)) // 8)
    room = min(sentences, -(-count // step) * step)
    others = sorted(set(range(sentences)).difference(going_on))
    return sorted(going_on + others[: room - count])


def _collect_ended(
    finished: list[list[Hypothesis]],
    alive: list[int],
    candidates: Tensor,
    parents: Tensor,
    ends: Tensor,
    written: Tensor,
    limits: Sequence[int],
    beam: int,
    length_penalty: float,
) -> None:
    """Move the continuations [S,2k] that end among a sentence's best k to its finished hypotheses."""
    best = ends[:, :beam] & candidates[:, :beam].isfinite()
    full = {sentence for sentence in alive if len(finished[sentence]) >= beam}  # they have not left the batch yet
    for place, rank in best.nonzero().tolist():
        sentence = alive[place]
        if sentence in full:
            continue
        tokens = written[place, parents[place, rank]].tolist()
        log_probability = candidates[place, rank].item()
        score = log_probability / (len(tokens) + 1) ** length_penalty
        ended = len(tokens) < limits[sentence]
        finished[sentence].append(Hypothesis(tokens, log_probability, score, ended))
