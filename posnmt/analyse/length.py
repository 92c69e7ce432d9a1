"""Lengths of lines in words, characters or subwords, and how output lengths compare with the reference's.

Lengths are those of the text as given: no begin or end symbol is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from posnmt.analyse.bins import TrainedLengths
from posnmt.errors import UserError

if TYPE_CHECKING:
    import numpy as np

UNITS = ("words", "subwords", "characters")
CountLengths = Callable[[list[str]], list[int]]


def length_unit(unit: str, subword_model: Path | None = None) -> CountLengths:
    """The function that gives the length of each line in a unit.

    Args:
        unit: `words` (separated by blanks), `characters` (Unicode code points, blanks included) or `subwords`.
        subword_model: the SentencePiece `.model` file; for `subwords`, and only for them.

    Raises:
        UserError: an unknown unit, a subword model missing, unreadable or not wanted.
    """
    if unit not in UNITS:
        raise UserError(f"no unit of length is called {unit!r}", "--unit", f"choose from {', '.join(UNITS)}")
    if unit == "subwords":
        if subword_model is None:
            raise UserError("lengths in subwords need the subword model", "--subword-model", "give a .model file")
        return _subword_lengths(subword_model)
    if subword_model is not None:
        raise UserError(
            f"a subword model is given, but lengths are in {unit}", subword_model, "set the unit to subwords"
        )
    if unit == "words":
        return lambda lines: [len(line.split()) for line in lines]
    return lambda lines: [len(line) for line in lines]


def _subword_lengths(path: Path) -> CountLengths:
    """Lengths in the subwords of one SentencePiece model."""
    from posnmt.data.subword import Subwords

    subwords = Subwords.load(path)
    return lambda lines: [len(pieces) for pieces in subwords.encode(lines)]


def trained_lengths(lines: Iterable[str], count: CountLengths) -> TrainedLengths:
    """The shortest and the longest line of a training text that is not empty; both None when all are."""
    shortest = longest = None
    for length in _lengths(lines, count):
        if length:
            shortest = length if shortest is None else min(shortest, length)
            longest = length if longest is None else max(longest, length)
    return TrainedLengths(shortest, longest)


def _lengths(lines: Iterable[str], count: CountLengths, step: int = 10_000) -> Iterator[int]:
    """Length after length, so that a training text of any size needs little memory."""
    remaining = iter(lines)
    while part := list(islice(remaining, step)):
        yield from count(part)


def length_measures(output: np.ndarray, reference: np.ndarray) -> dict[str, float | None]:
    """How long n outputs are beside their references, both `[n]` in one unit.

    Returns:
        `length_difference`: mean of output minus reference; `length_ratio`: summed output by summed reference. None
        where there is no sentence, or no reference to divide by.
    """
    total = int(reference.sum())
    return {
        "length_difference": float((output - reference).mean()) if len(output) else None,
        "length_ratio": float(output.sum()) / total if total else None,
    }
