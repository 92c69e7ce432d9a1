"""Translation from subwords to subwords: search in batches of parts of similar length, and forced scoring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Decode
from posnmt.data.batch import Batch, batches_by_length, collate, even_limit, pad
from posnmt.data.subword import EOS, PAD
from posnmt.translate.bounds import Bounds, output_limit
from posnmt.translate.constrained import constrained_search
from posnmt.translate.coverage import Coverage
from posnmt.translate.device import FEW, batch_size, in_fp32
from posnmt.translate.options import EVERYTHING, refuse_unserved
from posnmt.translate.requests import Part, Request, Search
from posnmt.translate.sampling import sample
from posnmt.translate.search import Hypothesis, search
from posnmt.translate.traffic import sent
from posnmt.translate.watched import SourceAttention, watching

if TYPE_CHECKING:
    from posnmt.model.base import TranslationModel

SEARCHED = {"coverage_penalty", "terms"}
"""What search alone can do, and sampling cannot."""


def bounds_of(part: Part, decode: Decode, longest: int | None) -> Bounds:
    """The bounds of the translation of a part; `longest` as in `output_limit`."""
    terms = list(part.terms)
    while longest is not None and len(part.prefix) + sum(map(len, terms)) > longest - 1:
        terms.pop()  # a term that does not fit the table is missing, and the user is told
    limit = output_limit(decode, len(part.ids), longest, part.breaks + 1)
    return Bounds(limit, decode.min_length, part.prefix, terms, part.breaks, part.closed, decode.allow_unk)


@dataclass(frozen=True)
class Searcher:
    """Searches for translations with one model, or with several as an ensemble.

    Each worker takes one batch after another, the longest sources first. The sources are distributed evenly over the
    workers: see `even_limit`.

    Attributes:
        models: on the device.
        device: where they compute.
        workers: threads, each of which searches through a batch.
        continuing: gives the subwords that go on with the word before them, and so cannot follow a term; called only
            where translations must have terms.
        searched: called with the parts of each batch when it is done, by the worker.
    """

    models: Sequence[TranslationModel]
    device: torch.device
    workers: Workers
    continuing: Callable[[], Sequence[int]] = tuple
    searched: Callable[[Sequence[Part]], None] = lambda parts: None

    def hypotheses(self, parts: Sequence[Part], asked: Search) -> list[list[Hypothesis]]:
        """The hypotheses, or samples, of each part, best first; a part without subwords has none.

        Raises:
            UserError: terms or a coverage penalty for samples, or a coverage penalty for models that can have none.
        """
        decode = asked.decode
        if decode.sampling is not None:
            terms = ["terms"] if any(part.terms or part.closed for part in parts) else []
            refuse_unserved("samples", EVERYTHING - SEARCHED, decode, terms, "leave it out, or search")
        found: list[list[Hypothesis]] = [[] for _ in parts]
        batches = self._batches(parts, asked)
        observed = self.models if decode.coverage_penalty else []
        with watching(observed, "a coverage penalty", "decode.coverage_penalty") as watched:
            results = self.workers.map(
                lambda batch: self._searched([parts[place] for place in batch], asked, watched), batches
            )
        for batch, of_batch in zip(batches, results, strict=True):
            for place, hypotheses in zip(batch, of_batch, strict=True):
                found[place] = hypotheses
        return found

    def _batches(self, parts: Sequence[Part], asked: Search) -> list[list[int]]:
        """The places of parts in batches, those with terms first, as they are searched by another algorithm."""
        decode = asked.decode
        width = decode.beam if decode.sampling is None else asked.candidates
        # in source tokens, with eos, times the beams of a search with terms
        sizes = {n: (len(part.ids) + 1) * (1 + sum(map(len, part.terms))) for n, part in enumerate(parts) if part.ids}
        limit = batch_size(decode, self.device)
        batches = list[list[int]]()
        for kind in (True, False):
            group = [n for n in sizes if is_constrained(parts[n]) is kind]
            lengths = [sizes[n] - 1 for n in group]
            each = even_limit(lengths, max(1, limit // width), self.workers.count, max(1, FEW // width))
            batches += [[group[place] for place in batch] for batch in batches_by_length(lengths, each)]
        return batches

    def _searched(
        self, parts: Sequence[Part], asked: Search, watched: Sequence[SourceAttention]
    ) -> list[list[Hypothesis]]:
        found = self._search(parts, asked, watched)
        self.searched(parts)
        return found

    def _search(
        self, parts: Sequence[Part], asked: Search, watched: Sequence[SourceAttention]
    ) -> list[list[Hypothesis]]:
        """The hypotheses of the parts of a batch, which are searched alike."""
        decode, models = asked.decode, self.models
        source, lengths = (sent(each, self.device) for each in pad([part.ids for part in parts], after=EOS))
        longest = min((model.longest_target for model in models if model.longest_target is not None), default=None)
        bounds = [bounds_of(part, decode, longest) for part in parts]
        if decode.sampling is not None:
            numbers = [part.number for part in parts]
            return sample(
                models, source, lengths, bounds, numbers, asked.candidates, decode.sampling, decode.length_penalty
            )
        coverage = Coverage(decode.coverage_penalty, watched, source, lengths) if watched else None
        if is_constrained(parts[0]):
            behind = self.continuing()
            return constrained_search(
                models, source, lengths, bounds, behind, decode.beam, decode.length_penalty, coverage
            )
        return search(models, source, lengths, bounds, decode.beam, decode.length_penalty, asked.scored, coverage)


def is_constrained(part: Part) -> bool:
    """Whether the translation of a part must have terms, or begins with one."""
    return bool(part.terms) or part.closed


def translate_subwords(
    models: Sequence[TranslationModel],
    sources: Sequence[Sequence[int]],
    decode: Decode,
    device: torch.device,
    workers: Workers | None = None,
    scored: bool = True,
    searched: Callable[[Sequence[Part]], None] = lambda parts: None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, given by its subwords without eos; see `Searcher`.

    Args:
        workers: None: one worker on all cores.
        scored: see `Search`.
        searched: see `Searcher`.
    """
    parts = [Part(source, Request("", number)) for number, source in enumerate(sources, 1)]
    searcher = Searcher(models, device, workers or Workers(1), searched=searched)
    return searcher.hypotheses(parts, Search(decode, scored=scored))


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
        with in_fp32(device):
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
        with in_fp32(device):
            logs = _log_probabilities(model, padded)
        own, ends = (each.double().cpu().numpy() for each in logs)
        for number, log_own, log_ends in zip(numbers, own, ends, strict=True):
            places = len(targets[number]) + 1
            forced[number] = Forced(-log_own[:places], np.exp(log_ends[:places]))
    return [forced[number] for number in range(len(sources))]


def _padded_pairs(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch: int, device: torch.device
) -> Iterator[tuple[list[int], Batch]]:
    """Padded batches of pairs of similar lengths, each with the numbers of its pairs."""
    longest = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    for numbers in batches_by_length(longest, batch):
        pairs = [(np.asarray(sources[n], np.int32), np.asarray(targets[n], np.int32)) for n in numbers]
        yield numbers, collate(pairs).to(device)


def _log_probabilities(model: TranslationModel, pairs: Batch) -> tuple[Tensor, Tensor]:
    """[B,T] of the symbols of the targets, and [B,T] of the end symbol in their place, in float32 or wider."""
    logits = model.project(model(pairs.source, pairs.source_lengths, pairs.target_in))
    wide = logits if logits.dtype == torch.float64 else logits.float()
    logs = wide.log_softmax(-1)
    return logs.gather(-1, pairs.target_out[..., None])[..., 0], logs[..., EOS]
