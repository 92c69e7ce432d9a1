"""Sampling: each next subword is drawn from the model's probabilities.

The random numbers of a sample depend on the seed, the sentence's number and the sample's number alone, so that batches
and the number of processes change nothing.

Shapes: S sentences, k samples each, N = S x k rows, V vocabulary entries, c candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from posnmt.config.schema import Sampling
from posnmt.data.subword import BOS, EOS
from posnmt.model.base import TranslationModel
from posnmt.translate.bounds import Bounds
from posnmt.translate.continuations import Step
from posnmt.translate.search import Hypothesis
from posnmt.translate.traffic import read, sent


@torch.inference_mode()
def sample(
    models: Sequence[TranslationModel],
    source: Tensor,
    lengths: Tensor,
    bounds: Sequence[Bounds],
    numbers: Sequence[int],
    count: int,
    sampling: Sampling,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """Draw translations of a batch from one model or an ensemble (the mean of the models' probabilities).

    Args:
        source: [S,J] subwords with eos, right-padded.
        lengths: [S] real source tokens.
        bounds: of the translations of each sentence.
        numbers: of the sentences; with the seed they determine the random numbers.
        count: k, samples of each sentence.
        sampling: how to draw.
        length_penalty: a in log-probability / length^a.

    Returns:
        For each sentence its k samples, in the order drawn. Their log-probabilities are the model's own, without
        temperature and truncation.
    """
    device = source.device
    states = [model.start(model.encode(source, lengths), lengths) for model in models]
    first = torch.arange(len(numbers) * count, device=device) // count
    for state in states:
        state.select(first)
    samples = [
        [_Sample(each, _key(sampling.seed, number, rank)) for rank in range(count)]
        for number, each in zip(numbers, bounds, strict=True)
    ]
    alive = samples  # of the sentences still in the batch
    tokens = torch.full((len(first), 1), BOS, device=device)
    for step in range(max(each.limit for each in bounds) + 1):
        rows = list(chain.from_iterable(alive))
        drawn = Step(models, states, tokens, [each.bounds.after(step) for each in rows], scored=True)
        uniform = sent([each.generator.random() for each in rows], device, torch.double)
        chosen = draw(drawn.log_probabilities, uniform, sampling)
        drawn_tokens, gained = read(chosen, drawn.exactly(chosen[:, None]))
        for each, token, log_probability in zip(rows, drawn_tokens.tolist(), gained[:, 0].tolist(), strict=True):
            each.add(int(token), log_probability)
        keep = [place for place, group in enumerate(alive) if any(each.is_open for each in group)]
        if not keep:
            break
        tokens = chosen[:, None]
        if len(keep) < len(alive):
            alive = [alive[place] for place in keep]
            kept = sent(keep, device)
            rows_kept = (kept[:, None] * count + torch.arange(count, device=device)).flatten()
            tokens = tokens[rows_kept]
            for state in states:
                state.select(rows_kept, kept)
    return [[each.hypothesis(length_penalty) for each in group] for group in samples]


class _Sample:
    """A translation that is being drawn, with its own random numbers."""

    def __init__(self, bounds: Bounds, key: int) -> None:
        self.bounds, self.generator = bounds, np.random.Generator(np.random.Philox(key=key))
        self.is_open = True
        self._tokens: list[int] = []
        self._gained: list[float] = []  # log-probability of each
        self._total = 0.0

    def add(self, token: int, log_probability: float) -> None:
        """Append a subword, unless the sample has ended and is in the batch for others of its sentence alone."""
        if self.is_open:
            self._total += log_probability
            self.is_open = token != EOS
            if self.is_open:
                self._tokens.append(token)
                self._gained.append(log_probability)

    def hypothesis(self, length_penalty: float) -> Hypothesis:
        score = self._total / (len(self._tokens) + 1) ** length_penalty
        return Hypothesis(self._tokens, self._total, score, len(self._tokens) < self.bounds.limit, self._gained)


def draw(log_probabilities: Tensor, uniform: Tensor, sampling: Sampling) -> Tensor:
    """One subword [N] for each row of log-probabilities [N,V], by numbers [N] uniform in [0,1).

    The distribution is sharpened by the temperature, cut to the `top_k` most probable subwords, and then to the fewest
    most probable ones that have `top_p` of what is left (nucleus sampling, Holtzman et al. 2020).
    """
    wide = log_probabilities.double()
    wide = (wide - wide.max(-1, keepdim=True).values) / sampling.temperature  # so that the best stays finite
    values, subwords = wide.topk(sampling.top_k) if 0 < sampling.top_k < wide.shape[1] else wide.sort(descending=True)
    probabilities = values.softmax(-1)
    if sampling.top_p < 1:
        before = probabilities.cumsum(-1) - probabilities
        probabilities = probabilities.masked_fill(before >= sampling.top_p, 0.0)
    cumulative = probabilities.cumsum(-1)
    # less than the whole, so that a number next to 1 still falls on a subword that is possible
    points = (uniform * cumulative[:, -1]).clamp(max=cumulative[:, -1] * (1 - 1e-12))
    places = torch.searchsorted(cumulative, points[:, None], right=True)
    return subwords.gather(1, places)[:, 0]


def _key(seed: int, number: int, rank: int) -> int:
    """A generator's key of 128 bits."""
    return (seed & (1 << 32) - 1) << 96 | (number & (1 << 64) - 1) << 32 | rank & (1 << 32) - 1
