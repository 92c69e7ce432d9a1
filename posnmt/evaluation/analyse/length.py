"""The lengths of a training text, and the distribution of output lengths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from posnmt.data.length_unit import CountLengths
from posnmt.evaluation.analyse.bins import TrainedLengths

# More classes are not readable.
MOST_CLASSES = 60


def trained_lengths(lines: Iterable[str], count: CountLengths) -> TrainedLengths:
    """The shortest and longest line of a training text, without empty lines; both None if all are empty."""
    shortest = longest = None
    for length in _lengths(lines, count):
        if length:
            shortest = length if shortest is None else min(shortest, length)
            longest = length if longest is None else max(longest, length)
    return TrainedLengths(shortest, longest)


def _lengths(lines: Iterable[str], count: CountLengths, step: int = 10_000) -> Iterator[int]:
    """Yield the lengths, counted in steps, so that a training text of any size needs little memory."""
    remaining = iter(lines)
    while part := list(islice(remaining, step)):
        yield from count(part)


def length_distribution(
    output_lengths: Sequence[np.ndarray], reference_lengths: np.ndarray, rows: np.ndarray
) -> dict[str, Any] | None:
    """The distribution of output lengths of some sentences (Neishi and Yoshinaga 2019, Figure 5).

    Args:
        output_lengths: for each system `[N]`.
        reference_lengths: `[N]`.
        rows: indices of the sentences, such as those of a bin.

    Returns:
        `first`: the first length of each class, at most `MOST_CLASSES`; `width`: of all classes; `reference`, and
        `systems` for each system: the number of sentences in each class. None without sentences.
    """
    if not len(rows):
        return None
    chosen = [lengths[rows] for lengths in (reference_lengths, *output_lengths)]
    shortest, longest = min(each.min() for each in chosen), max(each.max() for each in chosen)
    width = int(longest - shortest) // MOST_CLASSES + 1
    shortest -= shortest % width
    classes = int(longest - shortest) // width + 1
    counts = [np.bincount((each - shortest) // width, minlength=classes).tolist() for each in chosen]
    first = [int(shortest) + width * number for number in range(classes)]
    return {"first": first, "width": width, "reference": counts[0], "systems": counts[1:]}
