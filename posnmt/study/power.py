"""The power of a claim's primary comparison, calculated before a study runs.

Power is the share of studies that would find the comparison supported if the effect that the recipe expects were the
true one. Studies are simulated: each figure varies over seeds, and all of them over sentences, as the recipe states
(`posnmt.study.claims.Expected`). Their verdicts come from the intervals of `posnmt.study.contrast`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from posnmt.study.claims import Claim, Comparison, Expected
from posnmt.study.contrast import Estimate
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.verdict import word_of

STUDIES = 1000
SEED = 1


@dataclass(frozen=True)
class Power:
    """The power of a claim.

    Attributes:
        claim, primary: a claim and its primary comparison.
        expected: of it, at the scale; None: the recipe states nothing.
        seeds: of its systems, the least and the most.
        power: from 0 to 1; None without `expected`.
    """

    claim: Claim
    primary: Comparison
    expected: Expected | None
    seeds: tuple[int, int]
    power: float | None


def of_recipe(recipe: Recipe, scale: Scale) -> list[Power]:
    """The power of every claim that has a primary comparison, in the order of the recipe."""
    primaries = [(claim, claim.primary(scale)) for claim in recipe.claims]
    return [_of_claim(recipe, scale, claim, primary) for claim, primary in primaries if primary is not None]


def _of_claim(recipe: Recipe, scale: Scale, claim: Claim, primary: Comparison) -> Power:
    expected = primary.expects.get(scale)
    seeds = {
        name: recipe.seeds(recipe.variant(name), scale) for side in primary.sides for name in side.variants
    }  # fmt: skip
    share = None if expected is None else power(primary, expected, seeds.__getitem__)
    return Power(claim, primary, expected, (min(seeds.values()), max(seeds.values())), share)


def power(
    comparison: Comparison, expected: Expected, seeds: Callable[[str], int], studies: int = STUDIES, seed: int = SEED
) -> float:
    """The share of simulated studies in which a comparison is supported.

    Args:
        comparison: with or without `than`.
        expected: the effect, and what the figures vary by.
        seeds: gives the number of seeds of a system, by its name in the comparison.
        studies: how many are simulated.
        seed: of the simulation.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    unit = 1 / expected.score if comparison.relative else 1.0
    over_seeds = _over_seeds(comparison, expected)
    if any(seeds(name) < 2 for name in over_seeds):
        return 0.0  # one seed decides nothing
    over_sentences = unit**2 * _over_sentences(comparison, expected)
    values = expected.effect + generator.normal(0, over_sentences**0.5, studies)
    parts = np.empty((studies, len(over_seeds)))
    for column, (name, variance) in enumerate(over_seeds.items()):
        of_seeds = generator.normal(0, unit * variance**0.5, (studies, seeds(name)))
        values += of_seeds.mean(axis=1)
        parts[:, column] = of_seeds.var(axis=1, ddof=1) / seeds(name)
    freedoms = [seeds(name) - 1 for name in over_seeds]
    supported = 0
    for value, of_study in zip(values.tolist(), parts.tolist(), strict=True):
        estimate = Estimate.of(value, over_sentences, list(zip(of_study, freedoms, strict=True)))
        # Rounded, so that quantiles are calculated once for many studies.
        freedom = float(round(min(max(1.0, estimate.freedom), 10_001)))
        supported += word_of(comparison, replace(estimate, freedom=freedom)) == "supported"
    return supported / studies


def _counts(comparison: Comparison, expected: Expected) -> list[int]:
    """The number of sentences of each side."""
    return expected.sentences if len(expected.sentences) == 2 else expected.sentences * len(comparison.sides)


def _over_seeds(comparison: Comparison, expected: Expected) -> Mapping[str, float]:
    """System -> the variance of the difference over its seeds; it may have a part in both sides."""
    variances: dict[str, float] = {}
    for side, count in zip(comparison.sides, _counts(comparison, expected), strict=False):
        for name in side.variants:
            variances[name] = variances.get(name, 0.0) + expected.deviation**2 + expected.interaction**2 / count
    return variances


def _over_sentences(comparison: Comparison, expected: Expected) -> float:
    """The variance over sentences: of one difference if both sides are of the same sentences, of two otherwise."""
    places = [(side.lengths, side.share) for side in comparison.sides]
    counts = _counts(comparison, expected)
    same = all(place == places[0] for place in places)
    return sum(expected.spread**2 / count for count in (counts[:1] if same else counts))
