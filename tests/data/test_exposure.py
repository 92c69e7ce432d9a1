"""The lengths and subwords of a training text, as a run keeps them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.data.exposure import exposure, histogram, percentile, read_counts, sentences_by_length, write_counts
from posnmt.data.prepare import prepare
from posnmt.data.store import Store
from posnmt.run.resolve import load
from posnmt.training.train import train
from tests.support import corpus

LENGTHS = st.lists(st.integers(0, 300), min_size=1, max_size=50)


@given(LENGTHS)
def test_a_histogram_comes_back(lengths):
    counts = sentences_by_length(histogram(np.array(lengths, np.int32)))
    assert counts.tolist() == [lengths.count(length) for length in range(max(lengths) + 1)]


@given(LENGTHS)
def test_exposure_is_the_share_of_longer_sentences(lengths):
    shares = exposure(np.bincount(lengths))
    assert len(shares) == max(lengths)
    for place, share in enumerate(shares):
        assert share == pytest.approx(sum(length > place for length in lengths) / len(lengths), abs=1e-12)
        assert share > 0


@given(LENGTHS, st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_length_with_that_share(lengths, share):
    place = percentile(np.bincount(lengths), share)
    reached = [sum(each <= length for each in lengths) >= share * len(lengths) for length in range(max(lengths) + 1)]
    assert place == reached.index(True)


@pytest.mark.parametrize(
    "text", ["", "3", "3:", "3:1 ", "3:1  4:1", "4:1 3:1", "3:1 3:1", "3:0", "x:1", "3:-1", "99999999999:1"]
)
def test_what_is_no_histogram_is_refused(text):
    with pytest.raises(ValueError, match="length"):
        sentences_by_length(text)


def test_counts_come_back(tmp_path):
    counts = np.array([0, 5, 10**12])
    write_counts(tmp_path / "counts", counts)
    assert read_counts(tmp_path / "counts", 3).tolist() == counts.tolist()
    for size, text in ((4, "0\n5\n7\n"), (2, "0\n-5\n"), (2, "0\nx\n")):
        (tmp_path / "counts").write_text(text)
        with pytest.raises(UserError):
            read_counts(tmp_path / "counts", size)


@pytest.mark.parametrize("more", [{"train": {"concatenate": 0.5}}, {"subword": {"sampling": {"segmentations": 2}}}])
def test_a_run_keeps_lengths_and_subwords_of_what_it_was_trained_on(tmp_path, more):
    """Also of joined pairs and of random segmentations; and what is missing is named."""
    path = corpus.make(tmp_path, pairs=40, **more)
    config = load(path, ["train.steps=1"])
    run = train(config, tmp_path / "run")
    store = Store.open(prepare(config).folder)
    pairs = [split.pair(n) for split in store.trained() for n in range(len(split))]
    counts = Counter(int(token) for _, target in pairs for token in target)
    assert run.target_counts(store.text.target.size).tolist() == [counts[n] for n in range(store.text.target.size)]
    source, target = run.sentences_by_length
    assert [len(source) - 1, len(target) - 1] == [
        run.training_lengths[side]["longest"] for side in ("source", "target")
    ]
    joined = round(0.5 * 40) if "train" in more else 0
    assert source.sum() == target.sum() == len(pairs) + joined
    for side, counts_by_length in enumerate((source, target)):
        own = np.bincount([len(pair[side]) for pair in pairs], minlength=len(counts_by_length))
        assert (counts_by_length - own).min() == 0
        assert (counts_by_length - own).sum() == joined
    run.write_record({name: value for name, value in run.record.items() if name != "training_histograms"})
    (run.folder / "target-counts.txt").unlink()
    for read in (lambda: run.sentences_by_length, lambda: run.target_counts(store.text.target.size)):
        with pytest.raises(UserError, match="train it again"):
            read()
