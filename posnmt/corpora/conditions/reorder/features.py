"""The features of the pre-orderer: words and word classes at the boundaries of spans, hashed.

A boundary b of a sentence of n words is before word b, for b from 0 to n. Every feature depends on two boundaries, so
that the parser can score all nodes of all trees with a few array operations (see preorder.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

RARE, EDGE = 0, 1
"""Ids, as words and as classes, of rare or unknown words and of the edges of a sentence."""

BITS = 20
"""Features are hashed to 2^BITS weights for each orientation."""

FAMILIES = 3
"""Pairs of boundaries of a node: start and split, split and end, start and end."""

# What a feature reads at a boundary: nothing, the word before it, after it, or both; as w(ord) or as c(lass).
_ATOMS = ("", "before-w", "after-w", "both-w", "before-c", "after-c", "both-c")
# The atom at the first boundary, the atom at the second, and whether the feature contains their distance.
_TEMPLATES = (
    ("", "", True),
    ("before-w", "", False), ("after-w", "", False), ("both-w", "", False),
    ("before-c", "", True), ("after-c", "", True), ("both-c", "", False),
    ("", "before-w", False), ("", "after-w", False), ("", "both-w", False),
    ("", "before-c", True), ("", "after-c", True), ("", "both-c", False),
    ("after-w", "before-w", False), ("after-w", "after-w", False), ("before-w", "before-w", False),
    ("after-w", "before-c", False), ("after-c", "before-w", False), ("after-c", "before-c", True),
    ("after-c", "after-c", False), ("before-c", "before-c", False), ("before-c", "after-c", False),
    ("both-c", "both-c", False),
)  # fmt: skip

TEMPLATES = len(_TEMPLATES)
_FIRST = np.array([_ATOMS.index(first) for first, _, _ in _TEMPLATES])
_SECOND = np.array([_ATOMS.index(second) for _, second, _ in _TEMPLATES])
_WITH_DISTANCE = np.array([distance for _, _, distance in _TEMPLATES], dtype=np.uint64)

# Odd constants of multiplicative hashing (the fractional part of the golden ratio, and those of SplitMix64).
_MIX = tuple(np.uint64(constant) for constant in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_SALTS = np.arange(1, FAMILIES * TEMPLATES + 1, dtype=np.uint64).reshape(FAMILIES, TEMPLATES) * _MIX[2] * _MIX[0]


class Vocabulary:
    """Words with their classes.

    Args:
        classes: class of each known word, 2 or more.
    """

    def __init__(self, classes: dict[str, int]) -> None:
        self.classes = classes
        self._ids = {word: (number, classes[word]) for number, word in enumerate(classes, start=2)}

    def ids(self, sentence: Sequence[str]) -> NDArray[np.uint64]:
        """[2, n + 2] the ids of the words and classes of a sentence, with an edge at both ends."""
        inner = [self._ids.get(word, (RARE, RARE)) for word in sentence]
        return np.array([(EDGE, EDGE), *inner, (EDGE, EDGE)], dtype=np.uint64).T


def make_vocabulary(
    sentences: Iterable[Sequence[str]], classes: int, minimum: int = 2, largest: int = 20_000, contexts: int = 300
) -> Vocabulary:
    """The most frequent words, and classes of words that occur in similar contexts.

    The classes are distributional, as in Schütze 1995. A word's vector has the counts of the `contexts` most frequent
    words directly before and directly after it, as square roots. The classes are clusters of k-means with cosine
    similarity: 10 iterations, starting from the most frequent words. The result is deterministic.

    Args:
        sentences: their words.
        classes: number of classes.
        minimum: words that occur less often are left out.
        largest: most words of the vocabulary.
        contexts: number of words that are counted as context.
    """
    texts = list(sentences)
    counts = Counter(word for text in texts for word in text)
    words = sorted((word for word, count in counts.items() if count >= minimum), key=lambda word: (-counts[word], word))
    if not words:
        return Vocabulary({})
    rows = {word: row for row, word in enumerate(words[:largest])}
    columns = {word: column for column, word in enumerate(words[:contexts])}
    surroundings = np.zeros((len(rows), 2, contexts + 1))
    for text in texts:
        # The last column is the edge of the sentence; words that are not contexts are ignored.
        around = [contexts, *(columns.get(word) for word in text), contexts]
        for place, word in enumerate(text):
            if word in rows:
                for side, column in enumerate((around[place], around[place + 2])):
                    if column is not None:
                        surroundings[rows[word], side, column] += 1
    points = np.sqrt(surroundings.reshape(len(rows), 2 * (contexts + 1)))
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-9)
    centres = points[:classes]
    nearest = np.zeros(len(rows), dtype=np.int64)
    for _ in range(10):
        nearest = np.argmax(points @ centres.T, axis=1)
        members = np.eye(len(centres))[nearest]
        centres = members.T @ points
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-9)
    return Vocabulary({word: int(nearest[row]) + 2 for word, row in rows.items()})


class Features:
    """The features of one sentence.

    Args:
        ids: [2, n + 2], result of `Vocabulary.ids`.
    """

    def __init__(self, ids: NDArray[np.uint64]) -> None:
        self.length = ids.shape[1] - 2
        before, after = ids[:, :-1], ids[:, 1:]
        both = (before << np.uint64(32)) + after + np.uint64(1)
        atoms = np.stack([np.zeros_like(before[0]), before[0], after[0], both[0], before[1], after[1], both[1]])
        self._first = atoms[_FIRST] * _MIX[0]
        self._second = atoms[_SECOND] * _MIX[1]

    def of(self, family: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Indices of the features of pairs of boundaries.

        Args:
            family: which two of the three boundaries of a node, below `FAMILIES`.
            first, second: boundaries; both have the same number of axes and broadcast to a common shape.

        Returns:
            [TEMPLATES, *common shape] indices below 2^BITS.
        """
        distance = np.abs(second - first)
        bucket = np.minimum(distance, 8 + distance // 8).clip(max=16).astype(np.uint64)
        axes = (slice(None), *(None for _ in bucket.shape))
        hashes = self._first[:, first] + self._second[:, second]
        hashes = hashes + bucket * (_WITH_DISTANCE * _MIX[2])[axes] + _SALTS[family][axes]
        hashes ^= hashes >> np.uint64(31)
        hashes *= _MIX[1]
        return hashes >> np.uint64(64 - BITS)
