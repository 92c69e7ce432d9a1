"""Significance tests against plain loops over the same samples, cases known by hand, and p under the null."""

import math
import re
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import sacrebleu

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.intervals import resampled_measures
from posnmt.evaluation.analyse.measure import FEWEST_SAMPLES, Resampling
from posnmt.evaluation.analyse.resample import half_sums
from posnmt.evaluation.analyse.significance import (
    approximate_randomisation,
    corrected,
    marks,
    paired_bootstrap,
    sign_p,
    sign_test,
    significance,
    weaker,
)
from posnmt.metrics.registry import METRICS
from tests.support.metrics_case import WORDS, texts
from tests.support.table_case import table

METRIC_OF = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf, "ter": sacrebleu.corpus_ter}
N = 25


@pytest.fixture(scope="module")
def three():
    """References and three systems, of which the third spoils more words."""
    references, first = texts(N, seed=20)
    draw = np.random.default_rng(21)
    second = texts(N, seed=20)[1][::-1][::-1]
    second = [" ".join(draw.permutation(line.split(" "))) if draw.random() < 0.3 else line for line in second]
    third = [
        " ".join(draw.choice(WORDS) if draw.random() < 0.5 else word for word in line.split(" ")) for line in first
    ]
    return references, [first, second, third]


@pytest.fixture(scope="module")
def additive(three):
    return table(*three)


def score(metric, lines, references):
    return METRIC_OF[metric](lines, [references]).score


@pytest.mark.parametrize("metric", METRIC_OF)
def test_paired_bootstrap_counts_wins(additive, metric):
    samples = 200
    scores = resampled_measures(additive, np.zeros(N, int), 1, samples, 3)[metric][:, 0]
    p, wins = paired_bootstrap(scores, METRICS[metric], N)
    for a in range(3):
        for b in range(3):
            if a == b:
                assert math.isnan(p[a, b])
                continue
            better = [x < y if metric == "ter" else x > y for x, y in scores[:, [a, b]].tolist()]
            worse = [x > y if metric == "ter" else x < y for x, y in scores[:, [a, b]].tolist()]
            assert wins[a, b] == pytest.approx(sum(better) / samples)
            fewest = min(samples - sum(better), samples - sum(worse))
            assert p[a, b] == pytest.approx(min(1, 2 * (fewest + 1) / (samples + 1)))
    assert wins[0, 2] > 0.9, "the spoilt system does not lose"


@pytest.mark.parametrize("metric", METRIC_OF)
def test_approximate_randomisation_exchanges_outputs(three, additive, metric):
    """The same coins, the texts exchanged by hand, and scored by sacreBLEU."""
    references, systems = three
    samples = 30
    coins = np.concatenate(list(half_sums(np.eye(N)[:, None, :], samples, 4)))[:, 0] > 0
    found = approximate_randomisation(additive, samples, 4)[metric]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        observed = abs(score(metric, systems[a], references) - score(metric, systems[b], references))
        reached = 0
        for coin in coins:
            one, other = (
                [systems[y if taken else x][row] for row, taken in enumerate(coin)] for x, y in ((a, b), (b, a))
            )
            reached += abs(score(metric, one, references) - score(metric, other, references)) >= observed - 1e-9
        assert found[a, b] == found[b, a] == pytest.approx((reached + 1) / (samples + 1))


def test_a_batch_of_samples_is_limited_by_its_pairs_too(additive, monkeypatch):
    """Of many outputs, pairs take the memory."""
    limits = []
    monkeypatch.setattr(
        "posnmt.evaluation.analyse.significance.half_sums",
        lambda *_, beside, documents: limits.append(beside) or iter([]),
    )
    approximate_randomisation(additive, 30, 4)
    assert limits == [3 * additive.rows.shape[2]]


@pytest.mark.parametrize("metric", METRIC_OF)
def test_sign_test_puts_in_one_sentence_at_a_time(three, additive, metric):
    references, systems = three
    p, favour = sign_test(additive, metric)
    for a, b in permutations(range(3), 2):
        before = score(metric, systems[a], references)
        speaks = {"baseline": 0, "other": 0}
        for row in range(N):
            changed = [*systems[a]]
            changed[row] = systems[b][row]
            effect = score(metric, changed, references) - before
            if abs(effect) > 1e-10:
                speaks["other" if (effect < 0) == (metric == "ter") else "baseline"] += 1
        assert favour[a, b].tolist() == [speaks["baseline"], speaks["other"]]
        assert p[a, b] == sign_p(speaks["baseline"], speaks["other"])
    for baseline, of_baseline in ((favour[0, 2], p[0, 2]), (favour[2, 0][::-1], p[2, 0])):
        assert baseline[0] > baseline[1]
        assert of_baseline <= weaker(p, favour)[0][0, 2]


