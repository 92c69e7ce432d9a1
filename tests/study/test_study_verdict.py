"""Verdicts on claims: known effects are found, and each reason to abstain is said."""

import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError
from verdict_case import claim, compare, decided, drawn, evidence_of, one, output, resolve

from posnmt.study.claims import Figures
from posnmt.study.contrast import t_quantile
from posnmt.study.verdict import FEWEST_SENTENCES, decide

# --- the verdicts


@pytest.fixture(scope="module")
def study():
    """b is as a; c is 12 more; d is 12 more on long sentences alone."""
    lengths = np.arange(10, 90).repeat(5)
    effects = {"a": 0.0, "b": 0.0, "c": 12.0, "d": lambda length: np.where(length > 49, 12.0, 0.0)}
    return drawn(np.random.default_rng(3), effects, lengths)


@pytest.mark.parametrize(
    ("comparison", "word"),
    [
        (compare("higher", "c", "a"), "supported"),
        (compare("higher", "a", "c"), "not supported"),
        (compare("higher", "a", "b"), "undecided"),
        (compare("lower", "a", "c"), "supported"),
        (compare("lower", "c", "a"), "not supported"),
        (compare("lower", "a", "b"), "undecided"),
        (compare("higher", "c", "a", by=5), "supported"),
        (compare("higher", "c", "a", by=12), "undecided"),
        (compare("higher", "c", "a", by=25), "not supported"),
        (compare("lower", "a", "c", by=25), "not supported"),
        (compare("equal", "a", "b", within=6), "supported"),
        (compare("equal", "a", "b", within=0.5), "undecided"),
        (compare("equal", "a", "c", within=6), "not supported"),
        (compare("equal", "c", "a", within=6), "not supported"),
        (compare("higher", {"system": "c", "minus": "a"}, None), "supported"),
        (compare("lower", {"system": "c", "minus": "a"}, None), "not supported"),
        (compare("higher", {"system": "d", "lengths": "longer"}, {"system": "a", "lengths": "longer"}), "supported"),
        (compare("equal", {"system": "d", "lengths": "seen"}, {"system": "a", "lengths": "seen"}, within=6),
         "supported"),
        (compare("higher", {"system": "d", "minus": "a", "lengths": "longer"},
                 {"system": "d", "minus": "a", "lengths": "seen"}, by=3), "supported"),
        (compare("higher", {"system": "c", "minus": "a", "lengths": "longer"},
                 {"system": "c", "minus": "a", "lengths": "seen"}), "undecided"),
        (compare("equal", {"system": "c", "minus": "a", "lengths": [50, None]},
                 {"system": "c", "minus": "a", "lengths": [None, 49]}, within=8), "supported"),
    ],
)  # fmt: skip
def test_true_effects_are_found(study, comparison, word):
    decision = one(study, comparison)
    assert decision.word == word
    assert decision.low < decision.value < decision.high
    assert decision.freedom > 2


def test_equality_is_two_one_sided_tests(study):
    """Supported as soon as the 90 % interval is inside, whatever the 95 % interval."""
    decision = one(study, compare("equal", "a", "b", within=6))
    reach = (decision.high - decision.value) / t_quantile(0.975, decision.freedom)
    inner = abs(decision.value) + t_quantile(0.95, decision.freedom) * reach
    outer = max(-decision.low, decision.high)
    assert inner < outer
    for within, word in ((inner * 1.001, "supported"), (inner * 0.999, "undecided")):
        assert one(study, compare("equal", "a", "b", within=within)).word == word


def test_longer_and_shorter_go_by_the_training_of_the_system():
    lengths = np.arange(1, 101)
    differences = [
        (output(system, seed, trained_lengths=trained), lengths + seed)
        for system, trained in (("a", [21, 40]), ("b", [31, 60]))
        for seed in (1, 2)
    ]
    evidence = evidence_of(differences, lengths)
    means = {
        "seen": (30.5, 45.5), "longer": (70.5, 80.5), "shorter": (10.5, 15.5), "all": (50.5, 50.5),
    }  # fmt: skip
    for name, (of_a, of_b) in means.items():
        sides = [{"system": system, "lengths": name} for system in "ab"]
        decision = one(evidence, compare("lower", *sides))
        assert decision.value == pytest.approx(of_a - of_b)
    fixed = {"system": "a", "lengths": {"smoke": [1, 20], "small": [None, 50]}}
    assert one(evidence, compare("higher", fixed, None)).value == pytest.approx(25.5 + 1.5)
    assert one(evidence, compare("higher", fixed, None), "smoke").value == pytest.approx(10.5 + 1.5)


def test_a_training_is_named_with_a_slash():
    generator = np.random.default_rng(1)
    differences = [
        (output("a", seed, training=training), generator.integers(low, low + 9, 50))
        for training, low in (("all", 0), ("short", 20))
        for seed in (1, 2, 3)
    ]
    evidence = evidence_of(differences, np.full(50, 9))
    assert one(evidence, compare("higher", "a/short", "a")).word == "supported"


