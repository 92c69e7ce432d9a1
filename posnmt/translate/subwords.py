"""Translation from subwords to subwords: search in batches of sentences of similar length, and forced scoring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Decode
from posnmt.data.batch import Batch, batches_by_length, collate, pad
from posnmt.data.subword import EOS, PAD
from posnmt.translate.bounds import Bounds
from posnmt.translate.constrained import constrained_search
from posnmt.translate.coverage import Coverage
from posnmt.translate.options import EVERYTHING, refuse_unserved
from posnmt.translate.sampling import sample
from posnmt.translate.search import Hypothesis, search
from posnmt.translate.watched import SourceAttention, watching

if TYPE_CHECKING:
    from posnmt.model.base import TranslationModel

FEW = 512
"""Least padded source tokens x beam of a batch when sentences are distributed evenly over several workers."""

SEARCHED = {"coverage_penalty", "terms"}
"""What search alone can do, and not samples."""


def output_limit(decode: Decode, source: int, longest: int | None, sentences: int = 1) -> int:
    """The largest number of output subwords for a source of so many subwords, of one sentence or several.

    Args:
        longest: entries of the decoder's position table, which holds bos and the output; None: no limit.
    """
    limit = int(decode.max_ratio * source) + decode.max_extra * sentences
    return limit if longest is None else min(limit, longest - 1)


def translate_subwords(
    models: Sequence[TranslationModel],
    sources: Sequence[Sequence[int]],
    decode: Decode,
    device: torch.device,
    workers: Workers | None = None,
    scored: bool = True,
    wanted: Wanted | None = None,
) -> list[list[Hypothesis]]:
    """Search for, or sample, translations of each source (subwords without eos); an empty source has none.

    Each worker takes one batch after another, the longest sentences first; if there are few, they are distributed
    evenly. `workers` None: one worker on all cores. `scored`: see `search`.

    Raises:
        UserError: terms or a coverage penalty for samples, or a coverage penalty for models that can have none.
    """
    wanted = wanted or Wanted()
    if decode.sampling is not None:
        asked = ["terms"] if any(wanted.terms) or any(wanted.closed) else []
        refuse_unserved("samples", EVERYTHING - SEARCHED, decode, asked, "leave it out, or search")
    workers = workers or Workers(1)
    translations: list[list[Hypothesis]] = [[] for _ in sources]
    longest = min((model.longest_target for model in models if model.longest_target is not None), default=None)
    places = [number for number, source in enumerate(sources) if source]
    beams = {number: 1 + sum(map(len, wanted.terms_of(number))) for number in places}
    sizes = {number: (len(sources[number]) + 1) * beams[number] for number in places}  # in source tokens, with eos
    constrained = {number: beams[number] > 1 or wanted.is_closed(number) for number in places}
    sampling, width = decode.sampling, decode.beam if decode.sampling is None else wanted.count
    limit = decode.batch // width
    if workers.count > 1:
        limit = min(limit, max(sum(sizes.values()) // workers.count + 1, FEW // width))

    def work(numbers: list[int], watched: Sequence[SourceAttention]) -> None:
        source, lengths = pad([sources[number] for number in numbers], after=EOS)
        bounds = [wanted.bounds(number, decode, len(sources[number]), longest) for number in numbers]
        batch = source.to(device), lengths.to(device), bounds
        if sampling is not None:
            lines = [wanted.numbers[number] if wanted.numbers else number + 1 for number in numbers]
            results = sample(models, *batch, lines, wanted.count, sampling, decode.length_penalty)
        else:
            coverage = Coverage(decode.coverage_penalty, watched, *batch[:2]) if watched else None
            if constrained[numbers[0]]:
                behind = torch.tensor(wanted.continuing, device=device)
                results = constrained_search(models, *batch, behind, decode.beam, decode.length_penalty, coverage)
            else:
                results = search(models, *batch, decode.beam, decode.length_penalty, scored, coverage)
        for number, hypotheses in zip(numbers, results, strict=True):
            translations[number] = hypotheses

    groups = [[number for number in places if constrained[number] is kind] for kind in (True, False)]
    batches = [
        [group[place] for place in chosen]
        for group in groups
        for chosen in batches_by_length([sizes[number] - 1 for number in group], max(1, limit))
    ]
    with watching(
        models if decode.coverage_penalty else [], "a coverage penalty", "decode.coverage_penalty"
    ) as watched:
        workers.map(partial(work, watched=watched), batches)
    return translations


@dataclass(frozen=True)
class Wanted:
    """What is wanted of the translations of some sources.

    Attributes:
        numbers: of the sources, which determine their samples; none: from 1.
        count: samples of each source.
        prefixes: subwords with which each translation begins; none: all are free.
        closed: whether each prefix ends with a term, whose last word must not go on; none: no prefix does.
        terms: of each translation, as subwords; none: it has none.
        continuing: subwords that go on with the word before them, and so cannot stand behind a term.
        breaks: symbols between two sentences of each translation; none: each is of one sentence.
    """

    numbers: Sequence[int] = ()
    count: int = 1
    prefixes: Sequence[Sequence[int]] = ()
    closed: Sequence[bool] = ()
    terms: Sequence[Sequence[Sequence[int]]] = ()
    continuing: Sequence[int] = ()
    breaks: Sequence[int] = ()

    def terms_of(self, number: int) -> Sequence[Sequence[int]]:
        """The terms of one translation."""
        return self.terms[number] if self.terms else ()

    def is_closed(self, number: int) -> bool:
        """Whether the last word of the prefix of one translation must not go on."""
        return bool(self.closed) and self.closed[number]

    def bounds(self, number: int, decode: Decode, source: int, longest: int | None) -> Bounds:
        """The bounds of one translation; `source` and `longest` as of `output_limit`."""
        prefix = self.prefixes[number] if self.prefixes else ()
        terms = list(self.terms_of(number))
        while longest is not None and len(prefix) + sum(map(len, terms)) > longest - 1:
            terms.pop()  # what does not fit the table is missing, and is said to be
        breaks = self.breaks[number] if self.breaks else 0
        limit, closed = output_limit(decode, source, longest, breaks + 1), self.is_closed(number)
        return Bounds(limit, decode.min_length, prefix, terms, breaks, closed, decode.allow_unk)


@torch.inference_mode()
def score_subwords(
    models: Sequence[TranslationModel],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    batch: int,
    device: torch.device,
) -> list[float]:
    """Log-probability of each target given its source by the models' mean probability, by the full forward pass."""
    scores = [0.0] * len(sources)
    for numbers, padded in _padded_pairs(sources, targets, batch, device):
        each = [_log_probabilities(model, padded)[0] for model in models]
        mixed = each[0] if len(each) == 1 else torch.stack(each).logsumexp(0) - np.log(len(each))
        total = mixed.masked_fill(padded.target_out == PAD, 0.0).double().sum(-1)
        for number, score in zip(numbers, total.tolist(), strict=True):
            scores[number] = score
    return scores


