"""BLEU, chrF and TER from additive sentence statistics, as in sacreBLEU; and the tokenised BLEU of multi-bleu.perl.

Each metric is a function of counts that add up over sentences. A corpus is counted once into an array `[N, K]`; the
score of any part of it, such as a length bin or a resample, is a function of the sum of its rows, and equals the score
that sacreBLEU gives for that part.

Legend: N sentences, R references of each, K statistics (BLEU 10: two lengths, matches and totals of orders 1-4; chrF
18: output, reference and common n-grams of orders 1-6; chrF++ 24: the same, and those of words of orders 1-2; TER 2:
edits times R, and the length of all R references, so that both are integers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from posnmt import __version__
from posnmt.errors import UserError, nearest
from posnmt.metrics.chrf import chrf_statistics
from posnmt.metrics.ngrams import Sentence, bleu_statistics, matches, overlap_statistics
from posnmt.metrics.scores import BLEU_ORDER, CHRF_ORDER, CHRF_WORD_ORDER, corpus_scores

if TYPE_CHECKING:
    import numpy as np
    from sacrebleu.metrics.base import Metric

METRICS = ("bleu", "chrf", "chrf++", "ter", "multi-bleu")
# multi-bleu is for tokenised text, so it is not a default.
DEFAULT_METRICS = ("bleu", "chrf", "ter")


class Scorer:
    """One metric with the references of N sentences.

    Several references of a sentence count as in sacreBLEU: for BLEU an n-gram may occur as often as in the reference
    that has most of it, and the closest length counts; for chrF the reference with the best score of the sentence; for
    TER the fewest edits, and the mean length.

    Args:
        metric: `bleu`, `chrf` or `ter`, with sacreBLEU's default settings; `chrf++`, its chrF with words of orders 1
            and 2; or `multi-bleu`, as in Moses' multi-bleu.perl: words are separated by ASCII blanks, case matters, and
            there is no smoothing.
        references: N lines, one reference per sentence.
        bleu_tokenizer: sacreBLEU's tokeniser for `bleu`; other metrics ignore it.
        further: R - 1 more texts of N references.
        ter_characters: whether TER counts characters, as sacreBLEU's TER does for characters that blanks separate; for
            text without blanks between words.

    Attributes:
        signature: sacreBLEU's signature, with `tok:char` where TER counts characters; for multi-bleu, a similar one.

    Raises:
        UserError: the metric or the tokeniser is unknown, or its software is not installed.
    """

    def __init__(
        self,
        metric: str,
        references: list[str],
        bleu_tokenizer: str = "13a",
        *,
        further: Sequence[list[str]] = (),
        ter_characters: bool = False,
    ) -> None:
        self.metric, self._references = metric, [references, *further]
        self._ter_characters = ter_characters
        self._words: Callable[[str], Sentence] | None = None
        count = len(self._references)
        if metric == "multi-bleu":
            self.signature, self._words = _multi_bleu_signature(count), _ascii_words
        else:
            self.signature = str(_metric(metric, bleu_tokenizer, count).get_signature())
            if metric == "bleu":
                self._words = bleu_words(bleu_tokenizer)
        if metric == "ter" and ter_characters:
            self.signature = self.signature.replace("|tok:tercom|", "|tok:char|")

    def statistics(self, outputs: list[str]) -> np.ndarray:
        """The additive statistics `[N, K]` of N output lines, in the order of the references."""
        return self.statistics_of([outputs])[0]

    def statistics_of(self, systems: Sequence[list[str]]) -> list[np.ndarray]:
        """The statistics `[N, K]` of each of several systems, faster than one by one.

        Counting does not use sacreBLEU: `posnmt.metrics` is many times as fast, with the same result.
        """
        if self._words is not None:
            words = self._words
            of_systems, (first, *further) = (
                [[words(line) for line in lines] for lines in texts] for texts in (systems, self._references)
            )
            return [bleu_statistics(shared) for shared in matches(of_systems, first, BLEU_ORDER, further)]
        import numpy as np

        outputs = list(chain.from_iterable(systems))
        by_reference = [self._against(outputs, references * len(systems)) for references in self._references]
        return np.split(_best(self.metric, np.stack(by_reference)), len(systems))

    def _against(self, outputs: list[str], references: list[str]) -> np.ndarray:
        """The statistics `[n, K]` of chrF, chrF++ or TER of outputs against one reference each."""
        import numpy as np

        if self.metric == "ter":
            from posnmt.metrics.ter import ter_statistics

            if self._ter_characters:
                outputs, references = ([" ".join(line) for line in lines] for lines in (outputs, references))
            return ter_statistics(outputs, references)
        characters = chrf_statistics(outputs, references, CHRF_ORDER)
        if self.metric == "chrf":
            return characters
        words: Any = _metric("chrf++")._remove_punctuation  # type: ignore[attr-defined]
        of_outputs, of_references = ([words(line) for line in lines] for lines in (outputs, references))
        (shared,) = matches([of_outputs], of_references, CHRF_WORD_ORDER)
        return np.concatenate([characters, overlap_statistics(shared)], axis=1)

    def score(self, statistics: np.ndarray) -> float | None:
        """The corpus score of rows `[n, K]`, 0 to 100 (TER may be higher); None without rows."""
        return float(corpus_scores(self.metric, statistics.sum(axis=0))) if len(statistics) else None


def _best(metric: str, by_reference: np.ndarray) -> np.ndarray:
    """Combine the statistics of chrF, chrF++ or TER against each of R references, `[R, n, K]`: `[n, K]`."""
    import numpy as np

    if metric == "ter":
        edits, lengths = by_reference[..., 0], by_reference[..., 1]
        return np.stack([len(by_reference) * edits.min(axis=0), lengths.sum(axis=0)], axis=1)
    chosen = corpus_scores(metric, by_reference).argmax(axis=0)  # the first one of equal scores
    return np.take_along_axis(by_reference, chosen[None, :, None], axis=0)[0]


def _multi_bleu_signature(references: int) -> str:
    """A signature like sacreBLEU's."""
    return (
        f"nrefs:{references}|case:mixed|eff:no|tok:blanks|smooth:none|like:multi-bleu.perl|version:posnmt-{__version__}"
    )


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


def check_bleu_tokenizer(name: str) -> None:
    """Refuse a tokeniser that sacreBLEU has not; whether its software is installed is not looked at.

    Raises:
        UserError: it is unknown.
    """
    from sacrebleu.metrics import BLEU

    if name not in BLEU.TOKENIZERS:
        near = nearest(name, BLEU.TOKENIZERS)
        hint = f"did you mean {near!r}? " if near else ""
        todo = f"{hint}choose from {', '.join(BLEU.TOKENIZERS)}"
        raise UserError(f"sacreBLEU has no tokeniser {name!r}", "--bleu-tokenizer", todo)


def _metric(name: str, bleu_tokenizer: str = "13a", count: int = 1) -> Metric:
    """sacreBLEU's metric with this name, for some number of references."""
    from sacrebleu.metrics import BLEU, CHRF, TER

    # The signature contains the number of references.
    references = [[""]] * count
    if name in ("chrf", "chrf++"):
        return CHRF(word_order=0 if name == "chrf" else CHRF_WORD_ORDER, references=references)
    if name == "ter":
        return TER(references=references)
    if name != "bleu":
        raise UserError(f"no metric is called {name!r}", "--metrics", f"choose from {', '.join(METRICS)}")
    check_bleu_tokenizer(bleu_tokenizer)
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
