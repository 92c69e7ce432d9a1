"""How often the training text has each length and each subword, as runs record it.

Shapes: L longest length, V vocabulary entries.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.base.output import write_text

_HISTOGRAM = re.compile(r"[0-9]{1,18}:[0-9]{1,18}( [0-9]{1,18}:[0-9]{1,18})*")

MOST = 1 << 24
"""Longest sentence of a histogram that is read, in subwords."""


def histogram(lengths: NDArray[np.int32]) -> str:
    """The lengths of the sentences [N] as `length:sentences` in ascending order, such as `3:10 4:25`."""
    values, counts = np.unique(lengths, return_counts=True)
    return " ".join(f"{value}:{count}" for value, count in zip(values, counts, strict=True))


def sentences_by_length(text: str) -> NDArray[np.int64]:
    """int64 [L+1]: the sentences of each length from 0 on, from what `histogram` wrote.

    Raises:
        ValueError: `histogram` did not write this.
    """
    if not _HISTOGRAM.fullmatch(text):
        raise ValueError("not a histogram of lengths")
    pairs = np.array([each.split(":") for each in text.split(" ")], dtype=np.int64)
    if pairs[-1, 0] > MOST or (np.diff(pairs[:, 0]) <= 0).any() or (pairs[:, 1] <= 0).any():
        raise ValueError("lengths do not ascend, or one has no sentence")
    counts = np.zeros(int(pairs[-1, 0]) + 1, dtype=np.int64)
    counts[pairs[:, 0]] = pairs[:, 1]
    return counts


def exposure(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64 [L]: the share of sentences with more than p subwords, for p = 0 .. L-1, from the counts [L+1] by length.

    All shares are above 0; beyond the longest sentence they would be 0.
    """
    longer = counts[::-1].cumsum()[::-1]  # [L+1] sentences of at least p subwords
    shares: NDArray[np.float64] = longer[1:] / longer[0]
    return shares


def percentile(counts: NDArray[np.int64], share: float) -> int:
    """The smallest length such that at least this share of sentences is not longer."""
    return int(np.searchsorted(counts.cumsum(), share * counts.sum(), side="left"))


def write_counts(path: Path, counts: NDArray[np.int64]) -> None:
    """Write how often each subword [V] occurs, a line for each, in the order of ids."""
    write_text(path, "".join(f"{count}\n" for count in counts.tolist()))


def read_counts(path: Path, size: int) -> NDArray[np.int64]:
    """int64 [V]: the counts in a file of `write_counts`, for a vocabulary of this size.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        what = "the run does not say how often its training text has each subword"
        raise UserError(what, path, "train it again with this version of posnmt") from None
    except (OSError, UnicodeDecodeError):
        lines = []
    if len(lines) != size or not all(re.fullmatch("[0-9]{1,18}", line) for line in lines):
        raise UserError(f"not the counts of {size:,} subwords", path, "copy the run again from its origin")
    return np.array(lines, dtype=np.int64)
