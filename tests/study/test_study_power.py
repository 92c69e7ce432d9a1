"""The power of claims: against studies that are simulated whole, and what a recipe states of them."""

import numpy as np
import pytest

from posnmt.study import contrast
from posnmt.study.blocks import Training, units
from posnmt.study.claims import Comparison, Expected
from posnmt.study.load import load
from posnmt.study.power import ENOUGH, of_recipe, power
from tests.support.verdict_case import bleu_evidence, compare, drawn, one, resolve

FOUR = ("rosendahl2019", "neishi2019", "chen2019a", "chen2019b")


def comparison(is_="higher", **more):
    return Comparison.model_validate({"analysis": "test", "measure": "bleu", **compare(is_, "b", "a", **more)})


def share(asked, expected, seeds=3, block=0, **more):
    """The power of a comparison of a and b, in a block of so many systems."""
    systems = ["a", "b", *(f"peer-{number}" for number in range(block - 2))]
    trainings = {resolve(name): {seed: Training(name, "all") for seed in range(seeds)} for name in systems}
    own = {resolve(name): range(seeds) for name in "ab"}
    return power(asked, expected, units(own, trainings if block else {}), resolve, **more)


def test_power_is_the_share_of_whole_studies_that_are_supported(monkeypatch):
    """Studies of sentences with lengths, from the counts to the verdict, as often supported as the power says."""
    monkeypatch.setattr(contrast, "SAMPLES", 150)
    spread, interaction, deviation, effect, sentences, studies = 8.0, 15.0, 1.0, 4.0, 150, 120
    lengths = np.full(sentences, 20)
    generator = np.random.default_rng(5)
    supported = sum(
        one(
            drawn(
                generator, {"a": 0.0, "b": effect}, lengths, over_seeds=deviation, over_sentences=spread / 2**0.5,
                of_each=interaction,
            ),
            compare("higher", "b", "a"),
        ).word
        == "supported"
        for _ in range(studies)
    )  # fmt: skip
    expected = Expected(
        effect=effect, sentences=[sentences], spread=spread, interaction=interaction, deviation=deviation
    )
    predicted = share(comparison(), expected)
    assert 0.5 < predicted < 0.9
    assert supported / studies == pytest.approx(predicted, abs=0.13)  # three standard deviations of 120 studies


def test_the_spread_is_that_of_a_difference_over_sentences():
    """For BLEU: the interval of one study without seeds that differ is as wide as the spread says."""
    generator = np.random.default_rng(1)
    evidence = bleu_evidence({"a": (0.5, 0.5), "b": (0.5, 0.5)}, (400, 400), seeds=2, generator=generator)
    decision = one(evidence, compare("higher", "b", "a", measure="bleu"))
    half = (decision.high - decision.low) / 2
    spread = half / 1.96 * 800**0.5
    assert 5 < spread < 40


@pytest.mark.slow
def test_power_grows_with_the_effect_the_seeds_and_the_sentences():
    def of(effect, seeds, sentences, is_="higher", **more):
        expected = Expected(effect=effect, sentences=[sentences])
        return share(comparison(is_, **more), expected, seeds)

    assert of(0.5, 3, 3000) < of(1, 3, 3000) < of(1, 5, 3000) < of(1, 5, 30_000)
    assert of(0, 5, 3000) < 0.05  # false verdicts
    assert of(1, 1, 3000) == 0  # one seed decides nothing
    assert of(0, 5, 3000, "equal", relative=True, within=0.05) > 0.9
    assert of(0, 5, 100, "equal", relative=True, within=0.05) < 0.5
    assert of(1, 5, 3000, "higher", by=1) < 0.05


def test_two_sides_on_other_sentences_vary_more():
    apart = {
        "of": {"system": "b", "minus": "a", "lengths": "longer"},
        "than": {"system": "b", "minus": "a", "lengths": "seen"},
    }
    both = Comparison.model_validate({"analysis": "test", "is": "higher", **apart})

    def of(asked, *sentences):
        expected = Expected(effect=1, sentences=[*sentences], spread=18, interaction=0, deviation=0.1)
        return share(asked, expected)

    assert of(both, 2000, 100) < of(both, 2000, 2000) < of(comparison(), 2000) - 0.1


@pytest.mark.parametrize("is_", ["higher", "lower"])
def test_seeds_alone_support_a_false_claim_in_25_of_1000_studies(is_):
    expected = Expected(effect=0, sentences=[1_000_000], spread=0.1, interaction=0)
    assert share(comparison(is_), expected, 20, studies=4000) == pytest.approx(0.025, abs=0.01)


@pytest.mark.parametrize("name", FOUR)
def test_every_claim_that_is_corrected_for_states_what_it_expects(name):
    recipe = load(name, check_configs=False)
    powers = of_recipe(recipe, "small")
    assert [each.claim for each in powers] == recipe.claims_at("small")
    for each in powers:
        speed = each.primary.measure in ("training_speed", "decoding_speed")
        assert (each.power is None) == (each.expected is None)
        assert each.expected is None or 0 <= each.power <= 1
        assert speed or each.expected is not None or not each.claim.primary, each.claim.says
        assert each.cannot_be_decided == (each.power is not None and each.power < ENOUGH)
        assert each.seeds[1] in (2, 3, 5)
    decidable = [each.power > 0.6 for each in powers if each.claim.primary and each.power is not None]
    assert sum(decidable) >= 0.75 * len(decidable)  # a recipe that would not answer is a waste of its hours


def test_power_is_greater_in_a_block():
    """The other systems say how much seeds vary: with three seeds of each system most is gained."""
    expected = Expected(effect=1, sentences=[4000], interaction=0, deviation=0.3)
    alone, in_block = share(comparison(), expected), share(comparison(), expected, block=8)
    assert in_block > alone + 0.05
    few = Expected(effect=1, sentences=[4000], interaction=0, deviation=0.3)
    assert share(comparison(), few, seeds=2, block=8) > 2 * share(comparison(), few, seeds=2)


def test_a_difference_of_three_tenths_cannot_be_decided_with_five_seeds():
    """As in a block of eight systems of chen2019a's kind."""
    expected = Expected(effect=0.3, sentences=[4500], spread=3.7, interaction=8.6, deviation=0.15)
    assert share(comparison(), expected, 5, block=8) < ENOUGH
    assert share(comparison(), expected.model_copy(update={"effect": 0.5}), 5, block=8) > ENOUGH
