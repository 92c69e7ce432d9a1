"""BLEU, chrF and TER from additive sentence statistics, as in sacreBLEU; and the tokenised BLEU of multi-bleu.perl.

Each metric is a function of counts that add up over sentences. A corpus is counted once into an array `[N, K]`; the
score of any part of it, such as a length bin or a resample, is a function of the sum of its rows, and equals the score
that sacreBLEU gives for that part.

Legend: N sentences, R references of each, K statistics (BLEU 10: two lengths, matches and totals of orders 1-4; chrF
18: output, reference and common n-grams of orders 1-6; chrF++ 24: the same, and those of words of orders 1-2; TER 2:
edits, and the mean length of the references, both times a number that makes them integers: R, where all have R).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from posnmt.base.errors import UserError, nearest
from posnmt.base.version import __version__
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
    TER the fewest edits, and the mean length. A reference that a sentence lacks is None.

    Args:
        metric: `bleu`, `chrf` or `ter`, with sacreBLEU's default settings; `chrf++`, its chrF with words of orders 1
            and 2; or `multi-bleu`, as in Moses' multi-bleu.perl: words are separated by ASCII blanks, case matters, and
            there is no smoothing.
        references: N lines, one reference per sentence.
        bleu_tokenizer: sacreBLEU's tokeniser for `bleu`; other metrics ignore it.
        further: R - 1 more texts of N references, or None: see `without_gaps`.
        counts: all numbers of references that sentences of the whole text have; default: those of these N sentences.
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
        further: Sequence[Sequence[str | None]] = (),
        counts: Collection[int] = (),
        ter_characters: bool = False,
    ) -> None:
        self.metric, self._references = metric, [references, *filled(references, further)]
        self._held = [[line is not None for line in text] for text in (references, *further)]
        self._counts = counts or reference_counts(references, further)
        self._ter_characters = ter_characters
        self._words: Callable[[str], Sentence] | None = None
        if metric == "multi-bleu":
            self.signature, self._words = _multi_bleu_signature(self._counts), _ascii_words
        else:
            self.signature = str(_metric(metric, bleu_tokenizer, self._counts).get_signature())
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
        by_reference = np.stack([self._against(outputs, lines * len(systems)) for lines in self._references])
        if self.metric == "ter":
            held = np.tile(np.array(self._held, dtype=np.int64), len(systems))
            return np.split(_ter_of_several(by_reference, held, math.lcm(*self._counts)), len(systems))
        chosen = corpus_scores(self.metric, by_reference).argmax(axis=0)  # the first one of equal scores
        return np.split(np.take_along_axis(by_reference, chosen[None, :, None], axis=0)[0], len(systems))

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


def _ter_of_several(by_reference: np.ndarray, held: np.ndarray, scale: int) -> np.ndarray:
    """The fewest edits and the mean length of the references of n outputs, both times `scale`, `[n, 2]`.

    Args:
        by_reference: edits and length against each of R references, `[R, n, 2]`; of one that is missing, those against
            the first.
        held: which references there are, 1 or 0, `[R, n]`.
        scale: a multiple of all their numbers.
    """
    import numpy as np

    lengths = (by_reference[..., 1] * held).sum(axis=0) * (scale // held.sum(axis=0))
    return np.stack([scale * by_reference[..., 0].min(axis=0), lengths], axis=1)


def without_gaps(references: Sequence[list[str]]) -> tuple[list[str], list[list[str | None]]]:
    """Texts of references with the references of each line first: the first text, and the others with None for gaps.

    An empty line in one of several texts is no reference. A line that is empty in all of them has one empty reference.
    """
    if len(references) == 1:
        return references[0], []
    lines = [[each for each in of_line if each.strip()] or [""] for of_line in zip(*references, strict=True)]
    further = [[line[text] if text < len(line) else None for line in lines] for text in range(1, len(references))]
    return [line[0] for line in lines], further


def filled(first: list[str], further: Iterable[Sequence[str | None]]) -> list[list[str]]:
    """Further references with the first one in place of None. It then counts twice, which matters for TER alone."""
    return [[one if other is None else other for one, other in zip(first, text, strict=True)] for text in further]


def reference_counts(first: list[str], further: Sequence[Sequence[str | None]]) -> set[int]:
    """All numbers of references that sentences have."""
    return {1 + len(further) - of_line.count(None) for of_line in zip(*further, strict=True)} if further else {1}


def _multi_bleu_signature(counts: Collection[int]) -> str:
    """A signature like sacreBLEU's."""
    references = str(*counts) if len(counts) == 1 else "var"
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


def _metric(name: str, bleu_tokenizer: str = "13a", counts: Collection[int] = (1,)) -> Metric:
    """sacreBLEU's metric with this name, for sentences with these numbers of references."""
    from sacrebleu.metrics import BLEU, CHRF, TER

    # The signature contains the number of references. sacreBLEU's types do not know of None, which it accepts.
    references: Any = [["" if text < count else None for count in counts] for text in range(max(counts))]
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
