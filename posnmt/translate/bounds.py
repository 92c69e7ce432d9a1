"""Constraints on the translation of a sentence, or of several together: its length, its prefix and its terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from posnmt.config.schema import Decode
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
    """How far the translation of several sentences has come.

    Attributes:
        breaks: the number of symbols between two sentences.
        length: the number of subwords in the last sentence.
    """

    breaks: int
    length: int


@dataclass(frozen=True)
class Bounds:
    """Bounds of the translation of one sentence, or of several together, in subwords without eos.

    Attributes:
        longest: eos is forced after this many subwords.
        shortest: eos is not allowed before this many subwords, or before `longest` if that is less. Of several
            sentences, each must be this long.
        prefix: the first subwords, even if they are more than `longest`.
        terms: the subwords of each term that must occur, in any order, even if they are more than `longest`.
        breaks: the number of symbols between two sentences. There are fewer only if `longest` ends the translation, and
            no sentence is empty.
        closed: whether the last word of the prefix is complete, so that no subword may continue it; only
            `constrained_search` obeys this.
        allow_unk: whether `<unk>` is allowed.
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
        """The largest number of subwords that the translation may contain."""
        return max(self.longest, len(self.prefix) + sum(map(len, self.terms)))

    def after(self, step: int, written: Written | None = None) -> Next:
        """What may follow `step` subwords; `written` is needed where there are breaks."""
        if step < len(self.prefix):
            return Next(self.prefix[step], may_end=False)
        if step >= self.limit:
            return Next(EOS, may_end=True)
        if written is None:
            return Next(None, step >= self.shortest, may_be_unknown=self.allow_unk)
        complete = written.length >= max(1, self.shortest)
        is_last = written.breaks == self.breaks
        return Next(None, complete and is_last, complete and not is_last, self.allow_unk)


def output_limit(decode: Decode, source: int, longest: int | None, sentences: int = 1) -> int:
    """The largest number of output subwords for a source of so many subwords, of one sentence or several.

    Args:
        longest: entries of the decoder's position table, which holds bos and the output; None: no limit.
    """
    limit = int(decode.max_ratio * source) + decode.max_extra * sentences
    return limit if longest is None else min(limit, longest - 1)
