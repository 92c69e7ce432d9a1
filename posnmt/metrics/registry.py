"""BLEU, chrF and TER from additive sentence statistics, as in sacreBLEU; and the tokenised BLEU of multi-bleu.perl.

Each metric is a function of counts that add up over sentences. A corpus is counted once into an array `[N, K]`; the
score of any part of it, such as a length bin or a resample, is a function of the sum of its rows, and equals the score
that sacreBLEU gives for that part.

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
# multi-bleu is for tokenised text, so it is not a default.
DEFAULT_METRICS = ("bleu", "chrf", "ter")
MULTI_BLEU_SIGNATURE = (
    f"nrefs:1|case:mixed|eff:no|tok:blanks|smooth:none|like:multi-bleu.perl|version:posnmt-{__version__}"
)


class Scorer:
    """One metric with one set of references.

    Args:
        metric: `bleu`, `chrf` or `ter`, with sacreBLEU's default settings; or `multi-bleu`, as in Moses'
            multi-bleu.perl: words are separated by ASCII blanks, case matters, and there is no smoothing.
        references: N lines, one reference per sentence.
        bleu_tokenizer: sacreBLEU's tokeniser for `bleu`; other metrics ignore it.

    Attributes:
        signature: sacreBLEU's signature; for multi-bleu, a similar one.

    Raises:
        UserError: the metric or the tokeniser is unknown, or its software is not installed.
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
        """The statistics `[N, K]` of each of several systems, faster than one by one.

        Counting does not use sacreBLEU: `posnmt.metrics` is many times as fast, with the same result.
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
        """The corpus score of rows `[n, K]`, 0 to 100 (TER may be higher); None without rows."""
        return float(corpus_scores(self.metric, statistics.sum(axis=0))) if len(statistics) else None


def _ascii_words(line: str) -> list[bytes]:
    """Split a line at ASCII blanks only: Perl, which reads bytes, does not split at U+00A0 or U+3000."""
    return line.encode("utf-8").split()


@cache
def bleu_words(tokenizer: str) -> Callable[[str], list[str]]:
    """The function that splits a line into words for BLEU with one of sacreBLEU's tokenisers.

    Raises:
        UserError: the tokeniser is unknown, or its software is not installed.
    """
    metric: Any = _metric("bleu", tokenizer)
    if tokenizer != "13a":
        return lambda line: metric._preprocess_segment(line).split()

    # 13a depends only on adjacent characters, so the pieces between blanks can be tokenised separately and cached.
    @lru_cache(maxsize=2**17)
    def words(piece: str) -> list[str]:
        return metric.tokenizer(piece).split()

    return lambda line: list(chain.from_iterable(map(words, line.rstrip().split(" "))))


def _metric(name: str, bleu_tokenizer: str) -> Metric:
    """sacreBLEU's metric with this name."""
    from sacrebleu.metrics import BLEU, CHRF, TER

    # The signature contains the number of references.
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
        # force: do not warn about text that looks tokenised, as the analysis does so itself.
        return BLEU(tokenize=bleu_tokenizer, references=references, force=True)
    except (RuntimeError, ImportError, OSError) as error:  # no MeCab; or a model that could not be downloaded
        reason = " ".join(str(error).split())
        raise UserError(
            f"the tokeniser {bleu_tokenizer!r} cannot be used: {reason}",
            "--bleu-tokenizer",
            "install what it needs or choose another one",
        ) from None


def ter_search_limits() -> dict[str, int]:
    """The limits of sacreBLEU's search for TER's edits, in words; docs/analyse.md has their effect on long lines."""
    from posnmt.metrics import ter

    return {
        "band": ter.BAND,
        "shift_size": ter.SHIFT_SIZE,
        "shift_distance": ter.SHIFT_DISTANCE,
        "shift_candidates": ter.SHIFT_CANDIDATES,
    }
