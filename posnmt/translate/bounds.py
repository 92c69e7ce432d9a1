"""What the translation of a sentence must be: how long, with which beginning, and with which terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from posnmt.data.subword import EOS


class Next(NamedTuple):
    """What may follow a hypothesis.

    Attributes:
        only: the only subword that may follow; None: any.
        may_end: whether eos may follow.
    """

    only: int | None
    may_end: bool


@dataclass(frozen=True)
class Bounds:
    """Bounds of the translation of one sentence, in subwords without eos.

    Attributes:
        longest: eos is forced after so many.
        shortest: eos is barred before so many, or before `longest` if that is less.
        prefix: the first subwords, also where they are more than `longest`.
        terms: the subwords of terms that it has, in any order, also where they are more than `longest`.
    """

    longest: int
    shortest: int = 0
    prefix: Sequence[int] = ()
    terms: Sequence[Sequence[int]] = ()

    @property
    def limit(self) -> int:
        """The largest number of subwords."""
        return max(self.longest, len(self.prefix) + sum(map(len, self.terms)))

    def after(self, step: int) -> Next:
        """What may follow `step` subwords."""
        if step < len(self.prefix):
            return Next(self.prefix[step], may_end=False)
        if step >= self.limit:
            return Next(EOS, may_end=True)
        return Next(None, may_end=step >= self.shortest)
