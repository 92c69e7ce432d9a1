"""BLEU against the position inside the sentence: where in it n-grams are right, and where they are missed.

Precision looks at the output: of its n-grams here, how many are matched by the reference? (These are BLEU's counts,
clipped within the sentence; a repeated n-gram shares its matches among its places.) Recall looks at the reference: of
its n-grams here, how many does the output have anywhere? An output that breaks off loses recall at the end of the
reference; one that is garbled loses precision where it is garbled. At each place the figure is 100 times the geometric
mean over n = 1 to 4: BLEU without brevity penalty and smoothing. An n-gram counts by 1 / n where each of its words is.
Places are tenths of the sentence (relative), or windows of 10 words from its start (absolute), the last one open.

Legend: N sentences, W places: first the tenths, then the windows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from posnmt.metrics.ngrams import Matches
from posnmt.metrics.scores import BLEU_ORDER

if TYPE_CHECKING:
    import numpy as np

TENTHS = 10
WINDOW = 10
WINDOWS = 11
SIDES = ("precision", "recall")


def position_counts(matches: Matches) -> np.ndarray:
    """What is matched where, summed over the outputs of a system and their references; parts of a test set add up.

    Args:
        matches: n-grams of the orders of BLEU.

    Returns:
        `[2 sides, 4 orders, W, 2]`: output side and reference side; n-grams matched, and all; in fractions.
    """
    import numpy as np

    counts = np.zeros((len(SIDES), BLEU_ORDER, TENTHS + WINDOWS, 2))
    for order, sides in enumerate(matches.orders, start=1):
        for number, (side, of_side) in enumerate(zip(sides, matches.lengths, strict=True)):
            for word in range(order):
                for places in _places(side.starts + word, of_side[side.sentences]):
                    for column, weights in enumerate((side.matched, None)):
                        counted = np.bincount(places, weights, TENTHS + WINDOWS)
                        counts[number, order - 1, :, column] += counted / order
    return counts


def _places(words: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tenth in which the middle of each word is, and its window, numbered on from the tenths.

    Args:
        words: `[G]` places of words in their sentences, from 0.
        lengths: `[G]` of these sentences.
    """
    import numpy as np

    return (2 * words + 1) * TENTHS // (2 * lengths), TENTHS + np.minimum(words // WINDOW, WINDOWS - 1)


def position_curves(counts: np.ndarray) -> dict[str, Any]:
    """The curves of one system from its counts `[2 sides, 4 orders, W, 2]`.

    Returns:
        `relative` and `absolute`, each with `precision` and `recall`: for each place 0 to 100, None where an order has
        no n-gram; and `n`, the words of outputs (precision) and references (recall) there.
    """
    curves: dict[str, Any] = {}
    for kind, part in (("relative", slice(0, TENTHS)), ("absolute", slice(TENTHS, None))):
        sides = dict(zip(SIDES, counts[:, :, part].tolist(), strict=True))
        curves[kind] = {name: [_mean(place) for place in zip(*orders, strict=True)] for name, orders in sides.items()}
        curves[kind]["n"] = {name: [round(total) for _, total in orders[0]] for name, orders in sides.items()}
    return curves


def places() -> dict[str, list[str]]:
    """The names of the places, as `position_curves` orders them."""
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
