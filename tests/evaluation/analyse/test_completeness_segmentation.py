"""The best cuts against all cuts."""

from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest

from posnmt.evaluation.analyse.completeness.evidence import INSIDE, LENGTH, MOST, VARIANCE, cuts


def value(gains, expected, ends, places):
    """What a segmentation is worth, in plain loops."""
    total = gains.shape[1]
    worth = 0.0
    for row, wanted, (start, end) in zip(gains, expected, pairwise([0, *places, total]), strict=True):
        worth += sum(row[start:end])
        deviation = LENGTH * (end - start - wanted) ** 2 / (VARIANCE * max(wanted, 1.0))
        worth -= MOST if start == end else min(MOST, deviation)
        if end > start and end not in (total, *ends):
            worth -= INSIDE
    return worth


@pytest.mark.parametrize("seed", range(12))
def test_no_other_cuts_are_worth_more(seed):
    draw = np.random.default_rng(seed)
    sentences, words = draw.integers(1, 5), draw.integers(0, 9)
    gains = draw.random((sentences, words)) * draw.choice([0.3, 1.5])
    expected = draw.uniform(0.5, 6, sentences)
    ends = [place for place in range(1, words) if draw.random() < 0.3]
    chosen = cuts(gains, expected, ends)
    best = max(value(gains, expected, ends, places)
               for places in combinations_with_replacement(range(words + 1), sentences - 1))  # fmt: skip
    assert value(gains, expected, ends, chosen) == pytest.approx(best)


def test_a_sentence_without_a_translation_has_no_words():
    gains = np.kron([[1, 0], [0, 0], [0, 1]], np.ones(20))
    assert cuts(gains, [20, 20, 20], [20]) == [20, 20]
