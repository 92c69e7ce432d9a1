"""Search for translations that have given terms: grid beam search (Hokamp and Liu, 2017).

A sentence with terms of C subwords together has C + 1 beams. Beam c has the best hypotheses that have written c
subwords of terms. A hypothesis goes on with any subword and stays in its beam, or begins a term or goes on with the one
that it is in, and moves to the next beam. Only those of the last beam may end, so that every translation has every term
whole, and the model decides where. Nothing depends on the other sentences of a batch.

Shapes: S sentences, R hypotheses of the sentence that has most, N = S x R rows, V vocabulary entries.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import torch
from torch import Tensor

from posnmt.data.subword import BOS, EOS
from posnmt.model.base import State, TranslationModel
from posnmt.translate.bounds import Bounds, Next
from posnmt.translate.continuations import CANDIDATES, NARROW, Step, largest
from posnmt.translate.coverage import Coverage
from posnmt.translate.search import Hypothesis
from posnmt.translate.traffic import read, sent


@dataclass(frozen=True)
class _Open:
    """A hypothesis that has not ended.

    Attributes:
        row: the row in the batch of the hypothesis that it extends.
        tokens, gained: its subwords, and the log-probability of each.
        total: its log-probability.
        whole: the numbers of the terms that it contains.
        within: the number of the term that it is writing, and how many subwords of that term it has.
        written: how many subwords of terms it has.
        behind: whether its last subword ends a term, so that the next one must begin a new word.
    """

    row: int
    tokens: tuple[int, ...] = ()
    gained: tuple[float, ...] = ()
    total: float = 0.0
    whole: frozenset[int] = frozenset()
    within: tuple[int, int] | None = None
    written: int = 0
    behind: bool = False

    @property
    def state(self) -> tuple[object, ...]:
        """What distinguishes two hypotheses of a beam."""
        return self.tokens, self.whole, self.within

    def longer(self, row: int, token: int, gain: float) -> _Open:
        """This hypothesis with one more subword."""
        return _Open(
            row, (*self.tokens, token), (*self.gained, gain), self.total + gain, self.whole, None, self.written
        )

    def longer_by_term(self, row: int, term: int, subwords: Sequence[int], gain: float) -> _Open:
        """This hypothesis with the first or next subword of a term."""
        place = self.within[1] if self.within else 0
        longer, ends = self.longer(row, subwords[place], gain), place + 1 == len(subwords)
        return replace(
            longer,
            whole=longer.whole | {term} if ends else longer.whole,
            within=None if ends else (term, place + 1),
            written=self.written + 1,
            behind=ends,
        )


class _Sentence:
    """The search for the translations of one sentence."""

    def __init__(self, row: int, bounds: Bounds, beam: int, length_penalty: float) -> None:
        self.bounds, self.beam, self.length_penalty = bounds, beam, length_penalty
        self.open = [_Open(row)]
        self.finished: list[Hypothesis] = []
        self.all_written = sum(map(len, bounds.terms))

    def following(self, each: _Open) -> Next:
        """What may follow a hypothesis, apart from terms."""
        after = self.bounds.after(len(each.tokens))
        return after._replace(may_end=after.may_end and each.written == self.all_written)

    def is_closed(self, each: _Open) -> bool:
        """Whether the last word of a hypothesis is complete: it is a term, or a term ends the prefix."""
        return each.behind or (self.bounds.closed and len(each.tokens) == len(self.bounds.prefix))

    def of_terms(self, each: _Open, continuing: Collection[int]) -> list[tuple[int, int]]:
        """The numbers of the terms that may follow a hypothesis, and the next subword of each.

        A term that would join the term before it into one word must wait for another subword, unless the limit leaves
        no room for one.
        """
        if len(each.tokens) < len(self.bounds.prefix):
            return []
        if each.within is not None:
            term, place = each.within
            return [(term, self.bounds.terms[term][place])]
        barred = continuing if self.is_closed(each) and self._remaining(each) > self.all_written - each.written else ()
        return [
            (term, subwords[0])
            for term, subwords in enumerate(self.bounds.terms)
            if term not in each.whole and subwords[0] not in barred
        ]

    def advance(self, candidates: Sequence[_Open], coverage: Coverage | None) -> None:
        """Choose among the extended hypotheses; those that end have eos as their last subword."""
        beams = defaultdict(list)
        for each in candidates:
            beams[each.written].append(each)
        self.open = []
        for written, beam in sorted(beams.items()):
            distinct: dict[tuple[object, ...], _Open] = {}
            # equal states differ only in whether a term ends here; if none does, any subword may follow
            for each in sorted(beam, key=lambda each: each.behind):
                distinct.setdefault(each.state, each)
            best = sorted(distinct.values(), key=lambda each: -each.total)
            for each in best[: self.beam]:
                if each.tokens[-1] == EOS:
                    self._finish(each, coverage)
            going_on = [each for each in best if each.tokens[-1] != EOS][: self.beam]
            self.open += [each for each in going_on if self.all_written - written <= self._remaining(each)]
        if self._is_done():
            self.open = []

    def _remaining(self, each: _Open) -> int:
        """The number of subwords that may still follow."""
        return self.bounds.limit - len(each.tokens)

    def _finish(self, each: _Open, coverage: Coverage | None) -> None:
        tokens = list(each.tokens[:-1])
        penalty = 0.0 if coverage is None else coverage.penalty(each.row)
        score = self._normalised(each.total, len(tokens)) + penalty
        ended = len(tokens) < self.bounds.limit
        self.finished.append(Hypothesis(tokens, each.total, score, ended, list(each.gained[:-1]), penalty))

    def _is_done(self) -> bool:
        """Whether `beam` hypotheses have ended, and no open one would score better even if ending cost nothing."""
        if len(self.finished) < self.beam:
            return False
        best = max(each.score for each in self.finished)
        return all(self._normalised(each.total, len(each.tokens)) <= best for each in self.open)

    def _normalised(self, total: float, length: int) -> float:
        return total / (length + 1) ** self.length_penalty


@torch.inference_mode()
def constrained_search(
    models: Sequence[TranslationModel],
    source: Tensor,
    lengths: Tensor,
    bounds: Sequence[Bounds],
    continuing: Sequence[int],
    beam: int = 1,
    length_penalty: float = 1.0,
    coverage: Coverage | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch with one model or an ensemble, so that translations have the terms of their bounds.

    A sentence is finished at its limit, or when `beam` hypotheses have ended and the best of them has a score that none
    of the others has now.

    Args:
        source: [S,J] subwords with eos, right-padded.
        lengths: [S] real source tokens.
        bounds: of the translation of each sentence.
        continuing: subwords that cannot stand behind a term, since they go on with its last word.
        beam: hypotheses kept in each beam.
        length_penalty: a in log-probability / length^a.
        coverage: of this batch, for a coverage penalty.

    Returns:
        For each sentence its finished hypotheses, best score first.
    """
    device = source.device
    states = [model.start(model.encode(source, lengths), lengths) for model in models]
    selected: list[State] = [*states] if coverage is None else [*states, coverage]
    sentences = [_Sentence(row, each, beam, length_penalty) for row, each in enumerate(bounds)]
    alive, rows = sentences, _rows(sentences)
    barred, behind = frozenset(continuing), sent(continuing, device, torch.long)
    tokens = torch.full((len(rows), 1), BOS, device=device)
    while alive:
        step = Step(models, states, tokens, [sentence.following(each) for sentence, each in rows], scored=True)
        if coverage is not None:
            coverage.add()
        after = _continuations(step, rows, behind, barred, 2 * beam, coverage)
        for first, sentence in zip(range(0, len(rows), len(rows) // len(alive)), alive, strict=True):
            sentence.advance([*chain(*after[first : first + len(sentence.open)])], coverage)
        keep = [place for place, sentence in enumerate(alive) if sentence.open]
        if not keep:
            break
        kept = sent(keep, device) if len(keep) < len(alive) else None
        alive = [alive[place] for place in keep]
        rows = _rows(alive)
        parents, tokens = sent([[[each.row], [each.tokens[-1]]] for _, each in rows], device).unbind(1)
        for state in selected:
            state.select(parents[:, 0], kept)
    return [sorted(sentence.finished, key=lambda hypothesis: -hypothesis.score) for sentence in sentences]


def _rows(sentences: Sequence[_Sentence]) -> list[tuple[_Sentence, _Open]]:
    """The open hypotheses of each sentence, as many as of that which has most.

    A sentence with fewer has its first one again, which is computed and not read.
    """
    width = max((len(sentence.open) for sentence in sentences), default=0)
    return [
        (sentence, each)
        for sentence in sentences
        for each in [*sentence.open, *[sentence.open[0]] * (width - len(sentence.open))]
    ]


def _continuations(
    step: Step,
    rows: Sequence[tuple[_Sentence, _Open]],
    continuing: Tensor,
    barred: Collection[int],
    count: int,
    coverage: Coverage | None,
) -> list[list[_Open]]:
    """What each row becomes: with the most probable next subwords, and with those of terms.

    The device is read once, also for the penalties of `coverage`.

    Args:
        continuing, barred: subwords that go on with the word before them.
    """
    terms = [sentence.of_terms(each, barred) for sentence, each in rows]
    of_terms = [
        step.exactly(sent([[row[place][1] if place < len(row) else EOS] for row in terms], continuing.device))
        for place in range(max(map(len, terms)))
    ]
    behind = [row for row, (sentence, each) in enumerate(rows) if sentence.is_closed(each)]
    if behind:  # after the terms, whose probabilities are those of the same logits
        closed = sent(behind, continuing.device)[:, None]
        step.mean[closed, continuing] = step.mean.new_full((), -math.inf)  # a number would be sent, and waited for
    if any(logits.dtype in NARROW for logits in step.logits):
        count = max(count, CANDIDATES)
    best, chosen = largest(step.mean, min(count, step.mean.shape[-1]))
    values = step.exactly(chosen).masked_fill(best.isneginf(), -math.inf)
    covered = () if coverage is None else coverage.tensors
    subwords, scores, *rest = read(chosen, values, *of_terms, *covered)
    if coverage is not None:
        coverage.take(*rest[len(of_terms) :])
    after: list[list[_Open]] = []
    for row, ((sentence, each), tokens, gains) in enumerate(zip(rows, subwords.tolist(), scores.tolist(), strict=True)):
        pairs = zip(map(int, tokens), gains, strict=True) if each.within is None else ()
        after.append([each.longer(row, token, gain) for token, gain in pairs if gain > -math.inf])
        for place, (term, _) in enumerate(terms[row]):
            after[row].append(each.longer_by_term(row, term, sentence.bounds.terms[term], rest[place][row, 0].item()))
    return after
