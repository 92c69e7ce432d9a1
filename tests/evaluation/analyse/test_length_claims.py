"""What is stated of length: "longer text" only where both designs are decided with the same sign."""

from dataclasses import replace

import numpy as np
import pytest

from posnmt.evaluation.analyse.length_claims import PLACES, claims
from posnmt.evaluation.analyse.length_effects import length_effects
from tests.support.losses_case import random_losses

SEEDS = (1, 2, 3)


def effects_of(beyond, swapped, seeds=SEEDS, noise=0.02, **options):
    """Effects where b loses so much more than a beyond the trained positions, and after a long sentence."""
    options = {"sentences": 400, "documents": 40, "seed": 3, **options}
    losses = random_losses((("a", seeds), ("b", seeds)), beyond={"b": beyond}, **options)
    if swapped is None:
        return length_effects(losses)
    generator = np.random.default_rng(9)
    change = generator.normal(0, noise, (len(losses.models), 40))[:, losses.documents[losses.sentence]]
    change += np.array([swapped * (model.system == "b") for model in losses.models])[:, None]
    return length_effects(losses, losses, replace(losses, losses=losses.losses + change))


@pytest.mark.parametrize(
    ("beyond", "swapped", "starts", "longer"),
    [
        (0.5, 0.5, "On longer text, b loses ground to a", True),
        (-0.5, -0.5, "On longer text, a loses ground to b", True),
        (0.5, -0.5, f"From {PLACES}, b loses", False),
        (-0.5, 0.5, f"From {PLACES}, a loses", False),
        (0.5, 0.0, f"From {PLACES}, b loses", False),
        (0.5, None, f"From {PLACES}, b loses", False),
        (0.0, 0.5, "From one short to one long sentence before, b loses", False),
        (0.0, 0.0, "Nothing is decided between b and a", False),
        (0.0, None, "Nothing is decided between b and a", False),
    ],
)
def test_longer_text_is_named_where_both_designs_agree(beyond, swapped, starts, longer):
    (text,) = claims(effects_of(beyond, swapped))
    assert text.startswith(starts)
    assert ("longer text" in text) == longer


@pytest.mark.parametrize(
    ("beyond", "swapped", "reason"),
    [
        (0.5, -0.5, "design D1 alone: D2 has the other sign, −0."),
        (0.5, 0.0, "design D1 alone: D2 is undecided, "),
        (0.5, None, "design D1 alone: there is no D2"),
        (0.0, 0.5, "design D2 alone: D1 is undecided, "),
    ],
)
def test_the_design_is_named_with_the_reason(beyond, swapped, reason):
    assert reason in claims(effects_of(beyond, swapped))[0]


def test_too_few_documents_decide_nothing():
    (text,) = claims(effects_of(0.5, 0.5, documents=15))
    assert "longer text" not in text
    assert "D1 rests on too little" in text
    assert "D2 rests on too little" in text


def test_figures_are_those_of_the_designs():
    effects = effects_of(0.5, 0.5)
    (text,) = claims(effects)
    for name in ("D1", "D2"):
        estimate = effects.designs[name].differences["b"]
        low, high = estimate.interval()
        assert f"{estimate.value:.3f} nats a subword (95 % {low:.3f} to {high:.3f})" in text
    (text,) = claims(effects_of(-0.5, -0.5))
    assert "−" not in text, "sizes have no sign where words give the direction"


def test_single_seeds_are_models():
    assert "single models" in claims(effects_of(0.5, 0.5, seeds=(1,)))[0]
    assert "single models" not in claims(effects_of(0.5, 0.5))[0]


def test_the_word_robust_needs_both_filters():
    effects = effects_of(0.5, None)
    assert "The decision is robust" in claims(effects)[0]
    without = effects.designs["D1 without the worst 5 %"]
    zero = replace(without, differences={"b": replace(without.differences["b"], value=0.0)})
    other = replace(effects, designs={**effects.designs, "D1 without the worst 5 %": zero})
    assert "not robust: it does not stay without the worst 5 %." in claims(other)[0]
    assert "robust" not in claims(effects_of(0.0, None))[0], "nothing is decided"


def test_every_system_is_compared_with_the_baseline():
    losses = random_losses((("a", SEEDS), ("b", SEEDS), ("c", SEEDS)), sentences=400, documents=40, seed=3,
                           beyond={"c": 0.5})  # fmt: skip
    texts = claims(length_effects(losses))
    assert ["Nothing is decided" in text for text in texts] == [True, False]
    assert texts[1].startswith(f"From {PLACES}, c loses")
    assert claims(length_effects(random_losses((("a", (1,)),)))) == []
