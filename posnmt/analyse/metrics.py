"""BLEU, chrF and TER as sums of per-sentence statistics, counted by sacreBLEU.

Each of the three is a function of counts that add up over sentences. So a corpus is scored once, sentence by sentence,
into an array `[N, K]`; the score of any part of it, be it a bin of lengths or a resample, is the score of the sum of
those rows, and equals what sacreBLEU gives for that part alone.

Legend: N sentences, K statistics (BLEU 10: two lengths, matches and totals of orders 1-4; chrF 18: output, reference
and common n-grams of orders 1-6; TER 2: edits and reference length).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posnmt.errors import UserError, nearest

if TYPE_CHECKING:
    import numpy as np
    from sacrebleu.metrics.base import Metric

METRICS = ("bleu", "chrf", "ter")


class Scorer:
    """One metric with one set of references, which are prepared once for every system.

    Args:
        metric: `bleu`, `chrf` or `ter`, each with sacreBLEU's default settings.
        references: N lines, one reference a sentence.
        bleu_tokenizer: sacreBLEU's tokeniser for BLEU; the other two metrics take no notice of it.

    Attributes:
        signature: sacreBLEU's signature, which says how the score was made.

    Raises:
        UserError: an unknown metric or tokeniser, or one whose own software is not installed.
    """

    def __init__(self, metric: str, references: list[str], bleu_tokenizer: str = "13a") -> None:
        self._metric = _metric(metric, references, bleu_tokenizer)
        self.signature = str(self._metric.get_signature())

    def statistics(self, outputs: list[str]) -> np.ndarray:
        """The additive statistics `[N, K]` of N output lines, in the order of the references."""
        import numpy as np

        # sacreBLEU's own significance tests stand on these two methods; its public interface only gives whole corpora.
        return np.array(self._metric._extract_corpus_statistics(outputs, None))

    def score(self, statistics: np.ndarray) -> float | None:
        """The corpus score, 0 to 100 (TER may be higher), of rows `[n, K]`; None when there are none."""
        if not len(statistics):
            return None
        return float(self._metric._compute_score_from_stats(statistics.sum(axis=0).tolist()).score)


def _metric(name: str, references: list[str], bleu_tokenizer: str) -> Metric:
    """sacreBLEU's metric of that name."""
    from sacrebleu.metrics import BLEU, CHRF, TER

    if name == "chrf":
        return CHRF(references=[references])
    if name == "ter":
        return TER(references=[references])
    if name != "bleu":
        raise UserError(f"no metric is called {name!r}", "--metrics", f"choose from {', '.join(METRICS)}")
    if bleu_tokenizer not in BLEU.TOKENIZERS:
        near = nearest(bleu_tokenizer, BLEU.TOKENIZERS)
        hint = f"did you mean {near!r}? " if near else ""
        raise UserError(
            f"sacreBLEU has no tokeniser {bleu_tokenizer!r}",
            "--bleu-tokenizer",
            f"{hint}choose from {', '.join(BLEU.TOKENIZERS)}",
        )
    try:
        # force: sacreBLEU would only warn on standard error of text that looks tokenised; the analysis itself does.
        return BLEU(tokenize=bleu_tokenizer, references=[references], force=True)
    except (RuntimeError, ImportError, OSError) as error:  # no MeCab; or a model that could not be downloaded
        reason = " ".join(str(error).split())
        raise UserError(
            f"the tokeniser {bleu_tokenizer!r} cannot be used: {reason}",
            "--bleu-tokenizer",
            "install what it needs or choose another one",
        ) from None
