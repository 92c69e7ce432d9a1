"""Likelihood by position: losses of the subwords of references, from trained models.

Each run is a model of its own, not part of an ensemble. A `Design` determines which sentences are scored, what stands
before them and where positions begin. The scores of every design are `Losses`.

Legend: N sentences of a test, n sentences of a design.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.config.schema import Positions
from posnmt.data.exposure import exposure
from posnmt.data.subword import BREAK
from posnmt.data.text import TextPipeline
from posnmt.evaluation.analyse.losses import SIDES, Losses, Scored
from posnmt.run.run import Run
from posnmt.translate.subwords import Forced, force_subwords
from posnmt.translate.translator import Translator

BLOCK = 20
"""Lines that count as one document where there are no document ids."""

BATCH = 4096
"""Most padded subwords of a batch; affects speed only."""


def document_numbers(ids: Sequence[str], lines: int) -> NDArray[np.int64]:
    """int64 [N]: the number of the document of each line, from 0; without ids, blocks of `BLOCK` lines."""
    if not ids:
        return np.arange(lines, dtype=np.int64) // BLOCK
    numbers = {name: number for number, name in enumerate(dict.fromkeys(ids))}
    return np.array([numbers[each] for each in ids], dtype=np.int64)


@dataclass(frozen=True)
class EncodedTest:
    """A test text in the subwords of a vocabulary, without special symbols.

    Attributes:
        sources, targets: subwords of each sentence [N].
        characters: [N] of the references in NFC.
        documents: [N] their documents, numbers from 0.
    """

    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]
    characters: NDArray[np.int64]
    documents: NDArray[np.int64]

    @classmethod
    def of(
        cls, text: TextPipeline, sources: Sequence[str], targets: Sequence[str], documents: NDArray[np.int64]
    ) -> EncodedTest:
        """Encode aligned lines as subwords, and count the characters of the references in NFC."""
        characters = np.array([len(unicodedata.normalize("NFC", line)) for line in targets], dtype=np.int64)
        return cls(text.source.encode(list(sources)), text.target.encode(list(targets)), characters, documents)

    @cached_property
    def source_lengths(self) -> NDArray[np.int64]:
        """Return the number of subwords of each source sentence: int64 [N]."""
        return np.array([len(each) for each in self.sources], dtype=np.int64)

    @cached_property
    def target_lengths(self) -> NDArray[np.int64]:
        """Return the number of subwords of each reference: int64 [N]."""
        return np.array([len(each) for each in self.targets], dtype=np.int64)


@dataclass(frozen=True)
class Design:
    """Which sentences of a test are scored, and how.

    Attributes:
        sentences: int64 [n], their places in the test.
        before: int64 [n], the sentence before each of them, on both sides; None: each stands alone.
        shift: positions at which the source and the target begin.
    """

    sentences: NDArray[np.int64]
    before: NDArray[np.int64] | None = None
    shift: tuple[int, int] = (0, 0)

    @classmethod
    def plain(cls, test: EncodedTest) -> Design:
        """Build the design in which the model reads each sentence alone."""
        return cls(np.arange(len(test.sources)))

    def shifted(self, by: int) -> dict[str, Design]:
        """The same design with positions that begin at a number: on the source, on the target, and on both."""
        shifts = zip(SIDES, ((by, 0), (0, by), (by, by)), strict=True)
        return {name: replace(self, shift=shift) for name, shift in shifts}

    def texts(self, side: Sequence[Sequence[int]], between: Sequence[int]) -> list[list[int]]:
        """[n] the subwords of one side as the model reads them, with `between` between two sentences."""
        if self.before is None:
            return [list(side[place]) for place in self.sentences]
        return [
            [*side[first], *between, *side[place]]
            for first, place in zip(self.before.tolist(), self.sentences.tolist(), strict=True)
        ]

    def lengths(self, of_sentences: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n] the number of content subwords that are read, from that of each sentence [N] of a side."""
        own: NDArray[np.int64] = of_sentences[self.sentences]
        return own if self.before is None else own + of_sentences[self.before]


@dataclass(frozen=True)
class Expected:
    """The predictions of one model in one design.

    Attributes:
        model: the model.
        forced: [n] those of each scored sentence; None: undefined, since a text is longer than a position table.
    """

    model: Scored
    forced: list[Forced | None]

    @property
    def defined(self) -> NDArray[np.bool_]:
        """Say of each scored sentence whether it has predictions: bool [n]."""
        return np.array([each is not None for each in self.forced], dtype=np.bool_)


