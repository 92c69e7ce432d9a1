"""Minimum Bayes risk: of several translations, the one that is most similar to the others by chrF.

Kumar and Byrne (2004); with samples, Eikema and Aziz (2020).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posnmt.metrics.chrf import CHRF, ORDER, chrf_statistics


def expected_similarities(texts: Sequence[str], weights: Sequence[float]) -> NDArray[np.float64]:
    """[n] the mean sentence chrF of each text against all texts, as outputs and references, by their weights.

    Args:
        texts: n different translations of one sentence.
        weights: how probable each is, at least 0 and not all 0.
    """
    outputs = [output for output in texts for _ in texts]
    similarities = CHRF.score(chrf_statistics(outputs, [*texts] * len(texts), ORDER))
    shares: NDArray[np.float64] = similarities.reshape(len(texts), -1) @ (np.asarray(weights) / np.sum(weights))
    return shares
