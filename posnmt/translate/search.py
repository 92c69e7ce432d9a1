"""Greedy and beam search over a batch. Search does not depend on position schemes: it advances and selects a state.

Probabilities and states stay on the device. Each step reads once what the program must know of it, and the program
keeps the subwords that are written.

Shapes: S sentences, k hypotheses each (the beam; one each in the first step), N = S x k rows, T subwords so far, V
vocabulary entries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from posnmt.data.subword import BOS, BREAK, EOS, PAD
from posnmt.model.base import State, TranslationModel
from posnmt.translate.bounds import Bounds, Next, Written
from posnmt.translate.continuations import continuations
from posnmt.translate.coverage import Coverage
from posnmt.translate.traffic import read, sent


@dataclass(frozen=True)
class Hypothesis:
    """One translation.

    Attributes:
        tokens: subwords, without bos and eos.
        log_probability: natural logarithm of its probability, eos included, as from forced scoring; NaN from greedy
            search without scores.
        score: (log_probability + added) / (len(tokens) + 1)^length_penalty + coverage, by which hypotheses are ranked.
        ended: False if the length limit ended it, and not eos.
        log_probabilities: of each subword; eos has the rest of `log_probability`. Empty if they were not asked for.
        coverage: the coverage penalty, 0 or less.
        added: how much other splits of the same text into subwords add to `log_probability`; 0 from search, which
            does not compare texts. See `posnmt.translate.translations`.
    """

    tokens: list[int]
    log_probability: float
    score: float
    ended: bool
    log_probabilities: Sequence[float] = ()
    coverage: float = 0.0
    added: float = 0.0


@torch.inference_mode()
def search(
    models: Sequence[TranslationModel],
    source: Tensor,
    lengths: Tensor,
    bounds: Sequence[Bounds],
    beam: int = 1,
    length_penalty: float = 1.0,
    scored: bool = True,
    coverage: Coverage | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch with one model or an ensemble (the mean of the models' probabilities).

    A sentence is finished when `beam` hypotheses have ended among the best `beam` continuations of a step, or at its
    limit, where every open hypothesis ends (eos is forced, and its probability included). Beam 1 is greedy search.
    Finished sentences leave the batch, some of them after a few more steps: see `_pad_to_bucket`.

    Args:
        source: [S,J] subwords with eos, right-padded.
        lengths: [S] real source tokens.
        bounds: of the translation of each sentence.
        beam: k, hypotheses kept for each sentence.
        length_penalty: a in log-probability / length^a.
        scored: whether to compute the probability of each subword. Otherwise subwords have none, and greedy search has
            none for its hypotheses either.
        coverage: of this batch, for a coverage penalty.

    Returns:
        For each sentence its finished hypotheses, best score first: `beam` or more, fewer than twice as many (the last
        step may end several); fewer than `beam` only if the limit allows so few outputs.
    """
    device, by_subword = source.device, scored
    scored = scored or beam > 1 or len(models) > 1
    finished = _Finished(bounds, beam, length_penalty, coverage)
    states = [model.start(model.encode(source, lengths), lengths) for model in models]
    selected: list[State] = [*states] if coverage is None else [*states, coverage]
    alive = list(range(len(bounds)))  # sentence numbers still in the batch
    scores = torch.zeros((len(alive), 1), device=device)  # each sentence begins with one hypothesis, and then has k
    written = np.empty((len(alive), 1, 0), np.int64)
    gained = np.empty((len(alive), beam, 0))  # log-probabilities of `written`, by subword
    tokens = torch.full((len(alive), 1), BOS, device=device)
    while alive:
        # each row has at most 2k continuations, so that k remain if k of them end
        following = _following([bounds[sentence] for sentence in alive], written)
        row_scores, row_tokens = continuations(models, states, tokens, 2 * beam, following, scored)
        if (missing := beam - written.shape[1] * row_tokens.shape[1]) > 0:  # the beam is larger than the vocabulary
            row_scores = functional.pad(row_scores, (0, missing), value=-torch.inf)
            row_tokens = functional.pad(row_tokens, (0, missing), value=PAD)
        row_scores = row_scores.view(len(alive), written.shape[1], -1)
        if coverage is not None:
            coverage.add()
        total = (scores[..., None] + row_scores).flatten(1)
        candidates, places = total.topk(min(2 * beam, total.shape[1]), dim=-1)  # [S,2k] best first
        parents = places // row_tokens.shape[-1]
        chosen = row_tokens.view(len(alive), -1).gather(1, places)
        scores, order = candidates.masked_fill(chosen == EOS, -torch.inf).topk(beam, dim=-1)  # [S,k] the open ones
        step = _Choices.read(candidates, parents, chosen, order, row_scores.flatten(1).gather(1, places), coverage)
        finished.add(alive, step, written, gained)
        going_on = [place for place, sentence in enumerate(alive) if finished.goes_on(sentence, written.shape[2] + 1)]
        if not going_on:
            break
        parents, chosen = parents.gather(1, order), chosen.gather(1, order)
        hypotheses, written = written.shape[1], step.appended(written, step.chosen)
        if by_subword:
            gained = step.appended(gained, step.gains)
        keep = _pad_to_bucket(going_on, len(alive))
        leaving = len(keep) < len(alive)
        kept = sent(keep, device) if leaving else torch.arange(len(alive), device=device)
        if leaving:
            alive = [alive[place] for place in keep]
            scores, parents, chosen = scores[kept], parents[kept], chosen[kept]
            written, gained = written[keep], gained[keep]
        if leaving or beam > 1:
            rows = (kept[:, None] * hypotheses + parents).flatten()
            for state in selected:
                state.select(rows, kept if leaving else None)
        tokens = chosen.reshape(-1, 1)
    return finished.ranked() if scored else finished.unscored()


