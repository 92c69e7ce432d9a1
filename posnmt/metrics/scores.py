"""Corpus scores from summed statistics, any number of corpora at once.

sacreBLEU scores one corpus at a time in Python; resampling needs millions of scores. Each function here takes sums of
statistics as sacreBLEU lays them out and gives sacreBLEU's score for every one of them.

Legend: `...` any shape (samples, bins, systems), K statistics as in `posnmt.metrics.registry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

BLEU_ORDER = 4
CHRF_ORDER = 6
CHRF_BETA = 2
# One more point of these is a better translation; of TER, a worse one.
HIGHER_IS_BETTER = {"bleu": True, "chrf": True, "ter": False, "multi-bleu": True}


def corpus_scores(metric: str, sums: np.ndarray) -> np.ndarray:
    """The score, 0 to 100 (TER may be higher), of each corpus: sums of statistics `[..., K]` → scores `[...]`.

    A corpus without sentences has the score of one empty output and one empty reference: 0.
    """
    if metric == "chrf":
        return _chrf(sums)
    if metric == "ter":
        return _ter(sums)
    return _bleu(sums, smooth=metric == "bleu")


def sentence_scores(metric: str, statistics: np.ndarray) -> np.ndarray:
    """The score of each sentence by itself: statistics `[..., K]` → scores `[...]`.

    As sacreBLEU's `sentence_bleu`, `sentence_chrf` and `sentence_ter` have it: BLEU leaves out the orders for which an
    output is too short, and is smoothed. multi-bleu, which has no measure of sentences, is treated likewise.
    """
    if metric in ("bleu", "multi-bleu"):
        return _bleu(statistics, smooth=True, effective_order=True)
    return corpus_scores(metric, statistics)


def _bleu(sums: np.ndarray, smooth: bool, effective_order: bool = False) -> np.ndarray:
    """BLEU with sacreBLEU's `exp` smoothing, or with none as in multi-bleu.perl.

    An order without n-grams makes the score 0; with `effective_order` it is left out.
    """
    import numpy as np

    output, reference = sums[..., 0], sums[..., 1]
    correct, total = np.split(sums[..., 2:], 2, axis=-1)
    orders = (total > 0).sum(axis=-1)
    scored = (orders >= (1 if effective_order else BLEU_ORDER)) & (correct > 0).any(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(output < reference, np.exp(1 - reference / output), 1.0)
        if smooth:  # each order without a match counts half as many matches as the one before it: 1/2, 1/4 ...
            missed = correct == 0
            correct = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), correct)
        logarithms = np.where(total > 0, np.log(correct / total), 0).sum(axis=-1)
        score = 100 * penalty * np.exp(logarithms / orders)
    return np.where(scored, score, 0.0)


def _chrf(sums: np.ndarray) -> np.ndarray:
    """chrF: precision and recall averaged over the orders that both sides have, then one F score."""
    import numpy as np

    counts = sums.reshape(*sums.shape[:-1], CHRF_ORDER, 3)
    output, reference, common = counts[..., 0], counts[..., 1], counts[..., 2]
    counted = (output > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    precision = (common * counted / np.maximum(output, 1)).sum(axis=-1) / orders
    recall = (common * counted / np.maximum(reference, 1)).sum(axis=-1) / orders
    weighted = CHRF_BETA**2 * precision + recall
    score = (1 + CHRF_BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    return 100 * score


def _ter(sums: np.ndarray) -> np.ndarray:
    """TER: edits by reference words; edits without any reference word count as 100."""
    import numpy as np

    edits, words = sums[..., 0], sums[..., 1]
    return 100 * np.where(words > 0, edits / np.where(words > 0, words, 1), edits > 0)
