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
    Sentences that are finished leave the batch.

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
        log_probabilities = _next_log_probabilities(models, tokens, states).view(len(alive), beam, -1)  # [S,k,V]
        _end_at_limit(log_probabilities, [limits[sentence] <= step for sentence in alive])
        log_probabilities[..., [PAD, BOS]] = -torch.inf
        # each row gives at most 2k continuations, so that k are left when k of them end the sentence
        width = min(2 * beam, log_probabilities.shape[-1])
        row_scores, row_tokens = log_probabilities.topk(width, dim=-1)  # [S,k,2k]
        total = (scores[..., None] + row_scores).flatten(1)
        candidates, places = total.topk(min(2 * beam, total.shape[1]), dim=-1)  # [S,2k] best first
        parents = places // width
        chosen = row_tokens.flatten(1).gather(1, places)
        ends = chosen == EOS
        _collect_ended(finished, alive, candidates, parents, ends, written, limits, beam, length_penalty)
        step += 1
        keep = [
            place for place, sentence in enumerate(alive) if len(finished[sentence]) < beam and limits[sentence] >= step
        ]
        if not keep:
            break
        scores, order = candidates.masked_fill(ends, -torch.inf).topk(beam, dim=-1)  # [S,k] the open ones
        parents, chosen = parents.gather(1, order), chosen.gather(1, order)
        written = torch.cat(
            [written.gather(1, parents[..., None].expand(-1, -1, written.shape[2])), chosen[..., None]], dim=2
        )
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


def _next_log_probabilities(models: Sequence[TranslationModel], tokens: Tensor, states: Sequence[State]) -> Tensor:
    """[N,V] in float32 or wider: the logarithm of the models' mean probability of each next subword."""
    each = []
    for model, state in zip(models, states, strict=True):
        logits = model.project(model.advance(tokens, state))[:, -1]
        wide = logits if logits.dtype == torch.float64 else logits.float()
        each.append(wide.log_softmax(-1))
    if len(each) == 1:
        return each[0]
    return torch.stack(each).logsumexp(0) - torch.tensor(float(len(each)), device=tokens.device).log()


def _end_at_limit(log_probabilities: Tensor, at_limit: list[bool]) -> None:
    """Leave sentences [S,k,V] that are at their limit no continuation but eos."""
    if any(at_limit):
        rows = torch.tensor(at_limit, device=log_probabilities.device)
        ending = log_probabilities[rows, :, EOS].clone()
        log_probabilities[rows] = -torch.inf
        log_probabilities[rows, :, EOS] = ending


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
    for place, rank in best.nonzero().tolist():
        sentence = alive[place]
        tokens = written[place, parents[place, rank]].tolist()
        log_probability = candidates[place, rank].item()
        score = log_probability / (len(tokens) + 1) ** length_penalty
        ended = len(tokens) < limits[sentence]
        finished[sentence].append(Hypothesis(tokens, log_probability, score, ended))
