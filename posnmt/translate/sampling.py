"""Sampling: each next subword is drawn from the model's probabilities.

The random numbers of a sample depend on the seed, the sentence's number and the sample's number alone, so that batches
and the number of processes change nothing.

Shapes: S sentences, k samples each, N = S x k rows, V vocabulary entries, c candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from posnmt.config.schema import Sampling
from posnmt.data.subword import BOS, EOS
from posnmt.model.base import TranslationModel
from posnmt.translate.bounds import Bounds
from posnmt.translate.continuations import Step
from posnmt.translate.search import Hypothesis

BLOCK = 64
"""Steps for which random numbers are drawn at a time."""


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
    device, sentences = source.device, source.shape[0]
    states = [model.start(model.encode(source, lengths), lengths) for model in models]
    first = torch.arange(sentences, device=device).repeat_interleave(count)
    for state in states:
        state.select(first)
    steps = max((each.limit for each in bounds), default=0) + 1
    generators = [
        [np.random.Generator(np.random.Philox(key=_key(sampling.seed, number, rank))) for rank in range(count)]
        for number in numbers
    ]
    uniform = torch.empty(0)
    written: list[list[int]] = [[] for _ in range(sentences * count)]
    each_gained: list[list[float]] = [[] for _ in written]
    total = [0.0] * len(written)
    open_rows = [True] * len(written)
    alive = list(range(sentences))
    tokens = torch.full((len(written), 1), BOS, device=device)
    for step in range(steps):
        if step % BLOCK == 0:
            uniform = torch.from_numpy(_uniform(generators, alive)).to(device)
        following = [after for sentence in alive for after in [bounds[sentence].after(step)] * count]
        places = torch.tensor(alive, device=device)
        drawn = Step(models, states, tokens, following, scored=True)
        chosen = draw(drawn.log_probabilities, uniform[places, :, step % BLOCK].flatten(), sampling)
        gained = drawn.exactly(chosen[:, None])[:, 0].tolist()
        rows = [sentence * count + rank for sentence in alive for rank in range(count)]
        for row, token, log_probability in zip(rows, chosen.tolist(), gained, strict=True):
            if open_rows[row]:
                total[row] += log_probability
                open_rows[row] = token != EOS
                if open_rows[row]:
                    written[row].append(token)
                    each_gained[row].append(log_probability)
        keep = [
            place for place, sentence in enumerate(alive) if any(open_rows[sentence * count : (sentence + 1) * count])
        ]
        if not keep:
            break
        tokens = chosen[:, None]
        if len(keep) < len(alive):
            alive = [alive[place] for place in keep]
            kept = torch.tensor(keep, device=device)
            rows_kept = (kept[:, None] * count + torch.arange(count, device=device)).flatten()
            tokens = tokens[rows_kept]
            for state in states:
                state.select(rows_kept, kept)
    samples = []
    for row, (text, score) in enumerate(zip(written, total, strict=True)):
        ended = len(text) < bounds[row // count].limit
        samples.append(Hypothesis(text, score, score / (len(text) + 1) ** length_penalty, ended, each_gained[row]))
    return [samples[start : start + count] for start in range(0, len(samples), count)]


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
    wanted = (uniform * cumulative[:, -1]).clamp(max=cumulative[:, -1] * (1 - 1e-12))
    places = torch.searchsorted(cumulative, wanted[:, None], right=True)
    return subwords.gather(1, places)[:, 0]


def _uniform(generators: Sequence[Sequence[np.random.Generator]], alive: Sequence[int]) -> np.ndarray:
    """[S,k,BLOCK] numbers uniform in [0,1), those of a sample from its own generator; 0 for sentences that ended."""
    uniform = np.zeros((len(generators), len(generators[0]), BLOCK))
    for sentence in alive:
        for rank, generator in enumerate(generators[sentence]):
            uniform[sentence, rank] = generator.random(BLOCK)
    return uniform


def _key(seed: int, number: int, rank: int) -> int:
    """A generator's key of 128 bits."""
    return (seed & (1 << 32) - 1) << 96 | (number & (1 << 64) - 1) << 32 | rank & (1 << 32) - 1
