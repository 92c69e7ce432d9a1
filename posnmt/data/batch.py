"""Batches by tokens or by sentences, of similar lengths or drawn, in a seeded order with an exact cursor.

Shapes: B rows, J source tokens, T target tokens (both padded to the longest row), n real target tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posnmt.data.mixture import Mixture
from posnmt.data.subword import BOS, EOS, PAD

Pair = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Source and target subwords of one sentence pair, without bos and eos."""


class Pairs(Protocol):
    """Numbered sentence pairs with known lengths, such as a split of a store."""

    source_lengths: NDArray[np.int32]
    target_lengths: NDArray[np.int32]

    def pair(self, index: int) -> Pair:
        """Return the subword ids of both sides of the pair with this number."""
        ...


@dataclass(frozen=True)
class Batch:
    """Padded sentence pairs.

    Attributes:
        source: [B,J] subwords, eos last.
        source_lengths: [B] real tokens, eos included.
        target_in: [B,T] bos, then the target.
        target_out: [B,T] the target, then eos; pad elsewhere.
        real: [n] the places of real target tokens in a flattened [B,T], ascending.
        tokens: number of real target tokens, eos included, over which the loss is summed.
    """

    source: Tensor
    source_lengths: Tensor
    target_in: Tensor
    target_out: Tensor
    real: Tensor
    tokens: int

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The inputs of a model and its loss: source, source_lengths, target_in, target_out, real."""
        return self.source, self.source_lengths, self.target_in, self.target_out, self.real

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        """The batch on another device.

        Args:
            non_blocking: do not wait for copies of a pinned batch to a GPU; later work on the GPU comes after them.
        """
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pinned(self) -> Batch:
        """The batch in memory that a GPU copies from by itself; there must be a GPU."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        source, source_lengths, target_in, target_out, real = map(change, self.tensors)
        return Batch(source, source_lengths, target_in, target_out, real, self.tokens)


@dataclass(frozen=True)
class Cursor:
    """A position in the endless sequence of batches: the next batch is number `batch` of pass `epoch`.

    Attributes:
        stage: of the pass, in a list of corpora with stages (`posnmt.data.mixture`).
        taken: batches before this one, which are counted only there.
    """

    epoch: int = 0
    batch: int = 0
    stage: int = 0
    taken: int = 0


