"""Which outputs repeat themselves."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.translate.repetition import LONGEST, REPEATS, SPAN, is_repetitive, repetitions


def by_loops(subwords):
    """The definition, place by place."""
    most = 1
    for period in range(1, LONGEST + 1):
        for start in range(len(subwords)):
            end = start + period
            while end < len(subwords) and subwords[end] == subwords[end - period]:
                end += 1
            times = (end - start) // period
            if times >= REPEATS and end - start >= SPAN:
                most = max(most, times)
    return most


@given(st.lists(st.integers(0, 2), max_size=40))
def test_it_is_the_definition(subwords):
    assert repetitions(subwords) == by_loops(subwords)


@pytest.mark.parametrize(("period", "times"), [(1, 12), (2, 6), (3, 4), (7, 5), (LONGEST, REPEATS)])
def test_a_group_that_is_repeated_anywhere(period, times):
    drawn = random.Random(period)
    before, group, after = (drawn.sample(range(1000 * part, 1000 * (part + 1)), period) for part in range(3))
    source = drawn.sample(range(1000), 20)
    looped = before + group * times + group[: period // 2] + after
    assert repetitions(looped) == times
    assert is_repetitive(source, looped)
    assert is_repetitive([], group * times)
    assert not is_repetitive(source, before + group * (REPEATS - 1) + after)
    assert not is_repetitive(group * times, looped), "the source repeats as often"
    assert is_repetitive(group * times, before + group * (2 * times + 1))


def test_few_words_may_be_repeated():
    """ "no, no, no, no" and dots are no loops."""
    assert not is_repetitive([1, 2, 3], [5, 6] * 5)
    assert not is_repetitive([], [])


def test_groups_longer_than_the_longest_are_not_looked_for():
    assert not is_repetitive([], list(range(LONGEST + 1)) * REPEATS)
