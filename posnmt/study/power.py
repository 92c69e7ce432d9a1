"""The power of a claim's primary comparison, calculated before a study runs.

Power is the share of studies that would find the comparison supported if the effect that the recipe expects were the
true one. Studies are simulated: each figure varies over seeds, and all of them over sentences, as the recipe states
(`posnmt.study.claims.Expected`). Their verdicts come from the intervals of `posnmt.study.contrast`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from posnmt.study.claims import Claim, Comparison, Expected, Figures
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
    terms = _terms(comparison.sides)
    if any(seeds(name) < 2 for name in terms):
        return 0.0  # one seed decides nothing
    over_sentences = unit**2 * sum(expected.spread**2 / count for count in _sets(comparison, expected))
    values = expected.effect + generator.normal(0, over_sentences**0.5, studies)
    parts = np.empty((studies, len(terms)))
    for column, (name, times) in enumerate(terms.items()):
        of_seeds = generator.normal(0, unit * expected.deviation * times**0.5, (studies, seeds(name)))
        values += of_seeds.mean(axis=1)
        parts[:, column] = of_seeds.var(axis=1, ddof=1) / seeds(name)
    freedoms = [seeds(name) - 1 for name in terms]
    supported = 0
    for value, of_study in zip(values.tolist(), parts.tolist(), strict=True):
        estimate = Estimate.of(value, over_sentences, list(zip(of_study, freedoms, strict=True)))
        # Rounded, so that quantiles are calculated once for many studies.
        freedom = float(round(min(max(1.0, estimate.freedom), 10_001)))
        supported += word_of(comparison, replace(estimate, freedom=freedom)) == "supported"
    return supported / studies


def _terms(sides: list[Figures]) -> Mapping[str, int]:
    """System -> in how many figures of a comparison it has a part."""
    names = [name for side in sides for name in side.variants]
    return {name: names.count(name) for name in names}


def _sets(comparison: Comparison, expected: Expected) -> list[int]:
    """The numbers of sentences whose sampling adds up.

    Two sides on the same sentences are one difference; on different ones they are two.
    """
    places = [(side.lengths, side.share) for side in comparison.sides]
    same = all(place == places[0] for place in places)
    if same or len(expected.sentences) == 2:
        return expected.sentences[: 1 if same else 2]
    return expected.sentences * 2
