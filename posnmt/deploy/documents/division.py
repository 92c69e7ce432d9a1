"""A document divided into sentences, and put together again from their translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from posnmt.deploy.documents.raw import Document
from posnmt.deploy.documents.segment import Kept, Segment, Sentence, divide, has_letters, join


class Translated(Protocol):
    """What `Division` reads of the translation of a sentence."""

    @property
    def text(self) -> str:
        """Return the text of the translation."""
        ...

    @property
    def passed(self) -> bool:
        """Say whether the translation is the sentence itself, which needs none."""
        ...


class Division:
    """The sentences of a document that are translated.

    Args:
        document: the document.
        language: the code of its language, whose rules divide segments into sentences.
        is_whole: whether a segment is translated only where all its sentences are.
        as_one: whether a segment is one sentence.

    Attributes:
        texts: the sentences, each with its line in the document.
    """

    def __init__(self, document: Document, language: str, is_whole: bool = False, as_one: bool = False) -> None:
        self._document, self._is_whole = document, is_whole
        segments = [each for each in document.segments if each.has_letters]
        self._parts = [_Divided(each, divide(each, language, as_one)) for each in segments]
        self._blank = len(document.segments) - len(self._parts)
        self.texts = [(each, part.segment.line) for part in self._parts for each in part.lettered]

    def content(self, translated: Mapping[int, Translated]) -> bytes:
        """The document with the translations of its sentences.

        Args:
            translated: the translations by the identity of the sentence. A sentence without one stays as it is.
        """
        for part in self._parts:
            part.place(translated, self._is_whole)
        return self._document.content()

    def notes(self) -> list[str]:
        """What became of the document's texts, as lines for people, after `content`."""
        parts, document = self._parts, self._document
        through = sum(part.through for part in parts)
        done = sum(part.is_done for part in parts)
        passed = [Kept(each.segment.line, each.text, "text without words") for each in parts if each.segment.passes]
        notes = [f"{through:,} of {len(self.texts):,} sentences in {len(parts):,} segments are translated"]
        if self._blank:
            notes.append(f"{self._blank:,} segments without letters are left as they are")
        sums = ledger(done, [*document.kept, *passed], len(parts) - len(passed) - done)
        return [*notes, *sums, *document.notes]


@dataclass
class _Divided:
    """A segment and its sentences, with the translations of those that have letters; None: one that is refused."""

    segment: Segment
    sentences: list[Sentence]
    results: list[Translated | None] = field(default_factory=list)

    @property
    def lettered(self) -> list[Sentence]:
        return [each for each in self.sentences if has_letters(each.text)]

    @property
    def text(self) -> str:
        return " ".join(each.text for each in self.sentences)

    @property
    def is_done(self) -> bool:
        """Whether the whole segment is translated, and written."""
        return self.segment.translated is not None and None not in self.results

    @property
    def through(self) -> int:
        """Sentences that went through the model, of a segment that is written."""
        written = self.segment.translated is not None
        return sum(written and each is not None and not each.passed for each in self.results)

    def place(self, translated: Mapping[int, Translated], is_whole: bool) -> None:
        """Fill the segment; if it `is_whole`, only where all its sentences are translated."""
        self.results = [translated.get(id(each)) for each in self.lettered]
        if all(each is not None and each.passed for each in self.results):
            self.segment.passes = True
        elif (all if is_whole else any)(each is not None for each in self.results):
            texts = [translated[id(each)].text if id(each) in translated else each.text for each in self.sentences]
            placed = [each.place(text) for each, text in zip(self.sentences, texts, strict=True)]
            self.segment.translated = join(self.sentences, placed)


def ledger(translated: int, kept: Sequence[Kept], refused: int) -> list[str]:
    """What became of a document's texts with letters, as lines for people.

    Args:
        translated: the number of texts that are translated.
        kept: those that the document's reader did not hand over, and those that are addresses or placeholders alone.
        refused: the number of texts that the engine refused, or a sentence of them.
    """
    total = translated + len(kept) + refused
    sums = [f"{total:,} texts with letters: {translated:,} translated, {len(kept):,} kept, {refused:,} refused"]
    lines: dict[str, list[int]] = {}
    for each in kept:
        lines.setdefault(each.reason, []).append(each.line)
    places = (f"{len(at):,} {reason} (first in line {min(at):,})" for reason, at in lines.items())
    return [*sums, f"kept: {', '.join(places)}"] if kept else sums