def test_the_sign_test_takes_the_weaker_of_two_baselines():
    """Both favour 0 over 1; 0 over 2 in one direction alone; and each favours itself of 1 and 2."""
    favour = np.zeros((3, 3, 2), int)
    favour[0, 1], favour[1, 0] = (30, 10), (12, 25)
    favour[0, 2], favour[2, 0] = (30, 10), (20, 20)
    favour[1, 2], favour[2, 1] = (30, 10), (30, 10)
    p = np.full((3, 3), math.nan)
    for a, b in permutations(range(3), 2):
        p[a, b] = sign_p(*favour[a, b].tolist())
    larger, ahead = weaker(p, favour)
    np.testing.assert_array_equal(larger, symmetric(sign_p(12, 25), 1.0, 1.0))
    assert sign_p(30, 10) < sign_p(12, 25) < 0.05
    assert ahead.tolist() == [[0, 1, 0], [-1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(("ones", "others"), [(0, 0), (1, 0), (5, 5), (3, 9), (0, 12), (40, 61), (300, 401)])
def test_sign_p_is_the_binomial_one(ones, others):
    total = ones + others
    tail = Fraction(sum(math.comb(total, k) for k in range(min(ones, others) + 1)), 2**total)
    assert sign_p(ones, others) == sign_p(others, ones) == pytest.approx(float(min(Fraction(1), 2 * tail)), rel=1e-9)


def test_sign_p_of_many_sentences():
    # 15,000 of 30,000 and two standard deviations to each side: Gauss's 4.55 %, continuity corrected
    p = math.erfc((173 - 0.5) / math.sqrt(30_000 / 4) / math.sqrt(2))
    assert sign_p(15_000 - 173, 15_000 + 173) == pytest.approx(p, rel=1e-3)
    assert sign_p(0, 30_000) == 0  # 2 ** -29999


def test_identical_systems_do_not_differ(three):
    references, (first, *_) = three
    additive = table(references, [first, first])
    resampled = resampled_measures(additive, np.zeros(N, int), 1, 100, 1)
    for metric in significance(additive, resampled, 100, 1, "none")["metrics"].values():
        for test in metric["tests"].values():
            assert test["p"] == [[None, 1], [1, None]]
            assert test["marks"] == [["", "~"], ["~", ""]]


def test_one_sentence_shows_nothing():
    additive = table(["the cat sat on the mat"], [["the cat sat on a mat"], ["dogs"]])
    resampled = resampled_measures(additive, np.zeros(1, int), 1, 100, 1)
    for metric in significance(additive, resampled, 100, 1, "none")["metrics"].values():
        for test in metric["tests"].values():
            assert test["p"] == [[None, 1], [1, None]]


def test_a_system_without_outputs_loses(three):
    references, (first, *_) = three
    additive = table(references, [[""] * N, first])
    resampled = resampled_measures(additive, np.zeros(N, int), 1, 2000, 1)
    found = significance(additive, resampled, 2000, 1, "none")["metrics"]
    for metric in ("bleu", "chrf", "ter"):
        for name, test in found[metric]["tests"].items():
            assert test["marks"] == [["", "<<"], [">>", ""]], (metric, name)


def test_marks_as_in_table_4_of_neishi_2019():
    """The upper right of the table: WMT2014, from p-values of each kind."""
    signs = [["", "<<", "<"], [">>", "", "~"], [">", "~", ""]]
    nan = math.nan
    p = np.array([[nan, 0.0099, 0.0499], [0.0099, nan, 0.05], [0.0499, 0.05, nan]])
    ahead = np.array([[0, -1, -2], [1, 0, -1], [2, 1, 0]])
    assert marks(p, ahead) == signs
    assert marks(np.array([[nan, 0.01], [0.01, nan]]), np.array([[0, 3], [-3, 0]])) == [["", ">"], ["<", ""]]


def symmetric(*upper):
    p = np.full((3, 3), math.nan)
    for (a, b), value in zip(((0, 1), (0, 2), (1, 2)), upper, strict=True):
        p[a, b] = p[b, a] = value
    return p


def test_corrections():
    p = symmetric(0.04, 0.01, 0.03)
    np.testing.assert_allclose(corrected(p, "none"), p)
    np.testing.assert_allclose(corrected(p, "bonferroni"), symmetric(0.12, 0.03, 0.09))
    np.testing.assert_allclose(corrected(p, "holm"), symmetric(0.06, 0.03, 0.06))  # 0.04 x 1 may not pass 0.03 x 2
    np.testing.assert_allclose(corrected(symmetric(0.5, 0.9, math.nan), "holm"), symmetric(1, 1, math.nan))
    np.testing.assert_allclose(corrected(symmetric(0.5, 0.4, math.nan), "bonferroni"), symmetric(1, 0.8, math.nan))
    with pytest.raises(UserError, match=r"no correction is called 'sidak' .*choose from none, holm, bonferroni"):
        corrected(p, "sidak")


def test_a_correction_changes_marks(three, additive):
    resampled = resampled_measures(additive, np.zeros(N, int), 1, 500, 1)
    plain, holm = (significance(additive, resampled, 500, 1, correction)["metrics"] for correction in ("none", "holm"))
    for metric in METRIC_OF:
        for name, test in holm[metric]["tests"].items():
            raw = plain[metric]["tests"][name]
            assert test["p"] == raw["p"] == raw["corrected"]
            upper = [test["p"][a][b] for a, b in ((0, 1), (0, 2), (1, 2))]
            assert test["corrected"][0][2] >= test["p"][0][2]
            assert min(test["corrected"][a][b] for a, b in ((0, 1), (0, 2), (1, 2))) == min(1, 3 * min(upper))


def test_resampling_options_are_checked():
    with pytest.raises(UserError) as caught:
        Resampling(samples=-1, seed=-2, correction="sidak")
    assert len(caught.value.lines) == 3


@pytest.mark.parametrize("samples", [1, 3, FEWEST_SAMPLES - 1])
def test_too_few_samples_are_refused(samples):
    with pytest.raises(UserError, match=rf"{samples} samples are too few: .*--samples.*0: neither intervals nor tests"):
        Resampling(samples=samples)


def test_the_fewest_samples_can_find_a_difference():
    assert Resampling(samples=0).samples == 0
    assert 2 / (1 + Resampling(samples=FEWEST_SAMPLES).samples) < 0.05 <= 2 / FEWEST_SAMPLES
    assert Resampling().correction == "holm"


def test_samples_that_a_correction_leaves_no_chance_are_warned_of():
    """The smallest p of the bootstrap, times the number of pairs, as Holm's first step has it."""
    fewest = FEWEST_SAMPLES * 10  # pairs of five outputs
    assert corrected(np.full((5, 5), 2 / (1 + fewest)), "holm").min(where=~np.eye(5, dtype=bool), initial=1) < 0.05
    assert Resampling(fewest).warnings(5) == []
    (warning,) = Resampling(fewest - 1).warnings(5)
    assert warning.startswith("399 samples are too few for 10 pairs of outputs:")
    assert "no p of the paired bootstrap" in warning  # that of the randomisation can be 10 / 400
    assert "no p of a resampling test" in Resampling(199).warnings(5)[0]
    assert "no p of the paired bootstrap" in Resampling(200).warnings(5)[0]
    assert warning.endswith("choose --samples 400 or more.")
    for quiet in (Resampling(0), Resampling(100, correction="none"), Resampling(100, significance=False)):
        assert quiet.warnings(5) == []
    assert Resampling(40).warnings(2) == Resampling(40).warnings(1) == []


def test_so_many_samples_that_memory_matters_are_not_recommended():
    assert Resampling().warnings(71)[0].endswith("choose --samples 99400 or more.")
    (warning,) = Resampling().warnings(200)
    assert warning.endswith(
        "compare at most 22 outputs at a time; --samples 796000 would be enough, and takes 1.2 GiB for each measure and"
        " bin."
    )
    for samples in (40, 119, 120, 10_000, 39_999):
        most = int(re.search("at most ([0-9]+) outputs", Resampling(samples).warnings(300)[0])[1])
        assert Resampling(samples).warnings(most) == []
        assert Resampling(samples).warnings(most + 1) != []


def null_p_values(test, trials=300, sentences=60):
    """p of two systems that are wrong in the same way, over many test sets."""
    generator = np.random.default_rng(30)
    found = []
    for trial in range(trials):
        length = generator.integers(5, 20, sentences)
        rows = np.zeros((sentences, 2, 10))
        for system in range(2):
            right = [length]
            for _ in range(4):
                right.append(generator.binomial(right[-1], 0.7))
            totals = [np.maximum(length - n, 0) for n in range(4)]
            matched = [np.minimum(a, b) for a, b in zip(right[1:], totals, strict=True)]
            rows[:, system] = np.stack([length, length, *matched, *totals], axis=1)
        found.append(test(rows, trial))
    return np.array(found)


def additive_of(rows):
    from posnmt.evaluation.analyse.additive import Additive

    lengths = rows[:, 0, 0]
    return Additive.of({"bleu": [rows[:, 0], rows[:, 1]]}, [lengths, lengths], lengths)


def bootstrap_p(rows, trial):
    scores = resampled_measures(additive_of(rows), np.zeros(len(rows), int), 1, 300, trial)["bleu"][:, 0]
    return paired_bootstrap(scores, METRICS["bleu"], len(rows))[0][0, 1]


def randomisation_p(rows, trial):
    return approximate_randomisation(additive_of(rows), 300, trial)["bleu"][0, 1]


@pytest.mark.parametrize("test", [bootstrap_p, randomisation_p])
def test_p_is_uniform_under_the_null(test):
    """Of systems that do not differ, a share of about q has p at most q; 300 trials: a standard error up to 0.03."""
    p = null_p_values(test)
    for q in (0.05, 0.1, 0.25, 0.5, 0.75):
        assert (p <= q).mean() == pytest.approx(q, abs=0.08 if q > 0.1 else 0.035)


def test_the_sign_test_is_not_too_sure_under_the_null():
    """Its p takes few values, so that a share of somewhat less than q has p at most q."""
    p = null_p_values(lambda rows, trial: weaker(*sign_test(additive_of(rows), "bleu"))[0][0, 1])
    for q in (0.05, 0.1, 0.25, 0.5, 0.75):
        assert 0.3 * q < (p <= q).mean() < q + 0.03
