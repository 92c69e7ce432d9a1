"""Batches: every pair once a pass or drawn, within the limit, by the seed alone, from an exact cursor."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posnmt.data.batch import BatchPlan, Cursor, batches_by_length, collate, even_limit, fit, pad
from posnmt.data.joined import Concatenated
from posnmt.data.subword import BOS, EOS, PAD


class Corpus:
    """Pairs of given lengths; the subwords of pair n are n + 4."""

    def __init__(self, lengths):
        self.source_lengths = np.array([source for source, _ in lengths], dtype=np.int32)
        self.target_lengths = np.array([target for _, target in lengths], dtype=np.int32)
        self.corpora = np.zeros(len(lengths), int)

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


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 300), st.integers(1, 4), st.integers(1, 200))
def test_an_even_limit_is_within_the_limit_and_costs_no_more_than_a_round_of_batches(lengths, limit, workers, least):
    each = even_limit(lengths, limit, workers, least)
    fewest, batches = (len(list(batches_by_length(lengths, most))) for most in (limit, each))
    assert each <= limit
    assert fewest <= batches <= -(-fewest // workers) * workers


@pytest.mark.parametrize(
    ("count", "limit", "workers", "least", "rows"),
    [
        (10, 60, 2, 20, [5, 5]),  # of 10 tokens each: the limit alone would give 6 and 4
        (13, 60, 2, 20, [4, 4, 4, 1]),
        (10, 1000, 2, 20, [5, 5]),
        (10, 1000, 4, 50, [5, 5]),
        (10, 1000, 2, 100, [10]),
        (1, 1000, 2, 1, [1]),
        (10, 60, 1, 20, [6, 4]),
    ],
)
def test_an_even_limit_gives_each_worker_as_much(count, limit, workers, least, rows):
    lengths = [9] * count
    assert [*map(len, batches_by_length(lengths, even_limit(lengths, limit, workers, least)))] == rows


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
    for new in (lambda seed: BatchPlan(CORPUS, 200, "tokens", seed), lambda seed: drawn_from(CORPUS, 30, seed)):
        one, same, other = map(new, (1, 1, 2))
        first = [batch.tolist() for batch in one.epoch(0)]
        assert first == [batch.tolist() for batch in same.epoch(0)]
        assert first != [batch.tolist() for batch in one.epoch(1)]
        assert first != [batch.tolist() for batch in other.epoch(0)]


@pytest.mark.parametrize(
    "new",
    [
        lambda: BatchPlan(CORPUS, 200, "tokens", 1, "source"),
        lambda: BatchPlan(CORPUS, 200, "tokens", 1, "target"),
        lambda: drawn_from(CORPUS, 30, seed=1),
    ],
    ids=["source", "target", "drawn"],
)
def test_a_cursor_continues_exactly_even_over_the_end_of_a_pass(new):
    whole, _ = new().take(Cursor(), 100)
    plan, cursor, parts = new(), Cursor(), []
    while len(parts) < 100:
        more, cursor = plan.take(cursor, 7)
        parts.extend(more)
        plan = new()  # a new process knows only the cursor
    assert [batch.tolist() for batch in parts[:100]] == [batch.tolist() for batch in whole]
    assert cursor.epoch > 0


def drawn_from(corpus, size, seed, segmentations=1):
    return BatchPlan(corpus, size, "sentences", seed, segmentations=segmentations, with_replacement=True)


def chi_square(counts):
    """The statistic of counts against equal ones; its mean is one less than their number."""
    mean = counts.sum() / counts.size
    return float(((counts - mean) ** 2 / mean).sum())


def test_drawn_batches_are_numpys_randint_of_the_corpus_size():
    """N19's published code, `numpy.random.randint(0, corpus_size, 128)`: uniform, independent, of any length."""
    plan, batches = drawn_from(CORPUS, 128, seed=1), []
    for epoch in range(100):
        batches += plan.epoch(epoch)
        assert len(plan.epoch(epoch)) == 4  # 500 pairs fill four of them
    assert {len(batch) for batch in batches} == {128}
    numbers = np.stack(batches)
    assert (numbers.min(), numbers.max()) == (0, 499)
    # with 499 and 99 degrees of freedom, about one in a thousand is beyond each of these bounds
    assert 402 < chi_square(np.bincount(numbers.ravel(), minlength=500)) < 603
    tens = numbers // 50
    neighbours = np.zeros((10, 10))
    np.add.at(neighbours, (tens[:, :-1].ravel(), tens[:, 1:].ravel()), 1)
    assert 62 < chi_square(neighbours) < 149
    repeated = [len(batch) - len(set(batch.tolist())) for batch in batches]
    assert np.mean(repeated) == pytest.approx(128 - 500 * (1 - (1 - 1 / 500) ** 128), rel=0.05)
    spreads = [CORPUS.target_lengths[batch].std() for batch in batches]
    assert min(spreads) > 0.75 * CORPUS.target_lengths.std()


