"""Verdicts on claims: known effects are found, and each reason to abstain is said."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.seeds import t_quantile
from posnmt.study.claims import Figures
from posnmt.study.estimate import Estimate, Part
from posnmt.study.evidence import Evidence
from posnmt.study.verdict import FEWEST_SENTENCES, Rules, decide, what_it_takes, word_of
from posnmt.study.wording import with_intervals
from tests.support.verdict_case import bleu_evidence, claim, compare, decided, drawn, evidence_of, one, output, resolve

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
        (compare("higher", "a", "c"), "contradicted"),
        (compare("higher", "a", "b"), "undecided"),
        (compare("lower", "a", "c"), "supported"),
        (compare("lower", "c", "a"), "contradicted"),
        (compare("lower", "a", "b"), "undecided"),
        (compare("higher", "c", "a", by=5), "supported"),
        (compare("higher", "c", "a", by=12), "undecided"),
        (compare("higher", "c", "a", by=25), "contradicted"),
        (compare("lower", "a", "c", by=25), "contradicted"),
        (compare("equal", "a", "b", within=6), "supported"),
        (compare("equal", "a", "b", within=0.5), "undecided"),
        (compare("equal", "a", "c", within=6), "contradicted"),
        (compare("equal", "c", "a", within=6), "contradicted"),
        (compare("higher", {"system": "c", "minus": "a"}, None), "supported"),
        (compare("lower", {"system": "c", "minus": "a"}, None), "contradicted"),
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
    begin = {"supported": "Supported: ", "contradicted": "Contradicted: that ", "undecided": "Undecided: whether "}[
        word
    ]
    assert decision.sentence.startswith(f"{begin}{decision.asked}. ")
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
    """Evidence without sentences, and speeds that were measured in turn: system -> its turns."""
    evidence = evidence_of([(output(system, seed), [0]) for system in of_systems for seed in (1, 2)], [9])
    measured = {(system, "all"): {"training_speed": turns} for system, turns in of_systems.items()}
    return evidence, measured


def test_speeds_are_compared_turn_by_turn():
    """What slows a whole turn is no part of the variance of a ratio."""
    evidence, measured = speeds(a=[4400.0, 2250.0, 4600.0], b=[8800.0, 4600.0, 9100.0])
    decision = one(evidence, compare("lower", measure="training_speed", relative=True, by=0.4), speeds=measured)
    ratios = np.array([4400 / 8800, 2250 / 4600, 4600 / 9100]) - 1
    assert decision.value == pytest.approx(ratios.mean())
    assert decision.freedom == 2
    reach = t_quantile(0.975, 2) * math.sqrt(ratios.var(ddof=1) / 3)
    assert (decision.low, decision.high) == (pytest.approx(ratios.mean() - reach), pytest.approx(ratios.mean() + reach))
    assert decision.word == "supported"
    assert decision.sentence.startswith(
        "Supported: the training speed of a is lower than that of b by more than 40 %. In 3 turns of one process: −50."
    )
    absolute = one(evidence, compare("lower", measure="training_speed"), speeds=measured)
    assert absolute.value == pytest.approx((4400 - 8800 + 2250 - 4600 + 4600 - 9100) / 3)


def test_speeds_of_different_times_decide_nothing():
    evidence, measured = speeds(a=[4400.0, 4500.0], b=[9900.0])
    asked = compare("lower", measure="training_speed")
    for known, name in ((None, "a"), ({}, "a"), (measured, "b")):
        decision = one(evidence, asked, speeds=known)
        assert decision.word == "undecided"
        assert decision.why == (
            f"the training speed of {name} was not measured in turn with the others, and speeds of different times "
            "prove nothing"
        )


def test_relative_margins_are_shares_of_than():
    reference = np.full(400, 100)
    generator = np.random.default_rng(2)
    differences = [
        (output(system, seed), generator.integers(low, low + 9, 400) + reference * 0)
        for system, low in (("a", 40), ("b", 96))
        for seed in (1, 2, 3)
    ]
    evidence = evidence_of(differences, np.full(400, 9))

    def asked(is_, **margin):
        return one(evidence, compare(is_, relative=True, **margin))

    assert asked("lower", by=0.5).word == "supported"
    assert asked("lower", by=0.6).word == "contradicted"
    assert asked("equal", within=0.1).word == "contradicted"
    decision = asked("equal", within=0.6)
    assert decision.word == "supported"
    assert decision.value == pytest.approx(44 / 100 - 1, abs=0.01)
    assert decision.sentence.startswith(
        "Supported: the length difference of a is equal to that of b within 60 %. On 400 "
        "sentences, with 3 seeds of each "
        "system: −55."
    )


# --- what a claim rests on


def test_the_test_alone_decides(study):
    """Whatever is beside it: no verdict is that of several comparisons."""
    yes, no, unknown = compare("higher", "c", "a"), compare("higher", "a", "c"), compare("higher", "a", "b")
    words = {"supported": yes, "contradicted": no, "undecided": unknown}
    for (word, test), *others in itertools.permutations(words.items()):
        verdict = decided(study, test, *(comparison for _, comparison in others))
        assert verdict.word == word
        assert verdict.why == verdict.primary.sentence == verdict.comparisons[0].sentence
        assert [decision.word for decision in verdict.comparisons] == [word, *(other for other, _ in others)]
        assert [decision.primary for decision in verdict.comparisons] == [True, False, False]
        assert [decision.comparison for decision in verdict.comparisons] == [verdict.claim.test, *verdict.claim.beside]


def test_joined_lines_are_not_called_longer_sentences(study):
    """What they have besides more subwords is a second sentence: they are named in the statement and in its basis."""
    for lengths, of_lines in (("longer", 200), ("seen", 200), ("all", 400), ([12, 49], 190)):
        sides = [{"system": system, "lengths": lengths} for system in "ca"]
        single, joined = one(study, compare("higher", *sides)), one(study, compare("higher", *sides), joined={"test"})
        assert "sentence" not in joined.sentence
        assert "longer" not in joined.sentence
        assert "joined" not in single.sentence
        assert joined.asked.count("joined lines") == 1
        assert joined.why.startswith(f"on {of_lines} joined lines")
        assert replace(joined, asked="", why="") == replace(single, asked="", why="")
    apart = [{"system": "d", "minus": "a", "lengths": lengths} for lengths in ("longer", "seen")]
    both = one(study, compare("higher", *apart), joined={"test"})
    assert (both.asked.count("joined lines"), both.why.count("joined lines")) == (2, 2)


def test_systems_may_have_different_numbers_of_seeds(study):
    gone = without(study, ("b", 3))
    planned = {"a": 3, "b": 2, "c": 3}
    decision = one(gone, compare("higher", "c", "b"), seeds=lambda variant: planned[variant[0]])
    assert decision.word == "supported"
    assert "with 2 to 3 seeds of each system" in decision.why
    missing = one(gone, compare("higher", "c", "b"), seeds=lambda variant: 3)
    assert missing.why == "there is no output of b, seed 3: it is not finished, or it failed"


def test_nothing_is_decided_below_the_floor():
    """The floor is for sentences of trained lengths: on longer ones a system may fall as low as it likes."""
    evidence = bleu_evidence({"good": (0.8, 0.3), "better": (0.9, 0.5), "untrained": (0.1, 0.1)})
    higher = compare("higher", "better", "good", measure="bleu")
    poor = compare("higher", "good", "untrained", measure="bleu")
    longer = compare("higher", *({"system": name, "lengths": "longer"} for name in ("better", "good")), measure="bleu")
    for comparison in (higher, longer, poor):
        assert one(evidence, comparison).word == "supported"
    for comparison in (higher, longer):
        assert one(evidence, comparison, floor=20.0).word == "supported"
    for measure in ("bleu", "length_difference"):
        below = one(evidence, {**poor, "measure": measure}, floor=20.0)
        assert below.word == "undecided"
        assert below.value is None
        assert below.why.startswith("below the floor: untrained has ")
        assert below.why.endswith(
            " BLEU on sentences of trained lengths, and below 20 a system has learned too little for "
            "differences to mean "
            "anything"
        )
    assert one(evidence, poor, floor=20.0, exempt={"untrained"}).word == "supported"


def test_what_is_below_the_floor_is_not_shown_to_be_at_it():
    """9.66 BLEU, which would be rounded to 9.7."""
    evidence = bleu_evidence({"good": (0.8, 0.3), "poor": (0.1, 0.1)}, generator=np.random.default_rng(5))
    below = one(evidence, compare("higher", "good", "poor", measure="bleu"), floor=9.7)
    assert below.why.startswith("below the floor: poor has 9.6 BLEU on sentences of trained lengths, and below 9.7 ")


def test_where_trained_lengths_are_not_known_the_floor_is_for_the_whole_test():
    """As after a sweep over the vocabulary, whose points count lengths in other subwords."""
    evidence = bleu_evidence({"good": (0.8, 0.3), "better": (0.9, 0.5), "untrained": (0.1, 0.1)})
    outputs = [replace(each, trained_lengths=None) for each in evidence.outputs]
    evidence = replace(evidence, outputs=outputs)
    assert one(evidence, compare("higher", "better", "good", measure="bleu"), floor=20.0).word == "supported"
    below = one(evidence, compare("higher", "good", "untrained", measure="bleu"), floor=20.0)
    assert "BLEU on the test, and below 20" in below.why


@pytest.mark.parametrize(
    "comparison", [compare("higher", "b", "a"), compare("lower", "a", "b", by=1), compare("equal", "b", "a", within=5)]
)
def test_what_would_decide_a_comparison_is_said(comparison):
    """As many seeds as bring the interval to the margin, unless the sentences alone keep it away."""
    comparison = claim(comparison).test
    value = -3.0 if comparison.is_ == "lower" else 3.0

    def of_seeds(first, second):  # variances over seeds of 9 and 3
        return Estimate.of(value, 0.2, [Part(9 / first, first - 1, first), Part(3 / second, second - 1, second)])

    for given in ((3, 3), (2, 5)):
        assert word_of(comparison, of_seeds(*given)) == "undecided"
        said = what_it_takes(comparison, of_seeds(*given), 0.95)
        seeds = int(re.fullmatch(r"some (\d+) seeds would decide it, if the difference stayed as it is", said)[1])
        of_each = [[max(count, had) for had in given] for count in (seeds, seeds - 1)]
        assert [word_of(comparison, of_seeds(*each)) for each in of_each] == ["supported", "undecided"]
    few = Estimate.of(value, 6.0, [Part(0.1, 2, 3), Part(0.1, 2, 3)])
    assert what_it_takes(comparison, few, 0.95).startswith("no number of seeds would decide it on so few sentences")
    near = Estimate.of({"higher": 0.05, "lower": -1.05, "equal": 4.95}[comparison.is_], 0.0, [Part(3.0, 2, 3)] * 2)
    assert what_it_takes(comparison, near, 0.95).startswith("more than 100 seeds would be needed")


# --- what is said


def test_the_documented_sentence(study):
    sides = [{"system": system, "lengths": "longer"} for system in "ca"]
    decision = one(study, compare("higher", *sides, by=1))
    assert decision.why == (
        f"on 200 sentences of more than 49 subwords, with 3 seeds of each system: +{decision.value:.2f} subwords, "
        f"95 % interval +{decision.low:.2f} to +{decision.high:.2f}, p < 0.0001"
    )
    assert decision.sentence.startswith(
        "Supported: the length difference of c is higher than that of a by more than 1 subwords on "
        "sentences longer than "
        "any in its training. On 200 sentences"
    )


@pytest.mark.parametrize(
    ("pairs", "shown"), [(1, "95 %"), (3, "98.3 %"), (20, "99.8 %"), (156, "99.97 %"), (9900, "99.9995 %")]
)
def test_no_interval_is_certain(pairs, shown):
    """With more pairs to correct for, the level comes near 100 %, which no interval has."""
    said = with_intervals(claim(compare("higher")).test, Estimate(0.5, 0.04, math.inf), [1 - 0.05 / pairs])
    assert f", {shown} interval " in said


@pytest.mark.parametrize(
    ("margin", "end", "shown"),
    [
        ({"is_": "higher"}, 0.004, "+0.404 subwords, 95 % interval +0.004 to +0.804"),
        ({"is_": "higher"}, 0.006, "+0.41 subwords, 95 % interval +0.01 to +0.81"),
        ({"is_": "higher", "by": 1}, 1.0002, "+1.4002 subwords, 95 % interval +1.0002 to +1.8002"),
        ({"is_": "lower"}, -0.804, "−0.404 subwords, 95 % interval −0.804 to −0.004"),
        ({"is_": "equal", "within": 0.6}, -0.2021, "+0.198 subwords, 95 % interval −0.202 to +0.598"),
        ({"is_": "lower", "by": 0.3, "relative": True}, -1.10003, "−70.003 %, 95 % interval −110.003 to −30.003"),
    ],
)
def test_a_supported_comparison_has_no_interval_that_ends_at_the_margin(margin, end, shown):
    """Where two decimals would show the end of an interval at the margin, it has more of them."""
    comparison = claim(compare(**margin)).test
    estimate = Estimate(end + 0.4, (0.4 / t_quantile(0.975, math.inf)) ** 2, math.inf)
    assert word_of(comparison, estimate) == "supported"
    assert with_intervals(comparison, estimate, [0.95]) == shown


def test_two_kinds_of_sentences_are_both_said(study):
    sides = [{"system": "d", "minus": "a", "lengths": lengths} for lengths in ("longer", [12, 49])]
    decision = one(study, compare("higher", *sides))
    assert decision.asked == (
        "the length difference of d minus that of a on sentences longer than any in its training is higher than on "
        "sentences of 12 to 49 subwords"
    )
    assert decision.why.startswith(
        "on 200 sentences of more than 49 subwords against 190 sentences of 12 to 49 subwords, with "
        "3 seeds of each system: +"
    )


def without(evidence, *gone):
    """The evidence without the outputs of those systems and seeds."""
    kept = [place for place, each in enumerate(evidence.outputs) if (each.system, each.seed) not in gone]
    return replace(evidence, counts=evidence.counts[:, kept], outputs=[evidence.outputs[place] for place in kept])


def test_a_missing_output_is_named(study):
    for gone, why in (
        ([("b", 2)], "there is no output of b, seed 2: it is not finished, or it failed"),
        ([("b", 1), ("b", 3)], "there are no outputs of b, seeds 1 and 3: they are not finished, or they failed"),
        ([("b", seed) for seed in (1, 2, 3)], "there is no output of b: it is not finished, or it failed"),
    ):
        decision = one(without(study, *gone), compare("higher"))
        assert (decision.word, decision.why, decision.value) == ("undecided", why, None)
        assert one(without(study, *gone), compare("higher", "c", "a")).word == "supported"
    swapped = compare("higher", {"system": "a", "share": 0.25}, "b")
    assert one(study, swapped).why.startswith("there is no output of a with 25 % of the words swapped: ")


def test_one_seed_has_a_value_and_no_verdict(study):
    gone = [(system, seed) for system in "abcd" for seed in (2, 3)]
    decision = one(without(study, *gone), compare("higher", "c", "a"))
    assert decision.word == "undecided"
    assert decision.value > 5
    assert (decision.low, decision.high, decision.freedom) == (None, None, None)
    assert decision.why == (
        f"on 400 sentences, with 1 seed of each system: +{decision.value:.2f} subwords, and one "
        f"seed says nothing of others"
    )


def test_few_sentences_have_a_value_and_no_verdict(study):
    for last, word in ((13, "supported"), (12, "undecided")):
        sides = [{"system": system, "lengths": [None, last]} for system in "ca"]
        decision = one(study, compare("higher", *sides))
        assert decision.word == word
        assert decision.value > 5
    assert (decision.low, decision.high) == (None, None)
    assert decision.why == (
        f"on 15 sentences of 1 to 12 subwords, with 3 seeds of each system: +{decision.value:.2f} subwords, "
        f"and fewer than {FEWEST_SENTENCES} sentences say nothing of others"
    )
    nothing = one(study, compare("higher", {"system": "c", "lengths": [200, None]}, "a"))
    assert (nothing.word, nothing.why) == ("undecided", "the test has no sentences of more than 199 subwords")
    nothing = one(study, compare("higher", {"system": "c", "lengths": "shorter"}, "a"))
    assert nothing.why == "the test has no sentences of 1 to 1 subwords"


def test_other_reasons_to_decide_nothing(study):
    def why(evidence, comparison, scale="small"):
        decision = one(evidence, comparison, scale)
        assert decision.word == "undecided"
        return decision.why

    missing = decide(claim(compare("higher", analysis="other")), {"test": study}, Rules(resolve, "small"))
    assert missing.word == "undecided"
    assert missing.comparisons[0].why == "the analysis other was not made"
    assert why(study, compare("higher", measure="chrf")) == "the analysis test does not measure chrf"
    by_scale = {"system": "a", "lengths": {"paper": [1, 9]}}
    assert why(study, compare("higher", by_scale)) == "the claim names no lengths for the scale small"
    unknown = replace(study, outputs=[replace(each, trained_lengths=None) for each in study.outputs])
    longer = {"system": "a", "lengths": "longer"}
    assert why(unknown, compare("higher", longer)) == "the source lengths in the training of a are not known"
    still = evidence_of([(output(system, seed), np.arange(30)) for system in "ab" for seed in (1, 2)], np.full(30, 9))
    reason = "on 30 sentences, with 2 seeds of each system: no figure varies, so that nothing is known of chance"
    assert why(still, compare("higher")) == reason
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
        (compare("higher", measure="meteor"), "no measure here is called 'meteor'"),
        (compare("lower", {"system": "a", "lengths": "longer"}, measure="training_speed"), "has no `lengths`"),
        (compare("lower", than=None, measure="training_speed"), "is compared between two systems"),
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


# --- outputs that cluster at the longest trained length


def clustered(near, longest=(30, 30), seed=6):
    """Evidence of 300 references of 20 to 45 subwords; `near`: system -> the share of its outputs of 29 subwords."""
    generator = np.random.default_rng(seed)
    references = generator.integers(20, 46, 300)
    rows, outputs = [], []
    for (system, share), trained in zip(near.items(), longest, strict=True):
        for number in (1, 2, 3):
            others = references + generator.integers(-3, 1, 300)
            rows.append(np.where(generator.random(300) < share, 29, others))
            outputs.append(output(system, number, longest_target=trained))
    additive = Additive.of({}, rows, references)
    sources = np.where(references > 40, 80, 20)
    return Evidence(additive.rows.astype(np.uint16), additive.columns, sources, outputs)


def share_by_loops(evidence, system, chosen=lambda sentence: True):
    """The mean over seeds of the share of outputs within a tenth of the longest target, less that of references."""
    found = []
    for place, made in enumerate(evidence.outputs):
        near = [
            (abs(int(row[place][-2]) - made.longest_target) <= 0.1 * made.longest_target)
            - (abs(int(row[place][-1]) - made.longest_target) <= 0.1 * made.longest_target)
            for sentence, row in enumerate(evidence.counts)
            if row[place][-1] > made.longest_target and chosen(sentence)
        ]
        if made.system == system:
            found.append(sum(near) / len(near))
    return sum(found) / len(found)


def test_the_share_near_the_longest_length_is_that_of_plain_loops():
    """Over sentences with longer references, those of the system's own training; with other lengths as usual."""
    evidence = clustered({"a": 0.4, "b": 0.0}, longest=(30, 33))
    found = one(evidence, compare("higher", "a", None, measure="near_longest"))
    assert found.value == pytest.approx(share_by_loops(evidence, "a"))
    found = one(evidence, compare("higher", measure="near_longest"))
    assert found.value == pytest.approx(share_by_loops(evidence, "a") - share_by_loops(evidence, "b"))
    of_long = one(evidence, compare("higher", {"system": "a", "lengths": "longer"}, None, measure="near_longest"))
    expected = share_by_loops(evidence, "a", lambda sentence: evidence.source_lengths[sentence] > 49)
    assert of_long.value == pytest.approx(expected)
    number = int((evidence.counts[:, 0, -1] > 30).sum())
    assert (
        f"on {number} sentences with a reference longer than any in training"
        in one(evidence, compare("higher", "a", None, measure="near_longest")).why
    )


@pytest.mark.parametrize(("near", "word"), [(0.5, "supported"), (0.0, "contradicted")])
def test_outputs_that_cluster_are_found(near, word):
    """References have lengths near 30, too: as many short outputs as those are no cluster."""
    decision = one(clustered({"a": near, "b": 0.0}), compare("higher", "a", None, measure="near_longest", by=0.25))
    assert decision.word == word


def test_clusters_need_known_lengths_and_enough_longer_references():
    asked = compare("higher", measure="near_longest")
    unknown = one(clustered({"a": 0.5, "b": 0.0}, longest=(30, None)), asked)
    assert (unknown.word, unknown.value) == ("undecided", None)
    assert "target lengths" in unknown.why
    few = one(clustered({"a": 0.5, "b": 0.0}, longest=(44, 44)), asked)
    assert (few.word, few.low) == ("undecided", None)
    assert f"fewer than {FEWEST_SENTENCES} sentences" in few.why
    none = one(clustered({"a": 0.5, "b": 0.0}, longest=(60, 60)), asked)
    assert "no sentences with a reference longer" in none.why
