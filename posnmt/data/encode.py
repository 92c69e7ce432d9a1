"""Encodes pairs as subword ids, a chunk at a time, with counts of kept and dropped pairs.

A random segmentation of a pair depends only on the line of the pair and on its own number, so chunks and processes do
not affect it. One that is longer than `data.max_length` is replaced by the usual segmentation, and counted.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from posnmt.data.corpus import Chunk
from posnmt.data.restored import Restored, compare
from posnmt.data.sampling import Sampler
from posnmt.data.store import SCHEMA
from posnmt.data.subword import UNK, Flat, flat
from posnmt.data.text import SIDES, TextPipeline
from posnmt.data.tokenise import TruecaseLearner, Words

REASONS = ("empty", "no subwords", "source too long", "target too long", "both too long")


@dataclass
class Account:
    """The counts of a split, or of a part of it.

    Attributes:
        read, kept: pairs.
        kept_too_long: pairs that were kept although they are longer than `data.max_length`.
        copies: kept pairs whose sides are equal.
        dropped: pairs for each of `REASONS`.
        subwords, unknown, longest: of the source and the target of kept pairs.
        restored: of the source and the target; see `posnmt.data.restored`.
        sampled: of the source and the target; subwords of all random segmentations.
        replaced: of the source and the target; segmentations that were too long, so that the usual one replaces them.
    """

    read: int = 0
    kept: int = 0
    kept_too_long: int = 0
    copies: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    subwords: list[int] = field(default_factory=lambda: [0, 0])
    unknown: list[int] = field(default_factory=lambda: [0, 0])
    longest: list[int] = field(default_factory=lambda: [0, 0])
    restored: list[Restored] = field(default_factory=lambda: [Restored(), Restored()])
    sampled: list[int] = field(default_factory=lambda: [0, 0])
    replaced: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, part: Account) -> None:
        """Add the counts of a part."""
        self.read += part.read
        self.kept += part.kept
        self.kept_too_long += part.kept_too_long
        self.copies += part.copies
        self.dropped.update(part.dropped)
        for side in (0, 1):
            self.subwords[side] += part.subwords[side]
            self.unknown[side] += part.unknown[side]
            self.longest[side] = max(self.longest[side], part.longest[side])
            self.restored[side].add(part.restored[side])
            self.sampled[side] += part.sampled[side]
            self.replaced[side] += part.replaced[side]

    def manifest(self) -> dict[str, Any]:
        """The counts in the form of the manifest."""
        dropped = {reason: self.dropped[reason] for reason in REASONS}
        books = {"read": self.read, "kept": self.kept, "dropped": dropped, "kept_too_long": self.kept_too_long}
        books["copies"] = self.copies
        for side, name in enumerate(SIDES):
            names = {"subwords": self.subwords, "unknown": self.unknown, "longest": self.longest}
            books[name] = {measure: values[side] for measure, values in names.items()} | self.restored[side].manifest()
        return books

    def sampling(self) -> dict[str, Any]:
        """The counts of random segmentations in the form of the manifest."""
        values = zip(SIDES, self.sampled, self.replaced, strict=True)
        return {side: {"subwords": subwords, "replaced": replaced} for side, subwords, replaced in values}


class Encoded(NamedTuple):
    """An encoded chunk.

    Attributes:
        rows: the kept pairs.
        sampled: the same for each random segmentation.
        dropped: number, reason, and lengths of source and target of each dropped pair.
        account: the counts.
        corpus: the number of the corpus of the chunk in a list of corpora.
    """

    rows: pa.RecordBatch
    sampled: list[pa.RecordBatch]
    dropped: list[tuple[int, str, int, int]]
    account: Account
    corpus: int


@dataclass(frozen=True)
class EncodeChunk:
    """Encodes the pairs of a split and selects those to keep; dev, for evaluation, has no limit of length.

    Args:
        text: the text pipeline.
        split: `train` or `dev`; the text of dev is stored.
        max_length: most subwords of a side; None: no limit.
        samplers: of source and target; None if no random segmentations are drawn.
        compared: a line is decoded again and compared if its number is a multiple of this.
    """

    text: TextPipeline
    split: str
    max_length: int | None
    samplers: tuple[Sampler, Sampler] | None = None
    compared: int = 1

    def __call__(self, chunk: Chunk) -> Encoded:
        """Encode the lines of a chunk; drop the pairs that are empty or too long."""
        plain = chunk.sources
        if chunk.mark:
            marked = [f"{chunk.mark} {source}" if source.strip() else source for source in chunk.sources]
            chunk = chunk._replace(sources=marked)
        sides = [self.text.source.encode_flat(chunk.sources), self.text.target.encode_flat(chunk.targets)]
        source, target = (lengths for _, lengths in sides)
        reasons, too_long = self._reasons(chunk, source, target)
        kept = reasons == 0
        rows = np.flatnonzero(kept)
        copies = sum(plain[row].strip() == chunk.targets[row].strip() for row in rows.tolist())
        account = Account(len(kept), len(rows), int(too_long[kept].sum()), copies)
        origins = [_numbers(np.asarray(chunk.lines, dtype=np.int64)[rows]), _strings(chunk.documents, rows)]
        encoded, sampled = [], []
        for side, (ids, lengths) in enumerate(sides):
            ids, lengths = ids[np.repeat(kept, lengths)], lengths[kept]
            account.subwords[side] = len(ids)
            account.unknown[side] = int((ids == UNK).sum())
            account.longest[side] = int(lengths.max(initial=0))
            account.restored[side] = self._restored(chunk, rows, side, ids, lengths)
            encoded.append(_lists(ids, lengths))
            if self.samplers is not None:
                drawn, account.replaced[side] = self._drawn(chunk, rows.tolist(), side, encoded[side])
                account.sampled[side] = sum(len(ids) for ids, _ in drawn)
                sampled.append(list(itertools.starmap(_lists, drawn)))
        texts = [_strings(side if self.split == "dev" else None, rows) for side in (chunk.sources, chunk.targets)]
        dropped = [
            (chunk.lines[row], REASONS[reasons[row] - 1], int(source[row]), int(target[row]))
            for row in np.flatnonzero(~kept).tolist()
        ]
        account.dropped.update(reason for _, reason, _, _ in dropped)
        tables = [
            pa.record_batch([*origins, *columns, *texts], schema=SCHEMA)
            for columns in (encoded, *zip(*sampled, strict=True))
        ]
        return Encoded(tables[0], tables[1:], dropped, account, chunk.corpus)

    def _restored(
        self, chunk: Chunk, rows: NDArray[np.int64], side: int, ids: NDArray[np.int32], lengths: NDArray[np.int64]
    ) -> Restored:
        """The changes by encoding and decoding in one side of some of the kept rows, whose subwords are `ids`."""
        ends = np.cumsum(lengths)
        places = [place for place, row in enumerate(rows.tolist()) if chunk.lines[row] % self.compared == 0]
        texts = (chunk.sources, chunk.targets)[side]
        encoded = [ids[ends[place] - lengths[place] : ends[place]].tolist() for place in places]
        return compare((self.text.source, self.text.target)[side], [texts[rows[place]] for place in places], encoded)

    def _drawn(self, chunk: Chunk, rows: list[int], side: int, usual: pa.Array) -> tuple[list[Flat], int]:
        """Random segmentations of one side of some rows, and how many were too long and are the usual one instead."""
        assert self.samplers is not None
        sampler, texts = self.samplers[side], (chunk.sources, chunk.targets)[side]
        text, replaced = (self.text.source, self.text.target)[side], 0
        drawn: list[list[list[int]]] = [[] for _ in range(sampler.settings.segmentations)]
        for place, row in enumerate(rows):
            samples = sampler.samples(text.split(texts[row]), Random(2 * chunk.lines[row] + side))
            for column, sample in zip(drawn, samples, strict=True):
                too_long = self.max_length is not None and len(sample) > self.max_length
                column.append(usual[place].as_py() if too_long else sample)
                replaced += too_long
        return list(map(flat, drawn)), replaced

    def _reasons(
        self, chunk: Chunk, source: NDArray[np.int64], target: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For each pair 0 (kept) or 1 + the index of the reason, and whether a side is longer than the limit."""
        limit = np.inf if self.max_length is None else self.max_length
        # 1: the source, 2: the target, 3: both
        over = (source > limit) + 2 * (target > limit)
        texts = zip(chunk.sources, chunk.targets, strict=True)
        blank = [not (source_text.strip() and target_text.strip()) for source_text, target_text in texts]
        by_length = np.where(over > 0, over + 2, 0) if self.split == "train" else 0
        return np.where(blank, 1, np.where((source == 0) | (target == 0), 2, by_length)), over > 0