def test_swapped_sources_are_outputs_of_their_own():
    generator = np.random.default_rng(1)
    differences = [
        (output(system, seed, share), generator.integers(0, 5, 50) - round(loss * share * 100))
        for share in (0.0, 0.1, 0.3)
        for system, loss in (("a", 1), ("b", 2))
        for seed in (1, 2, 3)
    ]
    evidence = evidence_of(differences, np.full(50, 9))
    gaps = [{"system": "a", "minus": "b", "share": share} for share in (0.3, 0.1)]
    decision = one(evidence, compare("higher", *gaps, by=10))
    assert decision.word == "supported"
    assert decision.value == pytest.approx(20, abs=2)


def speeds(**of_systems):
    """Evidence of speeds alone: system -> its seeds' training speeds."""
    differences = [
        (output(system, seed, training_speed=speed), [0])
        for system, figures in of_systems.items()
        for seed, speed in enumerate(figures)
    ]
    return evidence_of(differences, [9])


def test_speeds_have_no_part_of_sentences():
    evidence = speeds(a=[4400, 4500, 4600], b=[9900, 10000, 10100])
    decision = one(evidence, compare("lower", measure="training_speed", by=5000))
    assert (decision.word, decision.value) == ("supported", -5500)
    assert decision.freedom == pytest.approx(4)
    assert decision.high - decision.value == pytest.approx(2.7764451052 * math.sqrt(2 * 100**2 / 3))
    assert decision.why == ("3 seeds a system: −5,500 source tokens a second, 95 % interval −5,727 to −5,273")


def test_relative_margins_are_shares_of_than():
    evidence = speeds(a=[4400, 4500, 4600], b=[9900, 10000, 10100])

    def asked(is_, **margin):
        return one(evidence, compare(is_, measure="training_speed", relative=True, **margin))

    assert asked("lower", by=0.5).word == "supported"
    assert asked("lower", by=0.55).word == "undecided"
    assert asked("lower", by=0.6).word == "not supported"
    assert asked("equal", within=0.1).word == "not supported"
    decision = asked("equal", within=0.6)
    assert decision.value == pytest.approx(-0.55)
    by_a, by_b = (100 / 10_000) ** 2 / 3, (4500 * 100 / 10_000**2) ** 2 / 3
    assert decision.freedom == pytest.approx((by_a + by_b) ** 2 / (by_a**2 / 2 + by_b**2 / 2))
    reach = t_quantile(0.975, decision.freedom) * (by_a + by_b) ** 0.5
    assert (decision.low, decision.high) == (pytest.approx(-0.55 - reach), pytest.approx(-0.55 + reach))
    assert decision.sentence == (
        "training speed of a equal to of b, within 60 %: supported; "
        "3 seeds a system: −55.00 %, 90 % interval −56.54 to −53.46, 95 % interval −57.11 to −52.89"
    )


# --- what is said


def test_the_documented_sentence(study):
    sides = [{"system": system, "lengths": "longer"} for system in "ca"]
    decision = one(study, compare("higher", *sides, by=1))
    assert decision.why == (
        f"3 seeds a system, 200 sentences longer than 49 subwords: +{decision.value:.2f} subwords, "
        f"95 % interval +{decision.low:.2f} to +{decision.high:.2f}"
    )
    assert decision.sentence.startswith(
        "length difference of c (longer) higher than of a (longer), by more than 1 subwords: supported; 3 seeds"
    )


def test_two_kinds_of_sentences_are_both_said(study):
    sides = [{"system": "d", "minus": "a", "lengths": lengths} for lengths in ("longer", [12, 49])]
    decision = one(study, compare("higher", *sides))
    assert decision.asked == "length difference of d − a (longer) higher than of d − a (of 12 to 49 subwords)"
    assert decision.why.startswith(
        "3 seeds a system, 200 sentences longer than 49 subwords and 190 sentences of 12 to 49 subwords: +"
    )


def test_a_claim_is_as_good_as_its_comparisons(study):
    yes, no, unknown = compare("higher", "c", "a"), compare("higher", "a", "c"), compare("higher", "a", "b")
    for comparisons, word, why in (
        ([yes], "supported", "3 seeds a system, 400 sentences: +"),
        ([yes, yes], "supported", "all 2 comparisons are supported"),
        (
            [yes, unknown, yes],
            "undecided",
            "1 of 3 comparisons undecided: length difference of a higher than of b: 3 s",
        ),
        (
            [unknown, no, yes, no],
            "not supported",
            "2 of 4 comparisons not supported: length difference of a higher tha",
        ),
    ):
        verdict = decided(study, *comparisons)
        assert verdict.word == word
        assert verdict.why.startswith(why)
        assert verdict.why.endswith("; and 1 more") == (len(comparisons) == 4)
        assert [decision.comparison for decision in verdict.comparisons] == verdict.claim.holds_if


def without(evidence, *gone):
    """The evidence without the outputs of those systems and seeds."""
    kept = [place for place, each in enumerate(evidence.outputs) if (each.system, each.seed) not in gone]
    return replace(evidence, counts=evidence.counts[:, kept], outputs=[evidence.outputs[place] for place in kept])


