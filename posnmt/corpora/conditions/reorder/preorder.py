"""A pre-orderer, learned from alignments: it puts the words of a source sentence into the order of the target language.

A tree of the bracketing transduction grammar (BTG) orders a sentence: each span of words is split in two, and the two
halves keep their order (straight) or are swapped (inverted). The best tree is computed exactly. It is a latent variable
in learning with a large margin, with Kendall's tau as the loss: Neubig, Watanabe and Mori, "Inducing a Discriminative
Parser to Optimize Machine Translation Reordering", EMNLP 2012. A feature depends on two of a node's three boundaries
(see features.py). So the score of a node is a sum of entries of three tables, and so is its loss.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError, existing_file
from posnmt.corpora.conditions.reorder.features import BITS, FAMILIES, Features, Vocabulary, make_vocabulary

Floats = NDArray[np.float64]

FORMAT = "posnmt pre-orderer 1"
"""The format of saved models. It must change when the features or the hash change."""
STRAIGHT, INVERTED = 0, 1
LONGEST = 100
"""Most words of a sentence to learn from, because the time is cubic. Sentences of any length are reordered."""
SHORTEST = 2
"""Fewest words of a sentence that can be reordered."""

CLASSES, PASSES = 50, 3

Node = tuple[int, int, int, int]
"""Start, split, end, and STRAIGHT or INVERTED."""

# The margin for each wrong pair of words, and a factor that makes any loss outweigh any score.
_MARGIN, _ALL = 1.0, 1e7
# Number of pairs of boundaries whose features are in memory at a time.
_BLOCK = 1 << 16


class Preorderer:
    """Reorders sentences.

    Args:
        vocabulary: the known words.
        weights: [2^BITS, 2] weights of the features, for straight and inverted nodes.
    """

    def __init__(self, vocabulary: Vocabulary, weights: Floats) -> None:
        self.vocabulary, self.weights = vocabulary, weights

    def order(self, sentence: Sequence[str]) -> list[int]:
        """The positions of the words in their new order, a permutation of range(len(sentence))."""
        if len(sentence) < SHORTEST:
            return list(range(len(sentence)))
        features = Features(self.vocabulary.ids(sentence))
        return leaves(best_trees(_scores(features, self.weights)[None])[0])

    def save(self) -> str:
        """The model as one line of JSON."""
        used = np.flatnonzero(self.weights.any(axis=1))
        content = {
            "format": FORMAT,
            "bits": BITS,
            "classes": self.vocabulary.classes,
            "features": used.tolist(),
            "weights": self.weights[used].tolist(),
        }
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def load(cls, path: str | Path) -> Preorderer:
        """A model from the output of `save`.

        Raises:
            UserError: the file cannot be read or is not such a model.
        """
        try:
            content: dict[str, Any] = json.loads(existing_file(path, "the pre-ordering model").read_text("utf-8"))
            if content["format"] != FORMAT or content["bits"] != BITS:
                raise ValueError(f"format {content['format']!r}")
            weights = np.zeros((1 << BITS, 2))
            weights[content["features"]] = np.array(content["weights"], float).reshape(-1, 2)
            classes = {str(word): int(number) for word, number in content["classes"].items()}
            if not all(0 <= number < 2**32 for number in classes.values()):
                raise ValueError("the number of a class is out of range")
            return cls(Vocabulary(classes), weights)
        except (ValueError, OverflowError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise UserError(
                f"this is not a model of {FORMAT!r}: {error}", path, "use model.json of `posnmt condition reorder`"
            ) from None


def learn(
    sentences: Sequence[Sequence[str]],
    places: Sequence[Floats],
    seed: int,
    passes: int = PASSES,
    classes: int = CLASSES,
    show: Callable[[float, str], None] = lambda fraction, state: None,
) -> Preorderer:
    """Learn a pre-orderer by an averaged perceptron with a margin.

    For each sentence, the best tree by score plus loss is compared with the best among the trees of least loss, and the
    weights are updated towards the latter. The sentences are shuffled before each pass.

    Args:
        sentences: source words, at least `SHORTEST` in each.
        places: [n] for each sentence, the target positions of its words; NaN if unknown.
        seed: seed of the order of sentences.
        passes: number of passes over the sentences.
        classes: number of word classes.
        show: called with the share of the work that is done and a short status.
    """
    vocabulary = make_vocabulary(sentences, classes)
    rows = list(range(len(sentences)))
    weights, summed = np.zeros((1 << BITS, 2)), np.zeros((1 << BITS, 2))
    flat, flat_summed = weights.reshape(-1), summed.reshape(-1)
    random, step = Random(f"pre-ordering {seed}"), 0
    for number in range(passes):
        random.shuffle(rows)
        for row in rows:
            step += 1
            features, losses = Features(vocabulary.ids(sentences[row])), pair_losses(places[row])
            scores = _scores(features, weights)
            guess, right = best_trees(np.stack([scores + _MARGIN * losses, scores - _ALL * losses]))
            if _total(losses, guess) > _total(losses, right):
                for tree, change in ((right, 1.0), (guess, -1.0)):
                    used = _used(features, tree)
                    np.add.at(flat, used, change)
                    np.add.at(flat_summed, used, change * step)
            if step % 200 == 0:
                show(step / (passes * len(rows)), f"pass {number + 1} of {passes}")
    # The mean of the weights after each step; rounded, so that the saved model is short and equal to this one.
    return Preorderer(vocabulary, (weights - summed / max(step, 1)).round(4))


def pair_losses(places: Floats) -> Floats:
    """The number of pairs of words in the wrong order at a node, as tables like those of the scores.

    Take a word of a node's left half and a word of its right half, with known and different positions in the target. A
    straight node is wrong for the pair if the target reverses it, an inverted node if it does not. The number of wrong
    pairs is a sum over a rectangle of the table of pairs, and so a sum of entries of its two-dimensional cumulative
    sums.

    Args:
        places: [n], NaN if unknown.

    Returns:
        [FAMILIES, 2, n + 1, n + 1].
    """
    length = len(places)
    losses = np.zeros((FAMILIES, 2, length + 1, length + 1))
    before = places[:, None] - places[None, :]
    for orientation, wrong in ((STRAIGHT, before > 0), (INVERTED, before < 0)):
        sums = np.zeros((length + 1, length + 1))
        sums[1:, 1:] = wrong.cumsum(axis=0).cumsum(axis=1)
        losses[0, orientation] = sums - np.diagonal(sums)[None, :]
        losses[1, orientation] = sums
        losses[2, orientation] = -sums
    return losses


def best_trees(scores: Floats) -> list[list[Node]]:
    """The best tree for each of several scorings, by dynamic programming over spans (CYK), O(n^3).

    A node over the words from p to q, split at r, scores scores[v, 0, o, p, r] + scores[v, 1, o, r, q] +
    scores[v, 2, o, p, q]. Ties are resolved in favour of the first split, and of straight over inverted.

    Args:
        scores: [variants, FAMILIES, 2, n + 1, n + 1], n at least 2.

    Returns:
        For each variant the n - 1 nodes in pre-order.
    """
    variants, length = len(scores), scores.shape[-1] - 1
    start, end, first, last = _layout(length)
    # Left halves by start and length, right halves by end and length, so that the splits of a span are two slices.
    left, outer = scores[:, 0][:, :, start, end], scores[:, 2][:, :, start, end]
    right = scores[:, 1][:, :, first, last]
    splits = np.zeros((variants, length + 1, length + 1), dtype=np.int64)
    orientations = np.zeros_like(splits)
    for size in range(2, length + 1):
        spans = length - size + 1
        sums = left[:, :, :spans, 1:size] + right[:, :, size:, size - 1 : 0 : -1]
        cut = sums.argmax(axis=3)
        best = np.take_along_axis(sums, cut[..., None], axis=3)[..., 0] + outer[:, :, :spans, size]
        orientation, value = best.argmax(axis=1), best.max(axis=1)
        splits[:, :spans, size] = np.take_along_axis(cut, orientation[:, None], axis=1)[:, 0] + 1
        orientations[:, :spans, size] = orientation
        left[:, :, :spans, size] += value[:, None]
        right[:, :, size:, size] += value[:, None]
    return [list(_nodes(splits[v], orientations[v], length)) for v in range(variants)]


def leaves(tree: Sequence[Node]) -> list[int]:
    """The words of a tree, from left to right."""
    below = {(start, end): (split, orientation) for start, split, end, orientation in tree}
    order, waiting = [], [(tree[0][0], tree[0][2])]
    while waiting:
        start, end = waiting.pop()
        if end - start == 1:
            order.append(start)
            continue
        split, orientation = below[start, end]
        halves = [(start, split), (split, end)]
        # The first half is popped first.
        waiting += halves[::-1] if orientation == STRAIGHT else halves
    return order


def _nodes(splits: NDArray[np.int64], orientations: NDArray[np.int64], length: int) -> Iterator[Node]:
    """The nodes of the best tree, from the splits and orientations of spans by start and length."""
    waiting = [(0, length)]
    while waiting:
        start, end = waiting.pop()
        if end - start > 1:
            split = start + int(splits[start, end - start])
            yield start, split, end, int(orientations[start, end - start])
            waiting += [(split, end), (start, split)]


@lru_cache(maxsize=256)
def _layout(length: int) -> tuple[NDArray[np.int64], ...]:
    """Start and end of spans by start and length, and by end and length; values outside the sentence are not read."""
    boundary, size = np.ogrid[: length + 1, : length + 1]
    start, end = np.broadcast_arrays(boundary, np.minimum(boundary + size, length))
    first, last = np.broadcast_arrays(np.maximum(boundary - size, 0), boundary)
    return start, end, first, last


def _scores(features: Features, weights: Floats) -> Floats:
    """The tables of `best_trees` for one scoring: [FAMILIES, 2, n + 1, n + 1]."""
    boundaries = np.arange(features.length + 1)
    size = max(1, _BLOCK // len(boundaries))
    tables = np.empty((FAMILIES, len(boundaries), len(boundaries), 2))
    for family in range(FAMILIES):
        for row in range(0, len(boundaries), size):
            used = features.of(family, boundaries[row : row + size, None], boundaries[None])
            tables[family, row : row + size] = weights[used].sum(axis=0)
    return np.moveaxis(tables, 3, 1)


def _used(features: Features, tree: Sequence[Node]) -> NDArray[np.int64]:
    """The indices of the weights of a tree's features in the flat table, with repetitions."""
    start, split, end, orientation = np.array(tree).T
    pairs = ((start, split), (split, end), (start, end))
    indices = [features.of(family, *pair) for family, pair in enumerate(pairs)]
    return (np.concatenate(indices).astype(np.int64) * 2 + orientation).ravel()


def _total(tables: Floats, tree: Sequence[Node]) -> float:
    """The sum of a tree's nodes over tables of scores or losses."""
    start, split, end, orientation = np.array(tree).T
    sums = (
        tables[0, orientation, start, split] + tables[1, orientation, split, end] + tables[2, orientation, start, end]
    )
    return float(sums.sum())