@dataclass(frozen=True)
class Forced:
    """What a model expects at each place of a target, given the source and the correct subwords before it.

    T content subwords; place T is that of the end symbol.

    Attributes:
        losses: float64 [T+1], the negative log-likelihood of the symbol that stands there, in nats.
        ends: float64 [T+1], the probability of the end symbol.
    """

    losses: NDArray[np.float64]
    ends: NDArray[np.float64]


@torch.inference_mode()
def force_subwords(
    model: TranslationModel,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    batch: int,
    device: torch.device,
) -> list[Forced]:
    """What a model expects at each place of each target, by the full forward pass; its losses add up to minus a score.

    Args:
        batch: most padded tokens of either side; affects speed only.
    """
    forced: dict[int, Forced] = {}
    for numbers, padded in _padded_pairs(sources, targets, batch, device):
        own, ends = (each.double().cpu().numpy() for each in _log_probabilities(model, padded))
        for number, log_own, log_ends in zip(numbers, own, ends, strict=True):
            places = len(targets[number]) + 1
            forced[number] = Forced(-log_own[:places], np.exp(log_ends[:places]))
    return [forced[number] for number in range(len(sources))]


def _padded_pairs(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch: int, device: torch.device
) -> Iterator[tuple[list[int], Batch]]:
    """The numbers of pairs of similar lengths, and these pairs."""
    longest = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    for numbers in batches_by_length(longest, batch):
        pairs = [(np.asarray(sources[n], np.int32), np.asarray(targets[n], np.int32)) for n in numbers]
        yield numbers, collate(pairs).to(device)


def _log_probabilities(model: TranslationModel, pairs: Batch) -> tuple[Tensor, Tensor]:
    """[B,T] of the symbols of the targets, and of the end symbol at their places, in float32 or wider."""
    logits = model.project(model(pairs.source, pairs.source_lengths, pairs.target_in))
    wide = logits if logits.dtype == torch.float64 else logits.float()
    logs = wide.log_softmax(-1)
    return logs.gather(-1, pairs.target_out[..., None])[..., 0], logs[..., EOS]
