"""Which words of the references the outputs have: by frequency, by part of the sentence, numbers and names.

Counts add up over sentences like those of metrics. A word that occurs c times in an output and r times in its reference
is shared min(c, r) times; its occurrences have equal shares (`ngrams`). The score of a bucket is recall, precision or
F1 of the sum of its counts, as in compare-mt (Neubig et al. 2019).

Legend: N sentences, M systems, B buckets, `...` any shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from posnmt.metrics.ngrams import Matches, Side, matches

if TYPE_CHECKING:
    import numpy as np

Tokens = Sequence[Sequence[str]]
"""The tokens of each of N sentences."""

FREQUENCIES = (0, 1, 2, 5, 10, 100, 1000)
"""The lowest frequency of each bucket."""
PARTS = ("beginning", "middle", "end")
KEPT = ("numbers", "names")

NUMBER = regex.compile(r"\d+(?:[.,:\N{RIGHT SINGLE QUOTATION MARK}']\d+)*")
"""Digits, with marks between them: `1,000.5` and `12:30` are one number. Words such as `three` are none."""
CASED = regex.compile(r"[\p{Lu}\p{Ll}\p{Lt}\p{M}]+(?:['\N{RIGHT SINGLE QUOTATION MARK}-][\p{Lu}\p{Ll}\p{Lt}\p{M}]+)*")
"""A word of letters that have cases, as Latin, Greek and Cyrillic ones do."""
_BEGINS = regex.compile(r"(?:^|[.!?:;\N{HORIZONTAL ELLIPSIS}])[^\p{L}\p{N}]*$")

STEP = 2.0**-24
"""Shares are rounded to multiples of this number, whose sums are exact."""


@dataclass(frozen=True)
class Buckets:
    """The counts of some buckets of words.

    Attributes:
        labels: of B buckets.
        counts: `[N, M, B, 3]` shared words, words of the reference, words of the output; of buckets with recall alone,
            no words of the output.
        measures: names, as `scores` has them.
    """

    labels: Sequence[str]
    counts: np.ndarray
    measures: Sequence[str] = ("recall",)


def scores(sums: np.ndarray) -> dict[str, np.ndarray]:
    """Measure → 0 to 100 `[...]` of sums of counts `[..., 3]`; NaN where no word of a side is in the bucket."""
    import numpy as np

    shared, reference, output = sums[..., 0], sums[..., 1], sums[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        of_reference = np.where(reference > 0, reference, np.nan)
        return {
            "f1": 200 * shared / (of_reference + output),
            "recall": 100 * shared / of_reference,
            "precision": 100 * shared / np.where(output > 0, output, np.nan),
        }


def by_frequency(
    systems: Sequence[Tokens], references: Tokens, frequencies: Mapping[str, int], firsts: Sequence[int] = FREQUENCIES
) -> Buckets:
    """The words by their frequency in a text.

    Args:
        systems: each system's outputs.
        references: of the N sentences.
        frequencies: of words; others have 0.
        firsts: the lowest frequency of each bucket, increasing; words with a lower one than the first are left out.
    """
    import numpy as np

    def bucketed(tokens: Tokens) -> np.ndarray:
        found = np.array([frequencies.get(token, 0) for line in tokens for token in line], dtype=np.int64)
        return np.searchsorted(np.array(firsts), found, side="right") - 1

    of_reference = bucketed(references)
    counts = []
    for output, shared in zip(systems, matches(systems, references, 1), strict=True):
        (side, reference), of_output = shared.orders[0], bucketed(output)
        counts.append(
            np.stack(
                [
                    _summed(side, of_output, len(firsts), shared, side.matched),
                    _summed(reference, of_reference, len(firsts), shared),
                    _summed(side, of_output, len(firsts), shared),
                ],
                axis=-1,
            )
        )
    labels = [_range(first, after) for first, after in zip(firsts, [*firsts[1:], None], strict=True)]
    return Buckets(labels, np.stack(counts, axis=1), ("f1", "recall", "precision"))


def by_part(systems: Sequence[Tokens], references: Tokens) -> Buckets:
    """The words of the references by the third of the reference that holds the middle of the word; recall alone."""
    counts = []
    for shared in matches(systems, references, 1):
        side = shared.orders[0][1]
        lengths = shared.lengths[1][side.sentences]
        counts.append(_recalled(shared, (2 * side.starts + 1) * len(PARTS) // (2 * lengths), len(PARTS)))
    return _stacked(PARTS, counts)


def kept(sources: Sequence[str], references: Sequence[str], systems: Sequence[Sequence[str]]) -> Buckets:
    """The numbers and the names of the references that the outputs have; recall alone.

    A number is a run of digits. A name is a word with a capital letter that the source has as well, letter by letter,
    and that begins neither the line nor a sentence in it. So names that are transliterated or translated are not seen.

    Args:
        sources, references: N lines.
        systems: each system's N outputs.
    """
    import numpy as np

    numbers = [NUMBER.findall(line) for line in references]
    names = [names_of(*lines) for lines in zip(sources, references, strict=True)]
    of_kinds = []
    for pattern, wanted in ((NUMBER, numbers), (CASED, names)):
        found = [[pattern.findall(line) for line in outputs] for outputs in systems]
        shared = matches(found, wanted, 1)
        of_kinds.append([_recalled(each, np.zeros_like(each.orders[0][1].sentences), 1) for each in shared])
    return _stacked(KEPT, [np.concatenate(of_system, axis=1) for of_system in zip(*of_kinds, strict=True)])


def names_of(source: str, reference: str) -> list[str]:
    """The names in a reference, as `kept` defines them."""
    in_source = set(CASED.findall(source))
    return [
        match[0]
        for match in CASED.finditer(reference)
        if match[0] in in_source and match[0] != match[0].lower() and not _BEGINS.search(reference[: match.start()])
    ]


def _recalled(shared: Matches, buckets: np.ndarray, count: int) -> np.ndarray:
    """`[N, B, 3]` of the words of the references, whose buckets are known."""
    import numpy as np

    side = shared.orders[0][1]
    held, all_words = (_summed(side, buckets, count, shared, weights) for weights in (side.matched, None))
    return np.stack([held, all_words, np.zeros_like(held)], axis=-1)


def _summed(
    side: Side, buckets: np.ndarray, count: int, shared: Matches, weights: np.ndarray | None = None
) -> np.ndarray:
    """`[N, B]` numbers of words, or sums of their shares; words with a bucket below 0 are left out."""
    import numpy as np

    lines, inside = len(shared.lengths[0]), buckets >= 0
    places = side.sentences[inside] * count + buckets[inside]
    sums = np.bincount(places, None if weights is None else weights[inside], lines * count)
    return np.rint(sums / STEP).reshape(lines, count) * STEP


def _stacked(labels: Sequence[str], counts: Sequence[np.ndarray]) -> Buckets:
    import numpy as np

    return Buckets(labels, np.stack(counts, axis=1))


def _range(first: int, after: int | None) -> str:
    """Write the limits of a bin, such as `2-4`, `1` or `1000-`."""
    if after is None:
        return f"{first}-"
    return str(first) if after == first + 1 else f"{first}-{after - 1}"
