"""Which pairs of a list of corpora each pass of a training has.

A corpus of N pairs with the weight w has each of them ⌊w⌋ times in a pass, and a part of them once more. The pairs take
turns in an order that is drawn from (seed, corpus): passes 0 to e - 1 have the next ⌊e f N⌋ of this endless cycle, f
being w - ⌊w⌋. So after e passes each pair has been read e·w times, rounded down or up, wherever the training begins.

A corpus may be used in a share of the training only. The shares divide the training into stages. An update, or a pass
where the length of the training is given in passes, belongs to the stage in which it begins; where updates are counted,
a new stage begins a new pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.config.corpora import ListedCorpus


class Mixture:
    """The pairs of each pass.

    Args:
        of: the number of the corpus of each pair, [N].
        corpora: their sections of the configuration.
        seed: of the order in which pairs take turns.
        updates: of the whole training; None if its length is given in passes.
        passes: of the whole training; None if its length is given in updates.
        batches: of an update.

    Attributes:
        stages: how many there are.

    Raises:
        UserError: a corpus is used in so small a share that no update or pass begins there.
    """

    def __init__(
        self,
        of: NDArray[np.int64],
        corpora: Sequence[ListedCorpus],
        seed: int,
        updates: int | None = None,
        passes: int | None = None,
        batches: int = 1,
    ) -> None:
        self._counts_passes, length, unit = updates is None, updates or passes or 1, batches if updates else 1
        shares = sorted({0.0, *(each.begin for each in corpora), *(each.until for each in corpora)} - {1.0})
        starts = [ceil(_exact(share) * length) for share in shares]
        self.stages = len(shares)
        self._starts = [start * unit for start in starts]
        self._spans = [Fraction(end - start, length) for start, end in zip(starts, [*starts[1:], length], strict=True)]
        self._used = [[each.begin <= share < each.until for each in corpora] for share in shares]
        for number, each in enumerate(corpora):
            if not any(span and used[number] for span, used in zip(self._spans, self._used, strict=True)):
                called = "passes" if self._counts_passes else "updates"
                what = f"this corpus is never used: none of the {length:,} {called} begins between its from and until"
                todo = f"from is {each.begin:g} and until is {each.until:g}: change them, or train longer"
                raise UserError(what, f"data.train.{number}", todo)
        self._members = [np.flatnonzero(of == number) for number in range(len(corpora))]
        self._weights = [_exact(each.weight) for each in corpora]
        self._places = []
        for number, members in enumerate(self._members):
            order = np.random.default_rng([seed, number, len(corpora)]).permutation(len(members))
            self._places.append(np.argsort(order))  # of each pair in the cycle

    def stage(self, number: int, taken: int) -> int:
        """The stage of a pass, or of the update that begins after so many batches."""
        here = number if self._counts_passes else taken
        return max(stage for stage, start in enumerate(self._starts) if start <= here)

    def pass_(self, number: int, stage: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pairs of a pass in a stage, and how often each has been read before."""
        pairs, times = [], []
        for corpus in self._in(stage):
            members, places, weight = self._members[corpus], self._places[corpus], self._weights[corpus]
            count, whole = len(members), int(weight)
            first, end = (int(passes * (weight - whole) * count) for passes in (number, number + 1))
            # how often the cycle has been at each pair before this pass
            before = number * whole + (first - places + count - 1) // max(1, count)
            for turn in range(whole):
                pairs.append(members)
                times.append(before + turn)
            again = (places - first) % max(1, count) < end - first
            pairs.append(members[again])
            times.append(before[again] + whole)
        return np.concatenate(pairs), np.concatenate(times)

    def every(self, stage: int) -> NDArray[np.int64]:
        """The pairs of a stage, each as often as the fullest of its passes has it."""
        return np.concatenate([np.tile(self._members[each], ceil(self._weights[each])) for each in self._in(stage)])

    def spans(self) -> Sequence[Fraction]:
        """The share of the training that each stage has."""
        return self._spans

    def _in(self, stage: int) -> list[int]:
        return [corpus for corpus, used in enumerate(self._used[stage]) if used]


def in_a_pass(corpora: Sequence[ListedCorpus], of: NDArray[np.int64]) -> int:
    """The mean number of pairs of a pass, over the whole training; all of them without a list of corpora.

    Args:
        of: the number of the corpus of each pair, [N].
    """
    if not corpora:
        return len(of)
    sizes = np.bincount(of, minlength=len(corpora)).tolist()
    spans = zip(sizes, corpora, strict=True)
    return round(sum(size * each.weight * (each.until - each.begin) for size, each in spans))


def _exact(number: float) -> Fraction:
    """A number as it is written in decimals."""
    return Fraction(str(number))