@dataclass(frozen=True)
class CountForms:
    """Counts the upper and lower case forms of the words of a chunk, for truecasing; ignores pairs with a blank side.

    Args:
        source, target: the tokenisation of the side if it is truecased, or None.
    """

    source: Words | None
    target: Words | None

    def __call__(self, chunk: Chunk) -> tuple[Counter[str], Counter[str]]:
        """The forms of source and of target words, in the order of the text; empty for a side that is None."""
        learners = TruecaseLearner(), TruecaseLearner()
        for source, target in zip(chunk.sources, chunk.targets, strict=True):
            if source.strip() and target.strip():
                for words, learner, text in zip((self.source, self.target), learners, (source, target), strict=True):
                    if words is not None:
                        learner.add(words.split(text))
        return learners[0].forms, learners[1].forms


def _lists(ids: NDArray[np.int32], lengths: NDArray[np.int64]) -> pa.Array:
    """Rows of ids as a column: ids [tokens], and the number of them in each row [N]."""
    return pa.LargeListArray.from_arrays(_numbers(_starts(lengths)), _numbers(np.asarray(ids, np.int32)))


def _strings(texts: list[Any] | None, rows: NDArray[np.int64]) -> pa.Array:
    """A selection of texts as a column; a text that is None is null, and all are null without texts."""
    if texts is None:
        return pa.nulls(len(rows), pa.large_string())
    chosen = [texts[row] for row in rows]
    encoded = [b"" if text is None else text.encode() for text in chosen]
    present = np.packbits(np.array([text is not None for text in chosen], bool), bitorder="little")
    buffers = [present, _starts([len(text) for text in encoded]), b"".join(encoded)]
    return pa.Array.from_buffers(pa.large_string(), len(rows), list(map(pa.py_buffer, buffers)))


def _numbers(values: NDArray[Any]) -> pa.Array:
    """Numbers as a column; `pa.array` imports pandas where it is installed, which takes a second."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


def _starts(lengths: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """The start of each part, and the end of the last one [N + 1]."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
