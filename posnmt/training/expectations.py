"""What to expect of a training, from what trainings of ours have reached. docs/expect.md shows the table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from posnmt.config.schema import Config

LABELS = ("weak", "usable", "as good as this corpus gives")
"""In order; see `Reached.label`."""

USABLE = 30.0
"""BLEU from which on a translator is called usable: Google's guide calls 30 to 40 "understandable to good"
(https://cloud.google.com/translate/automl/docs/evaluate#bleu)."""

NEAR = 1.5
"""A corpus is near if its pairs and its median length are within this factor."""


class Reached(NamedTuple):
    """What a training had after so many updates.

    Attributes:
        bleu: as in the source, which names the test set and the tokeniser.
        full: whether a training of at least twice as many updates had no more than a point above it.
    """

    updates: int
    bleu: float
    full: bool = False

    @property
    def label(self) -> int:
        """The number of its label in `LABELS`."""
        return 0 if self.bleu < USABLE else 2 if self.full else 1


class Measured(NamedTuple):
    """A corpus on which trainings were measured.

    Attributes:
        name: with the kind of text.
        pairs: of the training corpus.
        median: length of its sources in subwords, with the subwords that are chosen for it.
        reached: in order of updates.
        source: the pages with the figures.
    """

    name: str
    pairs: int
    median: float
    reached: tuple[Reached, ...]
    source: str


MINUTES, LEARNING, SPEED = "docs/results/minutes.md", "benchmarks/notes/learning.md", "benchmarks/notes/performance.md"
ROADS = "benchmarks/notes/roads.md"

TABLE = (
    Measured(
        "short sentences (Tanaka En-Ja)", 50_000, 8,
        (Reached(520, 22.9), Reached(1000, 29.1), Reached(2578, 34.5)), f"{LEARNING} {SPEED} {MINUTES}",
    ),
    Measured(
        "image captions (Multi30k En-De)", 29_000, 13,
        (Reached(520, 23.0), Reached(1000, 29.6), Reached(3134, 37.3, full=True)), f"{LEARNING} {SPEED} {MINUTES}",
    ),
    Measured("image captions (9,000 pairs of Multi30k En-De)", 9000, 14, (Reached(400, 17.9),), MINUTES),
    Measured("manual pages (En-De)", 42_464, 23, (Reached(1274, 23.7),), MINUTES),
    Measured("documentation (Python's, En-Ja)", 28_472, 25, (Reached(1381, 18.8),), MINUTES),
    Measured("encyclopedia articles (Kyoto Ja-En)", 79_489, 21, (Reached(863, 0.5),), ROADS),
    Measured("news (De-En)", 29_768, 29, (Reached(1528, 2.2),), MINUTES),
)  # fmt: skip


@dataclass(frozen=True)
class Expectation:
    """What to expect of a training.

    Attributes:
        label: one of `LABELS`, "weak to usable" or another range of them; None if no figure of ours is near.
        near: the corpus that it rests on.
        rests_on: its figures that it rests on.
    """

    label: str | None = None
    near: Measured | None = None
    rests_on: tuple[Reached, ...] = ()

    def __str__(self) -> str:
        if self.label is None or self.near is None:
            return "unknown; no figure of ours is near this training"
        figures = " and ".join(f"{each.bleu} BLEU after {each.updates:,} updates" for each in self.rests_on)
        return f"{self.label}, if your text is like {self.near.name}, which had {figures}"


def expectation(pairs: int, median: float, updates: int) -> Expectation:
    """What to expect of so many updates of the model that the table is for (`is_measured`).

    More updates are taken to be no worse. So a training is at least what the last figure at or below its updates says,
    and at most what the first figure at or above them says.

    Args:
        pairs: of the training corpus.
        median: length of its sources, in subwords.
    """
    near = nearest(pairs, median)
    if near is None:
        return Expectation()
    below = [each for each in near.reached if each.updates <= updates][-1:]
    above = [each for each in near.reached if each.updates >= updates][:1]
    least = max((each.label for each in below), default=0)
    most = min((each.label for each in above), default=len(LABELS) - 1)
    if least == most:
        return Expectation(LABELS[least], near, tuple(below if least else above))
    if above:
        return Expectation(f"{LABELS[least]} to {LABELS[most]}", near, tuple(below + above))
    return Expectation(LABELS[least], near, tuple(below)) if least else Expectation()


def nearest(pairs: int, median: float) -> Measured | None:
    """The measured corpus that is nearest in pairs and length; None if none is near."""

    def distances(each: Measured) -> tuple[float, float]:
        return abs(math.log(pairs / each.pairs)), abs(math.log(max(median, 1) / each.median))

    near = [each for each in TABLE if max(distances(each)) <= math.log(NEAR)]
    return min(near, key=lambda each: sum(distances(each)), default=None)


def is_measured(config: Config) -> bool:
    """Whether the table is for such trainings: the small model, new, with relative positions or sinusoids."""
    model, train = config.model, config.train
    size = (model.d_model, model.encoder.layers, model.decoder.layers)
    batch = (train.batch, train.batch_unit, train.accumulate)
    return (
        model.system in ("relative", "transformer")
        and size == (256, 3, 3)
        and batch == (1024, "tokens", 1)
        and train.init is None
    )
