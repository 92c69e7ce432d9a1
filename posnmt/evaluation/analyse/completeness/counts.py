"""Rates of few events: exact intervals, jackknife over lines, McNemar's test.

Legend: N lines; a rate is a sum over lines by another sum, such as omitted sentences by all sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posnmt.evaluation.analyse.seeds import t_quantile
from posnmt.evaluation.analyse.significance import sign_p

LEVEL = 0.95


def clopper_pearson(events: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact two-sided interval of a binomial share (Clopper and Pearson 1934)."""
    tail = (1 - level) / 2
    return 1 - upper_bound(trials - events, trials, 1 - tail), upper_bound(events, trials, 1 - tail)


def upper_bound(events: int, trials: int, level: float = LEVEL) -> float:
    """The exact one-sided upper bound of a binomial share, for which so few events have the probability 1 - level."""
    if events >= trials:
        return 1.0
    return _falling(lambda share: _at_most(events, trials, share), 1 - level, 0.0, 1.0)


def _at_most(events: int, trials: int, share: float) -> float:
    """The binomial probability of at most so many events; `share` lies between 0 and 1."""
    counts = np.arange(events + 1)
    ratios = np.log((trials - counts[1:] + 1) / counts[1:])
    logs = np.concatenate([[0.0], np.cumsum(ratios)]) + counts * math.log(share)
    return float(np.exp(logs + (trials - counts) * math.log1p(-share)).sum())


def jackknife(events: np.ndarray, trials: np.ndarray, level: float = LEVEL) -> tuple[float, float] | None:
    """The interval of a rate by the delete-one-line jackknife, with Student's t; None with fewer than two lines.

    Lines are the sampling unit, because a translation that stops early omits several sentences of its line.

    Args:
        events, trials: `[N]` sums of each line, perhaps weighted.
    """
    used = trials > 0
    values, sizes = events[used], trials[used]
    lines = len(values)
    if lines < 2:
        return None
    rate = values.sum() / sizes.sum()
    without = (values.sum() - values) / (sizes.sum() - sizes)
    error = math.sqrt((lines - 1) / lines * float(((without - without.mean()) ** 2).sum()))
    reach = t_quantile((1 + level) / 2, lines - 1) * error
    return float(rate - reach), float(rate + reach)


def rate_of(omitted: np.ndarray, lines: np.ndarray) -> dict[str, Any]:
    """The rate of omitted sentences, each drawn with the same probability.

    Of its interval and its one-sided bound `at_most`, the wider of two is reported: that of the jackknife over lines,
    because a line that stops early loses several sentences; and the exact one, because the jackknife has no interval
    where nothing is omitted.

    Args:
        omitted, lines: `[K]` whether each sentence is omitted, and the number of its line.
    """
    events, trials = int(omitted.sum()), len(omitted)
    if not trials:
        return {"sentences": 0, "omitted": 0, "rate": None, "interval": None, "at_most": None}
    by_line = np.bincount(lines, omitted), np.bincount(lines).astype(float)
    both = [each for each in (clopper_pearson(events, trials), jackknife(*by_line)) if each is not None]
    ends = [upper_bound(events, trials)]
    if (two_sided := jackknife(*by_line, level=2 * LEVEL - 1)) is not None:
        ends.append(two_sided[1])
    return {
        "sentences": trials,
        "omitted": events,
        "rate": events / trials,
        "interval": [max(0.0, min(low for low, _ in both)), min(1.0, max(high for _, high in both))],
        "at_most": min(1.0, max(ends)),
    }


def mcnemar(ones: np.ndarray, others: np.ndarray) -> tuple[int, int, float]:
    """McNemar's exact test on the same sentences: the number of events only of the first, only of the second, and p.

    Args:
        ones, others: booleans of all sentences.
    """
    first, second = int((ones & ~others).sum()), int((others & ~ones).sum())
    return first, second, sign_p(first, second)


def _falling(function: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Where a falling function has a value, by bisection."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > value else (low, middle)
    return (low + high) / 2
