"""Corpora for training that add joined pairs to a split, or have several segmentations of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.data.batch import Pair
from posnmt.data.store import Split
from posnmt.data.subword import BREAK


class Joined(ABC):
    """A split, followed by joined pairs: source to source and target to target.

    Args:
        split: the corpus.
        source_lengths, target_lengths: int32, subwords of the joined pairs, without bos and eos.
        first: int64, the first of the pairs of each joined pair; all are of one corpus.

    Attributes:
        source_lengths, target_lengths: int32, subwords of all pairs.
        corpora: int64, the number of the corpus of each pair, joined ones included, in a list of corpora.
    """

    between: Sequence[int] = ()
    """Subwords between two sentences."""

    def __init__(
        self,
        split: Split,
        source_lengths: NDArray[np.int32],
        target_lengths: NDArray[np.int32],
        first: NDArray[np.int64],
    ) -> None:
        self.split = split
        self.corpora = np.concatenate([split.corpora, split.corpora[first]])
        self.source_lengths = np.concatenate([split.source_lengths, source_lengths])
        self.target_lengths = np.concatenate([split.target_lengths, target_lengths])

    def __len__(self) -> int:
        """The number of pairs, joined ones included."""
        return len(self.source_lengths)

    def pair(self, index: int) -> Pair:
        """Source and target subwords, without bos and eos."""
        sources, targets = zip(*(self.split.pair(part) for part in self._parts(index)), strict=True)
        return self._join(sources), self._join(targets)

    def where(self, index: int) -> str:
        """The origin of a pair, for errors."""
        return " joined with ".join(self.split.where(part) for part in self._parts(index))

    @abstractmethod
    def members(self, number: int) -> Sequence[int]:
        """The pairs of the split that make up a joined pair; `number` counts joined pairs from 0."""

    def _parts(self, index: int) -> Sequence[int]:
        return [index] if index < len(self.split) else self.members(index - len(self.split))

    def _join(self, sentences: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
        if len(sentences) == 1:
            return sentences[0]
        between = np.array(self.between, np.int32)
        return np.concatenate([part for each in sentences for part in (between, each)][1:])


class Concatenated(Joined):
    """A split, followed by concatenations of two pairs of a corpus, source to source and target to target.

    Kondo et al. 2021 ("Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation"), without a
    separator: subwords mark the start of a word, so the concatenated ids are those of the concatenated text.

    Args:
        split: the corpus.
        share: number of concatenated pairs relative to the corpus; 1 doubles the number of pairs.
        seed: of the draw; the pairs are the same in every pass.
    """

    def __init__(self, split: Split, share: float, seed: int) -> None:
        generator = np.random.default_rng([seed, len(split)])
        drawn, begin = [], 0
        for count in np.unique(split.corpora, return_counts=True)[1].tolist():
            drawn.append(begin + generator.integers(count, size=(round(share * count), 2)))
            begin += count
        self.drawn: NDArray[np.int64] = np.concatenate(drawn)
        source, target = (
            lengths[self.drawn].sum(1, dtype=np.int32) for lengths in (split.source_lengths, split.target_lengths)
        )
        super().__init__(split, source, target, self.drawn[:, 0])

    def members(self, number: int) -> Sequence[int]:
        """The two pairs of a concatenation."""
        pairs: list[int] = self.drawn[number].tolist()
        return pairs


class InContext(Joined):
    """A split, followed by every pair joined with the pairs before it.

    Tiedemann and Scherrer 2017 ("Neural Machine Translation with Extended Context", 2+2), for any number of sentences:
    a model learns to translate several at once, with `BREAK` between them on both sides. Pairs are joined if they are
    on consecutive lines of one document; a dropped pair ends the context.

    Args:
        split: the corpus, with document ids.
        sentences: the most pairs that are joined, 2 or more.

    Attributes:
        windows: int64 [W,2], the first and the last of the pairs that are joined.

    Raises:
        UserError: no two pairs can be joined.
    """

    between = (BREAK,)

    def __init__(self, split: Split, sentences: int) -> None:
        continues = _continues(split)
        last = np.flatnonzero(continues)
        if not len(last):
            what = "train.context joins pairs of a document, and no document has two pairs on consecutive lines"
            todo = "name a file of document ids as data.train.documents; with one id in all lines for a single document"
            raise UserError(what, "data.train", todo)
        beginnings = np.maximum.accumulate(np.where(continues, 0, np.arange(len(split))))
        first = np.maximum(beginnings[last], last - sentences + 1)
        self.windows: NDArray[np.int64] = np.stack([first, last], axis=1)
        source, target = (self._lengths(lengths) for lengths in (split.source_lengths, split.target_lengths))
        super().__init__(split, source, target, first)

    def members(self, number: int) -> Sequence[int]:
        """Return the numbers of the pairs that a window joins."""
        first, last = self.windows[number].tolist()
        return range(first, last + 1)

    def _lengths(self, lengths: NDArray[np.int32]) -> NDArray[np.int32]:
        """The lengths of the windows [W], from those of the pairs [N]."""
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        first, last = self.windows.T
        joined: NDArray[np.int32] = (ends[last + 1] - ends[first] + last - first).astype(np.int32)
        return joined


def _continues(split: Split) -> NDArray[np.bool_]:
    """[N]: whether a pair is on the line after that of the pair before it, in the same document."""
    documents = split.documents
    same: pa.BooleanArray = pc.fill_null(pc.equal(documents[1:], documents[:-1]), False)
    return np.concatenate([[False], (np.diff(split.numbers) == 1) & same.to_numpy(zero_copy_only=False)])


class Alternating:
    """The pairs of several segmentations of a corpus, numbered one segmentation after the other.

    So a number determines the subwords of a pair; batches need not know their pass.

    Args:
        corpora: the same N pairs in each of K segmentations.

    Attributes:
        source_lengths, target_lengths: int32 [K N].
        corpora: int64 [N], the number of the corpus of each pair in a list of corpora.
    """

    def __init__(self, corpora: Sequence[Split | Joined]) -> None:
        self.segmentations, self.corpora = corpora, corpora[0].corpora
        self.source_lengths = np.concatenate([corpus.source_lengths for corpus in corpora])
        self.target_lengths = np.concatenate([corpus.target_lengths for corpus in corpora])

    def __len__(self) -> int:
        """The number of pairs of one segmentation."""
        return len(self.segmentations[0])

    def pair(self, index: int) -> Pair:
        """Source and target subwords, without bos and eos."""
        number, place = divmod(index, len(self))
        return self.segmentations[number].pair(place)

    def where(self, index: int) -> str:
        """The origin of a pair, for errors."""
        return self.segmentations[0].where(index % len(self))
