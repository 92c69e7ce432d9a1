"""n-grams that outputs share with their references, counted for all sentences at once.

An n-gram that stands c times in an output and r times in its reference is matched min(c, r) times, as in BLEU. Which of
the c are matched cannot be said, so each has an equal share, min(c, r) / c.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

Sentence = Sequence[Hashable]


@dataclass(frozen=True)
class Side:
    """All n-grams of one order on one side, output or reference, in the order of the text.

    Attributes:
        sentences: `[G]` which sentence each n-gram is in.
        starts: `[G]` the place of its first token in the sentence, from 0.
        matched: `[G]` its share of the matches, 0 to 1.
    """

    sentences: np.ndarray
    starts: np.ndarray
    matched: np.ndarray


def matches(outputs: Sequence[Sentence], references: Sequence[Sentence], order: int) -> Iterator[tuple[Side, Side]]:
    """The n-grams of N outputs and those of their N references, for n = 1 … `order` in turn."""
    import numpy as np

    both = [*outputs, *references]
    lengths = np.array([len(sentence) for sentence in both], dtype=np.int64)
    numbers: dict[Hashable, int] = {}
    tokens = np.array([numbers.setdefault(token, len(numbers)) for sentence in both for token in sentence], np.int64)
    sentences = np.repeat(np.arange(len(both)), lengths)
    starts = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    left = lengths[sentences] - starts  # tokens from here to the end of the sentence
    pair = sentences % max(len(outputs), 1)
    # Two places have the same kind where the same n-gram of the same pair of sentences starts: so a kind of one token
    # knows its pair, and a kind of n tokens is a kind of n - 1 and the token after it.
    kinds = _numbered(pair * max(len(numbers), 1) + tokens)
    for n in range(1, order + 1):
        if n > 1:
            kinds = _numbered(kinds[:-1] * len(numbers) + tokens[n - 1 :])
        places = np.flatnonzero(left[: len(kinds)] >= n)
        found = kinds[places]
        of_output = sentences[places] < len(outputs)
        counts = [np.bincount(found[side], minlength=len(tokens) + 1) for side in (of_output, ~of_output)]
        common = np.minimum(*counts)
        yield (
            _side(places[of_output], sentences, starts, found[of_output], common, counts[0]),
            _side(places[~of_output], sentences - len(outputs), starts, found[~of_output], common, counts[1]),
        )


def _numbered(keys: np.ndarray) -> np.ndarray:
    """Equal keys → equal small numbers, so that the keys of longer n-grams stay within 64 bits."""
    import numpy as np

    return np.unique(keys, return_inverse=True)[1]


def _side(
    places: np.ndarray,
    sentences: np.ndarray,
    starts: np.ndarray,
    kinds: np.ndarray,
    common: np.ndarray,
    counts: np.ndarray,
) -> Side:
    return Side(sentences[places], starts[places], common[kinds] / counts[kinds])


def bleu_statistics(outputs: Sequence[Sentence], references: Sequence[Sentence], order: int) -> np.ndarray:
    """sacreBLEU's statistics of BLEU for N outputs: `[N, 2 + 2 * order]`, two lengths, then matches, then totals."""
    import numpy as np

    count = len(outputs)
    lengths = [np.array([len(sentence) for sentence in side], dtype=np.int64) for side in (outputs, references)]
    found, totals = [], []
    for side, _ in matches(outputs, references, order):
        # Shares of one n-gram add up to a whole number, but for rounding.
        found.append(np.rint(np.bincount(side.sentences, side.matched, count)).astype(np.int64))
        totals.append(np.bincount(side.sentences, minlength=count))
    return np.stack([*lengths, *found, *totals], axis=1)


def chrf_statistics(outputs: Sequence[str], references: Sequence[str], order: int) -> np.ndarray | None:
    """sacreBLEU's statistics of chrF for N lines: `[N, 3 * order]`, output, reference and common n-grams of each order.

    An n-gram and the pair of lines it is in are one number of 64 bits, so that counting is sorting. None where that is
    too short: many lines in many different characters.
    """
    import numpy as np

    count = len(outputs)
    texts = ["".join(line.split()) for line in (*outputs, *references)]
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    alphabet, characters = np.unique(points, return_inverse=True)
    if 2 * count * len(alphabet) ** order >= 2**63:
        return None
    lines = np.repeat(np.arange(2 * count), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(characters))  # characters to the end of the line
    side = (lines >= count).astype(np.int64)
    keys = lines - count * side
    statistics = []
    for n in range(1, order + 1):
        keys = keys[: max(len(characters) - n + 1, 0)] * len(alphabet) + characters[n - 1 :]
        places = np.flatnonzero(left[: len(keys)] >= n)
        # The side is the last bit, so that an n-gram of the output stands just before the same one of the reference.
        kinds, times = np.unique(2 * keys[places] + side[places], return_counts=True)
        pairs = kinds // (2 * len(alphabet) ** n)
        totals = [np.bincount(pairs[which], times[which], count) for which in (kinds % 2 == 0, kinds % 2 == 1)]
        both = np.flatnonzero(kinds[:-1] + 1 == kinds[1:])
        both = both[kinds[both] % 2 == 0]
        common = np.bincount(pairs[both], np.minimum(times[both], times[both + 1]), count)
        # sacreBLEU counts no n-grams of an output whose reference has none of that order.
        statistics += [np.where(totals[1] > 0, totals[0], 0), totals[1], common]
    return np.stack(statistics, axis=1).astype(np.int64)
