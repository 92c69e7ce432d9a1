"""Terms by clipped distance on a block: what a softmax sees of them, and sums of weights whose whole is known."""

from __future__ import annotations

import pytest
import torch

from posnmt.model.kernels.distances import add_by_distance, sum_by_distance
from posnmt_position.diagonal import collect, spread


@pytest.mark.parametrize("reach", [1, 3, 20])
@pytest.mark.parametrize(
    ("start", "queries", "keys"), [(0, 5, 40), (17, 5, 40), (35, 5, 40), (17, 5, 22), (0, 1, 9), (8, 1, 9), (30, 6, 33)]
)
def test_what_is_left_out_is_the_same_for_all_keys_of_a_query(start, queries, keys, reach):
    torch.manual_seed(1)
    scores = torch.randn(2, queries, keys, dtype=torch.float64)
    by_distance = torch.randn(2, queries, 2 * reach + 1, dtype=torch.float64)
    got = scores.clone()
    add_by_distance(got, by_distance, start)
    rest = scores + spread(by_distance, start, keys) - got
    torch.testing.assert_close(rest, rest[..., :1].expand_as(rest), rtol=0, atol=1e-12)

    weights = scores.softmax(-1)
    for whole, each in ((1.0, weights), (0.0, weights - 1 / keys)):
        got = sum_by_distance(each, start, reach, whole)
        torch.testing.assert_close(got, collect(each, start, reach), rtol=0, atol=1e-12)


def test_in_bfloat16_the_sums_are_as_good_as_summing():
    torch.manual_seed(1)
    weights = torch.randn(2, 64, 512).softmax(-1)
    exact = collect(weights, 200, 16)
    summed = collect(weights.bfloat16(), 200, 16) - exact
    got = sum_by_distance(weights.bfloat16(), 200, 16, 1.0) - exact
    assert 0 < got.norm() < 1.5 * summed.norm()