def test_a_missing_output_is_named(study):
    for gone, why in (
        ([("b", 2)], "there is no output of b/all, seed 2: it was not run, or it failed"),
        ([("b", 1), ("b", 3)], "there is no output of b/all, seed 1, 3: it was not run, or it failed"),
        ([("b", seed) for seed in (1, 2, 3)], "there is no output of b/all: it was not run, or it failed"),
    ):
        decision = one(without(study, *gone), compare("higher"))
        assert (decision.word, decision.why, decision.value) == ("undecided", why, None)
        assert one(without(study, *gone), compare("higher", "c", "a")).word == "supported"
    swapped = compare("higher", {"system": "a", "share": 0.25}, "b")
    assert one(study, swapped).why.startswith("there is no output of a/all with 25 % of the words swapped: ")


def test_one_seed_has_a_value_and_no_verdict(study):
    gone = [(system, seed) for system in "abcd" for seed in (2, 3)]
    decision = one(without(study, *gone), compare("higher", "c", "a"))
    assert decision.word == "undecided"
    assert decision.value > 5
    assert (decision.low, decision.high, decision.freedom) == (None, None, None)
    assert decision.why == (
        f"1 seed a system, 400 sentences: +{decision.value:.2f} subwords, and one seed says nothing of others"
    )


def test_few_sentences_have_a_value_and_no_verdict(study):
    for last, word in ((13, "supported"), (12, "undecided")):
        sides = [{"system": system, "lengths": [None, last]} for system in "ca"]
        decision = one(study, compare("higher", *sides))
        assert decision.word == word
        assert decision.value > 5
    assert (decision.low, decision.high) == (None, None)
    assert decision.why == (
        f"3 seeds a system, 15 sentences of 1 to 12 subwords: +{decision.value:.2f} subwords, "
        f"and fewer than {FEWEST_SENTENCES} sentences say nothing of others"
    )
    nothing = one(study, compare("higher", {"system": "c", "lengths": [200, None]}, "a"))
    assert (nothing.word, nothing.why) == ("undecided", "the test has no sentences longer than 199 subwords")
    nothing = one(study, compare("higher", {"system": "c", "lengths": "shorter"}, "a"))
    assert nothing.why == "the test has no sentences of 1 to 1 subwords"


def test_other_reasons_to_decide_nothing(study):
    def why(evidence, comparison, scale="small"):
        decision = one(evidence, comparison, scale)
        assert decision.word == "undecided"
        return decision.why

    missing = decide(claim(compare("higher", analysis="other")), {"test": study}, resolve, "small")
    assert (missing.word, missing.why) == ("undecided", "the analysis other was not made")
    assert why(study, compare("higher", measure="chrf")) == "the analysis test does not measure chrf"
    by_scale = {"system": "a", "lengths": {"paper": [1, 9]}}
    assert why(study, compare("higher", by_scale)) == "the claim names no lengths for the scale small"
    unknown = replace(study, outputs=[replace(each, trained_lengths=None) for each in study.outputs])
    longer = {"system": "a", "lengths": "longer"}
    assert why(unknown, compare("higher", longer)) == "the source lengths in the training of a are not known"
    slow = compare("lower", measure="training_speed")
    assert why(study, slow) == "the training speed of a/all was not measured"
    some = speeds(a=[1.0, 2.0], b=[1.0, None])
    assert why(some, slow) == "the training speed of b/all was not measured"
    still = speeds(a=[2.0, 2.0], b=[1.0, 1.0])
    assert why(still, slow) == "2 seeds a system: no figure varies, so that nothing is known of chance"
    share = compare("lower", "a", {"system": "a", "minus": "c"}, relative=True)
    assert "and nothing is a share of that" in why(study, share)


def test_figures_that_are_not_defined_decide_nothing():
    differences = [(output(system, seed), np.arange(30)) for system in "ab" for seed in (1, 2)]
    evidence = evidence_of(differences, np.full(30, 9))
    evidence.counts[..., -1] = 0
    decision = one(evidence, compare("higher", measure="length_ratio"))
    assert (decision.word, decision.value) == ("undecided", None)
    assert decision.why == "the figure is not defined: there is nothing to divide by"


# --- what may be asked


@pytest.mark.parametrize(
    ("comparison", "fault"),
    [
        (compare("higher", {"system": "a", "lengths": [9, 3]}), "a range of lengths is .*; 3 is less than 9"),
        (compare("higher", {"system": "a", "lengths": [9]}), "at least 2 items"),
        (compare("higher", measure="meteor"), "Input should be 'bleu'"),
        (compare("lower", {"system": "a", "lengths": "longer"}, measure="training_speed"), "has no `lengths`"),
        (compare("equal"), "`within` belongs to `is: equal`"),
        (compare("higher", than=None, relative=True), "`relative` needs `than`"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(comparison, fault):
    with pytest.raises(ValidationError, match=fault):
        claim(comparison)


def test_lengths_by_scale():
    figures = Figures.model_validate({"system": "a", "lengths": {"small": [1, None]}})
    assert (figures.lengths_at("small"), figures.lengths_at("paper")) == ([1, None], None)
    assert Figures(system="a").lengths_at("paper") == "all"
