"""What the translation of a sentence, or of several together, must be: how long, with which beginning and terms."""

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
        may_break: whether the symbol between two sentences may follow.
        may_be_unknown: whether `<unk>` may follow.
    """

    only: int | None
    may_end: bool
    may_break: bool = False
    may_be_unknown: bool = False


class Written(NamedTuple):
    """What was written of several sentences.

    Attributes:
        breaks: symbols between two sentences.
        begun: subwords of the last sentence.
    """

    breaks: int
    begun: int


@dataclass(frozen=True)
class Bounds:
    """Bounds of the translation of one sentence, or of several together, in subwords without eos.

    Attributes:
        longest: eos is forced after so many.
        shortest: eos is barred before so many, or before `longest` if that is less; of several sentences for each.
        prefix: the first subwords, also where they are more than `longest`.
        terms: the subwords of terms that it has, in any order, also where they are more than `longest`.
        breaks: symbols between two sentences that it has, fewer only where `longest` ends it; no sentence is empty.
        closed: whether the last word of the prefix must not go on; `constrained_search` alone keeps to it.
        allow_unk: whether `<unk>` may be written.
    """

    longest: int
    shortest: int = 0
    prefix: Sequence[int] = ()
    terms: Sequence[Sequence[int]] = ()
    breaks: int = 0
    closed: bool = False
    allow_unk: bool = False

    @property
    def limit(self) -> int:
        """The largest number of subwords."""
        return max(self.longest, len(self.prefix) + sum(map(len, self.terms)))

    def after(self, step: int, written: Written | None = None) -> Next:
        """What may follow `step` subwords; `written` is given where there are breaks."""
        if step < len(self.prefix):
            return Next(self.prefix[step], may_end=False)
        if step >= self.limit:
            return Next(EOS, may_end=True)
        if written is None:
            return Next(None, step >= self.shortest, may_be_unknown=self.allow_unk)
        complete = written.begun >= max(1, self.shortest)
        is_last = written.breaks == self.breaks
        return Next(None, complete and is_last, complete and not is_last, self.allow_unk)
