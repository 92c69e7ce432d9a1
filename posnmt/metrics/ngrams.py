"""n-grams that outputs share with their references, counted for all sentences of all systems at once.

An n-gram that occurs c times in an output and r times in its reference is matched min(c, r) times, as in BLEU. Each of
its occurrences has an equal share of the matches: min(c, r) / c.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

Sentence = Sequence[Hashable]


@dataclass(frozen=True)
class Side:
    """All n-grams of one order on one side, output or reference, in the order of the text.

    Attributes:
        sentences: `[G]` index of the sentence of each n-gram.
        starts: `[G]` position of its first token in the sentence, from 0.
        matched: `[G]` its share of the matches, 0 to 1.
    """

    sentences: np.ndarray
    starts: np.ndarray
    matched: np.ndarray


@dataclass(frozen=True)
class Matches:
    """The n-gram matches of the N outputs of a system and their references.

    Attributes:
        lengths: `[N]` numbers of tokens of the outputs, and of the references.
        orders: for n = 1, 2 …, the n-grams of the outputs, and of the references.
    """

    lengths: tuple[np.ndarray, np.ndarray]
    orders: list[tuple[Side, Side]]


def matches(systems: Sequence[Sequence[Sentence]], references: Sequence[Sentence], order: int) -> list[Matches]:
    """Match the n-grams of every system's N outputs with those of the N references, for n = 1 to `order`."""
    import numpy as np

    count = len(references)
    sentences = [*chain.from_iterable(systems), *references]
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    numbers: dict[Hashable, int] = {}
    tokens = np.array([numbers.setdefault(token, len(numbers)) for each in sentences for token in each], np.int64)
    # The references are the last text.
    texts, lines = np.divmod(np.repeat(np.arange(len(sentences)), lengths), max(count, 1))
    starts = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    left = np.repeat(lengths, lengths) - starts  # tokens from here to the end of the sentence
    # Two positions have the same kind if the same n-gram of the same line starts there, in any text. The kind of a
    # unigram is the line and the token; that of an n-gram is the kind of its first n - 1 tokens and the last token.
    kinds = _numbered(lines * max(len(numbers), 1) + tokens)
    orders: list[list[tuple[Side, Side]]] = [[] for _ in systems]
    for n in range(1, order + 1):
        if n > 1:
            kinds = _numbered(kinds[:-1] * len(numbers) + tokens[n - 1 :])
        places = np.flatnonzero(left[: len(kinds)] >= n)
        *outputs, reference = np.split(places, np.searchsorted(texts[places], np.arange(1, len(systems) + 1)))
        wanted = np.bincount(kinds[reference], minlength=len(tokens) + 1)
        for of_system, output in zip(orders, outputs, strict=True):
            given = np.bincount(kinds[output], minlength=len(tokens) + 1)
            common = np.minimum(given, wanted)
            one, other = (
                Side(lines[side], starts[side], common[kinds[side]] / times[kinds[side]])
                for side, times in ((output, given), (reference, wanted))
            )
            of_system.append((one, other))
    *of_outputs, of_references = np.split(lengths, count * np.arange(1, len(systems) + 1))
    return [Matches((of_output, of_references), sides) for of_output, sides in zip(of_outputs, orders, strict=True)]


def _numbered(keys: np.ndarray) -> np.ndarray:
    """Map equal keys to equal small numbers, so that the keys of longer n-grams fit into 64 bits."""
    import numpy as np

    return np.unique(keys, return_inverse=True)[1]


def bleu_statistics(shared: Matches) -> np.ndarray:
    """sacreBLEU's statistics of BLEU for N outputs: `[N, 2 + 2 * order]`, two lengths, matches and totals."""
    import numpy as np

    count = len(shared.lengths[0])
    outputs = [output for output, _ in shared.orders]
    # The shares of an n-gram sum to an integer, up to rounding.
    matched = [np.rint(np.bincount(side.sentences, side.matched, count)).astype(np.int64) for side in outputs]
    totals = [np.bincount(side.sentences, minlength=count) for side in outputs]
    return np.stack([*shared.lengths, *matched, *totals], axis=1)
