"""The n-grams that outputs share with their references, counted for all sentences of all systems at once.

An n-gram that occurs c times in an output and r times in its reference is matched min(c, r) times, as in BLEU. Each of
its occurrences has an equal share of the matches: min(c, r) / c. With several references, r is the largest of their
numbers (Papineni et al. 2002).
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
        lengths: `[N]` numbers of tokens of the outputs, and of the first references.
        closest: `[N]` the reference length that is closest to that of the output; of two, the shorter one.
        orders: for n = 1, 2 …, the n-grams of the outputs, matched with all references; and those of the first
            references.
    """

    lengths: tuple[np.ndarray, np.ndarray]
    closest: np.ndarray
    orders: list[tuple[Side, Side]]


def matches(
    systems: Sequence[Sequence[Sentence]],
    references: Sequence[Sentence],
    order: int,
    further: Sequence[Sequence[Sentence]] = (),
) -> list[Matches]:
    """Match the n-grams of every system's N outputs with those of the N references, for n = 1 to `order`.

    Args:
        systems: each system's N outputs.
        references: the first reference of each output.
        order: of the longest n-grams.
        further: N second references, N third ones …
    """
    import numpy as np

    count = len(references)
    sentences = [*chain.from_iterable(systems), *references, *chain.from_iterable(further)]
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    numbers: dict[Hashable, int] = {}
    tokens = np.array([numbers.setdefault(token, len(numbers)) for each in sentences for token in each], np.int64)
    # The texts are those of the systems, then the references.
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
        ends = np.searchsorted(texts[places], np.arange(1, len(systems) + 1 + len(further)))
        of_texts = np.split(places, ends)
        outputs, reference = of_texts[: len(systems)], of_texts[len(systems)]
        first, *others = (np.bincount(kinds[each], minlength=len(tokens) + 1) for each in of_texts[len(systems) :])
        most = np.maximum.reduce([first, *others])
        for of_system, output in zip(orders, outputs, strict=True):
            counts = np.bincount(kinds[output], minlength=len(tokens) + 1)
            one, other = (
                Side(lines[side], starts[side], np.minimum(counts, limit)[kinds[side]] / times[kinds[side]])
                for side, limit, times in ((output, most, counts), (reference, first, first))
            )
            of_system.append((one, other))
    by_text = lengths.reshape(len(systems) + 1 + len(further), count)
    of_references = by_text[len(systems) :]
    return [
        Matches((of_output, of_references[0]), _closest(of_output, of_references), sides)
        for of_output, sides in zip(by_text, orders, strict=False)
    ]


def _closest(lengths: np.ndarray, of_references: np.ndarray) -> np.ndarray:
    """For each of N outputs, the closest length `[N]` of its R references `[R, N]`, the shorter one of two."""
    import numpy as np

    ordered = np.sort(of_references, axis=0)
    return np.take_along_axis(ordered, np.abs(ordered - lengths).argmin(axis=0)[None], axis=0)[0]


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
    return np.stack([shared.lengths[0], shared.closest, *matched, *totals], axis=1)


def overlap_statistics(shared: Matches) -> np.ndarray:
    """sacreBLEU's statistics of word n-grams in chrF++: `[N, 3 * order]`, output, reference and common n-grams.

    n-grams of an order are not counted in an output whose reference has none of that order.
    """
    import numpy as np

    count = len(shared.lengths[0])
    columns = []
    for output, reference in shared.orders:
        totals, of_reference = (np.bincount(side.sentences, minlength=count) for side in (output, reference))
        matched = np.rint(np.bincount(output.sentences, output.matched, count)).astype(np.int64)
        columns += [np.where(of_reference > 0, totals, 0), of_reference, matched]
    return np.stack(columns, axis=1)
