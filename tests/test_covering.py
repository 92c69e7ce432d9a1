"""Covering arrays: every two values meet, in few rows and groups."""

from __future__ import annotations

import itertools

import pytest

from tests.support.covering import covering, groups, pairwise


@pytest.mark.parametrize(
    "factors", [[range(3), "ab"], [range(4), "abc", [True, False], range(3)], [range(7)] * 5], ids=["2", "4", "5"]
)
def test_every_two_values_of_two_factors_are_in_a_row(factors):
    """In fewer than twice the rows that the two longest factors alone need."""
    rows = pairwise(*factors)
    assert all(value in factor for row in rows for value, factor in zip(row, factors, strict=True))
    for (one, left), (other, right) in itertools.combinations(enumerate(factors), 2):
        assert {(row[one], row[other]) for row in rows} == {*itertools.product(left, right)}
    longest = sorted(map(len, factors))[-2:]
    assert len(rows) < 2 * longest[0] * longest[1]


def test_names_have_every_feature_between_them():
    assert covering({"a": "x", "b": "xyz", "c": "zw", "d": "yz"}) == ["b", "c"]


def test_every_pair_is_in_a_group_of_pairs():
    """All numbers below 12 but those that add up to 11."""
    pairs = [pair for pair in itertools.combinations(range(12), 2) if sum(pair) != 11]
    found = groups(pairs, most=4)
    within = [pair for group in found for pair in itertools.combinations(sorted(group), 2)]
    assert {*within} == {*pairs}
    assert max(map(len, found)) == 4
    assert len(found) <= len(pairs) / 4
