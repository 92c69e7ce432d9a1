"""What a training is expected to reach rests on figures of the repository's pages, and says no more than they do."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from posnmt.run.resolve import from_tree
from posnmt.training.expectations import LABELS, NEAR, TABLE, USABLE, Expectation, expectation, is_measured

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("corpus", TABLE, ids=lambda each: each.name)
def test_every_figure_stands_on_its_pages(corpus):
    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in corpus.source.split())
    table = (ROOT / "docs" / "expect.md").read_text(encoding="utf-8")
    [row] = [line for line in table.splitlines() if line.startswith(f"| {corpus.name} |")]
    for reached in corpus.reached:
        assert str(reached.bleu) in pages
        assert f"{reached.updates:,}" in pages or str(reached.updates) in pages
        assert f"{reached.bleu} after {reached.updates:,}" in row
    assert f"| {corpus.pairs:,} | {corpus.median:g}" in row


def test_nothing_is_claimed_beyond_the_table():
    """At least the last figure below, at most the first one above, of a corpus that is near; else nothing."""
    chance = random.Random(1)
    for _ in range(3000):
        pairs, median = round(10 ** chance.uniform(3, 6)), chance.uniform(3, 60)
        updates = round(10 ** chance.uniform(1, 5))
        found = expectation(pairs, median, updates)
        if found.near is None:
            assert found == Expectation()
            continue
        assert max(pairs / found.near.pairs, found.near.pairs / pairs) <= NEAR
        assert max(median / found.near.median, found.near.median / median) <= NEAR
        low, high = (found.label.split(" to ") * 2)[:2]
        for reached in found.near.reached:
            label = 0 if reached.bleu < USABLE else 2 if reached.full else 1
            if reached.updates <= updates:
                assert LABELS.index(low) >= label
            if reached.updates >= updates:
                assert LABELS.index(high) <= label
        if low != LABELS[0]:  # a claim needs a training that was not longer
            assert any(each.bleu >= USABLE and each.updates <= updates for each in found.near.reached)
        if high == LABELS[0]:
            assert any(each.bleu < USABLE and each.updates >= updates for each in found.near.reached)


@pytest.mark.parametrize(
    ("pairs", "median", "updates", "label"),
    [
        (49_500, 8, 300, "weak"),
        (49_500, 8, 1500, "weak to usable"),
        (49_500, 8, 2600, "usable"),
        (28_500, 13, 3134, "as good as this corpus gives"),
        (28_500, 13, 2000, "weak to as good as this corpus gives"),
        (43_546, 26, 215, "weak"),
        (43_546, 26, 9000, None),
        (400_000, 13, 9000, None),
        (28_500, 60, 9000, None),
        (80_000, 8, 2600, None),
    ],
)
def test_a_label_follows_from_pairs_length_and_updates(pairs, median, updates, label):
    found = expectation(pairs, median, updates)
    assert found.label == label
    assert ("unknown" in str(found)) is (label is None)


@pytest.mark.parametrize(
    ("settings", "measured"),
    [
        ({}, True),
        ({"model": {"size": "small", "system": "transformer"}}, True),
        ({"model": {"size": "base", "system": "relative"}}, False),
        ({"model": {"size": "small", "system": "rope"}}, False),
        ({"train": {"steps": 9, "batch": 2048}}, False),
        ({"train": {"steps": 9, "batch": 1024, "accumulate": 2}}, False),
        ({"train": {"steps": 9, "batch": 1024, "init": "runs/a"}}, False),
    ],
)
def test_the_table_is_for_the_small_model_and_its_batches(settings, measured):
    tree = {
        "data": {"train": {"source": "a", "target": "b"}},
        "model": {"size": "small", "system": "relative"}, "train": {"steps": 9, "batch": 1024}, **settings,
    }  # fmt: skip
    assert is_measured(from_tree(tree)) is measured


def test_a_row_is_full_only_where_twice_as_many_updates_gave_no_more():
    full = [(each.name, reached) for each in TABLE for reached in each.reached if reached.full]
    assert [(name.split(" (")[0], reached.updates) for name, reached in full] == [("image captions", 3134)]
    minutes = (ROOT / "docs" / "results" / "minutes.md").read_text(encoding="utf-8")
    assert "7,143 updates" in minutes
    assert "| test 2016 Flickr | **37.2** |" in minutes
    assert 2 * full[0][1].updates <= 7143
    assert math.isclose(37.2, full[0][1].bleu, abs_tol=1)
