"""chrF and chrF++, with the n-gram counts of many lines at once, equal to those of sacreBLEU.

The n-grams of an output are coded as even numbers, and those of its reference as the next odd ones, in one row. In a
sorted row, an n-gram of the output immediately precedes the same n-gram of the reference. (Many short sorts are several
times as fast as one long sort.)

Legend: N lines, P lines of similar length, W characters of the longest of them plus 1, R references, K counts: output,
reference and common n-grams of characters of orders 1-6, of chrF++ then of words of orders 1-2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posnmt.metrics.metric import Counting, Metric, References, for_sacrebleu, padded
from posnmt.metrics.ngrams import matches, overlap_statistics

if TYPE_CHECKING:
    import numpy as np

# Numbers per batch, P * 2 * W: arrays of this size fit in the CPU's cache.
PLACES = 100_000
ORDER = 6
BETA = 2


@dataclass(frozen=True)
class Chrf(Metric):
    """chrF; with several references, the one that gives the best score counts.

    Attributes:
        word_order: length of the longest n-grams of words; 0 for characters only.
    """

    word_order: int = 0

    def counter(self, references: References, counting: Counting) -> Callable[[list[str]], np.ndarray]:
        """Return a function from N outputs to counts of n-grams `[N, K]`, against the reference that scores best."""
        import numpy as np

        texts = padded(references)

        def count(outputs: list[str]) -> np.ndarray:
            by_reference = np.stack([self._against(outputs, lines) for lines in texts])
            best = self.score(by_reference).argmax(axis=0)  # the first one of equal scores
            return np.take_along_axis(by_reference, best[None, :, None], axis=0)[0]

        return count

    def score(self, sums: np.ndarray, sentences: bool = False) -> np.ndarray:
        """The F score of precision and recall, each averaged over the orders that both sides have: 0 to 100."""
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
        weighted = BETA**2 * precision + recall
        score = (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
        return 100 * score

    def signature(self, counting: Counting) -> str:
        """Return the signature that sacreBLEU itself writes for these settings."""
        return str(self._sacrebleu(references=for_sacrebleu(counting)).get_signature())

    def _against(self, outputs: list[str], references: list[str]) -> np.ndarray:
        """The counts `[n, K]` against one reference each."""
        import numpy as np

        characters = chrf_statistics(outputs, references, ORDER)
        if not self.word_order:
            return characters
        words = self._sacrebleu()._remove_punctuation
        of_outputs, of_references = ([words(line) for line in lines] for lines in (outputs, references))
        (shared,) = matches([of_outputs], of_references, self.word_order)
        return np.concatenate([characters, overlap_statistics(shared)], axis=1)

    def _sacrebleu(self, **settings: Any) -> Any:
        from sacrebleu.metrics import CHRF as TheirChrf

        return TheirChrf(word_order=self.word_order, **settings)


CHRF = Chrf("chrF", by_sentence=True)
CHRF_PLUS = Chrf(
    "chrF++", word_order=2, needs_spaces="chrf++: its word n-grams mean nothing {}; chrf is the measure for it."
)


def chrf_statistics(outputs: Sequence[str], references: Sequence[str], order: int) -> np.ndarray:
    """sacreBLEU's statistics of chrF for N lines: `[N, 3 * order]`, output, reference and common n-grams of each order.

    Blanks are removed. n-grams of an order are not counted in an output whose reference has none of that order.
    """
    import numpy as np

    texts = [["".join(line.split()) for line in pair] for pair in zip(outputs, references, strict=True)]
    lengths = np.array([[len(text) for text in pair] for pair in texts], np.int64).reshape(-1, 2)
    totals = np.maximum(lengths[:, None] - np.arange(order)[:, None], 0)  # [N, order, 2]
    common = np.zeros((len(texts), order), np.int64)
    widths = lengths.max(axis=1, initial=0) + 1
    rows = np.argsort(widths, kind="stable")
    while len(rows):
        # Start with the longest lines, whose width determines the size of the batch.
        size = max(1, PLACES // (2 * int(widths[rows[-1]])))
        rows, chosen = rows[:-size], rows[-size:]
        common[chosen] = _common([texts[row] for row in chosen], lengths[chosen], order)
    outputs_counted = np.where(totals[..., 1] > 0, totals[..., 0], 0)
    return np.stack([outputs_counted, totals[..., 1], common], axis=2).reshape(len(texts), -1)


def _common(texts: list[list[str]], lengths: np.ndarray, order: int) -> np.ndarray:
    """The number of common n-grams of P outputs and references, of lengths `[P, 2]`: `[P, order]`."""
    import numpy as np

    points = np.frombuffer("".join(map("".join, texts)).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    alphabet = np.unique(points)
    width = int(max(lengths.max(initial=0) + 1, order))
    characters = np.zeros((*lengths.shape, width), np.int64)  # [P, 2, W]
    characters[np.arange(width) < lengths[..., None]] = np.searchsorted(alphabet, points)
    grams, kinds = characters, len(alphabet)
    common = []
    for n in range(1, order + 1):
        if n > 1:
            if kinds * len(alphabet) >= 2**62:
                distinct, grams = np.unique(grams, return_inverse=True)
                kinds = len(distinct)
            grams = grams[..., :-1] * len(alphabet) + characters[..., n - 1 :]
            kinds *= len(alphabet)
        in_line = np.arange(grams.shape[-1]) <= lengths[..., None] - n
        # At least one entry in a row holds no n-gram, and separates the row from the next one.
        ordered = np.where(in_line, 2 * grams + np.arange(2)[:, None], 2**63 - 1).reshape(len(texts), -1)
        ordered.sort(axis=1)
        common.append(_in_both(ordered))
    return np.stack(common, axis=1)


def _in_both(ordered: np.ndarray) -> np.ndarray:
    """Count, in each sorted row `[P, ...]`, the even numbers whose odd successor is also in the row: `[P]`."""
    import numpy as np

    flat = ordered.ravel()
    starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]]))
    numbers, times = flat[starts], np.diff(starts, append=len(flat))
    even = np.flatnonzero((numbers[:-1] + 1 == numbers[1:]) & (numbers[:-1] % 2 == 0))
    return np.bincount(starts[even] // ordered.shape[1], np.minimum(times[even], times[even + 1]), len(ordered)).astype(
        np.int64
    )
