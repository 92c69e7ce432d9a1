"""Labels of judges: their file, the rate that they correct, and their agreement."""

import numpy as np
import pytest

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.completeness.counts import rate_of
from posnmt.evaluation.analyse.completeness.labels import agreement, corrected, read_labels

SIZES = np.array([2, 0, 3])
LINES, NUMBERS = np.array([0, 0, 2, 2, 2]), np.array([0, 1, 0, 1, 2])


def file(tmp_path, text):
    path = tmp_path / "labels.tsv"
    path.write_text(text.replace(" ", "\t"), encoding="utf-8")
    return path


def test_columns_may_stand_in_any_order(tmp_path):
    path = file(tmp_path, "sentence omitted second line probability\n2 1 0 1 0.5\n3 0  3 1\n")
    labels = read_labels(path, SIZES)
    assert labels.places == [(1, 2), (3, 3)]
    assert labels.omitted.tolist() == [1, 0]
    assert labels.probabilities.tolist() == [0.5, 1]
    assert labels.second.tolist()[0] == 0
    assert np.isnan(labels.second[1])


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", 1), ("line sentence\n", 1), ("line sentence omitted more\n1 1 1 1\n", 1), ("line sentence omitted\n", 1),
        ("line sentence omitted\n4 1 0\n2 1 0\n3 4 0\n0 1 0\n1 0 1\n", 5),
        ("line sentence omitted\n1 1 yes\n1 2\nx 1 0\n", 3),
        ("line sentence omitted probability\n1 1 0 0\n1 2 0 1.5\n3 1 0 x\n", 3),
        ("line sentence omitted\n1 1 0\n1 1 0\n", 1), ("line sentence omitted second\n1 1 0 2\n", 1),
    ],
)  # fmt: skip
def test_faults_of_labels_are_named_with_their_lines(tmp_path, text, faults):
    path = file(tmp_path, text)
    with pytest.raises(UserError) as raised:
        read_labels(path, SIZES)
    every = getattr(raised.value, "faults", [raised.value])
    assert len(every) == faults
    assert all(str(path) in str(fault.where) for fault in every)


def test_the_corrected_rate_is_unbiased_however_bad_the_detector_is(tmp_path):
    draw = np.random.default_rng(3)
    sizes = np.full(400, 3)
    lines, numbers = np.repeat(np.arange(400), 3), np.tile(np.arange(3), 400)
    truth = draw.random(1200) < 0.1
    automatic = np.where(draw.random(1200) < 0.4, ~truth, truth)
    probability = np.where(automatic, 0.5, 0.2)
    rates, inside = [], 0
    for _ in range(150):
        drawn = np.flatnonzero(draw.random(1200) < probability)
        rows = [f"{lines[at] + 1}\t{numbers[at] + 1}\t{truth[at]:d}\t{probability[at]}" for at in drawn]
        path = tmp_path / "labels.tsv"
        path.write_text("\n".join(["line\tsentence\tomitted\tprobability", *rows]) + "\n")
        result = corrected(read_labels(path, sizes), automatic, lines, numbers)
        rates.append(result["rate"])
        inside += result["interval"][0] <= truth.mean() <= result["interval"][1]
    assert abs(automatic.mean() - truth.mean()) > 0.2
    assert np.mean(rates) == pytest.approx(truth.mean(), abs=0.01)
    assert inside >= 0.9 * 150


def test_sensitivity_and_specificity_weigh_each_sentence_by_how_rarely_it_is_drawn(tmp_path):
    path = file(tmp_path, "line sentence omitted probability\n1 1 1 0.5\n1 2 1 1\n3 1 0 0.25\n3 2 0 1\n3 3 0 1\n")
    result = corrected(read_labels(path, SIZES), np.array([1, 0, 1, 0, 0], dtype=bool), LINES, NUMBERS)
    assert result["sensitivity"]["value"] == pytest.approx(2 / 3)
    assert result["specificity"]["value"] == pytest.approx(2 / 6)
    assert result["rate"] == pytest.approx(2 / 5 + (0 * 2 + 1 * 1 - 1 * 4) / 9)
    assert (result["labels"], result["omitted"], result["agreement"], result["alone"]) == (5, 2, None, None)


def test_labels_that_all_agree_with_the_detector_give_no_interval(tmp_path):
    automatic = np.array([1, 0, 0, 0, 1], dtype=bool)
    path = file(tmp_path, "line sentence omitted\n1 1 1\n1 2 0\n3 1 0\n3 2 0\n3 3 1\n")
    result = corrected(read_labels(path, SIZES), automatic, LINES, NUMBERS)
    assert (result["rate"], result["interval"]) == (2 / 5, None)
    assert result["sensitivity"] == result["specificity"] == {"value": 1, "interval": None}
    assert result["alone"] == rate_of(automatic, LINES)


def test_the_interval_of_a_share_ends_at_0_and_1(tmp_path):
    automatic = np.array([1, 1, 0, 0, 1], dtype=bool)
    path = file(tmp_path, "line sentence omitted\n1 1 1\n1 2 1\n3 1 1\n3 2 0\n3 3 1\n")
    result = corrected(read_labels(path, SIZES), automatic, LINES, NUMBERS)
    low, high = result["sensitivity"]["interval"]
    assert 0 <= low < 3 / 4 < high <= 1


def test_agreement_against_its_definitions():
    ones, others = np.array([1] * 2 + [1] * 1 + [0] * 3 + [0] * 94), np.array([1] * 2 + [0] * 1 + [1] * 3 + [0] * 94)
    by_chance = 0.03 * 0.05 + 0.97 * 0.95
    gwet = 2 * 0.04 * 0.96
    result = agreement(ones, others)
    assert result["agreed"] == 0.96
    assert result["kappa"] == pytest.approx((0.96 - by_chance) / (1 - by_chance))
    assert result["ac1"] == pytest.approx((0.96 - gwet) / (1 - gwet))
    assert agreement(np.zeros(3), np.zeros(3)) == {"sentences": 3, "agreed": 1, "kappa": None, "ac1": 1}