def test_a_drawn_pass_leaves_out_a_third_of_the_pairs():
    """(1 - 1/n)^n of them, where every pair is once in a sorted pass."""
    seen = [len(np.unique(np.concatenate(drawn_from(CORPUS, 50, seed=1).epoch(epoch)))) for epoch in range(50)]
    assert np.mean(seen) == pytest.approx(500 * (1 - (1 - 1 / 500) ** 500), rel=0.01)


def test_batches_are_drawn_even_of_a_corpus_that_is_smaller():
    [batch] = drawn_from(Corpus([(1, 1), (2, 2)]), 128, seed=1).epoch(0)
    assert np.bincount(batch).tolist() == pytest.approx([64, 64], abs=20)


def test_draws_of_a_pass_are_of_its_segmentation():
    plan = drawn_from(CORPUS, 128, seed=1, segmentations=2)
    for epoch in range(4):
        numbers = np.concatenate(plan.epoch(epoch))
        assert set((numbers // 250).tolist()) == {epoch % 2}


def token_weights(plan, passes):
    """The mean weight of a short and of a long target's token in an update, in a mean over the tokens of a batch."""
    weights = {10: [], 40: []}
    for epoch in range(passes):
        for batch in plan.epoch(epoch):
            tokens = [int(plan.pairs.target_lengths[pair]) + 1 for pair in batch]
            for length in tokens:
                weights[length].append(1 / sum(tokens))
    return np.mean(weights[10]), np.mean(weights[40])


def test_sorting_sentences_changes_what_a_token_weighs():
    """In sorted batches of sentences a token of ten weighs four times that of forty, in drawn ones about the same."""
    corpus = Corpus([(1, 9 + 30 * (number % 2)) for number in range(2560)])
    short, long = token_weights(BatchPlan(corpus, 128, "sentences", 1), 1)
    assert short / long == pytest.approx(4)
    short, long = token_weights(drawn_from(corpus, 128, seed=1), 20)
    assert 1 < short / long < 1.03
    short, long = token_weights(BatchPlan(corpus, 1280, "tokens", 1), 1)
    assert short / long == pytest.approx(1)


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
    assert batch.real.tolist() == [0, 1, 4, 5, 6, 7]
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


@given(
    st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), min_size=1, max_size=6),
    st.sampled_from([None, 2]),
    st.sampled_from([None, 3]),
    st.booleans(),
)
def test_rows_are_padded_as_a_loop_pads_them(rows, before, after, are_arrays):
    wanted = [[*([before] if before else []), *row, *([after] if after else [])] for row in rows]
    width = max(map(len, wanted))
    padded, lengths = pad([np.array(row, np.int32) for row in rows] if are_arrays else rows, before, after)
    assert padded.dtype == torch.int64
    assert padded.tolist() == [[*row, *[PAD] * (width - len(row))] for row in wanted]
    assert lengths.tolist() == list(map(len, wanted))


def test_all_tensors_of_a_batch_are_moved():
    batch = collate([(np.array([5, 6], np.int32), np.array([7], np.int32))])
    tensors = {name: each for name, each in vars(batch).items() if isinstance(each, torch.Tensor)}
    assert len(tensors) == len(batch.tensors)
    there, here = batch.to(torch.device("meta")), batch.to(torch.device("cpu"))
    assert {getattr(there, name).device.type for name in tensors} == {"meta"}
    assert all(torch.equal(getattr(here, name), each) for name, each in tensors.items())
    assert there.tokens == here.tokens == batch.tokens
