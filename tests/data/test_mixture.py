"""A list of corpora in training: what each pass has by weight, the stages, and a sequence that goes on exactly."""

from __future__ import annotations

from collections import Counter
from math import ceil, floor

import numpy as np
import pytest

from posnmt.base.errors import UserError
from posnmt.config.corpora import ListedCorpus
from posnmt.data.batch import BatchPlan, Cursor
from posnmt.data.mixture import Mixture, in_a_pass


class Pairs:
    """Pairs of random lengths."""

    def __init__(self, count, segmentations=1):
        lengths = np.random.default_rng(1).integers(1, 20, size=(2, count)).astype(np.int32)
        self.source_lengths, self.target_lengths = np.tile(lengths, segmentations)


def corpora(*settings):
    return [ListedCorpus.model_validate({"source": "a", "target": "b", **each}) for each in settings]


def plan(sizes, settings, segmentations=1, seed=1, size=60, unit="tokens", with_replacement=False, **length):
    of = np.repeat(np.arange(len(sizes)), sizes)
    mixture = Mixture(of, corpora(*settings), seed, **(length or {"updates": 100}))
    pairs = Pairs(len(of), segmentations)
    sort_by = "source" if with_replacement else "target"
    return BatchPlan(pairs, size, unit, seed, sort_by, segmentations, with_replacement, mixture)


WEIGHTS = [0.5, 1, 2.5, 0.3, 4, 0.07, 1.999]


@pytest.mark.parametrize("count", [1, 7, 40])
def test_after_any_number_of_passes_each_pair_was_read_as_often_as_its_weight_says(count):
    batches = plan([count] * len(WEIGHTS), [{"weight": weight} for weight in WEIGHTS])
    times = np.zeros((len(WEIGHTS), count), int)
    for number in range(30):
        for pair in np.concatenate([np.zeros(0, int), *batches.epoch(number)]).tolist():
            times[pair // count, pair % count] += 1
        for weight, row in zip(WEIGHTS, times, strict=True):
            due = round((number + 1) * weight, 9)
            assert {*row.tolist()} <= {floor(due), ceil(due)}
            assert row.sum() == floor(round(due * count, 9))


def test_a_weight_of_a_half_reads_each_pair_in_every_second_pass():
    batches = plan([10], [{"weight": 0.5}])
    passes = [{*np.concatenate(batches.epoch(number)).tolist()} for number in range(4)]
    assert passes[0] == passes[2]
    assert passes[1] == passes[3]
    assert passes[0] | passes[1] == {*range(10)}
    assert not passes[0] & passes[1]
    assert len(passes[0]) == 5
    other = plan([10], [{"weight": 0.5}], seed=2)
    assert {*np.concatenate(other.epoch(0)).tolist()} != passes[0]


@pytest.mark.parametrize("replacement", [False, True])
def test_a_list_of_one_corpus_has_the_batches_of_that_corpus(replacement):
    kind = {"size": 7, "unit": "sentences"} if replacement else {"size": 60, "unit": "tokens"}
    for segmentations in (1, 3):
        listed = plan([50], [{}], segmentations, with_replacement=replacement, **kind)
        alone = BatchPlan(
            listed.pairs, kind["size"], kind["unit"], 1, listed.sort_by, segmentations, with_replacement=replacement
        )
        for number in range(4):
            assert all(map(np.array_equal, listed.epoch(number), alone.epoch(number)))
            assert len(listed.epoch(number)) == len(alone.epoch(number))


def test_each_reading_of_a_pair_has_the_next_segmentation():
    batches, read = plan([6, 6], [{"weight": 2.5}, {"weight": 0.5}], segmentations=4), {}
    for number in range(16):
        for pair in sorted(np.concatenate(batches.epoch(number)).tolist()):
            read.setdefault(pair % 12, []).append(pair // 12)
    for pair, segmentations in read.items():
        weight = 2.5 if pair < 6 else 0.5
        assert len(segmentations) == 16 * weight
        assert Counter(segmentations) == dict.fromkeys(range(4), 4 * weight)


STAGED = [{"until": 0.5}, {"from": 0.5, "weight": 2}, {"weight": 0.5}]


@pytest.mark.parametrize("batches", [1, 3])
def test_corpora_are_used_in_their_share_of_the_updates(batches):
    """In 41 updates, the first 21 begin before the half."""
    sizes, made = [30, 20, 10], plan([30, 20, 10], STAGED, updates=41, batches=batches)
    cursor, found = Cursor(), []
    for _ in range(41):
        numbers, cursor = made.take(cursor, batches)
        found.append({np.searchsorted(np.cumsum(sizes), pair, "right") for pair in np.concatenate(numbers).tolist()})
    assert set().union(*found[:21]) == {0, 2}
    assert set().union(*found[21:]) == {1, 2}
    assert cursor.taken == 41 * batches


def test_corpora_are_used_in_the_passes_that_begin_in_their_share():
    made = plan([30, 20, 10], STAGED, passes=3)
    cursor, passes = Cursor(), {}
    while cursor.epoch < 3:
        number = cursor.epoch
        [batch], cursor = made.take(cursor, 1)
        passes.setdefault(number, []).extend(batch.tolist())
    assert [{pair // 30 for pair in each if pair < 50} for each in passes.values()] == [{0}, {0}, {1}]
    assert len([pair for pair in passes[2] if 30 <= pair < 50]) == 40


@pytest.mark.parametrize("length", [{"updates": 40, "batches": 2}, {"passes": 5}])
@pytest.mark.parametrize("replacement", [False, True])
def test_a_sequence_goes_on_exactly_from_any_cursor(length, replacement):
    kind = {"size": 5, "unit": "sentences"} if replacement else {}

    def new():
        return plan([30, 20, 10], STAGED, segmentations=2, with_replacement=replacement, **kind, **length)

    whole, cursor, cursors = new(), Cursor(), []
    sequence = []
    for _ in range(40):
        cursors.append(cursor)
        taken, cursor = whole.take(cursor, 2)
        sequence.append([each.tolist() for each in taken])
    assert len({cursor.stage for cursor in cursors}) == 2
    assert cursors[-1].epoch > 2
    for start in (0, 1, 19, 20, 21, 33):
        taken, _ = new().take(cursors[start], 2)
        assert [each.tolist() for each in taken] == sequence[start]


def test_the_fullest_passes_have_no_smaller_batches_than_any_pass():
    made = plan([30, 20, 10], STAGED, segmentations=2, updates=40)
    most = max(len(np.concatenate(each)) for each in made.fullest(0))
    assert most >= max(len(np.concatenate(made.epoch(number, stage))) for number in range(6) for stage in (0, 1))
    everything = {pair for each in made.fullest(3) for batch in each for pair in batch.tolist()}
    assert everything == {*range(120)}


def test_a_corpus_that_is_never_used_is_refused():
    late = [{}, {"from": 0.9}]
    plan([5, 5], late, passes=10)
    with pytest.raises(UserError, match=r"never used: none of the 9 passes begins between its from and until"):
        plan([5, 5], late, passes=9)
    with pytest.raises(UserError, match=r"data\.train\.1.*or train longer"):
        plan([5, 5], late, updates=4)


def test_the_mean_size_of_a_pass_counts_weights_and_stages():
    of = np.repeat([0, 1, 2], [30, 20, 10])
    assert in_a_pass([], of) == 60
    assert in_a_pass(corpora(*STAGED), of) == 15 + 20 + 5
    made = plan([30, 20, 10], STAGED, passes=4, size=10, unit="sentences")
    assert made.batches_of_a_pass() == (4 + 5) / 2  # 35 and 45 pairs
