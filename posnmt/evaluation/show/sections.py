"""The parts of the page: sections and groups of charts; and helpers for charts of several runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from posnmt.evaluation.report.charts import Chart, Curve
from posnmt.translate.values import Attentions, Positions, StackPositions, TrainedTokens

Side = Literal["encoder", "decoder"]
SIDES: tuple[Side, ...] = ("encoder", "decoder")


@dataclass(frozen=True)
class Sentence:
    """A line that is drawn with its words, and its number in the text."""

    line: int
    attention: Attentions


@dataclass(frozen=True)
class Shown:
    """The values of one run that are drawn.

    Attributes:
        name: of the run on the page.
        number: of the run, for its colour.
        about: its system and its training, in words.
        positions: the effect of its position parts.
        sentences: those drawn with words; empty for a model without attention by head.
        share_from: where the shares of training sentences come from.
    """

    name: str
    number: int
    about: str
    positions: Positions
    sentences: Sequence[Sentence]
    share_from: str = ""

    def stack(self, side: Side) -> StackPositions:
        """Return the effect of the position parts in the encoder or in the decoder."""
        return self.positions.encoder if side == "encoder" else self.positions.decoder


@dataclass(frozen=True)
class Group:
    """Charts that belong together; `opened`: whether the page shows them at first."""

    title: str
    charts: Sequence[Chart]
    opened: bool = True


@dataclass(frozen=True)
class Section:
    """A section of the page: sentences about its figures, and the figures."""

    name: str
    title: str
    sentences: Sequence[str]
    groups: Sequence[Group] = field(default_factory=list)

    @property
    def charts(self) -> list[Chart]:
        """Return the charts of all groups, in the order of the page."""
        return [chart for group in self.groups for chart in group.charts]


def curve(name: str, number: int, values: Iterable[Any]) -> Curve:
    """A curve without intervals; NaN is no value."""
    shown = [None if np.isnan(value) else float(value) for value in values]
    return Curve(name, number, shown, [None] * len(shown))


def on(places: Sequence[int], known: NDArray[Any], values: NDArray[Any]) -> list[float]:
    """The values [W], known at some places, at all `places`; NaN where they are unknown."""
    at = dict(zip(known.tolist(), values.tolist(), strict=True))
    return [at.get(place, np.nan) for place in places]


def marks(
    places: Sequence[int], trained: Sequence[TrainedTokens | None], other: Sequence[TrainedTokens | None] = ()
) -> list[str | None] | None:
    """Whether places occur in the training of all runs, of some runs or of none; None if this is unknown.

    Args:
        places: positions from 0, or distances.
        trained: the trained lengths of each run.
        other: the trained lengths of the stack that positive distances belong to, if that is another one.
    """
    if not trained or None in trained or None in other:
        return None
    lasts = [each.longest - 1 for each in trained if each]
    rights = [each.longest - 1 for each in other if each] or lasts
    words = {0: "unseen", len(lasts): "seen"}
    return [
        words.get(
            sum(abs(place) <= (right if place > 0 else last) for last, right in zip(lasts, rights, strict=True)),
            "partly unseen",
        )
        for place in places
    ]


def within(distances: Iterable[int], length: int) -> list[int]:
    """The distances below a length, in increasing order."""
    return sorted({distance for distance in distances if abs(distance) < length})
