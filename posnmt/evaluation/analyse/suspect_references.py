"""References that may be wrong: they are flagged, never deleted. A decision is robust if neither filter changes it.

Legend: M models, N sentences.
"""

from __future__ import annotations

import numpy as np

from posnmt.evaluation.analyse.bins import bin_numbers
from posnmt.evaluation.analyse.crossed import models_by_seed
from posnmt.evaluation.analyse.losses import Losses
from posnmt.evaluation.analyse.zones import Support, merged_bins

DEVIATIONS = 2
CONSISTENT = 1.4826
"""Makes the median absolute deviation of a normal distribution its standard deviation."""
WORST = 0.05


def unusual_ratios(losses: Losses) -> np.ndarray:
    """`[N]` whether ln(target / source subwords) is unusual for the source length.

    It is unusual if it differs from the median of its bin by more than 2 x 1.4826 MAD, or if a side has no subwords.
    """
    known = (losses.source_lengths > 0) & (losses.target_lengths > 0)
    lines = np.arange(len(known))
    ratios = np.log(np.where(known, losses.target_lengths, 1) / np.where(known, losses.source_lengths, 1))
    bins = merged_bins(losses.source_lengths, lambda mask: Support.of(lines[mask], losses.documents[mask]).status)
    numbers = bin_numbers(losses.source_lengths, bins)
    unusual = ~known
    for number in range(len(bins)):
        inside = (numbers == number) & known
        if inside.any():
            away = np.abs(ratios - np.median(ratios[inside]))
            unusual |= inside & (away > DEVIATIONS * CONSISTENT * np.median(away[inside]))
    return unusual


def worst_by_average(losses: Losses, share: float = WORST) -> np.ndarray:
    """`[N]` whether a sentence is among the `share` with the largest mean loss, averaged over the systems.

    Every system has the same weight, whatever the number of its seeds, so that the choice favours no system.
    """
    sentences = len(losses.documents)
    counts = np.bincount(losses.sentence, minlength=sentences)
    weights = np.zeros(len(losses.models))
    systems = models_by_seed(losses.models)
    for of_system in systems.values():
        weights[list(of_system.values())] = 1 / len(of_system) / len(systems)
    sums = np.bincount(losses.sentence, weights @ losses.losses, minlength=sentences)
    average = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
    worst = np.zeros(sentences, dtype=bool)
    worst[np.argsort(-average, kind="stable")[: int(share * (counts > 0).sum())]] = True
    return worst
