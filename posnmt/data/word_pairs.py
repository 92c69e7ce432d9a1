"""Pairs of source and target subwords, which share features of their embeddings in the system shared-private.

Each subword is in at most one pair, of the first class that applies: `lm`, one is the other's translation; `wf`, both
are spelt alike; `ur`, unrelated words, paired by frequency among those that are left. The special symbols are pairs of
the class `all`. Subwords of the larger vocabulary may stay without a partner.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.data.subword import SPECIALS

CLASSES = ("all", "lm", "wf", "ur")
"""The classes of pairs."""

_HEAD = "source\ttarget\tclass"


@dataclass(frozen=True)
class WordPairs:
    """Pairs of subwords, in any order.

    Attributes:
        source, target: int64 [P], the ids of each pair.
        kinds: int64 [P], the place of its class in `CLASSES`.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    kinds: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, str]]) -> WordPairs:
        """From (source, target, class) of each pair."""
        table = np.array([(s, t, CLASSES.index(kind)) for s, t, kind in rows], dtype=np.int64).reshape(-1, 3)
        return cls(table[:, 0], table[:, 1], table[:, 2])

    @classmethod
    def by_rank(cls, source_size: int, target_size: int) -> WordPairs:
        """The pairs of two vocabularies if only their sizes are known: every word is in the class `ur`."""
        size = min(source_size, target_size)
        return cls.of((word, word, "all" if word < SPECIALS else "ur") for word in range(size))

    def save(self, path: Path) -> None:
        """Write one pair a line: source id, target id, class."""
        rows = zip(self.source.tolist(), self.target.tolist(), self.kinds.tolist(), strict=True)
        lines = [_HEAD, *(f"{s}\t{t}\t{CLASSES[kind]}" for s, t, kind in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="ascii", newline="\n")

    @classmethod
    def load(cls, path: Path, source_size: int, target_size: int) -> WordPairs:
        """Read what `save` wrote.

        Raises:
            UserError: the file is not a table of pairs of these vocabularies, each subword in one pair at most.
        """
        try:
            head, *lines = path.read_text(encoding="ascii").splitlines()
            fields = (line.split("\t") for line in lines)
            pairs = cls.of((int(s), int(t), kind) for s, t, kind in fields)
            sound = head == _HEAD and all(
                len(set(side.tolist())) == len(side) and np.isin(side, np.arange(size)).all()
                for side, size in ((pairs.source, source_size), (pairs.target, target_size))
            )
        except (ValueError, OverflowError):
            sound = False
        if not sound:
            raise UserError("not the pairs of words of these vocabularies", path, "prepare the store again")
        return pairs

    def count(self) -> dict[str, int]:
        """The number of pairs of each class."""
        return {name: int((self.kinds == index).sum()) for index, name in enumerate(CLASSES)}
