"""The part of a translation that belongs to each sentence of its source, in order, by its words and its lengths.

As in Gale and Church (1993) and hunalign (Varga et al. 2005), a best path is computed: every sentence gets a run of
words of the output, or none. A run is good if its words translate words of the sentence, if its length is as expected,
and if it begins and ends where sentences of the output do.

Legend: J sentences of the source, T words of the output.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

INSIDE = 2.0
"""The cost of a cut inside a sentence of the output."""
LENGTH = 0.3
"""The weight of the squared deviation of a length from what is expected, in units of its standard deviation."""
VARIANCE = 3.0
"""The variance of a length by the length that is expected; Gale and Church have 6.8, of characters."""
MOST = 4.0
"""The largest cost of a length, and the cost of a sentence without any word."""


def cuts(gains: np.ndarray, expected: Sequence[float], ends: Collection[int], inside_cost: float = INSIDE) -> list[int]:
    """Cut a translation into the parts of J sentences.

    Args:
        gains: `[J, T]` how well each word belongs to each sentence.
        expected: `[J]` words that each sentence would have in the output.
        ends: places between words, 1 to T - 1, at which sentences of the output end.
        inside_cost: of a cut elsewhere.

    Returns:
        `[J - 1]` places from 0 to T: sentence j has the words from the cut before it to the cut behind it.
    """
    words = gains.shape[1]
    places = np.arange(words + 1)
    lengths = places[:, None] - places  # [to, from]
    inside = np.full(words + 1, inside_cost)
    inside[[0, words, *ends]] = 0.0
    best = np.full(words + 1, -np.inf)
    best[0] = 0.0
    origins = []
    for row, wanted in zip(gains, expected, strict=True):
        sums = np.concatenate([[0.0], np.cumsum(row)])
        cost = np.minimum(MOST, LENGTH * (lengths - wanted) ** 2 / (VARIANCE * max(wanted, 1.0)))
        cost = np.where(lengths == 0, MOST, cost)
        paths = best - sums - cost + (sums - inside)[:, None]
        paths[lengths < 0] = -np.inf
        paths[lengths == 0] += np.broadcast_to(inside, paths.shape)[lengths == 0]  # no further cut
        origins.append(paths.argmax(1))
        best = paths.max(1)
    at, chosen = words, []
    for origin in reversed(origins[1:]):
        at = int(origin[at])
        chosen.append(at)
    return chosen[::-1]
