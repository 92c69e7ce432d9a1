"""Plans the evaluations of a training with a budget in minutes, so that they take at most a tenth of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.base.words import counted
from posnmt.data.batch import batches_by_length
from posnmt.run.defaults import AVERAGED, EVALUATING, FEWEST_DEV_PAIRS, FEWEST_EVALUATIONS, evaluations
from posnmt.training.evaluate import spread

EARLY = 1.5
"""Outputs of early evaluations, which often run to their limit, relative to the lengths of the sources."""


class Pace(NamedTuple):
    """Seconds that a machine takes, as measured.

    Attributes:
        update: of an update.
        token: of a token whose likelihood is computed.
        step: of a step of greedy search for a whole batch.
    """

    update: float
    token: float = 0.0
    step: float = 0.0


@dataclass(frozen=True)
class Dev:
    """The lengths of the dev pairs.

    Attributes:
        sources, targets: [N] subwords, without end symbols.
        batch: the most source tokens that are translated together.
    """

    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    batch: int

    def seconds(self, pace: Pace, pairs: int, translates: bool) -> float:
        """The time of an evaluation on so many pairs, spread evenly."""
        part = spread(len(self.sources), pairs)
        sources, targets = self.sources[part], self.targets[part]
        likelihood = pace.token * float(sources.sum() + targets.sum() + 2 * len(part))
        if not translates:
            return likelihood
        steps = sum(int(sources[batch[0]]) + 1 for batch in batches_by_length(sources.tolist(), self.batch))
        return likelihood + EARLY * pace.step * steps


@dataclass(frozen=True)
class Evaluations:
    """Planned evaluations.

    Attributes:
        number: of evaluations; one of an average may be added at the end.
        pairs: of dev that each uses.
        translates: whether the pairs are translated; their likelihood is computed in any case.
        seconds: that one takes.
    """

    number: int
    pairs: int
    translates: bool
    seconds: float

    @property
    def total(self) -> float:
        """Seconds of all, that of an average included."""
        return self.seconds * (self.number + (self.number >= AVERAGED))


def plan_evaluations(
    minutes: float, pace: Pace, dev: Dev, fixed_pairs: int | None = None, translates: bool | None = None
) -> Evaluations:
    """The most thorough evaluations that take at most the share `EVALUATING` of the minutes.

    If they would take more, there are fewer evaluations; if three are still too many, they use fewer pairs of dev; if
    100 are still too many, nothing is translated. Then there may be a single evaluation.

    Args:
        fixed_pairs: how many pairs of dev evaluations must use, if that is fixed.
        translates: whether evaluations must translate, or must not; None: if there is time.

    Raises:
        UserError: not even likelihoods fit.
    """
    allowed, most, whole = EVALUATING * 60 * minutes, evaluations(minutes), len(dev.sources)
    whole = min(whole, fixed_pairs or whole)
    fewest, least = min(FEWEST_EVALUATIONS, most), whole if fixed_pairs else min(whole, FEWEST_DEV_PAIRS)
    ways = (True, False) if translates is None else (translates,)

    def planned(number: int, pairs: int, translated: bool) -> Evaluations:
        return Evaluations(number, pairs, translated, dev.seconds(pace, pairs, translated))

    for translated in ways:
        on_all = planned(most, whole, translated)
        for number in range(most, fewest - 1, -1):
            if (fewer := Evaluations(number, whole, translated, on_all.seconds)).total <= allowed:
                return fewer
        if planned(fewest, least, translated).total <= allowed:
            fits, too_many = least, whole
            while too_many - fits > 1:
                middle = (fits + too_many) // 2
                fits, too_many = (
                    (middle, too_many) if planned(fewest, middle, translated).total <= allowed else (fits, middle)
                )
            return planned(fewest, fits, translated)
    for number in range(fewest - 1, 0, -1):
        if (single := planned(number, least, ways[-1])).total <= allowed:
            return single
    raise _refused(minutes, planned(1, least, ways[-1]), fixed_pairs, translates)


def at_intervals(minutes: float, pace: Pace, dev: Dev, pairs: int, translates: bool, every: int) -> Evaluations:
    """Evaluations every so many updates, whatever they take.

    Args:
        pairs: of dev that each uses.
    """
    each = dev.seconds(pace, pairs, translates)
    number = round(60 * minutes / (pace.update * every + each))
    return Evaluations(max(1, number), pairs, translates, each)


def _refused(minutes: float, least: Evaluations, fixed_pairs: int | None, translates: bool | None) -> UserError:
    how = "with translations" if least.translates else "without translations"
    needed = math.ceil(10 * least.seconds / (EVALUATING * 60)) / 10
    keys = [key for key, written in (("dev_pairs", fixed_pairs), ("dev_bleu", translates)) if written]
    freed = "".join(f", leave train.{key} out" for key in keys)
    return UserError(
        f"one evaluation on {counted(least.pairs, 'dev pair')}, {how}, would take {least.seconds:,.1f} s, and a tenth"
        f" of {counted(minutes, 'minute')}, the most for evaluations, is {6 * minutes:,.1f} s",
        "train.minutes",
        f"give at least {counted(needed, 'minute')}{freed}, or name a smaller dev set (--dev-source, --dev-target)",
    )
