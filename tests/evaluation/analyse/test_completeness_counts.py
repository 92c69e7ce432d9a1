"""Exact bounds, jackknife and McNemar's test against plain sums."""

from math import comb, sqrt

import numpy as np
import pytest

from posnmt.evaluation.analyse.completeness.counts import clopper_pearson, jackknife, mcnemar, rate_of, upper_bound
from posnmt.evaluation.analyse.seeds import t_quantile


def at_most(events, trials, share):
    return sum(comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(events + 1))


@pytest.mark.parametrize(("events", "trials"), [(0, 1), (0, 30), (1, 473), (7, 19), (18, 19)])
def test_bounds_have_the_tails_of_the_binomial_distribution(events, trials):
    assert at_most(events, trials, upper_bound(events, trials)) == pytest.approx(0.05)
    low, high = clopper_pearson(events, trials)
    assert at_most(events, trials, high) == pytest.approx(0.025)
    assert low == 0 if not events else at_most(events - 1, trials, low) == pytest.approx(0.975)


def test_all_events_have_no_bound_below_one():
    assert upper_bound(5, 5) == 1
    assert clopper_pearson(5, 5)[1] == 1


@pytest.mark.parametrize(("events", "trials"), [(0, 299), (1, 473), (2, 628)])
def test_fewer_than_one_in_a_hundred_needs_so_many_sentences(events, trials):
    assert upper_bound(events, trials) < 0.01 <= upper_bound(events, trials - 1)


def test_jackknife_leaves_out_one_line_at_a_time():
    draw = np.random.default_rng(1)
    trials = draw.integers(0, 6, 30).astype(float)
    events = np.minimum(draw.integers(0, 4, 30), trials)
    used = [(e, t) for e, t in zip(events, trials, strict=True) if t]
    without = [sum(e for e, _ in rest) / sum(t for _, t in rest)
               for rest in (used[:at] + used[at + 1 :] for at in range(len(used)))]  # fmt: skip
    n, mean = len(used), sum(without) / len(used)
    error = sqrt((n - 1) / n * sum((each - mean) ** 2 for each in without))
    low, high = jackknife(events, trials)
    assert (low + high) / 2 == pytest.approx(events.sum() / trials.sum())
    assert (high - low) / 2 == pytest.approx(t_quantile(0.975, n - 1) * error)
    assert jackknife(np.ones(1), np.ones(1)) is None


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.7062), (10, 2.22814), (1000, 1.96234)])
def test_quantiles_of_t(freedom, quantile):
    assert t_quantile(0.975, freedom) == pytest.approx(quantile, rel=1e-5)


def test_mcnemar_counts_the_sentences_on_which_two_systems_differ():
    ones = np.array([1] * 9 + [0] * 2 + [1] * 5 + [0] * 4, dtype=bool)
    others = np.array([0] * 9 + [1] * 2 + [1] * 5 + [0] * 4, dtype=bool)
    first, second, p = mcnemar(ones, others)
    assert (first, second) == (9, 2)
    assert p == pytest.approx(2 * at_most(2, 11, 0.5))
    assert mcnemar(ones, ones)[2] == 1


@pytest.mark.parametrize("clustered", [True, False])
def test_the_wider_interval_and_the_wider_bound_count(clustered):
    """40 of 400 sentences of 100 lines: all four of ten lines, where the jackknife is wider, or one of forty."""
    lines = np.repeat(np.arange(100), 4)
    omitted = (lines < 10) if clustered else (np.arange(400) % 4 == 0) & (lines < 40)
    found = rate_of(omitted, lines)
    exact = clopper_pearson(40, 400), upper_bound(40, 400)
    each = np.bincount(lines, omitted), np.full(100, 4.0)
    over_lines = jackknife(*each), jackknife(*each, level=0.9)[1]
    (low, high), most = over_lines if clustered else exact
    assert (over_lines[0][1] > exact[0][1]) == clustered == (over_lines[1] > exact[1])
    assert found == {"sentences": 400, "omitted": 40, "rate": 0.1, "interval": [low, high], "at_most": most}


def test_no_omission_has_the_exact_bound():
    found = rate_of(np.zeros(299, bool), np.arange(299) // 3)
    assert found["at_most"] == upper_bound(0, 299) < 0.01
    assert found["interval"] == [0, clopper_pearson(0, 299)[1]]
