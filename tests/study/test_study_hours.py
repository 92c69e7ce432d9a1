"""How many updates fit into hours: by plain loops."""

import pytest

from posnmt.study.hours import OTHERS, Pace, estimate, fitting, makespan, total
from posnmt.study.speed import Turns

PACES = [Pace(update=0.5, evaluating=10, testing=30, line=0.01), Pace(update=1.0, evaluating=20, testing=50, line=0.02)]


@pytest.mark.parametrize(
    ("seconds", "workers", "expected"),
    [([3, 1, 2], 1, 6), ([3, 1, 2], 2, 3), ([1, 2, 3, 4], 2, 6), ([5], 4, 5), ([], 2, 0)],
)
def test_the_last_job_ends_when_workers_take_the_next_one_each(seconds, workers, expected):
    assert makespan(seconds, workers) == expected


def test_hours_are_those_of_all_trainings_and_tests():
    one = estimate(PACES, seeds=2, updates=100, at_once=1)
    assert one["training"] * 3600 == pytest.approx(2 * (100 * 0.5 + 10 + 100 * 1.0 + 20))
    assert one["testing"] * 3600 == pytest.approx(2 * (30 + 50))
    turns = Turns.beside(100)
    in_turn = [(turns.turns + 1) * (turns.updates * pace.update + turns.lines * pace.line) for pace in PACES]
    assert one["others"] * 3600 == pytest.approx(OTHERS + sum(in_turn))
    two = estimate(PACES, seeds=2, updates=100, at_once=2)
    assert two["training"] * 3600 == pytest.approx(60 + 60 + 120)  # one worker has these, the other 120
    assert total(two) < total(one)


@pytest.mark.parametrize("limit", [0.01, 0.1, 0.3, 1.0, 50.0])
def test_the_updates_that_fit_are_the_most(limit):
    def spent(updates):
        return total(estimate(PACES, 3, updates, 2))

    most = 2000
    fits = [updates for updates in range(1, most + 1) if spent(updates) <= limit]
    assert fitting(spent, most, limit) == max(fits, default=0)


def test_measuring_speeds_takes_a_part_of_the_time_of_a_training():
    """At most a tenth of its updates, but for the three that two turns need; more for longer trainings, up to all."""
    every = [Turns.beside(steps) for steps in range(1, 601)]
    made = [(each.turns + 1) * each.updates for each in every]
    assert all(count <= max(3, steps / 10) for steps, count in enumerate(made, start=1))
    assert made[-1] == 50
    for counts in (made, [(each.turns + 1) * each.lines for each in every]):
        assert counts == sorted(counts)
        assert counts[0] < counts[-1] / 10
    assert min(each.turns for each in every) == 2  # of one turn nothing can be said
    assert every[499] == Turns.beside(None) == Turns()
