"""BLEU against the position in the sentence."""

import random

import numpy as np
import pytest
import sacrebleu

from posnmt.evaluation.analyse.positions import TENTHS, WINDOWS, places, position_counts, position_curves
from posnmt.metrics.ngrams import matches

LONG = [f"w{number}" for number in range(40)]


def counts_of(outputs, references):
    (found,) = matches([outputs], references, 4)
    return position_counts(found)


def curves(outputs, references):
    return position_curves(counts_of(outputs, references))


def test_a_perfect_output_is_perfect_everywhere():
    found = curves([LONG], [LONG])
    for side in ("precision", "recall"):
        assert found["relative"][side] == pytest.approx([100] * TENTHS)
        assert found["absolute"][side] == pytest.approx([100] * 4 + [None] * (WINDOWS - 4))
        assert found["absolute"]["n"][side] == [10] * 4 + [0] * (WINDOWS - 4)


def test_an_output_that_breaks_off_loses_recall_at_the_end():
    found = curves([LONG[:20]], [LONG])["relative"]
    assert found["precision"] == pytest.approx([100] * TENTHS)
    assert found["recall"][:4] == pytest.approx([100] * 4)
    assert found["recall"][6:] == [0] * 4


def test_a_garbled_middle_is_seen_where_it_is():
    garbled = [*LONG[:16], *("xyz" + str(number) for number in range(8)), *LONG[24:]]
    found = curves([garbled], [LONG])["relative"]
    for side in ("precision", "recall"):
        assert [value < 99.9 for value in found[side]] == [False] * 3 + [True] * 4 + [False] * 3
        assert found[side][4:6] == [0, 0]


def test_counts_add_up_to_bleu_s():
    draw = random.Random(1)
    lines = [[draw.choices("abcdefg", k=draw.randint(0, 30)) for _ in range(40)] for _ in range(2)]
    counts = counts_of(*lines)
    oracle = sacrebleu.corpus_bleu([" ".join(line) for line in lines[0]], [[" ".join(line) for line in lines[1]]],
                                   tokenize="none", force=True)  # fmt: skip
    for part in (slice(0, TENTHS), slice(TENTHS, None)):
        sums = counts[:, :, part].sum(axis=2)
        np.testing.assert_allclose(sums[0], np.array([oracle.counts, oracle.totals]).T, rtol=1e-12)
        # what the outputs have of the references is what the references have of the outputs
        np.testing.assert_allclose(sums[1, :, 0], oracle.counts, rtol=1e-12)


def test_places_by_hand():
    """Of five words the middles are at 10, 30 … 90 %; a pair counts by halves at both of its words."""
    counts = counts_of([list("abcde")], [list("abcde")])[0]
    assert counts[0, :TENTHS, 1].tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    assert counts[1, :TENTHS, 1].tolist() == [0, 0.5, 0, 1, 0, 1, 0, 1, 0, 0.5]
    assert counts[3, TENTHS:, 1].tolist() == [2] + [0] * (WINDOWS - 1)


def test_the_last_window_is_open():
    long = list(range(250))
    counts = counts_of([long], [long])[0, 0, TENTHS:, 1]
    assert counts.tolist() == [10] * 10 + [150]
    names = places()
    assert names["absolute"][::10] == ["0-9", "100-"]
    assert names["relative"][::9] == ["0-10 %", "90-100 %"]
    assert [len(names[kind]) for kind in ("relative", "absolute")] == [TENTHS, WINDOWS]


def test_without_words_there_is_no_curve():
    found = curves([[], ["a"]], [["a"], []])
    assert found["relative"]["precision"] == [None] * TENTHS
    assert sum(found["relative"]["n"]["recall"]) == 1
