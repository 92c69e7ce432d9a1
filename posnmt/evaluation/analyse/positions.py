"""BLEU by position in the sentence: where outputs have wrong n-grams, and which parts of references they miss.

Precision at a position is the share of the output's n-grams there that the reference matches, with BLEU's clipping per
sentence; the occurrences of a repeated n-gram share its matches equally. Recall at a position is the share of the
reference's n-grams there that occur anywhere in the output. A truncated output has low recall at the end of the
reference; a garbled one has low precision where it is garbled. Figures are 100 times the geometric mean over n = 1 to
4: BLEU without brevity penalty and smoothing. An n-gram counts 1 / n at the position of each of its words. Positions
are tenths of the sentence (relative), or windows of 10 words from its start (absolute), of which the last is open.

Legend: N sentences, W positions: first the tenths, then the windows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posnmt.metrics.metric import BLEU_ORDER
from posnmt.metrics.ngrams import Matches

TENTHS = 10
WINDOW = 10
WINDOWS = 11
SIDES = ("precision", "recall")


def position_counts(matches: Matches) -> np.ndarray:
    """Count matched n-grams by position over the outputs of a system; counts of parts of a test set add up.

    Args:
        matches: n-grams of the orders of BLEU.

    Returns:
        `[2 sides, 4 orders, W, 2]`: output and reference; matched n-grams and all n-grams. Counts are fractional.
    """
    counts = np.zeros((len(SIDES), BLEU_ORDER, TENTHS + WINDOWS, 2))
    for order, sides in enumerate(matches.orders, start=1):
        for number, (side, of_side) in enumerate(zip(sides, matches.lengths, strict=True)):
            for word in range(order):
                for places in _places(side.starts + word, of_side[side.sentences]):
                    for column, weights in enumerate((side.matched, None)):
                        counts[number, order - 1, :, column] += np.bincount(places, weights, TENTHS + WINDOWS) / order
    return counts


def _places(words: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The indices in W of the tenth that contains the middle of each word, and of its window.

    Args:
        words: `[G]` positions of words in their sentences, from 0.
        lengths: `[G]` of these sentences.
    """
    return (2 * words + 1) * TENTHS // (2 * lengths), TENTHS + np.minimum(words // WINDOW, WINDOWS - 1)


def position_curves(counts: np.ndarray) -> dict[str, Any]:
    """The curves of one system from its counts `[2 sides, 4 orders, W, 2]`.

    Returns:
        `relative` and `absolute`, each with `precision` and `recall`: for each position 0 to 100, None if an order has
        no n-grams; and `n`: the number of words of outputs (precision) and references (recall).
    """
    curves: dict[str, Any] = {}
    for kind, part in (("relative", slice(0, TENTHS)), ("absolute", slice(TENTHS, None))):
        sides = dict(zip(SIDES, counts[:, :, part].tolist(), strict=True))
        curves[kind] = {name: [_mean(place) for place in zip(*orders, strict=True)] for name, orders in sides.items()}
        curves[kind]["n"] = {name: [round(total) for _, total in orders[0]] for name, orders in sides.items()}
    return curves


def places() -> dict[str, list[str]]:
    """The labels of the positions, in the order of `position_curves`."""
    return {
        "relative": [f"{100 * tenth // TENTHS}-{100 * (tenth + 1) // TENTHS} %" for tenth in range(TENTHS)],
        "absolute": [f"{WINDOW * window}-{WINDOW * window + WINDOW - 1}" for window in range(WINDOWS - 1)]
        + [f"{WINDOW * (WINDOWS - 1)}-"],
    }


def _mean(orders: tuple[list[float], ...]) -> float | None:
    """100 times the geometric mean of matched / all over the orders."""
    if not all(total for _, total in orders):
        return None
    if not all(matched for matched, _ in orders):
        return 0.0
    return 100 * math.exp(sum(math.log(matched / total) for matched, total in orders) / len(orders))
