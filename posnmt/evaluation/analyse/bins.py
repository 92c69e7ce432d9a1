"""Bins of sentences by length, and whether their lengths occur in training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Literal

from posnmt.base.errors import UserError
from posnmt.config.numbers import in_digits

if TYPE_CHECKING:
    import numpy as np

DEFAULT_WIDTH = 10
DEFAULT_CHARACTERS = 20  # where lengths count characters
# More bins are not readable in a table or a plot.
MOST_BINS = 200

FEWEST_SENTENCES = 20
"""Figures of fewer sentences say little about other sentences. With 10, "95 %" bootstrap intervals contain the true
value 9 times in 10; with 40, their coverage is correct."""

FEWEST_MERGED = 30
"""Default bins of fewer sentences are joined with their neighbours."""

Mark = Literal["seen", "partly unseen", "unseen"]


@dataclass(frozen=True)
class Bin:
    """The lengths from `first` to `last`, both included; `last` None: no upper end."""

    first: int
    last: int | None

    @property
    def label(self) -> str:
        """`10-19`, or `60-` for the open last bin, or `5` for a single length."""
        if self.last is None:
            return f"{self.first}-"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True)
class TrainedLengths:
    """The lengths of the shortest and the longest source of the training text; None: unknown.

    Attributes:
        each: the lengths of each training, if the systems' trainings differ; `shortest` and `longest` are then of all
            trainings together.
    """

    shortest: int | None = None
    longest: int | None = None
    each: tuple[TrainedLengths, ...] = ()

    @classmethod
    def of_trainings(cls, lengths: Iterable[Sequence[int]]) -> TrainedLengths:
        """The lengths of several trainings, from the shortest and the longest source of each."""
        each = tuple(cls(*ends) for ends in sorted({(shortest, longest) for shortest, longest in lengths}))
        if len(each) < 2:
            return each[0] if each else cls()
        longest = max(one.longest or 0 for one in each)
        return cls(each[0].shortest, longest, each)


def parse_edges(text: str) -> list[int]:
    """Bin edges as they are written: whole numbers with commas.

    Raises:
        UserError: they are written otherwise.
    """
    try:
        return [int(in_digits(edge)) for edge in text.split(",")]
    except ValueError:
        what = f"bin edges are whole numbers with commas; got {text!r}"
        raise UserError(what, "--bin-edges", "for example 10,20,40") from None


def bins_of(
    lengths: np.ndarray, trained: TrainedLengths, characters: bool, width: int | None, edges: list[int] | None
) -> list[Bin]:
    """The bins of a test: by edges, by width, or by default.

    Args:
        lengths: `[N]` of the sources.
        trained: the lengths in training.
        characters: whether lengths count characters, for which default bins are wider.
        width, edges: of the bins; None: not asked for.

    Raises:
        UserError: the edges or the width give no bins, or too many.
    """
    if edges is not None:
        return bins_from_edges(edges)
    if width is not None:
        return bins_of_width(width, trained)
    usual = usual_bins(DEFAULT_CHARACTERS if characters else DEFAULT_WIDTH, trained, int(lengths.max(initial=0)))
    return merged(usual, lengths, trained)


def merged(bins: list[Bin], lengths: np.ndarray, trained: TrainedLengths) -> list[Bin]:
    """Bins of at least `FEWEST_MERGED` sentences: smaller ones are joined, those at the end with the bin before them.

    Lengths that occur in training are not joined with others, so a bin may stay small where there are few of its kind.
    Lengths beyond the longest source are part of the last bin, which has no end. If all bins would be one, they stay as
    they are.

    Args:
        bins: neighbours, from the shortest.
        lengths: `[N]` of the sources.
        trained: the lengths in training.
    """
    import numpy as np

    counts = np.bincount(bin_numbers(lengths, bins))  # up to the last bin with a sentence
    joined: list[Bin] = []
    for _, run in groupby(zip(bins, counts, strict=False), lambda each: mark(each[0], trained)):
        of_mark: list[tuple[Bin, int]] = []
        for each, count in run:
            if of_mark and of_mark[-1][1] < FEWEST_MERGED:
                last, before = of_mark.pop()
                of_mark.append((Bin(last.first, each.last), before + count))
            else:
                of_mark.append((each, count))
        if len(of_mark) > 1 and of_mark[-1][1] < FEWEST_MERGED:
            (rest, few_left), (last, before) = of_mark.pop(), of_mark.pop()
            of_mark.append((Bin(last.first, rest.last), before + few_left))
        joined += [each for each, _ in of_mark]
    return [*joined[:-1], Bin(joined[-1].first, bins[-1].last)] if len(joined) > 1 else bins


def usual_bins(width: int, trained: TrainedLengths, tested: int) -> list[Bin]:
    """The bins of `bins_of_width` with a default width, of which there are never too many.

    If training has far longer sources than the test, the open bin starts beyond the longest source of the test, whose
    length is `tested`.
    """
    most = (MOST_BINS - 2) * width - 1
    if trained.longest is not None and trained.longest > most:
        trained = replace(trained, longest=min(tested, most))
    return bins_of_width(width, trained)


def bins_of_width(width: int, trained: TrainedLengths) -> list[Bin]:
    """Bins of equal width from 0, and an open last bin.

    The open bin starts at six widths (10 gives 0-9, 10-19 ... 50-59, 60-). If training has longer sources, it starts
    one whole bin after the bin of the longest trained length, so that the first lengths beyond training have a bin.

    Raises:
        UserError: a width below 1, or more than `MOST_BINS` bins.
    """
    if width < 1:
        raise UserError(f"the width of a bin is at least 1; got {width}", "--bin-width")
    count = 6 if trained.longest is None else max(6, trained.longest // width + 2)
    _refuse_many(count + 1)  # before there is a list of them
    return bins_from_edges([width * number for number in range(1, count + 1)])


def bins_from_edges(edges: list[int]) -> list[Bin]:
    """Bins from their first lengths. The first bin's may be omitted: 26, 51 gives 0-25, 26-50, 51-.

    Raises:
        UserError: there are no edges, they are negative or not increasing, or there are more than `MOST_BINS` bins.
    """
    firsts = edges if edges and edges[0] == 0 else [0, *edges]
    if not edges or any(later <= earlier for earlier, later in pairwise(firsts)):
        shown = ", ".join(map(str, edges)) or "none"
        raise UserError(f"bin edges must be increasing lengths of 0 or more; got {shown}", "--bin-edges")
    _refuse_many(len(firsts))
    lasts = [*(first - 1 for first in firsts[1:]), None]
    return [Bin(first, last) for first, last in zip(firsts, lasts, strict=True)]


def _refuse_many(count: int) -> None:
    """Raise if there are more than `MOST_BINS` bins."""
    if count > MOST_BINS:
        what, todo = f"{count} bins are too many; the maximum is {MOST_BINS}", "choose a larger width"
        raise UserError(what, "--bin-width, --bin-edges", todo)


def bin_numbers(lengths: np.ndarray, bins: list[Bin]) -> np.ndarray:
    """The index of the bin of each of N lengths, `[N]`."""
    import numpy as np

    return np.searchsorted([each.first for each in bins], lengths, side="right") - 1


def few(sentences: int) -> bool:
    """Whether a bin has sentences, but too few for its figures to say much."""
    return 0 < sentences < FEWEST_SENTENCES


def mark_of(measured: Mapping[str, Any], trained: TrainedLengths) -> Mark | None:
    """The `mark` of a bin of results: of the lengths from its shortest to its longest sentence.

    That of an empty bin is the mark of all its lengths, or None if only some of these occur in training.
    """
    if measured["n"]:
        return mark(Bin(measured["shortest"], measured["longest"]), trained)
    of_lengths = mark(Bin(measured["first"], measured["last"]), trained)
    return None if of_lengths == "partly unseen" else of_lengths


def mark(each: Bin, trained: TrainedLengths) -> Mark | None:
    """Whether all, some or none of the lengths of a bin occur in training; None if the trained lengths are unknown.

    All lengths from the shortest to the longest count as seen, even if some do not occur. A bin that starts at 0 is
    judged from 1 on, since no sentence has length 0. A bin that only some trainings saw is partly unseen.
    """
    if trained == TrainedLengths():
        return None
    if trained.each:
        marks = {mark(each, one) for one in trained.each}
        return marks.pop() if len(marks) == 1 else "partly unseen"
    first = max(each.first, 1)
    last = float("inf") if each.last is None else max(each.last, first)
    shortest = trained.shortest or 0
    longest = float("inf") if trained.longest is None else trained.longest
    if first > longest or last < shortest:
        return "unseen"
    return "seen" if shortest <= first and last <= longest else "partly unseen"