def named(run: Run) -> Scored:
    """The model of a run: its named system, or its folder if it has none, and its seed."""
    model = run.config.model
    system = model.system or run.folder.resolve().name
    return Scored(
        run.folder.resolve().name,
        f"{system} without {model.without}" if model.without else system,
        run.config.train.seed,
    )


def expect(
    run: Run,
    test: EncodedTest,
    designs: Mapping[str, Design],
    checkpoint: str = "model",
    positions: Positions | None = None,
) -> dict[str, Expected]:
    """The predictions of a run's model in each design, by the full forward pass in at least float32.

    Args:
        test: in the subwords of the run.
        checkpoint, positions: see `Translator.load`.

    Raises:
        UserError: positions are shifted, and the model has none; or as `Translator.load`.
    """
    translator = Translator.load([run], checkpoint, positions)
    [model] = translator.models
    between = [BREAK] if run.config.train.context else []
    expected = {}
    for name, design in designs.items():
        if not model.shift(*design.shift) and any(design.shift):
            what = f"the architecture {model.config.architecture} has no positions that could be shifted"
            raise UserError(what, run.folder, "leave --shift out, or score this run in a command of its own")
        sources, targets = (design.texts(side, between) for side in (test.sources, test.targets))
        fits = [
            _fits(source, model.longest_source) and _fits(target, model.longest_target)
            for source, target in zip(sources, targets, strict=True)
        ]
        places = np.flatnonzero(fits).tolist()
        whole = force_subwords(
            model, [sources[n] for n in places], [targets[n] for n in places], BATCH, translator.device
        )
        forced: list[Forced | None] = [None] * len(sources)
        for place, each in zip(places, whole, strict=True):
            own = len(test.targets[design.sentences[place]]) + 1
            forced[place] = Forced(each.losses[-own:], each.ends[-own:])
        expected[name] = Expected(named(run), forced)
    return expected


def _fits(tokens: Sequence[int], longest: int | None) -> bool:
    """Whether a position table is long enough for subwords and one special symbol."""
    return longest is None or len(tokens) < longest


@dataclass(frozen=True)
class Reached:
    """What a training has seen: lengths of both sides, and subwords of the target.

    Attributes:
        source, target: int64 [L+1], training sentences of each length in content subwords.
        counts: int64 [V], of the target subwords.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, run: Run) -> Reached:
        """What the training of a run has seen.

        Raises:
            UserError: the run does not have it.
        """
        return cls(*run.sentences_by_length, run.target_counts(run.text().target.size))

    def same_lengths(self, other: Reached) -> bool:
        """Whether two trainings had the same lengths."""
        return np.array_equal(self.source, other.source) and np.array_equal(self.target, other.target)


def losses_of(test: EncodedTest, design: Design, expected: Sequence[Expected], reached: Reached) -> Losses:
    """The losses of models in one design; NaN where a model is undefined.

    Positions are counted in the scored sentence, even if another sentence stands before it.

    Args:
        expected: of each model.
        reached: by the training.
    """
    places = design.sentences
    own = test.target_lengths[places]
    forced = [
        [each or _undefined(length) for each, length in zip(model.forced, own.tolist(), strict=True)]
        for model in expected
    ]
    subwords = list(chain.from_iterable(test.targets[place] for place in places))
    total = reached.counts.sum()
    return Losses(
        losses=np.array([_joined([each.losses[:-1] for each in model]) for model in forced]),
        ends=np.array([[each.losses[-1] for each in model] for model in forced]),
        early_ends=np.array([[_mean(each.ends[:-1]) for each in model] for model in forced]),
        sentence=np.repeat(np.arange(len(places)), own),
        position=_joined([np.arange(length) for length in own]).astype(np.int64),
        subword=np.array(subwords, dtype=np.int64),
        source_lengths=design.lengths(test.source_lengths),
        target_lengths=design.lengths(test.target_lengths),
        characters=test.characters[places],
        documents=np.unique(test.documents[places], return_inverse=True)[1],
        models=[each.model for each in expected],
        source_exposure=exposure(reached.source),
        target_exposure=exposure(reached.target),
        unigrams=reached.counts / total if total else np.zeros(len(reached.counts)),
    )


def _undefined(length: int) -> Forced:
    """The predictions of a model that lacks the positions of a text, for a target of so many subwords: NaN."""
    nothing = np.full(length + 1, np.nan)
    return Forced(nothing, nothing)


def _joined(rows: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *rows])


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")
