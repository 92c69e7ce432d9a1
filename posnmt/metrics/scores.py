"""Corpus scores from summed statistics, for any number of corpora at once.

Resampling needs millions of scores; sacreBLEU computes them one at a time in Python. The functions here take sums of
sacreBLEU's statistics, and return the same scores.

Legend: `...` any shape (samples, bins, systems), K statistics as in `posnmt.metrics.registry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

BLEU_ORDER = 4
CHRF_ORDER = 6
CHRF_WORD_ORDER = 2  # of chrF++
CHRF_BETA = 2
# Metric → its name, as people write it. The last two are of completeness, in percent, counted by `posnmt.analyse`.
TITLES = {
    "bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER", "multi-bleu": "multi-bleu",
    "aligned_source_words": "Aligned source words", "omitted_sentences": "Omitted sentences",
}  # fmt: skip
# Metric → whether higher scores are better.
HIGHER_IS_BETTER = {
    "bleu": True, "chrf": True, "chrf++": True, "ter": False, "multi-bleu": True,
    "aligned_source_words": True, "omitted_sentences": False,
}  # fmt: skip


def corpus_scores(metric: str, sums: np.ndarray) -> np.ndarray:
    """The score of each corpus, 0 to 100 (TER may be higher): sums of statistics `[..., K]` → scores `[...]`.

    An empty corpus has the score 0, like one empty output and reference. A measure of completeness, or a metric
    with sentence scores from elsewhere, has K = 2: a sum, and the number of which it is the mean.
    """
    if metric in ("chrf", "chrf++"):
        return _chrf(sums)
    if metric == "ter":
        return _ter(sums)
    if metric in ("bleu", "multi-bleu"):
        return _bleu(sums, smooth=metric == "bleu")
    return _mean(sums)


def sentence_scores(metric: str, statistics: np.ndarray) -> np.ndarray:
    """The score of each sentence: statistics `[..., K]` → scores `[...]`.

    These are the scores of sacreBLEU's `sentence_bleu`, `sentence_chrf` and `sentence_ter`: BLEU is smoothed, and skips
    orders for which an output is too short. multi-bleu does not define sentence scores, and is treated like BLEU.
    """
    if metric in ("bleu", "multi-bleu"):
        return _bleu(statistics, smooth=True, effective_order=True)
    return corpus_scores(metric, statistics)


def _bleu(sums: np.ndarray, smooth: bool, effective_order: bool = False) -> np.ndarray:
    """BLEU with sacreBLEU's `exp` smoothing, or without smoothing as in multi-bleu.perl.

    If an order has no n-grams, the score is 0; with `effective_order`, such orders are left out.
    """
    import numpy as np

    output, reference = sums[..., 0], sums[..., 1]
    correct, total = np.split(sums[..., 2:], 2, axis=-1)
    orders = (total > 0).sum(axis=-1)
    scored = (orders >= (1 if effective_order else BLEU_ORDER)) & (correct > 0).any(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(output < reference, np.exp(1 - reference / output), 1.0)
        if smooth:  # orders without matches count 1/2, 1/4 ... matches
            missed = correct == 0
            correct = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), correct)
        logarithms = np.where(total > 0, np.log(correct / total), 0).sum(axis=-1)
        score = 100 * penalty * np.exp(logarithms / orders)
    return np.where(scored, score, 0.0)


def _chrf(sums: np.ndarray) -> np.ndarray:
    """chrF: the F score of precision and recall, each averaged over the orders that both sides have."""
    import numpy as np

    orders = precision = recall = np.zeros(sums.shape[:-1])
    # Order by order, as sacreBLEU adds up: among several references, the last bit decides between equal scores.
    for column in range(0, sums.shape[-1], 3):
        output, reference, common = (sums[..., column + side] for side in range(3))
        counted = (output > 0) & (reference > 0)
        orders = orders + counted
        precision = precision + common * counted / np.maximum(output, 1)
        recall = recall + common * counted / np.maximum(reference, 1)
    orders = np.maximum(orders, 1)
    precision, recall = precision / orders, recall / orders
    weighted = CHRF_BETA**2 * precision + recall
    score = (1 + CHRF_BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    return 100 * score


def _mean(sums: np.ndarray) -> np.ndarray:
    """The mean of scores."""
    import numpy as np

    return sums[..., 0] / np.maximum(sums[..., 1], 1)


def _ter(sums: np.ndarray) -> np.ndarray:
    """TER: edits per reference word; 100 if there are edits but no reference words."""
    import numpy as np

    edits, words = sums[..., 0], sums[..., 1]
    return 100 * np.where(words > 0, edits / np.where(words > 0, words, 1), edits > 0)
