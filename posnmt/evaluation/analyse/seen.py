"""Test sentences that occur in training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.run.run import Run


@dataclass(frozen=True)
class Seen:
    """How many sentences of a test text occur in a training text.

    Attributes:
        sentences: number of sentences of the test text that are not empty.
        sources: number of those whose source is in the training text.
        pairs: number of those whose source and a reference are a pair of the training text; None if its targets are
            not known.
        place: the file of the training text, or the folder of its store.
    """

    sentences: int
    sources: int
    pairs: int | None
    place: str

    @property
    def warnings(self) -> list[str]:
        """A sentence if many sources occur."""
        from posnmt.data.suspicions import OVERLAP

        if self.sources <= OVERLAP * self.sentences:
            return []
        pairs = "" if self.pairs is None else f", {self.pairs:,} with a reference as its translation"
        return [
            f"{self.sources:,} of {self.sentences:,} test sentences are in the training text {self.place}{pairs}:"
            " scores of systems that were trained on it are too good."
        ]


def training_store(run: Run) -> Path | None:
    """The folder of the store that a run was trained on; None if it no longer exists."""
    from posnmt.data.prepare import store_folder

    try:
        folder = store_folder(run.config.data, str(run.record.get("data", "")))
    except UserError:  # it was somewhere that this machine does not have
        return None
    return folder if (folder / "manifest.json").exists() else None


def seen_in_store(folder: Path, sources: Sequence[str], references: Sequence[Sequence[str]]) -> Seen:
    """The test sentences that have the same subwords as training pairs in a store, whatever mark is before these.

    Args:
        folder: of the store.
        sources, references: aligned lines.

    Raises:
        UserError: no store, or a damaged one.
    """
    from posnmt.data.store import Store
    from posnmt.data.suspicions import contained

    store = Store.open(folder)
    rows = [number for number, line in enumerate(sources) if line.strip()]
    text = store.text
    encoded = text.source.encode([sources[row] for row in rows])
    targets = [text.target.encode([lines[row] for row in rows]) for lines in references]
    marks = text.source.subwords.encode(text.source.marks)
    return Seen(len(rows), *contained(store.split("train"), encoded, targets, marks), str(folder))


class Watch:
    """Finds test sentences among the lines of a training text as these are read; ignores blanks around a line."""

    def __init__(self, sources: Sequence[str], place: str) -> None:
        self._place = place
        self._sources = [_digest(line) for line in sources if line.strip()]
        self._wanted, self._passed = set(self._sources), set[bytes]()

    def passing(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines unchanged, and remember which test sentences are among them."""
        for line in lines:
            if (digest := _digest(line)) in self._wanted:
                self._passed.add(digest)
            yield line

    @property
    def seen(self) -> Seen:
        """Return how many test sentences were among the lines that have passed."""
        return Seen(len(self._sources), sum(each in self._passed for each in self._sources), None, self._place)


def _digest(line: str) -> bytes:
    return hashlib.blake2b(line.strip().encode(), digest_size=8).digest()
