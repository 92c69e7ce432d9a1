"""The evidence for and against a counterpart of each source sentence in a translation, and the detector that reads it.

First, the translation is cut into the parts that belong to each source sentence, in order, by words and lengths. As in
Gale and Church (1993) and hunalign (Varga et al. 2005), a best path is computed: every sentence gets a run of words of
the output, or none. A run is good if its words translate words of the sentence, if its length is as expected, and if it
begins and ends where sentences of the output do.

The detector is a logistic regression on `Evidence`, fitted on artificial deletions. `benchmarks/completeness.py fit`
prints its coefficients, and `docs/metrics.md` says what it detects. There are two thresholds. The one for two
languages with blanks between words was chosen on human labels of German and English outputs. The other one gives 2 %
false alarms on artificial deletions; the first would give up to 48 % in Japanese.

Legend: N lines, K sentences of all source lines together, J sentences of one source line with n words, T words of its
translation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from posnmt.evaluation.analyse.completeness.words import Line

INSIDE = 2.0
"""The cost of a cut inside a sentence of the output."""
LENGTH = 0.3
"""The weight of the squared deviation of a length from the expected one, in units of its standard deviation."""
VARIANCE = 3.0
"""The variance of a length divided by the expected length; Gale and Church have 6.8, for characters."""
MOST = 4.0
"""The largest cost of a length, and the cost of a sentence without any word."""


def cuts(gains: np.ndarray, expected: Sequence[float], ends: Collection[int], inside_cost: float = INSIDE) -> list[int]:
    """Cut a translation into the parts of J sentences.

    Args:
        gains: `[J, T]` how well each word belongs to each sentence.
        expected: `[J]` expected number of words of each sentence in the output.
        ends: places between words, 1 to T - 1, at which sentences of the output end.
        inside_cost: cost of a cut at another place.

    Returns:
        `[J - 1]` places from 0 to T: sentence j has the words from the cut before it to the cut after it.
    """
    words = gains.shape[1]
    places = np.arange(words + 1)
    lengths = places[:, None] - places  # [to, from]
    inside = np.full(words + 1, inside_cost)
    inside[[0, words, *ends]] = 0.0
    best = np.full(words + 1, -np.inf)
    best[0] = 0.0
    origins = []
    for row, length in zip(gains, expected, strict=True):
        sums = np.concatenate([[0.0], np.cumsum(row)])
        cost = np.minimum(MOST, LENGTH * (lengths - length) ** 2 / (VARIANCE * max(length, 1.0)))
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


FEATURES = ("aligned", "ends", "ratio", "own_ratio")
"""The features of each sentence that the detector reads, in order; see `Evidence`."""


@dataclass(frozen=True)
class Evidence:
    """The evidence of the K sentences of all source lines.

    Attributes:
        aligned: `[K]` A_j, the share of its content words with a counterpart in its part of the translation.
        ends: `[K]` S, sentence ends of the translation minus those of the source line, limited to -1 to 1: the number
            of missing ends says little, because translators join sentences.
        ratio: `[K]` logarithm of the translation's length divided by the length expected from its source line.
        own_ratio: `[K]` the same for the sentence and its part of the translation.
        linked: `[N]` number of content words of each source line that have a counterpart.
    """

    aligned: np.ndarray
    ends: np.ndarray
    ratio: np.ndarray
    own_ratio: np.ndarray
    linked: np.ndarray

    @property
    def features(self) -> np.ndarray:
        """`[K, features]` in the order of `FEATURES`."""
        return np.stack([getattr(self, name) for name in FEATURES], axis=1)


def evidence(
    sources: Sequence[Line],
    translations: Sequence[Line],
    content: Sequence[np.ndarray],
    strengths: Callable[[int], np.ndarray],
    expansion: float,
) -> Evidence:
    """The evidence of all sentences.

    Args:
        sources, translations: N lines.
        content: for each source line `[n]` whether its words are content words.
        strengths: returns for the number of a line `[n, T]` how well words translate each other, 0 without a link.
        expansion: words of a translation for each word of its source.
    """
    rows: list[tuple[float, float, float, float]] = []
    linked = np.zeros(len(sources))
    for number, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        if not source.sentences:
            continue
        table = strengths(number)
        ends = max(-1, min(1, len(translation.sentences) - len(source.sentences)))
        ratio = _log_ratio(len(translation.forms), expansion * len(source.forms))
        for part, own in zip(source.parts, parts(source, translation, table, expansion), strict=True):
            chosen = content[number][part]
            links = np.asarray((table[part, own] > 0).any(axis=1))
            linked[number] += np.count_nonzero(links[chosen])
            shared = links[chosen] if chosen.any() else links
            length = expansion * (part.stop - part.start)
            rows.append((float(shared.mean()), ends, ratio, _log_ratio(own.stop - own.start, length)))
    shared_words, ends_less, ratios, own_ratios = np.array(rows, dtype=float).reshape(-1, len(FEATURES)).T
    return Evidence(shared_words, ends_less, ratios, own_ratios, linked)


def parts(
    source: Line, translation: Line, table: np.ndarray, expansion: float, inside_cost: float = INSIDE
) -> list[slice]:
    """The words of a translation that belong to each sentence of its source line, in order.

    Args:
        table: `[n, T]` how well words translate each other.
        expansion: as in `evidence`.
        inside_cost: as of `cuts`.
    """
    total = len(translation.forms)
    gains = np.stack([table[part].max(axis=0, initial=0.0) for part in source.parts])
    expected = [expansion * (part.stop - part.start) for part in source.parts]
    places = cuts(gains, expected, [end for end in translation.ends if 0 < end < total], inside_cost)
    return [slice(*ends) for ends in pairwise([0, *places, total])]


def _log_ratio(length: float, expected: float) -> float:
    """The logarithm of a ratio of lengths; 1 is added to each, so that it is defined for an empty text."""
    return math.log((length + 1) / (expected + 1))


@dataclass(frozen=True)
class Detector:
    """A fitted detector.

    Attributes:
        intercept: of the log-odds that a sentence is omitted.
        weights: of the features, in the order of `FEATURES`.
        threshold: log-odds above which the sentence counts as omitted.
    """

    intercept: float
    weights: tuple[float, ...]
    threshold: float

    def margins(self, evidence: Evidence) -> np.ndarray:
        """`[K]` log-odds minus the threshold; a sentence above 0 counts as omitted."""
        return self.intercept + evidence.features @ np.array(self.weights) - self.threshold


_COEFFICIENTS = -3.08, (-9.269, -2.746, 0.095, -2.322)
DETECTORS = {True: Detector(*_COEFFICIENTS, threshold=-2.532), False: Detector(*_COEFFICIENTS, threshold=-0.032)}
"""Whether both languages have blanks between words → the detector."""