@dataclass(frozen=True)
class _Choices:
    """What a step chose, as the program reads it.

    Attributes:
        candidates: [S,2k] log-probabilities of the best continuations, best first.
        parents, chosen, gains: [S,2k] the hypothesis that each continues, its subword, and the subword's own
            log-probability.
        order: [S,k] the places of those that stay open.
    """

    candidates: NDArray[np.float64]
    parents: NDArray[np.int64]
    chosen: NDArray[np.int64]
    gains: NDArray[np.float64]
    order: NDArray[np.int64]

    @classmethod
    def read(
        cls,
        candidates: Tensor,
        parents: Tensor,
        chosen: Tensor,
        order: Tensor,
        gains: Tensor,
        coverage: Coverage | None,
    ) -> _Choices:
        """The choices of a step, and how far its hypotheses cover their sources, in one copy."""
        covered = () if coverage is None else coverage.tensors
        values, above, words, places, own, *rest = read(candidates, parents, chosen, order, gains, *covered)
        if coverage is not None:
            coverage.take(*rest)
        return cls(values, above.astype(int), words.astype(int), own, places.astype(int))

    def appended(self, rows: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
        """[S,k,T+1] what the open hypotheses continue, of `rows` [S,·,T], each with its own entry of `last` [S,2k]."""
        sentences = np.arange(len(rows))[:, None]
        before = rows[sentences, self.parents[sentences, self.order]]
        return np.concatenate([before, last[sentences, self.order][..., None]], axis=2)


class _Finished:
    """The hypotheses of each sentence that have ended."""

    def __init__(self, bounds: Sequence[Bounds], beam: int, length_penalty: float, coverage: Coverage | None) -> None:
        self.bounds, self.beam, self.length_penalty, self.coverage = bounds, beam, length_penalty, coverage
        self._groups: list[list[Hypothesis]] = [[] for _ in bounds]

    def goes_on(self, sentence: int, step: int) -> bool:
        return len(self._groups[sentence]) < self.beam and self.bounds[sentence].limit >= step

    def add(self, alive: list[int], step: _Choices, written: NDArray[np.int64], gained: NDArray[np.float64]) -> None:
        """Add the continuations that end among a sentence's best k."""
        best = (step.chosen[:, : self.beam] == EOS) & np.isfinite(step.candidates[:, : self.beam])
        full = {sentence for sentence in alive if len(self._groups[sentence]) >= self.beam}  # still in the batch
        for place, rank in np.argwhere(best).tolist():
            sentence = alive[place]
            if sentence in full:
                continue
            parent = step.parents[place, rank]
            tokens, log_probability = written[place, parent].tolist(), step.candidates[place, rank].item()
            penalty = 0.0 if self.coverage is None else self.coverage.penalty(place * written.shape[1] + parent)
            score = log_probability / (len(tokens) + 1) ** self.length_penalty + penalty
            ended = len(tokens) < self.bounds[sentence].limit
            log_probabilities = gained[place, parent].tolist()
            self._groups[sentence].append(Hypothesis(tokens, log_probability, score, ended, log_probabilities, penalty))

    def ranked(self) -> list[list[Hypothesis]]:
        return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in self._groups]

    def unscored(self) -> list[list[Hypothesis]]:
        return [[replace(each, log_probability=math.nan, score=math.nan) for each in group] for group in self._groups]


def _following(bounds: Sequence[Bounds], written: NDArray[np.int64]) -> list[Next]:
    """[S x k] what may follow each hypothesis in `written` [S,k,T]; the bounds are those of the sentences."""
    hypotheses, step = written.shape[1:]
    if not any(each.breaks for each in bounds):
        return [after for each in bounds for after in [each.after(step)] * hypotheses]
    is_break = written == BREAK
    breaks = is_break.sum(-1).tolist()
    ends = (is_break * np.arange(1, step + 1)).max(-1, initial=0).tolist()
    return [
        each.after(step, Written(number, step - end) if each.breaks else None)
        for each, numbers, places in zip(bounds, breaks, ends, strict=True)
        for number, end in zip(numbers, places, strict=True)
    ]


def _pad_to_bucket(going_on: list[int], sentences: int) -> list[int]:
    """The sentences of a batch that stay in it: the unfinished ones, and finished ones that fill it to a bucket size.

    A shrinking batch then has few sizes, eight between two powers of two. Each new size costs the preparation of
    products and a copy of the state.
    """
    count = len(going_on)
    step = max(1, (1 << (count.bit_length() - 1)) // 8)
    size = min(sentences, -(-count // step) * step)
    others = sorted(set(range(sentences)).difference(going_on))
    return sorted(going_on + others[: size - count])
