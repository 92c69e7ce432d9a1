"""Score models on the references of a test, in all designs; models that share a vocabulary are compared by subword.

One design swaps a short and a long preceding sentence, so that the same target subwords stand in a short and in a long
text: every scored sentence stands once after a short and once after a long sentence of its document. The number of
sentences, their boundary and the scored subwords are the same in both texts; the length differs, and so does the
content of the preceding sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.config.schema import Positions
from posnmt.data.exposure import exposure, percentile
from posnmt.data.marks import mark_for
from posnmt.evaluation.analyse.by_character import CharacterLosses, character_csv
from posnmt.evaluation.analyse.designs import AFTER_BOUNDARY
from posnmt.evaluation.analyse.likelihood import (
    BLOCK,
    Design,
    EncodedTest,
    Expected,
    Reached,
    document_numbers,
    expect,
    losses_of,
)
from posnmt.evaluation.analyse.losses import AFTER_LONG, AFTER_SHORT, PLAIN, SHIFTED, Losses, Scored
from posnmt.evaluation.analyse.zones import longest_reached
from posnmt.run.run import Run

SHORT = 0.9
"""Joined with a short sentence, a source is no longer than this quantile of the training sources."""

MOST = 10
"""The maximum number of scored sentences of a document, so that no document dominates."""


def swap_designs(test: EncodedTest, source_counts: NDArray[np.int64]) -> tuple[Design, Design] | None:
    """The sentences of a test after a short and after a long sentence of their documents; None if none has both.

    After a long sentence, the joined source is longer than training reaches. If a document has several short or long
    sentences, the nearest one is used, the earlier one of two that are equally near. If more than `MOST` sentences of a
    document can be scored, evenly spaced ones are.

    Args:
        test: sentences in the order of their documents.
        source_counts: int64 [L+1], training sources by length.
    """
    short, long = percentile(source_counts, SHORT), longest_reached(exposure(source_counts))
    rows: list[tuple[int, int, int]] = []
    usable = (test.source_lengths > 0) & (test.target_lengths > AFTER_BOUNDARY)
    for document in np.unique(test.documents):
        places = np.flatnonzero((test.documents == document) & usable)
        triples = [_with_neighbours(place, places, test.source_lengths, short, long) for place in places.tolist()]
        rows += _evenly([each for each in triples if each is not None])
    if not rows:
        return None
    sentences, after_short, after_long = np.array(rows, dtype=np.int64).T
    return Design(sentences, after_short), Design(sentences, after_long)


def _with_neighbours(
    place: int, places: NDArray[np.int64], lengths: NDArray[np.int64], short: int, long: int
) -> tuple[int, int, int] | None:
    """A sentence, the nearest that makes a short text with it, and the nearest that makes a long one."""
    others = places[places != place]
    near = others[np.lexsort((others, np.abs(others - place)))]
    joined = lengths[near] + lengths[place]
    after_short, after_long = near[joined <= short], near[joined > long]
    return (place, int(after_short[0]), int(after_long[0])) if len(after_short) and len(after_long) else None


def _evenly(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """At most `MOST` of the rows of a document, evenly spaced."""
    if len(rows) <= MOST:
        return rows
    return [rows[place] for place in np.linspace(0, len(rows) - 1, MOST).round().astype(int)]


Say = Callable[[str], None]


@dataclass(frozen=True)
class Model:
    """A run that is scored.

    Attributes:
        scored: its system, as the report calls it, and its seed.
        run: of its training.
        checkpoint, positions: see `Translator.load`; positions None: those of the run's configuration.
    """

    scored: Scored
    run: Run
    checkpoint: str = "model"
    positions: Positions | None = None


@dataclass(frozen=True)
class Test:
    """The text that is scored.

    Attributes:
        sources, targets: lines.
        documents: the document of each line; empty if documents are not known.
        to: the target language, for models with several.
    """

    __test__ = False  # for pytest, which takes it for a test

    sources: Sequence[str]
    targets: Sequence[str]
    documents: Sequence[str] = ()
    to: str | None = None


class Scoring:
    """The losses of models on a test.

    Attributes:
        groups: the models, those that share a vocabulary together.
        designs: by name. There is no swap if no sentence has both a short and a long sentence in its document, if the
            documents are not known, or if vocabularies differ.
        notes: remarks about the test and the models.
        losses: name of a design -> those of each group; after `score`.
    """

    def __init__(self, models: Sequence[Model], test: Test, swap: bool = False, shift: int | None = None) -> None:
        of_vocabulary: dict[str, list[Model]] = {}
        for model in models:
            of_vocabulary.setdefault(model.run.text_hash(), []).append(model)
        self.groups = list(of_vocabulary.values())
        self.notes: list[str] = []
        self.losses: dict[str, list[Losses]] = {}
        self._reached = [Reached.of(group[0].run) for group in self.groups]
        for (first, *further), reached in zip(self.groups, self._reached, strict=True):
            others = [model.scored.name for model in further if not reached.same_lengths(Reached.of(model.run))]
            if others:
                self.notes.append(f"Training lengths are those of {first.scored.name}; {', '.join(others)} had others.")
        if not test.documents:
            self.notes.append(f"There are no document ids: each {BLOCK} lines count as a document.")
        numbers = document_numbers(test.documents, len(test.sources))
        self._tests = [_encoded(group[0].run, test, numbers) for group in self.groups]
        plain = Design.plain(self._tests[0])
        self.designs = {PLAIN: plain}
        if swap:
            self.designs |= self._swapped(bool(test.documents))
        if shift is not None and len(self.groups) > 1:
            self.notes.append("No positions were shifted: the models have different subwords.")
        elif shift is not None:
            self.designs |= {f"{SHIFTED}{side}": design for side, design in plain.shifted(shift).items()}

    def score(self, say: Say) -> None:
        """Score all models; `say` is called with progress."""
        expected = [self._expected(*each, say) for each in zip(self.groups, self._tests, strict=True)]
        for name, design in self.designs.items():
            self.losses[name] = [
                losses_of(test, design, group[name], reached)
                for test, group, reached in zip(self._tests, expected, self._reached, strict=True)
            ]

    def by_character(self) -> str:
        """Bits per character, as CSV: the only measure by which models with different vocabularies can be compared."""
        pieces = [group[0].run.text().target.subwords.pieces for group in self.groups]
        return character_csv(CharacterLosses.of(list(zip(self.losses[PLAIN], pieces, strict=True))))

    def _swapped(self, has_documents: bool) -> dict[str, Design]:
        """The designs of a swap, if there are any."""
        if len(self.groups) > 1 or not has_documents:
            why = "the models have different subwords" if len(self.groups) > 1 else "there are no document ids"
            self.notes.append(f"No sentence was scored after a short and after a long one: {why}.")
            return {}
        swapped = swap_designs(self._tests[0], self._reached[0].source)
        if swapped is None:
            self.notes.append("No sentence has both a short and a long enough one in its document.")
            return {}
        return dict(zip((AFTER_SHORT, AFTER_LONG), swapped, strict=True))

    def _expected(self, group: Sequence[Model], test: EncodedTest, say: Say) -> dict[str, list[Expected]]:
        """Name of a design -> the predictions of each model of a group."""
        by_design: dict[str, list[Expected]] = {name: [] for name in self.designs}
        for model in group:
            say(f"scoring with {model.scored.name}")
            expected = expect(model.run, test, self.designs, model.checkpoint, model.positions)
            for name, each in expected.items():
                by_design[name].append(replace(each, model=model.scored))
        return by_design


def undefined(losses: Mapping[str, Sequence[Losses]]) -> Iterator[str]:
    """Notes on the models that are not defined in all sentences of a design, since their position tables are short.

    Args:
        losses: design -> the losses of each group of models that share a vocabulary.

    Raises:
        UserError: no sentence fits the position tables of all models.
    """
    for name, groups in losses.items():
        models = [
            (model.name, row) for each in groups for model, row in zip(each.models, ~np.isnan(each.ends), strict=True)
        ]
        kept = np.logical_and.reduce([defined for _, defined in models])
        for model, defined in models:
            if not defined.all():
                count, total = int(defined.sum()), len(defined)
                yield (
                    f"{model} is undefined where a text is longer than its position table: defined in"
                    f" {count:,} of {total:,} sentences ({count / total:.1%}) of {name};"
                    f" {int(kept.sum()):,} are compared."
                )
        if not kept.any():
            what = f"in {name}, no sentence fits the position tables of all models"
            raise UserError(what, todo="leave the model with the shortest table out")


def _encoded(run: Run, test: Test, documents: np.ndarray) -> EncodedTest:
    """The test in the subwords of a run."""
    mark = "" if test.to is None else mark_for(test.to, run.known_marks)
    return EncodedTest.of(run.text().marked(mark), test.sources, test.targets, documents)
