"""Random segmentations of text by the pieces of a SentencePiece model, for subword regularisation.

BPE models are sampled by BPE-dropout (Provilkov et al. 2020, algorithm 1), unigram models by P(segmentation)^alpha over
all segmentations (Kudo 2018 with l = infinity; forward filtering, backward sampling). SentencePiece has both, but its
random numbers differ between processes whatever the seed, and its BPE, unlike the paper, never tries a skipped merge
again. Here a segmentation is a function of the text, the model and the given generator.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from random import Random

from posnmt.base.errors import UserError
from posnmt.config.schema import SubwordSampling
from posnmt.data.subword import BLANK, UNK, Subwords

REMEMBERED = 2**17
"""Characters of words whose lattices are cached, some 50 MB. The cache is cleared when it is full."""

UNKNOWN_PENALTY = 10.0
"""As in SentencePiece: the score of an unknown character is the lowest score of a piece minus this."""

Lattice = list[tuple[list[int], list[float]]]
"""For each end of a piece in a word: the starts of the pieces that end there, and their cumulative probabilities."""


class Sampler:
    """Draws segmentations of text. Can be pickled.

    Args:
        subwords: the model.
        settings: `dropout` is read for BPE models, `alpha` for unigram models.
        marks: of corpora, which are pieces of the model; one that begins a text is never divided.

    Raises:
        UserError: the model is of another kind.
    """

    def __init__(self, subwords: Subwords, settings: SubwordSampling, marks: Sequence[str] = ()) -> None:
        model = subwords.message
        trained, types = model.trainer_spec, model.SentencePiece
        segment = {trained.BPE: self._merged, trained.UNIGRAM: self._drawn}.get(trained.model_type)
        usual = {types.NORMAL, types.UNKNOWN, types.CONTROL}
        others = [piece.piece for piece in model.pieces if piece.type not in usual]
        if segment is None or subwords.entries is not None or {*others} - {*marks}:
            raise UserError(
                "segmentations are sampled of SentencePiece's BPE and unigram models only, without bytes or pieces of"
                " the user, and without a vocabulary beside the model, as after `posnmt import`",
                "subword.sampling",
                "leave it out, or learn the subwords: leave subword.text out",
            )
        self.subwords, self.settings, self.marks = subwords, settings, tuple(marks)
        self._segment: Callable[[str, Random], Iterator[str]] = segment
        normal = [(number, piece) for number, piece in enumerate(model.pieces) if piece.type == types.NORMAL]
        self._ids = {piece.piece: number for number, piece in normal}
        self._scores = {piece.piece: float(piece.score) for _, piece in normal}
        self._longest, self._unknown = max(map(len, self._ids)), min(self._scores.values()) - UNKNOWN_PENALTY
        across = any(BLANK in piece[1:] for piece in self._ids)
        # where no piece crosses the beginning of a word, words are segmented independently
        self._words = re.compile(r".+" if across else f"{BLANK}[^{BLANK}]*|[^{BLANK}]+", re.DOTALL)
        self._lattices: dict[str, Lattice] = {}
        self._remembered = 0

    def __reduce__(self) -> tuple[type[Sampler], tuple[Subwords, SubwordSampling, Sequence[str]]]:
        return Sampler, (self.subwords, self.settings, self.marks)

    def samples(self, text: str, random: Random) -> list[list[int]]:
        """The ids of random segmentations of a tokenised text, as many as the settings say, without bos and eos."""
        mark = next((mark for mark in self.marks if text.startswith(f"{mark} ")), "")
        first = self.subwords.encode([mark])[0] if mark else []
        words = self._words.findall(self.subwords.normalised(text[len(mark) :]))
        samples = []
        for _ in range(self.settings.segmentations):
            ids = [self._ids.get(piece, UNK) for word in words for piece in self._segment(word, random)]
            # as in SentencePiece, unknown neighbours are one
            joined = (number for number, same in groupby(ids) for number in (same if number != UNK else [UNK]))
            samples.append([*first, *joined])
        return samples

    def _merged(self, word: str, random: Random) -> Iterator[str]:
        """A word after merges in the order of their ranks; at each step, each merge is skipped at random."""
        pieces, end = list(word), len(word)  # by their starts; empty if merged with an earlier piece
        before, after = list(range(-1, end - 1)), list(range(1, end + 1))
        merges = [self._merge(left, word[left : left + 2]) for left in range(end)]  # of a piece with the next one
        possible = sorted(filter(None, merges))  # best first; of equal ones, the leftmost
        while True:
            kept = (place for place in range(len(possible)) if random.random() >= self.settings.dropout)
            if (chosen := next(kept, None)) is None:
                return filter(None, pieces)
            left = possible.pop(chosen)[1]
            right, first = after[left], before[left]
            then = after[left] = after[right]
            pieces[left], pieces[right] = pieces[left] + pieces[right], ""
            if then < end:
                before[then] = left
            for place in (first, right):
                if place >= 0 and (gone := merges[place]) is not None:
                    possible.remove(gone)
            merges[left] = self._merge(left, pieces[left] + pieces[then]) if then < end else None
            if first >= 0:
                merges[first] = self._merge(first, pieces[first] + pieces[left])
            for place in (first, left):
                if place >= 0 and (new := merges[place]) is not None:
                    insort(possible, new)

    def _merge(self, left: int, merged: str) -> tuple[float, int] | None:
        """The rank of a merge, lower if it is better, and its place; None if there is no such piece."""
        score = self._scores.get(merged)
        return None if score is None or len(merged) == 1 else (-score, left)

    def _drawn(self, word: str, random: Random) -> Iterator[str]:
        """A word cut from its end to its beginning, by the probabilities of the lattice."""
        lattice, cuts = self._lattice(word), [len(word)]
        while cuts[-1]:
            starts, cumulative = lattice[cuts[-1] - 1]
            # of a number above 0, since a piece may have the probability 0
            place = bisect_left(cumulative, (1 - random.random()) * cumulative[-1])
            cuts.append(starts[place])
        return (word[start:end] for start, end in pairwise(reversed(cuts)))

    def _lattice(self, word: str) -> Lattice:
        """The cached lattice of a word."""
        if word not in self._lattices:
            if self._remembered > REMEMBERED:
                self._lattices.clear()
                self._remembered = 0
            self._remembered += len(word)
            self._lattices[word] = self._filtered(word)
        return self._lattices[word]

    def _filtered(self, word: str) -> Lattice:
        """Forward filtering: P(start of the last piece | end) of all segmentations of the beginning of a word."""
        lattice: Lattice = []
        totals = [0.0]  # log of the summed weights of all segmentations up to each place
        for end in range(1, len(word) + 1):
            starts, weights = [], []
            for start in range(max(0, end - self._longest), end):
                score = self._scores.get(word[start:end], self._unknown if start == end - 1 else None)
                if score is not None:
                    starts.append(start)
                    weights.append(totals[start] + self.settings.alpha * score)
            largest = max(weights)
            cumulative = list(accumulate(math.exp(weight - largest) for weight in weights))
            totals.append(largest + math.log(cumulative[-1]))
            lattice.append((starts, cumulative))
        return lattice
