"""Every two systems of a study compared, on evidence whose effects are known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from posnmt.evaluation.analyse.length_effects import length_effects
from posnmt.study.loss import ScoredText
from posnmt.study.pairs import MOST, compared, corrected_rules, findings
from posnmt.study.recipe import Recommend
from posnmt.study.verdict import Rules
from tests.support.losses_case import random_losses
from tests.support.verdict_case import drawn, resolve

LENGTHS = np.tile(np.arange(20, 80), 5)  # 30 of 60 lengths are longer than the longest of training, 49
SECTION = Recommend(analyses=["test"], lengths=["seen", "longer"])


def made(effects, section=SECTION, seed=1, scored=None, **more):
    """The decisions and findings of systems whose length differences stand for a metric that is better if higher."""
    generator = np.random.default_rng(seed)
    section = section.model_copy(update={"measure": "length_difference"})
    evidence = {"test": drawn(generator, effects, LENGTHS, **more)}
    rules = corrected_rules(section, len(effects), Rules(resolve, "small", label=str.upper, scored=scored or {}))
    decisions = compared(section, list(effects), evidence, rules)
    return decisions, findings(decisions, rules), rules


def listed(finding):
    """The items as one text."""
    return "\n".join(finding.items)


def beyond(effect):
    return lambda lengths: np.where(lengths > 49, effect, 0.0)


def words(decisions):
    return {(*pair, name): each.word for pair, of_pair in decisions.items() for name, each in of_pair.items()}


def test_a_difference_on_longer_sentences_alone_is_found_there_alone():
    """Of three systems, the second is far ahead on sentences longer than any in training."""
    decisions, (found, left), _ = made({"a": 0.0, "b": beyond(12.0), "c": 0.0})
    assert words(decisions) == {
        ("a", "b", "test, seen"): "undecided", ("a", "b", "test, longer"): "contradicted",
        ("a", "c", "test, seen"): "undecided", ("a", "c", "test, longer"): "undecided",
        ("b", "c", "test, seen"): "undecided", ("b", "c", "test, longer"): "supported",
    }  # fmt: skip
    assert ("2 of 6" in found.sentence, "4 of 6" in left.sentence) == (True, True)
    assert (len(found.items), len(left.items)) == (2, 4)
    for item in found.items:
        assert " of B is higher than that of " in item  # whichever stands first
        assert "longer than any in its training (+" in item
        assert " to +" in item
    for item in left.items:
        assert item.startswith("whether ")
        assert item.count("seeds would") == 1


def test_intervals_are_corrected_for_all_pairs_and_classes():
    """Three pairs with two classes each and one likelihood: the interval of one comparison has 1 - 0.05 / 9."""
    section = SECTION.model_copy(update={"likelihoods": ["test"]})
    effects = {"a": 0.0, "b": 3.0, "c": 0.0}
    wide, _, rules = made(effects, section)
    narrow, _, alone = made({"a": 0.0, "b": 3.0}, Recommend(analyses=["test"], lengths=["longer"]))
    assert (rules.level, alone.level) == (pytest.approx(1 - 0.05 / 9), pytest.approx(0.95))
    [many], [one] = (
        [each["test, longer"] for pair, each in found.items() if pair == ("a", "b")] for found in (wide, narrow)
    )
    assert many.value == one.value
    assert many.high - many.low > one.high - one.low > 0


def test_losses_are_compared_in_d1_beside_the_outputs():
    """The second system loses more at positions beyond those of training."""
    losses = random_losses((("a", (1, 2, 3)), ("b", (1, 2, 3))), beyond={"b": 0.5}, sentences=400)
    effects = length_effects(losses)
    scored = {"test": ScoredText(effects, {(name, "all"): name for name in effects.systems})}
    section = SECTION.model_copy(update={"likelihoods": ["test"]})
    decisions, (found, left), _ = made({"a": 0.0, "b": 0.0}, section, scored=scored)
    assert words(decisions)["a", "b", "test, D1"] == "supported"
    assert listed(found).count("A loses less than B") == 1
    assert (listed(found).count("nats"), listed(left).count("whether ")) == (1, 2)


@pytest.mark.parametrize("seeds", [1, 3])
def test_of_equal_systems_nothing_is_found(seeds):
    """One system under two names: the same distribution; and with one seed nothing is said at all."""
    decisions, (found, left), _ = made({"a": 0.0, "b": 0.0}, seeds=seeds)
    assert {*words(decisions).values()} == {"undecided"}
    assert (found.sentence.startswith("Found: nothing"), found.items) == (True, [])
    assert listed(left).count("whether ") == 2
    assert listed(left).count("one seed says nothing of others") == (2 if seeds == 1 else 0)
    assert ("intervals are corrected" in found.sentence) == (seeds > 1)  # with one seed there are none


def test_the_very_same_outputs_are_undecided():
    """One system under two names whose trainings are one training: no figure varies."""
    decisions, (found, _), _ = made({"a": 0.0, "b": 0.0}, over_seeds=0.0, over_sentences=0.0)
    assert {*words(decisions).values()} == {"undecided"}
    assert found.sentence.startswith("Found: nothing")


@pytest.mark.parametrize("effect", [0.0, 30.0])
def test_many_comparisons_are_cut_and_counted(effect):
    names = "abcdef"
    decisions, sentences, _ = made({name: place * effect for place, name in enumerate(names)})
    count = 2 * math.comb(len(names), 2)
    assert len(words(decisions)) == count
    of_word = [sum(word != "undecided" for word in words(decisions).values())]
    of_word.append(count - of_word[0])
    for finding, number in zip(sentences, of_word, strict=True):
        assert sum(" is higher than that of " in item for item in finding.items) == min(number, MOST)
        assert len(finding.items) == min(number, MOST + 1)
        assert (f"and {number - MOST} more" in listed(finding)) == (number > MOST)
    assert max(of_word) > MOST


@pytest.mark.parametrize("effect", [0.0, 12.0])
def test_one_comparison_is_not_said_to_be_corrected(effect):
    alone = Recommend(analyses=["test"], lengths=["all"])
    _, (found, _), rules = made({"a": 0.0, "b": effect}, alone)
    assert rules.level == pytest.approx(0.95)
    assert found.sentence.startswith("Found: nothing") == (not effect)
    assert "corrected" not in found.sentence
    assert "comparisons" not in found.sentence
    assert "corrected for 2 comparisons" in made({"a": 0.0, "b": effect})[1][0].sentence


def test_one_system_has_no_pair():
    assert made({"a": 0.0})[:2] == ({}, [])


def test_comparisons_that_are_open_for_one_reason_stand_together():
    """The trained lengths of two systems are not known, so nothing is compared on sentences longer than these."""
    generator = np.random.default_rng(1)
    evidence = drawn(generator, {"a": 0.0, "b": 0.0, "c": 0.0}, LENGTHS)
    outputs = [replace(each, trained_lengths=None) if each.system == "a" else each for each in evidence.outputs]
    section = SECTION.model_copy(update={"measure": "length_difference"})
    rules = corrected_rules(section, 3, Rules(resolve, "small", label=str.upper))
    decisions = compared(section, "abc", {"test": replace(evidence, outputs=outputs)}, rules)
    left = findings(decisions, rules)[1]
    assert "6 of 6" in left.sentence
    assert listed(left).count("whether A and B, or A and C differ in ") == 1
    assert listed(left).count("whether ") == len(left.items) == 1 + 2  # B and C, on both classes
