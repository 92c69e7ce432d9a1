"""Pairs in context: sentences of a document joined with those before them, for translating lines together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.data.joined import Joined
from posnmt.data.store import Split
from posnmt.data.subword import BREAK


class InContext(Joined):
    """A split, followed by every pair joined with the pairs before it.

    Tiedemann and Scherrer 2017 ("Neural Machine Translation with Extended Context", 2+2), for any number of sentences:
    a model learns to translate several at once, with `BREAK` between them on both sides. Pairs are joined that are on
    consecutive lines of one document; a dropped pair ends the context.

    Args:
        split: the corpus, with document ids.
        sentences: most pairs that are joined, 2 or more.

    Attributes:
        windows: int64 [W,2], first and last of the pairs that are joined.

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
        super().__init__(split, source, target)

    def members(self, number: int) -> Sequence[int]:
        """The pairs of a window."""
        first, last = self.windows[number].tolist()
        return range(first, last + 1)

    def _lengths(self, lengths: NDArray[np.int32]) -> NDArray[np.int32]:
        """[W] of the windows, from those of the pairs [N]."""
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        first, last = self.windows.T
        joined: NDArray[np.int32] = (ends[last + 1] - ends[first] + last - first).astype(np.int32)
        return joined


def _continues(split: Split) -> NDArray[np.bool_]:
    """[N]: whether a pair is on the line behind that of the pair before it, in the same document."""
    documents = split.documents
    same: pa.BooleanArray = pc.fill_null(pc.equal(documents[1:], documents[:-1]), False)
    return np.concatenate([[False], (np.diff(split.lines) == 1) & same.to_numpy(zero_copy_only=False)])
