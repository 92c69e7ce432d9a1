"""Batches: every pair once a pass, within the limit, in an order that the seed alone decides, from an exact cursor."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posnmt.data.batch import BatchPlan, Cursor, collate, fit, pad
from posnmt.data.concatenate import Concatenated
from posnmt.data.subword import BOS, EOS, PAD


class Corpus:
    """Pairs of given lengths; the subwords of pair n are n + 4."""

    def __init__(self, lengths):
        self.source_lengths = np.array([source for source, _ in lengths], dtype=np.int32)
        self.target_lengths = np.array([target for _, target in lengths], dtype=np.int32)

    def __len__(self):
        return len(self.source_lengths)

    def pair(self, index):
        return tuple(
            np.full(lengths[index], index + 4, np.int32) for lengths in (self.source_lengths, self.target_lengths)
        )


corpora = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=200).map(Corpus)


@given(corpora, st.integers(1, 300), st.sampled_from(["tokens", "sentences"]), st.integers(0, 5))
def test_every_pair_once_a_pass_and_within_the_limit(corpus, size, unit, epoch):
    batches = BatchPlan(corpus, size, unit, seed=3).epoch(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(corpus.source_lengths)))
    for batch in batches:
        longest = max(corpus.source_lengths[batch].max(), corpus.target_lengths[batch].max()) + 1
        if unit == "sentences":
            assert len(batch) <= size
        else:
            assert len(batch) * longest <= size or len(batch) == 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=100), st.integers(1, 200))
def test_fit_covers_all_and_cuts_no_earlier_than_it_must(lengths, limit):
    runs = list(fit(np.array(lengths, np.int32), limit))
    assert [start for start, _ in runs] == [0, *(end for _, end in runs[:-1])]
    assert runs[-1][1] == len(lengths)
    for start, end in runs:
        assert (end - start) * max(lengths[start:end]) <= limit or end - start == 1
        if end < len(lengths):
            assert (end + 1 - start) * max(lengths[start : end + 1]) > limit


def padded(plan, batches):
    """Padded source and target tokens of batches, eos included."""
    sizes = [(len(batch), plan.pairs.source_lengths[batch], plan.pairs.target_lengths[batch]) for batch in batches]
    return tuple(sum(count * (int(each[side].max()) + 1) for count, *each in sizes) for side in (0, 1))


@given(corpora, st.integers(1, 300), st.sampled_from(["tokens", "sentences"]))
def test_the_side_that_pairs_are_sorted_by(corpus, size, unit):
    """Batches follow one another in the order of that side's lengths, and of the other's among equals; none is lost."""
    for sort_by, first, second in (
        ("source", corpus.source_lengths, corpus.target_lengths),
        ("target", corpus.target_lengths, corpus.source_lengths),
    ):
        batches = BatchPlan(corpus, size, unit, seed=3, sort_by=sort_by).epoch(0)
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(corpus.source_lengths)))
        shapes = sorted([(first[pair], second[pair]) for pair in batch] for batch in batches)
        assert list(chain.from_iterable(shapes)) == sorted(zip(first, second, strict=True))


def test_batches_are_sorted_by_target_unless_asked():
    by_target, by_source = (BatchPlan(CORPUS, 200, "tokens", 1, sort_by) for sort_by in ("target", "source"))
    default = BatchPlan(CORPUS, 200, "tokens", 1)
    assert [batch.tolist() for batch in default.epoch(2)] == [batch.tolist() for batch in by_target.epoch(2)]
    assert [batch.tolist() for batch in default.epoch(2)] != [batch.tolist() for batch in by_source.epoch(2)]


def test_the_side_that_pairs_are_sorted_by_is_padded_least():
    plans = {sort_by: BatchPlan(CORPUS, 200, "tokens", 1, sort_by) for sort_by in ("source", "target")}
    found = {sort_by: padded(plan, plan.epoch(0)) for sort_by, plan in plans.items()}
    assert found["source"][0] < found["target"][0]
    assert found["target"][1] < found["source"][1]
    real = [int((lengths + 1).sum()) for lengths in (CORPUS.source_lengths, CORPUS.target_lengths)]
    assert real[0] <= found["source"][0] < 1.1 * real[0]
    assert real[1] <= found["target"][1] < 1.1 * real[1]
    for plan in plans.values():  # what `collate` makes is what was counted
        batches = plan.epoch(0)[:5]
        made = [collate([CORPUS.pair(int(number)) for number in batch]) for batch in batches]
        assert padded(plan, batches) == (
            sum(each.source.numel() for each in made),
            sum(each.target_out.numel() for each in made),
        )


CORPUS = Corpus([(length % 17 + 1, length % 13 + 1) for length in range(500)])


def test_the_seed_and_the_pass_decide_the_order():
    one, same, other = (BatchPlan(CORPUS, 200, "tokens", seed) for seed in (1, 1, 2))
    first = [batch.tolist() for batch in one.epoch(0)]
    assert first == [batch.tolist() for batch in same.epoch(0)]
    assert first != [batch.tolist() for batch in one.epoch(1)]
    assert first != [batch.tolist() for batch in other.epoch(0)]


@pytest.mark.parametrize("sort_by", ["source", "target"])
def test_a_cursor_continues_exactly_even_over_the_end_of_a_pass(sort_by):
    whole, _ = BatchPlan(CORPUS, 200, "tokens", 1, sort_by).take(Cursor(), 100)
    plan, cursor, parts = BatchPlan(CORPUS, 200, "tokens", 1, sort_by), Cursor(), []
    while len(parts) < 100:
        more, cursor = plan.take(cursor, 7)
        parts.extend(more)
        plan = BatchPlan(CORPUS, 200, "tokens", 1, sort_by)  # a new process knows only the cursor
    assert [batch.tolist() for batch in parts[:100]] == [batch.tolist() for batch in whole]
    assert cursor.epoch > 0


def test_little_is_padded():
    plan = BatchPlan(Corpus([(n % 30 + 1, n % 30 + 1) for n in range(3000)]), 600, "tokens", 1)
    real = padded = 0
    for batch in plan.epoch(0):
        lengths = CORPUS_LENGTHS[batch]
        real, padded = real + lengths.sum(), padded + len(lengths) * lengths.max()
    assert real / padded > 0.9


CORPUS_LENGTHS = np.array([n % 30 + 2 for n in range(3000)])


def test_tokens_are_counted_from_lengths_alone():
    plan = BatchPlan(CORPUS, 200, "tokens", 1)
    for batch in plan.epoch(0)[:5]:
        made = collate([CORPUS.pair(int(n)) for n in batch])
        source_tokens, target_tokens = plan.tokens([batch])
        assert target_tokens == made.tokens == int((made.target_out != PAD).sum())
        assert source_tokens == int((made.source != PAD).sum()) == int(made.source_lengths.sum())
    assert plan.tokens(plan.epoch(0)[:2]) == tuple(
        sum(counts) for counts in zip(*(plan.tokens([batch]) for batch in plan.epoch(0)[:2]), strict=True)
    )


def test_what_a_batch_holds():
    batch = collate([(np.array([5, 6]), np.array([7])), (np.array([8]), np.array([9, 10, 11]))])
    assert batch.source.tolist() == [[5, 6, EOS], [8, EOS, PAD]]
    assert batch.source_lengths.tolist() == [3, 2]
    assert batch.target_in.tolist() == [[BOS, 7, PAD, PAD], [BOS, 9, 10, 11]]
    assert batch.target_out.tolist() == [[7, EOS, PAD, PAD], [9, 10, 11, EOS]]
    moved = batch.to(torch.device("meta"))
    assert moved.tokens == batch.tokens
    assert {tensor.device.type for tensor in moved.tensors} == {"meta"}


def test_pad_of_an_empty_row():
    rows, lengths = pad([[], [5, 6]], after=EOS)
    assert rows.tolist() == [[EOS, PAD, PAD], [5, 6, EOS]]
    assert lengths.tolist() == [1, 3]


def test_joined_pairs_are_two_pairs_of_the_corpus_in_a_row():
    corpus = Corpus([(3, 2), (5, 4), (1, 7), (2, 2)])
    joined = Concatenated(corpus, 2.5, seed=1)
    assert len(joined) == 4 + 10
    for index in range(4):
        assert all(
            np.array_equal(one, other) for one, other in zip(joined.pair(index), corpus.pair(index), strict=True)
        )
    for index in range(4, 14):
        first, second = joined.drawn[index - 4]
        for side, lengths in enumerate((joined.source_lengths, joined.target_lengths)):
            want = np.concatenate([corpus.pair(first)[side], corpus.pair(second)[side]])
            assert np.array_equal(joined.pair(index)[side], want)
            assert lengths[index] == len(want)
    assert len({tuple(pair) for pair in joined.drawn.tolist()}) > 5
    assert np.array_equal(Concatenated(corpus, 2.5, seed=1).drawn, joined.drawn)
    assert not np.array_equal(Concatenated(corpus, 2.5, seed=2).drawn, joined.drawn)
