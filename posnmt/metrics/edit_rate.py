"""TER as a metric; `ter` searches for the edits.

Legend: N sentences, R references, K = 2 counts: edits, and the mean length of the references, both multiplied by one
number that makes them integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from posnmt.metrics.metric import Counting, Metric, References, for_sacrebleu, padded

if TYPE_CHECKING:
    import numpy as np


class Ter(Metric):
    """TER with sacreBLEU's default settings; with several references, the fewest edits and the mean length count."""

    def counter(self, references: References, counting: Counting) -> Callable[[list[str]], np.ndarray]:
        """Counts edits and lengths; characters are counted as sacreBLEU counts words."""
        import numpy as np

        from posnmt.metrics.ter import ter_statistics

        held = np.arange(max(map(len, references), default=1))[:, None] < [len(of_line) for of_line in references]
        scale = math.lcm(*counting.references)
        texts = [_units(lines, counting) for lines in padded(references)]

        def count(outputs: list[str]) -> np.ndarray:
            units = _units(outputs, counting)
            by_reference = np.stack([ter_statistics(units, lines) for lines in texts])
            lengths = (by_reference[..., 1] * held).sum(axis=0) * (scale // held.sum(axis=0))
            return np.stack([scale * by_reference[..., 0].min(axis=0), lengths], axis=1)

        return count

    def score(self, sums: np.ndarray, sentences: bool = False) -> np.ndarray:
        """Edits per reference word, from 0; 100 if there are edits but no reference words."""
        import numpy as np

        edits, words = sums[..., 0], sums[..., 1]
        return 100 * np.where(words > 0, edits / np.where(words > 0, words, 1), edits > 0)

    def signature(self, counting: Counting) -> str:
        """sacreBLEU's, with `tok:char` where characters are counted."""
        from sacrebleu.metrics import TER as TheirTer

        theirs = str(TheirTer(references=for_sacrebleu(counting)).get_signature())
        return theirs.replace("|tok:tercom|", "|tok:char|") if counting.characters else theirs


TER = Ter("TER", higher=False, counts_words=True)


def _units(lines: list[str], counting: Counting) -> list[str]:
    """Lines with blanks between the units that are counted."""
    return [" ".join(line) for line in lines] if counting.characters else lines


def ter_search_limits() -> dict[str, int]:
    """The limits of sacreBLEU's search for TER's edits, in words; docs/metrics.md has their effect on long lines."""
    from posnmt.metrics import ter

    return {
        "band": ter.BAND,
        "shift_size": ter.SHIFT_SIZE,
        "shift_distance": ter.SHIFT_DISTANCE,
        "shift_candidates": ter.SHIFT_CANDIDATES,
    }
