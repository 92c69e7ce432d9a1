"""Zones by exposure, support, and bins that are merged downwards."""

import numpy as np
import pytest

from posnmt.data.exposure import exposure
from posnmt.evaluation.analyse.bins import Bin
from posnmt.evaluation.analyse.zones import Support, exposure_at, longest_reached, merged_bins, zones_of


def test_zones_follow_exposure_at_its_borders():
    shares = np.array([1, 0.1, 0.0999, 0.001, 0.000999, 0])
    assert zones_of(shares, np.array([0, 1, 2, 3, 4, 5, 900])).tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert zones_of(shares[:4], np.array([3, 4])).tolist() == [1, 2], "the array may end with the longest sentence"
    assert longest_reached(shares) == longest_reached(shares[:4]) == 4
    assert exposure_at(shares, np.array([1, 7])).tolist() == [0.1, 0]
    assert zones_of(np.zeros(0), np.array([0])).tolist() == [2]


def test_odd_lines_of_training_do_not_move_what_is_beyond():
    counts = np.bincount([*[30] * 2000, 400, 500])
    places = np.array([29, 30, 399])
    assert zones_of(exposure(counts), places).tolist() == [0, 2, 2]
    assert longest_reached(exposure(counts)) == 30


@pytest.mark.parametrize(
    ("sentences", "documents", "effective", "status"),
    [
        (100, 20, 10, "decided"), (99, 20, 10, "pale"), (100, 19, 10, "pale"), (100, 20, 9.99, "pale"),
        (50, 10, 1, "pale"), (49, 10, 10, "few"), (50, 9, 9, "few"),
    ],
)  # fmt: skip
def test_support_has_the_minima_of_the_page(sentences, documents, effective, status):
    assert Support(sentences, documents, effective).status == status


def test_the_effective_number_of_documents():
    sentences, documents = np.array([0, 0, 1, 2, 2, 2]), np.array([5, 5, 5, 8, 8, 8])
    assert Support.of(sentences, documents) == Support(3, 2, 2.0)
    assert Support.of(sentences[:4], documents[:4]) == Support(3, 2, pytest.approx(16 / 10))
    assert Support.of_weights(3, np.array([3, 0, 1])) == Support(3, 2, pytest.approx(16 / 10))
    assert Support.of(np.zeros(0), np.zeros(0)) == Support(0, 0, 0.0)


def supported(needed):
    """A bin is `few` with fewer than so many subwords."""
    return lambda mask: "few" if mask.sum() < needed else "pale"


@pytest.mark.parametrize(
    ("counts", "bins"),
    [
        ([9, 9, 9], [(0, 9), (10, 19), (20, 29)]),
        ([9, 9, 2], [(0, 9), (10, 29)]),
        ([9, 3, 2], [(0, 9), (10, 29)]),
        ([9, 2, 2], [(0, 29)]),
        ([1, 9, 9], [(0, 19), (20, 29)]),
        ([1, 1, 1], [(0, 29)]),
        ([9, 0, 0, 3, 9], [(0, 39), (40, 49)]),
    ],
)
def test_bins_are_merged_downwards_until_they_have_enough(counts, bins):
    places = np.concatenate([np.full(count, 10 * number + 9) for number, count in enumerate(counts)])
    assert merged_bins(places, supported(5)) == [Bin(*ends) for ends in bins]


def test_bins_may_start_later_and_hold_every_place_from_there_once():
    places = np.arange(-20, 37)
    bins = merged_bins(places, supported(8), start=1)
    assert [(each.first, each.last) for each in bins] == [(1, 10), (11, 20), (21, 36)]
    assert merged_bins(np.arange(-5, 0), supported(1), start=1) == []
