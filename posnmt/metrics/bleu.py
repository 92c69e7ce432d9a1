"""BLEU as in sacreBLEU, and the tokenised BLEU of Moses' multi-bleu.perl.

With several references, an n-gram may occur as often as in the reference that has it most often, and the reference
length is the one closest to that of the output.

Legend: K = 10 counts: two lengths, matches and totals of orders 1-4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from posnmt.base.errors import UserError, choices
from posnmt.base.version import __version__
from posnmt.metrics.metric import BLEU_ORDER, Counting, Metric, Texts, for_sacrebleu, shown_references
from posnmt.metrics.ngrams import bleu_statistics

if TYPE_CHECKING:
    import numpy as np
    import sacrebleu


class Bleu(Metric):
    """BLEU of words by one of sacreBLEU's tokenisers, with its other settings at their defaults."""

    def count(self, texts: Texts, counting: Counting) -> list[np.ndarray]:
        """Count n-grams and matches as sacreBLEU does, with its tokeniser: `[N, K]` for each system."""
        return [bleu_statistics(shared) for shared in texts.matches(bleu_words(counting.bleu_tokenizer))]

    def score(self, sums: np.ndarray, sentences: bool = False) -> np.ndarray:
        """0 to 100, smoothed; sentences as by sacreBLEU's `sentence_bleu`, without the orders that an output lacks."""
        return _bleu(sums, smooth=True, effective_order=sentences)

    def signature(self, counting: Counting) -> str:
        """Return the signature that sacreBLEU itself writes for these settings."""
        return str(_sacrebleu(counting.bleu_tokenizer, for_sacrebleu(counting)).get_signature())


class MultiBleu(Metric):
    """multi-bleu.perl: words are separated by ASCII blanks, case matters, and there is no smoothing."""

    def count(self, texts: Texts, counting: Counting) -> list[np.ndarray]:
        """Count like `Bleu.count`, with words between ASCII spaces: `[N, K]` for each system."""
        return [bleu_statistics(shared) for shared in texts.matches(_ascii_words)]

    def score(self, sums: np.ndarray, sentences: bool = False) -> np.ndarray:
        """0 to 100. multi-bleu.perl does not score sentences; their scores are those of BLEU."""
        return _bleu(sums, smooth=sentences, effective_order=sentences)

    def signature(self, counting: Counting) -> str:
        """Return the settings in sacreBLEU's form, with the version of posnmt."""
        return (
            f"nrefs:{shown_references(counting)}|case:mixed|eff:no|tok:blanks|smooth:none|like:multi-bleu.perl"
            f"|version:posnmt-{__version__}"
        )


BLEU = Bleu("BLEU")
MULTI_BLEU = MultiBleu(
    "multi-bleu", unit="BLEU", words="BLEU",
    needs_spaces="multi-bleu means nothing {}; segment reference and outputs first.",
)  # fmt: skip


@cache
def bleu_words(tokenizer: str) -> Callable[[str], list[str]]:
    """The function that splits a line into words for BLEU with one of sacreBLEU's tokenisers.

    Raises:
        UserError: the tokeniser is unknown, or its software is not installed.
    """
    metric: Any = _sacrebleu(tokenizer)
    if tokenizer != "13a":
        return lambda line: metric._preprocess_segment(line).split()

    # 13a depends on adjacent characters only, so the pieces between blanks can be tokenised separately and cached.
    @lru_cache(maxsize=2**17)
    def words(piece: str) -> list[str]:
        return metric.tokenizer(piece).split()

    return lambda line: list(chain.from_iterable(map(words, line.rstrip().split(" "))))


def check_bleu_tokenizer(name: str) -> None:
    """Refuse a tokeniser that sacreBLEU does not have; this does not check that its software is installed.

    Raises:
        UserError: it is unknown.
    """
    from sacrebleu.metrics import BLEU as TheirBleu

    if name not in TheirBleu.TOKENIZERS:
        todo = choices(name, TheirBleu.TOKENIZERS)
        raise UserError(f"sacreBLEU has no tokeniser {name!r}", "--bleu-tokenizer", todo)


def _sacrebleu(tokenizer: str, references: Any = None) -> sacrebleu.metrics.BLEU:
    from sacrebleu.metrics import BLEU as TheirBleu

    check_bleu_tokenizer(tokenizer)
    try:
        # force: do not warn about text that looks tokenised, as the analysis does so itself.
        return TheirBleu(tokenize=tokenizer, references=references, force=True)
    except (RuntimeError, ImportError, OSError) as error:  # no MeCab; or a model that could not be downloaded
        reason = " ".join(str(error).split())
        raise UserError(
            f"the tokeniser {tokenizer!r} cannot be used: {reason}",
            "--bleu-tokenizer",
            "install what it needs or choose another one",
        ) from None


def _ascii_words(line: str) -> list[bytes]:
    """Split a line at ASCII blanks only: Perl, which reads bytes, does not split at U+00A0 or U+3000."""
    return line.encode("utf-8").split()


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
