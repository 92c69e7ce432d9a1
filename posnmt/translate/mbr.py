"""Minimum Bayes risk: of several translations, the one that is most similar to the others by chrF.

Kumar and Byrne (2004); with samples, Eikema and Aziz (2020).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posnmt.metrics.chrf import chrf_statistics
from posnmt.metrics.scores import CHRF_ORDER, sentence_scores


def expected_similarities(texts: Sequence[str], weights: Sequence[float]) -> NDArray[np.float64]:
    """[n] the mean sentence chrF of each text against all texts, as outputs and references, by their weights.

    Args:
        texts: n translations of one sentence; equal ones count as often as they occur.
        weights: how probable each is, at least 0 and not all 0.
    """
    distinct = list(dict.fromkeys(texts))
    of_text = [distinct.index(text) for text in texts]
    shares = np.bincount(of_text, weights, len(distinct))
    outputs = [output for output in distinct for _ in distinct]
    similarities = sentence_scores("chrf", chrf_statistics(outputs, distinct * len(distinct), CHRF_ORDER))
    return (similarities.reshape(len(distinct), -1) @ (shares / shares.sum()))[of_text]