class BatchPlan:
    """The endless sequence of batches of a corpus: pass after pass, each in an order drawn from (seed, pass).

    To reduce padding, pairs are sorted by the length of one side, and among equal lengths by that of the other, before
    they are divided into batches. Every pair occurs once in a pass, or as often as a `mixture` says; a pair longer than
    the limit is a batch of its own. The sequence is the same on every machine and in every process.

    With replacement, a batch is `size` pairs, each drawn from the whole corpus whatever was drawn before, as in N19's
    published code (code/util/corpus.py, `generate_random_indexes`). A pass has as many batches as the corpus fills.

    Args:
        pairs: the corpus.
        size: limit of padded tokens on either side, or of sentences.
        unit: unit of `size`.
        seed: of the order.
        sort_by: the primary side of sorting.
        segmentations: number of segmentations of the corpus; `pairs` has one after the other, and each pass reads the
            next (see `Alternating`).
        with_replacement: whether pairs are drawn with replacement, and not sorted; `unit` is then sentences.
        mixture: the pairs of each pass in a list of corpora; None: every pass has every pair once.
    """

    def __init__(
        self,
        pairs: Pairs,
        size: int,
        unit: Literal["tokens", "sentences"],
        seed: int,
        sort_by: Literal["source", "target"] = "target",
        segmentations: int = 1,
        with_replacement: bool = False,
        mixture: Mixture | None = None,
    ) -> None:
        self.mixture = mixture
        self.pairs, self.size, self.unit, self.seed, self.sort_by = pairs, size, unit, seed, sort_by
        self.segmentations, self.with_replacement = segmentations, with_replacement
        self._made: tuple[int, int] | None = None
        self._batches: list[NDArray[np.int64]] = []

    @property
    def count(self) -> int:
        """The number of pairs of one segmentation."""
        return len(self.pairs.source_lengths) // self.segmentations

    def epoch(self, number: int, stage: int = 0) -> list[NDArray[np.int64]]:
        """The batches of one pass, each as an array of pair numbers; `stage` as in `Cursor`."""
        if (number, stage) != self._made:
            if self.mixture is None:
                numbers = np.arange(self.count) + number % self.segmentations * self.count
            else:
                numbers, times = self.mixture.pass_(number, stage)
                numbers += times % self.segmentations * self.count
            make = self._drawn if self.with_replacement else self._sorted
            self._batches = make(np.random.default_rng([self.seed, number]), numbers)
            self._made = number, stage
        return self._batches

    def of(self, cursor: Cursor) -> list[NDArray[np.int64]]:
        """The batches of the pass at a cursor."""
        return self.epoch(cursor.epoch, cursor.stage)

    def batches_of_a_pass(self) -> Fraction:
        """The number of batches of a pass, of the first one of each stage, in the mean over the stages."""
        spans = [Fraction(1)] if self.mixture is None else self.mixture.spans()
        return sum((span * len(self.epoch(0, stage)) for stage, span in enumerate(spans)), Fraction())

    def fullest(self, number: int) -> Iterator[list[NDArray[np.int64]]]:
        """The batches of passes, from number `number` on, that have all segmentations of all pairs between them.

        In a list of corpora no pass of a stage has a pair more often than the one here.
        """
        for each in range(number, number + self.segmentations):
            if self.mixture is None:
                yield self.epoch(each)
                continue
            for stage in range(self.mixture.stages):
                numbers = self.mixture.every(stage) + each % self.segmentations * self.count
                yield self._sorted(np.random.default_rng([self.seed, each]), numbers)

    def take(self, cursor: Cursor, count: int) -> tuple[list[NDArray[np.int64]], Cursor]:
        """The next `count` batches from a cursor, across the end of a pass if necessary, and the cursor after them."""
        chosen: list[NDArray[np.int64]] = []
        before = cursor.taken
        while len(chosen) < count:
            cursor = self._in_stage(cursor, before)
            batches = self.of(cursor)
            more = batches[cursor.batch : cursor.batch + count - len(chosen)]
            chosen.extend(more)
            end = cursor.batch + len(more)
            is_last = end == len(batches)
            cursor = replace(cursor, epoch=cursor.epoch + is_last, batch=0 if is_last else end)
            if self.mixture is not None:
                cursor = replace(cursor, taken=cursor.taken + len(more))
        return chosen, cursor

    def _in_stage(self, cursor: Cursor, taken: int) -> Cursor:
        """The cursor of the next batch, in the stage of an update that begins after `taken` batches."""
        stage = 0 if self.mixture is None else self.mixture.stage(cursor.epoch, taken)
        if stage == cursor.stage:
            return cursor
        return replace(cursor, epoch=cursor.epoch + (cursor.batch > 0), batch=0, stage=stage)

    def tokens(self, batches: Sequence[NDArray[np.int64]]) -> tuple[int, int]:
        """Numbers of real source and target tokens of batches, eos included, from the lengths alone."""
        numbers = np.concatenate(batches)
        source, target = self.pairs.source_lengths[numbers], self.pairs.target_lengths[numbers]
        return int(source.sum()) + len(numbers), int(target.sum()) + len(numbers)

    def _drawn(self, generator: np.random.Generator, numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The batches of a pass over pairs with some numbers, drawn with replacement."""
        if not (count := len(numbers)):
            return []
        return list(numbers[generator.integers(count, size=(-(-count // self.size), self.size))])

    def _sorted(self, generator: np.random.Generator, numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The batches of a pass over pairs with some numbers, each once, by length."""
        shuffled = generator.permutation(numbers)
        sources, targets = self.pairs.source_lengths[shuffled], self.pairs.target_lengths[shuffled]
        keys = (sources, targets) if self.sort_by == "target" else (targets, sources)  # the last key counts first
        order = shuffled[np.lexsort(keys)]  # stable: pairs of equal lengths stay shuffled
        batches = self._cut(order)
        return [batches[index] for index in generator.permutation(len(batches))]

    def _cut(self, order: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Divide an order into batches within the limit."""
        if self.unit == "sentences":
            return [order[start : start + self.size] for start in range(0, len(order), self.size)]
        longest = np.maximum(self.pairs.source_lengths[order], self.pairs.target_lengths[order]) + 1
        return [order[start:end] for start, end in fit(longest, self.size)]


def fit(lengths: NDArray[np.int32], limit: int) -> Iterator[tuple[int, int]]:
    """Divide a sequence of lengths into runs whose padded size (rows x longest) is within a limit.

    A length above the limit is a run by itself. Yields (start, end) of each run.
    """
    start = 0
    while start < len(lengths):
        window = lengths[start : start + max(1, limit // max(1, int(lengths[start])))]
        padded = np.maximum.accumulate(window).astype(np.int64) * np.arange(1, len(window) + 1)
        count = max(1, int(np.searchsorted(padded, limit, side="right")))
        yield start, start + count
        start += count


def batches_by_length(lengths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Indices of sentences in batches of similar length, the longest first, each within a limit of padded tokens.

    Args:
        lengths: of the sentences, without end symbols.
    """
    order = sorted(range(len(lengths)), key=lambda number: (-lengths[number], number))
    padded = np.array([lengths[number] + 1 for number in order], dtype=np.int32)
    for start, end in fit(padded, limit):
        yield order[start:end]


def even_limit(lengths: Sequence[int], limit: int, workers: int, least: int) -> int:
    """The limit with which `batches_by_length` gives each worker the same number of batches of much the same size.

    Args:
        lengths: of the sentences, without end symbols.
        limit: most padded tokens of a batch; the result is at most that.
        workers: how many batches are computed at a time; a single one keeps the limit.
        least: tokens that a batch should have; fewer batches than workers follow from it.
    """
    if workers == 1:
        return limit
    padded = np.sort(np.asarray(lengths, dtype=np.int32) + 1)[::-1]

    def batches(limit: int) -> int:
        return sum(1 for _ in fit(padded, limit))

    fewest, total = batches(limit), int(padded.sum())
    wanted = max(fewest, min(-(-fewest // workers) * workers, -(-total // least)))
    low, high = total // max(wanted, 1), limit
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if batches(middle) <= wanted else (middle + 1, high)
    return high


def collate(pairs: Sequence[Pair]) -> Batch:
    """Pairs of subword sequences as one padded batch."""
    sources, source_lengths = pad([source for source, _ in pairs], after=EOS)
    target_in, target_lengths = pad([target for _, target in pairs], before=BOS)
    target_out, _ = pad([target for _, target in pairs], after=EOS)
    return Batch(sources, source_lengths, target_in, target_out, real_places(target_out), int(target_lengths.sum()))


def real_places(target: Tensor) -> Tensor:
    """The places [n] of the tokens of a target [B,T] that are not padding, in the flattened target, ascending.

    On a GPU the program waits for their number: take those of a `Batch`, which are found before it is moved there.
    """
    return (target != PAD).flatten().nonzero()[:, 0]


def pad(
    rows: Sequence[NDArray[np.int32] | Sequence[int]], before: int | None = None, after: int | None = None
) -> tuple[Tensor, Tensor]:
    """Rows of subwords as a right-padded tensor [B,T], each with a symbol before or after it, and their lengths [B]."""
    first, extra = int(before is not None), int(before is not None) + int(after is not None)
    lengths = np.array([len(row) + extra for row in rows], dtype=np.int64)
    padded = np.full((len(rows), int(lengths.max())), PAD, dtype=np.int64)
    places = np.arange(padded.shape[1]) - first
    is_word = (places >= 0) & (places < lengths[:, None] - extra)
    padded[is_word] = np.concatenate(rows, dtype=np.int64, casting="unsafe")  # an empty list has no integer type
    if after is not None:
        padded[np.arange(len(rows)), lengths - 1] = after
    if before is not None:
        padded[:, 0] = before
    return torch.from_numpy(padded), torch.from_numpy(lengths)
