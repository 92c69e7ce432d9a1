"""Differences of systems: those of the scores, with intervals of the differences themselves."""

import numpy as np
import pytest

from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.intervals import differences, percentile_interval, resampled_measures
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings

GROUPS = np.arange(90) % 3 // 2  # two bins: 60 and 30 sentences


@pytest.fixture(scope="module")
def additive():
    """Three outputs whose errors come from the same hard sentences."""
    generator = np.random.default_rng(3)
    words = generator.integers(5, 30, 90)
    hard = generator.random(90)
    edits = [np.minimum(words, (words * hard * scale).astype(int)) for scale in (0.5, 0.6, 0.7)]
    statistics = {"ter": [np.stack([each, words], axis=1).astype(float) for each in edits]}
    return Additive.of(statistics, [words, words + 1, words + 2], words)


def compared(additive, groups):
    sums = np.stack([additive.rows.sum(axis=0), *(additive.rows[each == GROUPS].sum(axis=0) for each in range(2))])
    values, resampled = additive.measure(sums), resampled_measures(additive, GROUPS, 2, 500, 1)
    return differences(values, resampled, groups), values, resampled


def test_a_pair_is_the_first_minus_the_second_everywhere(additive):
    pairs, values, resampled = compared(additive, {"a": [0], "b": [1], "c": [2]})
    assert [(pair["system"], pair["other"]) for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    for pair, (one, other) in zip(pairs, [(0, 1), (0, 2), (1, 2)], strict=True):
        for place, figures in enumerate([pair["overall"], *pair["bins"]]):
            difference, low, high = figures["ter"]
            assert difference == pytest.approx(values["ter"][place, one] - values["ter"][place, other])
            sampled = resampled["ter"][:, place, one] - resampled["ter"][:, place, other]
            assert [low, high] == pytest.approx([float(end) for end in percentile_interval(sampled)])
            assert low < difference < high


def test_an_interval_of_a_difference_is_narrower_than_those_of_the_scores(additive):
    """All systems are measured on the same sentences, of which the hard ones are hard for all."""
    pairs, _, resampled = compared(additive, {"a": [0], "b": [1]})
    _, low, high = pairs[0]["overall"]["ter"]
    lows, highs = percentile_interval(resampled["ter"][:, 0])
    assert high - low < 0.5 * min((highs - lows)[:2])
    assert pairs[0]["overall"]["length_difference"] == [-1, -1, -1]


def test_several_seeds_count_by_their_mean(additive):
    (pair,), values, _ = compared(additive, {"a": [0, 2], "b": [1]})
    expected = values["ter"][0, [0, 2]].mean() - values["ter"][0, 1]
    assert pair["overall"]["ter"][0] == pytest.approx(expected)


def test_the_order_of_seeds_and_systems_changes_no_bit(additive):
    """(x + y) + z and x + (y + z) can differ in the last bit."""
    seeds, single = [0, 1, 2], [1]
    (pair,), *_ = compared(additive, {"a": seeds, "b": single})
    for order in ([2, 1, 0], [1, 2, 0]):
        (mirrored,), *_ = compared(additive, {"b": single, "a": order})
        for ours, theirs in zip(
            [pair["overall"], *pair["bins"]], [mirrored["overall"], *mirrored["bins"]], strict=True
        ):
            for measure, (difference, low, high) in ours.items():
                assert theirs[measure] == [-difference, -high, -low]


def test_a_bin_without_sentences_has_none(tmp_path):
    for name, lines in {"s": ["a b", "c"], "x": ["a b", "c"], "y": ["a", "d"]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    outputs = {name: tmp_path / name for name in ("x", "y")}
    settings = Settings(metrics=["ter"], bin_edges=[5], resampling=Resampling(40))
    results = analyse(tmp_path / "s", tmp_path / "s", outputs, settings).results
    (pair,) = results["differences"]
    assert pair["bins"][1] == dict.fromkeys(("ter", "length_difference", "length_ratio"))
    assert pair["overall"]["ter"][0] == pytest.approx(-100 * 2 / 3)
    for alone in (Settings(metrics=["ter"], resampling=Resampling(0)), settings):
        few = outputs if not alone.resampling.samples else {"x": tmp_path / "x"}
        assert analyse(tmp_path / "s", tmp_path / "s", few, alone).results["differences"] is None
