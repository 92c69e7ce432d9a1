"""Sums over resamples against loops; the same seed gives the same, however many are computed at a time."""

import numpy as np
import pytest

from posnmt.evaluation.analyse.resample import bootstrap_sums, half_sums

SENTENCES, SYSTEMS, STATISTICS, SAMPLES = 13, 2, 3, 50


@pytest.fixture
def rows():
    return np.random.default_rng(1).integers(0, 100, (SENTENCES, SYSTEMS, STATISTICS)).astype(float)


GROUPS = np.array([2, 0, 2, 3, 0, 0, 2, 3, 3, 0, 2, 0, 0])  # nobody is in group 1


def bootstrap(rows, **options):
    return np.concatenate(list(bootstrap_sums(rows, GROUPS, 4, SAMPLES, 5, **options)))


def test_bootstrap_sums_are_those_of_drawn_sentences(rows):
    sums = bootstrap(rows)
    # The same draws, which fall on the sentences in the order of their groups.
    order = np.argsort(GROUPS, kind="stable")
    drawn = order[np.random.default_rng([5, 0]).integers(0, SENTENCES, (SAMPLES, SENTENCES))]
    for sample in range(SAMPLES):
        for place, wanted in enumerate([range(4), [0], [1], [2], [3]]):
            expected = np.zeros((SYSTEMS, STATISTICS))
            for sentence in drawn[sample]:
                if GROUPS[sentence] in wanted:
                    expected += rows[sentence]
            assert (sums[sample, place] == expected).all()


def test_half_sums_are_those_of_the_sentences_taken(rows):
    identity = np.eye(SENTENCES)[:, None, :]  # each sentence has a statistic of its own
    taken = np.concatenate(list(half_sums(identity, SAMPLES, 5)))[:, 0]
    assert set(taken.ravel().tolist()) == {0, 1}
    assert 0.4 < taken.mean() < 0.6
    sums = np.concatenate(list(half_sums(rows, SAMPLES, 5)))
    for sample in range(SAMPLES):
        assert (sums[sample] == sum(rows[sentence] for sentence in range(SENTENCES) if taken[sample, sentence])).all()


def test_steps_do_not_change_samples(rows):
    for weights in (1, 40, 100):
        assert (bootstrap(rows, weights=weights) == bootstrap(rows)).all()
        steps = list(half_sums(rows, SAMPLES, 5, weights=weights))
        assert len(steps) > 1
        assert (np.concatenate(steps) == np.concatenate(list(half_sums(rows, SAMPLES, 5)))).all()


def test_a_batch_has_no_more_sums_than_weights(rows):
    """Few sentences and many outputs and bins: the sums are then what takes memory."""
    for size in (len(each) for each in bootstrap_sums(rows, GROUPS, 4, SAMPLES, 5, weights=100)):
        assert size * 5 * SYSTEMS * STATISTICS <= 100
    for size in (len(each) for each in half_sums(rows, SAMPLES, 5, weights=100, beside=50)):
        assert size * 50 <= 100


def test_another_seed_other_samples(rows):
    other = np.concatenate(list(bootstrap_sums(rows, GROUPS, 4, SAMPLES, 6)))
    assert (other != bootstrap(rows)).any(axis=(1, 2, 3)).mean() > 0.9
    one, two = (np.concatenate(list(half_sums(rows, SAMPLES, seed))) for seed in (5, 6))
    assert (one != two).any()


def test_every_sentence_is_drawn_equally_often():
    identity = np.eye(8)[:, None, :]
    sums = np.concatenate(list(bootstrap_sums(identity, np.zeros(8, int), 1, 4000, 1)))[:, 0, 0]
    assert (sums.sum(axis=1) == 8).all()
    # The number of draws of a sentence is binomial: mean 1, variance 7 / 8.
    assert sums.mean(axis=0) == pytest.approx(np.ones(8), abs=0.06)
    assert sums.var(axis=0) == pytest.approx(np.full(8, 7 / 8), abs=0.1)


@pytest.mark.parametrize("block", [1, 5, 8192])
@pytest.mark.parametrize("factor", [2**26, 2**17])
def test_sums_too_large_for_float32_are_exact(rows, factor, block, monkeypatch):
    """The same samples of odd counts, which or whose sums are above 2^24, where float32 holds no odd number."""
    monkeypatch.setattr("posnmt.evaluation.analyse.resample.BLOCK", block)
    large = rows * factor + 1
    sizes = bootstrap(np.ones_like(rows))
    assert (bootstrap(large) == bootstrap(rows) * factor + sizes).all()
    taken, taken_sizes = (np.concatenate(list(half_sums(each, SAMPLES, 5))) for each in (rows, np.ones_like(rows)))
    assert (np.concatenate(list(half_sums(large, SAMPLES, 5))) == taken * factor + taken_sizes).all()
