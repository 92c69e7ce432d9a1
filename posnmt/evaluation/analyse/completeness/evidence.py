"""What speaks for and against a counterpart of each sentence of the source in a translation.

Legend: N lines, K sentences of all source lines together, n words of a source line, T words of its translation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from posnmt.evaluation.analyse.completeness.segmentation import INSIDE, cuts
from posnmt.evaluation.analyse.completeness.split import Line

FEATURES = ("aligned", "ends", "ratio", "own_ratio")
"""What the detector reads of each sentence, in order; see `Evidence`."""


@dataclass(frozen=True)
class Evidence:
    """The evidence of the K sentences of all source lines.

    Attributes:
        aligned: `[K]` A_j, the share of its content words with a counterpart in its part of the translation.
        ends: `[K]` S, sentence ends of the translation minus those of the source line, from -1 to 1: how many it lacks
            says less than that it lacks some, because translators join sentences.
        ratio: `[K]` logarithm of the translation's length by the length that its source line leads one to expect.
        own_ratio: `[K]` the same of the sentence and its part of the translation.
        linked: `[N]` content words of each source line that have a counterpart.
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
        content: of each source line `[n]` whether its words are content words.
        strengths: of the number of a line: `[n, T]` how well words translate each other, 0 without a link.
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
    """The logarithm of a ratio of lengths, each one longer, so that an empty text has one."""
    return math.log((length + 1) / (expected + 1))
