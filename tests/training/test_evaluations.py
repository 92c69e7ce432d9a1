"""Evaluations of a budget in minutes: whatever the speed and the dev set, they take at most a tenth of it."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from posnmt.base.errors import UserError
from posnmt.run import defaults
from posnmt.training.evaluations import Dev, Evaluations, Pace, at_intervals, plan_evaluations


def drawn(chance):
    """A budget, a pace and a dev set."""
    size, longest = round(10 ** chance.uniform(0, 3.5)), round(10 ** chance.uniform(0.5, 2.4))
    lengths = np.random.default_rng(chance.randrange(2**32)).integers(1, longest + 1, (2, size), dtype=np.int32)
    token = 10 ** chance.uniform(-6, -1)
    pace = Pace(10 ** chance.uniform(-2, 2), token, token * 10 ** chance.uniform(0, 4))
    return 10 ** chance.uniform(-0.5, 3), pace, Dev(*lengths, batch=4096)


def test_evaluations_take_at_most_a_tenth_whatever_the_speed_or_are_refused():
    chance, kinds = random.Random(3), dict.fromkeys(("whole", "fewer", "part", "likelihood", "single", "refused"), 0)
    for _ in range(600):
        minutes, pace, dev = drawn(chance)
        size, most = len(dev.sources), defaults.evaluations(minutes)
        try:
            plan = plan_evaluations(minutes, pace, dev)
        except UserError as refused:
            kinds["refused"] += 1
            assert dev.seconds(pace, min(size, 100), translates=False) > 6 * minutes
            enough = float(re.search(r"at least ([0-9.]+) minute", refused.todo)[1])
            assert plan_evaluations(enough, pace, dev).total <= 6 * enough
            continue
        assert plan.total <= 6 * minutes
        assert plan.seconds == dev.seconds(pace, plan.pairs, plan.translates)
        assert 1 <= plan.number <= most
        assert min(size, 100) <= plan.pairs <= size
        # nothing is given up before what comes earlier in the order is
        if plan.number < min(3, most):
            assert (plan.pairs, plan.translates) == (min(size, 100), False)
        elif plan.pairs < size:
            assert plan.number == min(3, most)
        kinds["whole" if (plan.number, plan.pairs, plan.translates) == (most, size, True) else "fewer"] += 1
        kinds["part"] += plan.pairs < size
        kinds["likelihood"] += not plan.translates
        kinds["single"] += plan.number < min(3, most)
    assert min(kinds.values()) >= 10, kinds


def test_the_most_thorough_evaluations_that_fit_are_planned():
    """One more evaluation, or one more pair, would take more than a tenth."""
    chance = random.Random(5)
    for _ in range(200):
        minutes, pace, dev = drawn(chance)
        try:
            plan = plan_evaluations(minutes, pace, dev)
        except UserError:
            continue
        allowed, size = 6 * minutes, len(dev.sources)
        if plan.number < defaults.evaluations(minutes):
            more = Evaluations(plan.number + 1, plan.pairs, plan.translates, plan.seconds)
            assert more.total > allowed or plan.pairs < size
        if plan.number >= 3 and plan.pairs < size:
            more = dev.seconds(pace, plan.pairs + 1, plan.translates)
            assert plan.number * more > allowed
        if not plan.translates:
            assert min(3, defaults.evaluations(minutes)) * dev.seconds(pace, min(size, 100), True) > allowed


def test_the_order_of_what_is_given_up():
    dev = Dev(np.full(1000, 19, np.int32), np.full(1000, 19, np.int32), batch=2000)  # 10 batches of 100, 20 steps each
    expected = [
        (0.01, (12, 1000, True)),  # 3 s each, and one for the average
        (0.099, (8, 1000, True)),  # 29.7 s
        (0.199, (4, 1000, True)),
        (0.4, (3, 600, True)),
        (1.0, (3, 200, True)),
        (3.0, (12, 1000, False)),
    ]
    for step, planned in expected:
        plan = plan_evaluations(40.0, Pace(1.0, 1e-9, step), dev)
        assert (plan.number, plan.pairs, plan.translates) == planned
    with pytest.raises(UserError, match=r"on 100 dev pairs, without translations, would take 400\.0 s"):
        plan_evaluations(40.0, Pace(1.0, 0.1, 1.0), dev)


def test_what_the_user_sets_is_kept_and_named_where_it_does_not_fit():
    dev = Dev(np.full(1000, 19, np.int32), np.full(1000, 19, np.int32), batch=2000)
    pace = Pace(1.0, 1e-6, 3.0)
    assert plan_evaluations(40.0, pace, dev, fixed_pairs=50).pairs == 50
    assert plan_evaluations(40.0, Pace(1.0, 1e-6, 0.01), dev, translates=False).translates is False
    with pytest.raises(UserError, match="with translations") as refused:
        plan_evaluations(4.0, pace, dev, fixed_pairs=700, translates=True)
    assert "leave train.dev_pairs out, leave train.dev_bleu out" in refused.value.todo
    kept = at_intervals(10.0, Pace(2.0, 0.0, 1.0), dev, 100, True, every=15)
    assert (kept.number, kept.seconds, kept.translates) == (10, 30.0, True)
