"""BLEU, chrF and TER as sums of per-sentence statistics, as sacreBLEU counts them; and multi-bleu's tokenised BLEU.

Each of them is a function of counts that add up over sentences. So a corpus is counted once, sentence by sentence, into
an array `[N, K]`; the score of any part of it, be it a bin of lengths or a resample, is the score of the sum of those
rows, and equals what sacreBLEU gives for that part alone.

Legend: N sentences, K statistics (BLEU 10: two lengths, matches and totals of orders 1-4; chrF 18: output, reference
and common n-grams of orders 1-6; TER 2: edits and reference length).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from posnmt import __version__
from posnmt.errors import UserError, nearest
from posnmt.metrics.chrf import chrf_statistics
from posnmt.metrics.ngrams import Sentence, bleu_statistics, matches
from posnmt.metrics.scores import BLEU_ORDER, CHRF_ORDER, corpus_scores

if TYPE_CHECKING:
    import numpy as np
    from sacrebleu.metrics.base import Metric

METRICS = ("bleu", "chrf", "ter", "multi-bleu")
# multi-bleu is for text that is tokenised already, so it is measured only when asked for.
DEFAULT_METRICS = ("bleu", "chrf", "ter")
MULTI_BLEU_SIGNATURE = (
    f"nrefs:1|case:mixed|eff:no|tok:blanks|smooth:none|like:multi-bleu.perl|version:posnmt-{__version__}"
)


class Scorer:
    """One metric with one set of references.

    Args:
        metric: `bleu`, `chrf` or `ter`, each with sacreBLEU's default settings; or `multi-bleu`, what Moses's
            multi-bleu.perl gives: words are what ASCII blanks separate, case counts, nothing is smoothed.
        references: N lines, one reference a sentence.
        bleu_tokenizer: sacreBLEU's tokeniser for BLEU; the other metrics take no notice of it.

    Attributes:
        signature: sacreBLEU's signature, which says how the score was made; for multi-bleu one like it.

    Raises:
        UserError: an unknown metric or tokeniser, or one whose own software is not installed.
    """

    def __init__(self, metric: str, references: list[str], bleu_tokenizer: str = "13a") -> None:
        self.metric, self._references = metric, references
        self._words: Callable[[str], Sentence] | None = None
        if metric == "multi-bleu":
            self.signature, self._words = MULTI_BLEU_SIGNATURE, _ascii_words
        else:
            self.signature = str(_metric(metric, bleu_tokenizer).get_signature())
            if metric == "bleu":
                self._words = bleu_words(bleu_tokenizer)

    def statistics(self, outputs: list[str]) -> np.ndarray:
        """The additive statistics `[N, K]` of N output lines, in the order of the references."""
        return self.statistics_of([outputs])[0]

    def statistics_of(self, systems: Sequence[list[str]]) -> list[np.ndarray]:
        """The same of each of several systems, which is quicker together.

        The counts are made by `posnmt.analyse`, many times as fast as by sacreBLEU and with the same result.
        """
        if self._words is not None:
            *of_systems, wanted = ([self._words(line) for line in lines] for lines in (*systems, self._references))
            return [bleu_statistics(shared) for shared in matches(of_systems, wanted, BLEU_ORDER)]
        import numpy as np

        from posnmt.metrics.ter import ter_statistics

        outputs, references = list(chain.from_iterable(systems)), self._references * len(systems)
        if self.metric == "ter":
            counted = ter_statistics(outputs, references)
        else:
            counted = chrf_statistics(outputs, references, CHRF_ORDER)
        return np.split(counted, len(systems))

    def score(self, statistics: np.ndarray) -> float | None:
        """The corpus score, 0 to 100 (TER may be higher), of rows `[n, K]`; None when there are none."""
        return float(corpus_scores(self.metric, statistics.sum(axis=0))) if len(statistics) else None


def _ascii_words(line: str) -> list[bytes]:
    """The words between ASCII blanks: Perl, which reads bytes, does not part words at U+00A0 or U+3000."""
    return line.encode("utf-8").split()


@cache
def bleu_words(tokenizer: str) -> Callable[[str], list[str]]:
    """The function that gives the words of a line as BLEU counts them with one of sacreBLEU's tokenisers.

    Raises:
        UserError: an unknown tokeniser, or one whose own software is not installed.
    """
    metric: Any = _metric("bleu", tokenizer)
    if tokenizer != "13a":
        return lambda line: metric._preprocess_segment(line).split()

    # 13a looks no further than at the character beside it, and so can take what stands between blanks piece by piece;
    # most pieces have been there before.
    @lru_cache(maxsize=2**17)
    def words(piece: str) -> list[str]:
        return metric.tokenizer(piece).split()

    return lambda line: list(chain.from_iterable(map(words, line.rstrip().split(" "))))


def _metric(name: str, bleu_tokenizer: str) -> Metric:
    """sacreBLEU's metric of that name, which has the signature."""
    from sacrebleu.metrics import BLEU, CHRF, TER

    # A signature holds the number of references.
    references = [[""]]
    if name == "chrf":
        return CHRF(references=references)
    if name == "ter":
        return TER(references=references)
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
        return BLEU(tokenize=bleu_tokenizer, references=references, force=True)
    except (RuntimeError, ImportError, OSError) as error:  # no MeCab; or a model that could not be downloaded
        reason = " ".join(str(error).split())
        raise UserError(
            f"the tokeniser {bleu_tokenizer!r} cannot be used: {reason}",
            "--bleu-tokenizer",
            "install what it needs or choose another one",
        ) from None


def ter_search_limits() -> dict[str, int]:
    """The limits of sacreBLEU's search for TER's edits, in words; docs/analyse.md says what they do to long lines."""
    from posnmt.metrics import ter

    return {
        "band": ter.BAND,
        "shift_size": ter.SHIFT_SIZE,
        "shift_distance": ter.SHIFT_DISTANCE,
        "shift_candidates": ter.SHIFT_CANDIDATES,
    }
