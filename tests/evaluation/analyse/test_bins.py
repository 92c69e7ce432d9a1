"""Bins of lengths: edges, labels and what training saw of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.bins import (
    FEWEST_MERGED,
    MOST_BINS,
    Bin,
    TrainedLengths,
    bin_numbers,
    bins_from_edges,
    bins_of,
    bins_of_width,
    mark,
    mark_of,
    merged,
    usual_bins,
)

UNKNOWN = TrainedLengths()


def labels(bins):
    return [each.label for each in bins]


def test_the_bins_of_neishi_2019():
    bins = bins_of_width(10, TrainedLengths(longest=49))
    assert labels(bins) == ["0-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-"]
    assert [mark(each, TrainedLengths(longest=49)) for each in bins] == ["seen"] * 5 + ["unseen"] * 2


def test_the_bins_of_rosendahl_2019():
    bins = bins_from_edges([26, 51, 76, 101])
    assert labels(bins) == ["0-25", "26-50", "51-75", "76-100", "101-"]
    assert [mark(each, TrainedLengths(longest=75)) for each in bins] == ["seen"] * 3 + ["unseen"] * 2


def test_the_first_unseen_lengths_have_a_bin_of_their_own():
    assert labels(bins_of_width(10, TrainedLengths(longest=49)))[-2:] == ["50-59", "60-"]
    assert labels(bins_of_width(10, TrainedLengths(longest=50)))[-3:] == ["50-59", "60-69", "70-"]
    assert labels(bins_of_width(10, TrainedLengths(longest=99)))[-3:] == ["90-99", "100-109", "110-"]
    assert labels(bins_of_width(10, TrainedLengths(longest=100)))[-3:] == ["100-109", "110-119", "120-"]


def test_a_width_that_nobody_chose_never_makes_too_many_bins():
    """One training sentence of 2,500 words; a test whose sentences have at most 70, or as many as training."""
    assert usual_bins(10, TrainedLengths(longest=1979), 70) == bins_of_width(10, TrainedLengths(longest=1979))
    assert labels(usual_bins(10, TrainedLengths(longest=2500), 70))[-2:] == ["80-89", "90-"]
    assert len(usual_bins(10, TrainedLengths(longest=2500), 2400)) == MOST_BINS
    assert usual_bins(10, UNKNOWN, 2400) == bins_of_width(10, UNKNOWN)


@given(st.integers(1, 30), st.lists(st.integers(0, 400), min_size=1))
def test_every_length_is_in_the_bin_that_says_so(width, lengths):
    bins = bins_of_width(width, UNKNOWN)
    for length, number in zip(lengths, bin_numbers(np.array(lengths), bins), strict=True):
        chosen = bins[number]
        assert chosen.first <= length <= (length if chosen.last is None else chosen.last)


@given(
    st.lists(st.integers(0, 90).map(lambda number: number**2 // 90), min_size=1, max_size=400),
    st.one_of(st.none(), st.integers(1, 70)),
)
def test_default_bins_of_few_sentences_are_joined_with_others_of_their_kind(lengths, longest):
    trained, counted = TrainedLengths(longest=longest), np.array(lengths)
    before = bins_of_width(10, trained)
    after = merged(before, counted, trained)
    assert after[-1].last is None
    if after != before:  # as if there were no lengths beyond the longest source
        before = before[: bin_numbers(counted, before).max() + 1]
        after[-1] = Bin(after[-1].first, before[-1].last)
    parts = [[each for each in before if new.first <= each.first <= (new.last or each.first)] for new in after]
    assert [each for part in parts for each in part] == before
    assert [(part[0].first, part[-1].last) for part in parts] == [(new.first, new.last) for new in after]
    counts = np.bincount(bin_numbers(counted, after), minlength=len(after))
    marks = [{mark(each, trained) for each in part} for part in parts]
    alone = before[-1].last is None and len(after) == len(before) and all(len(part) == 1 for part in parts)
    for number, (count, of_part) in enumerate(zip(counts, marks, strict=True)):
        neighbours = [marks[other] for other in (number - 1, number + 1) if 0 <= other < len(after)]
        assert alone or count >= FEWEST_MERGED or of_part not in neighbours, "few sentences beside others of their kind"
        assert alone or len(of_part) == 1
        smaller = all(
            np.bincount(bin_numbers(counted, before), minlength=len(before))[before.index(each)] >= FEWEST_MERGED
            for each in parts[number]
        )
        assert len(parts[number]) == 1 or not smaller, "joined without need"


def test_bins_that_were_asked_for_and_bins_of_a_small_test_stay():
    few = np.array([3] * 20 + [15] * 20)
    assert bins_of(few, UNKNOWN, False, 10, None) == bins_of_width(10, UNKNOWN)
    assert labels(bins_of(few, UNKNOWN, False, None, [10])) == ["0-9", "10-"]
    assert bins_of(few, UNKNOWN, False, None, None) == bins_of_width(10, UNKNOWN), "all would be one bin"
    many = np.array([3] * 30 + [15] * 29 + [25] * 2 + [65])
    assert labels(bins_of(many, UNKNOWN, False, None, None)) == ["0-9", "10-"]
    assert labels(bins_of(many, TrainedLengths(longest=29), False, None, None)) == ["0-9", "10-29", "30-"]


def test_lengths_without_sentences_beyond_the_longest_have_no_bin():
    """Training had 252 subwords, and the test has at most 95: nothing says what happens beyond 252."""
    lengths = np.array([5] * 70 + [25] * 80 + [35] * 70 + [45] * 60 + [95] * 18)
    after = bins_of(lengths, TrainedLengths(1, 252), False, None, None)
    assert labels(after) == ["0-9", "10-29", "30-39", "40-"]
    assert mark_of({"n": 78, "shortest": 40, "longest": 95}, TrainedLengths(1, 252)) == "seen"


def test_bins_of_one_length():
    assert labels(bins_from_edges([1, 2, 3])) == ["0", "1", "2", "3-"]
    assert bins_from_edges([0, 5]) == bins_from_edges([5]) == [Bin(0, 4), Bin(5, None)]


@pytest.mark.parametrize(
    ("each", "trained", "expected"),
    [
        (Bin(0, 9), TrainedLengths(1, 49), "seen"),
        (Bin(0, 9), TrainedLengths(2, 49), "partly unseen"),
        (Bin(40, 49), TrainedLengths(1, 49), "seen"),
        (Bin(40, 49), TrainedLengths(1, 48), "partly unseen"),
        (Bin(40, 49), TrainedLengths(1, 40), "partly unseen"),
        (Bin(40, 49), TrainedLengths(1, 39), "unseen"),
        (Bin(60, None), TrainedLengths(1, 500), "partly unseen"),
        (Bin(60, None), TrainedLengths(1, 59), "unseen"),
        (Bin(0, 9), TrainedLengths(26, 34), "unseen"),
        (Bin(20, 29), TrainedLengths(26, 34), "partly unseen"),
        (Bin(60, None), TrainedLengths(shortest=26), "seen"),
        (Bin(0, 9), UNKNOWN, None),
    ],
)
def test_marks(each, trained, expected):
    assert mark(each, trained) == expected


def test_a_bin_is_marked_by_its_sentences():
    """Lengths that no sentence has do not matter: the first bin starts at 0, the last one is open."""
    trained = TrainedLengths(3, 70)
    ends = {"first": 0, "last": 9}
    assert mark_of({**ends, "n": 2, "shortest": 3, "longest": 8}, trained) == "seen"
    assert mark_of({**ends, "n": 2, "shortest": 2, "longest": 8}, trained) == "partly unseen"
    assert mark_of({"first": 60, "last": None, "n": 2, "shortest": 61, "longest": 70}, trained) == "seen"
    assert mark_of({"first": 70, "last": 79, "n": 1, "shortest": 71, "longest": 71}, trained) == "unseen"


def test_an_empty_bin_is_not_partly_seen():
    trained = TrainedLengths(3, 65)
    empty = {"n": 0, "shortest": None, "longest": None}
    places = [(0, 9), (10, 19), (60, 69), (70, 79), (80, None)]
    found = [mark_of({"first": first, "last": last, **empty}, trained) for first, last in places]
    assert found == [None, "seen", None, "unseen", "unseen"]
    assert mark_of({"first": 60, "last": 69, "n": 2, "shortest": 64, "longest": 66}, trained) == "partly unseen"
    two = TrainedLengths.of_trainings([(1, 20), (1, 40)])
    assert mark_of({"first": 21, "last": 30, **empty}, two) is None
    assert mark_of({"first": 21, "last": 30, "n": 1, "shortest": 22, "longest": 22}, two) == "partly unseen"


@pytest.mark.parametrize("edges", [[], [10, 10], [20, 10], [-5, 10], [0, 0, 3]])
def test_edges_that_make_no_bins(edges):
    with pytest.raises(UserError, match="bin edges must be increasing lengths of 0 or more; got"):
        bins_from_edges(edges)


def test_width_and_number_have_limits():
    with pytest.raises(UserError, match="width of a bin is at least 1; got 0"):
        bins_of_width(0, UNKNOWN)
    with pytest.raises(UserError, match=f"1002 bins are too many; the maximum is {MOST_BINS}"):
        bins_of_width(1, TrainedLengths(longest=999))
    with pytest.raises(UserError, match="bins are too many"):
        bins_of_width(1, TrainedLengths(longest=10**15))  # a list of them would need all memory


def test_a_bin_is_seen_if_all_trainings_saw_its_lengths():
    trained = TrainedLengths.of_trainings([[1, 20], [3, 40], [1, 20]])
    assert (trained.shortest, trained.longest, len(trained.each)) == (1, 40, 2)
    bins = bins_from_edges([3, 11, 21, 41])
    assert [mark(each, trained) for each in bins] == ["partly unseen", "seen", "seen", "partly unseen", "unseen"]
    assert TrainedLengths.of_trainings([[1, 20], (1, 20)]) == TrainedLengths(1, 20)
    assert TrainedLengths.of_trainings([]) == UNKNOWN


def test_an_empty_line_counts_as_a_sentence_of_one():
    assert mark(Bin(0, 0), TrainedLengths(shortest=1, longest=5)) == "seen"
    assert mark(Bin(0, 0), TrainedLengths(shortest=2, longest=5)) == "unseen"
