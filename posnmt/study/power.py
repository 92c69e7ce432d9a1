"""The power of a claim's test, calculated before a study runs.

Power is the share of studies that would support the comparison if the effect that the recipe expects were true.
Studies are simulated: figures vary over seeds and over sentences, as the recipe states
(`posnmt.study.claims.Expected`), and their verdicts follow the rule of `posnmt.study.contrast`. A comparison with a
power below 80 % cannot be decided by the study as planned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posnmt.evaluation.analyse.moderated import PRIOR, components, moderated
from posnmt.study.blocks import Trainings, Unit, Variant, paired_unit, planned, units
from posnmt.study.claims import Claim, Comparison, Expected
from posnmt.study.estimate import Estimate, Part
from posnmt.study.measures import LOSS, SPEEDS
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.verdict import word_of

STUDIES = 1000
SEED = 1
ENOUGH = 0.8
"""The least power of a comparison that is worth asking for."""


@dataclass(frozen=True)
class Power:
    """The power of a claim.

    Attributes:
        claim, primary: a claim and its test.
        expected: what the recipe expects of it at the scale; None if it states nothing.
        seeds: the fewest and the most seeds of its systems.
        systems: number of systems of the block that the comparison is decided in; 0 or 1: there is no block.
        power: from 0 to 1; None without `expected`.
    """

    claim: Claim
    primary: Comparison
    expected: Expected | None
    seeds: tuple[int, int]
    systems: int
    power: float | None

    @property
    def cannot_be_decided(self) -> bool:
        """Whether its power is too low to ask."""
        return self.power is not None and self.power < ENOUGH


def of_recipe(recipe: Recipe, scale: Scale) -> list[Power]:
    """The power of every claim of a scale, in the order of the recipe; imports PyTorch."""
    trainings = planned(recipe, scale)
    return [_of_claim(recipe, scale, claim, trainings) for claim in recipe.claims_at(scale)]


def _of_claim(recipe: Recipe, scale: Scale, claim: Claim, trainings: Trainings) -> Power:
    primary = claim.test
    expected = primary.expects.get(scale)
    grouped = units_of(recipe, scale, primary, trainings)
    share = None if expected is None else power(primary, expected, grouped, recipe.variant)
    used = [len(unit.seeds) for unit in grouped]
    systems = 0 if primary.measure in SPEEDS else max(unit.systems for unit in grouped)
    return Power(claim, primary, expected, (min(used), max(used)), systems, share)


def units_of(recipe: Recipe, scale: Scale, comparison: Comparison, trainings: Trainings) -> list[Unit]:
    """The systems of a comparison, and which of them will be compared seed by seed."""
    tests = recipe.variants(scale)
    variants = dict.fromkeys(recipe.variant(name) for side in comparison.sides for name in side.variants)
    seeds = {variant: range(1, 1 + recipe.seeds(variant, scale)) for variant in variants}
    if comparison.measure == LOSS:
        likelihood = recipe.likelihoods[comparison.analysis]
        return [paired_unit(seeds, {each: trainings[each] for each in trainings if likelihood.includes(*each)})]
    test = recipe.analyses[comparison.analysis].test
    return units(seeds, {each: of_seeds for each, of_seeds in trainings.items() if test in tests[each]})


def power(
    comparison: Comparison, expected: Expected, grouped: Sequence[Unit], resolve: Callable[[str], Variant],
    studies: int = STUDIES, seed: int = SEED,
) -> float:  # fmt: skip
    """The share of simulated studies in which a comparison is supported.

    The figures of a system and of its peers vary over seeds as `expected` says, independently of each other. An effect
    of a seed on all systems is not simulated, since it cancels in a comparison of two systems.

    Args:
        comparison: with or without `than`.
        expected: the effect, and the standard deviations of the figures.
        grouped: the systems of the comparison, and which are compared seed by seed.
        resolve: parses the name of a system in the comparison.
        studies: number of simulated studies.
        seed: of the simulation.
    """
    if not _decides(comparison, expected, grouped):
        return 0.0
    simulated = _simulated(comparison, expected, grouped, resolve, studies, seed)
    return sum(word_of(comparison, estimate) == "supported" for estimate in simulated) / studies


def detectable(
    comparison: Comparison, expected: Expected, grouped: Sequence[Unit], resolve: Callable[[str], Variant],
    level: float, studies: int = STUDIES, seed: int = SEED,
) -> float | None:  # fmt: skip
    """The smallest effect that a comparison with 0 has a power of `ENOUGH` for; None: it decides nothing.

    A simulated study without an effect supports every effect that is larger than the end of its interval below 0.

    Args:
        comparison: is higher or lower, without a margin.
        expected: as in `power`, with an effect of 0.
        level: of the intervals.
        grouped, resolve, studies, seed: as in `power`.
    """
    if not _decides(comparison, expected, grouped):
        return None
    simulated = _simulated(comparison, expected, grouped, resolve, studies, seed)
    return float(np.quantile([-estimate.interval(level)[0] for estimate in simulated], ENOUGH))


def _decides(comparison: Comparison, expected: Expected, grouped: Sequence[Unit]) -> bool:
    """Whether there are enough seeds, documents and sentences to decide anything."""
    return all(len(unit.seeds) >= 2 for unit in grouped) and _suffices(comparison, expected)


def _simulated(
    comparison: Comparison, expected: Expected, grouped: Sequence[Unit], resolve: Callable[[str], Variant],
    studies: int, seed: int,
) -> Iterator[Estimate]:  # fmt: skip
    """Yield an estimate for each simulated study: chance moves its effect and its variances."""
    generator = np.random.default_rng(seed)
    scale = 1 / expected.score if comparison.relative else 1.0
    signs, variances = _systems(comparison, expected, resolve)
    over_sentences = scale**2 * _over_sentences(comparison, expected)
    values = expected.effect + generator.normal(0, over_sentences**0.5, studies)
    freedom_of_documents = math.inf if expected.documents is None else expected.documents - 1
    parts: list[tuple[np.ndarray, int, int]] = []
    for unit in grouped:
        own = [variances[variant] for variant in unit.variants]
        spread = scale * np.sqrt([*own, *[float(np.mean(own))] * len(unit.peers)])
        count = len(unit.seeds)
        figures = generator.normal(0, spread[:, None], (studies, len(spread), count))
        weights = np.array([*(signs[variant] for variant in unit.variants), *[0] * len(unit.peers)], float)
        of_seeds = np.einsum("nbr,b->nr", figures, weights)
        values += of_seeds.mean(axis=1)
        if not unit.peers:
            parts.append((of_seeds.var(axis=1, ddof=1) / count, count - 1, count))
            continue
        among = components(figures[..., None], weights[:, None], unit.present)
        parts.append((among.shared, count - 1, count))
        parts.append((moderated(among.own, among.usual, count), PRIOR + count - 1, count))
    estimated = np.full(studies, over_sentences)
    if expected.documents is not None:  # few documents tell their variance with an error
        estimated *= generator.chisquare(freedom_of_documents, studies) / freedom_of_documents
    for number, value in enumerate(values.tolist()):
        of_study = [Part(float(part[number]), freedom, count) for part, freedom, count in parts]
        estimate = Estimate.of(value, float(estimated[number]), of_study, freedom_of_documents)
        # Rounded, so that quantiles are calculated once for many studies.
        freedom = float(round(min(max(1.0, estimate.freedom), 10_001)))
        yield replace(estimate, freedom=freedom)


def _suffices(comparison: Comparison, expected: Expected) -> bool:
    """Whether there are enough documents and sentences to decide a comparison of losses (docs/metrics.md)."""
    from posnmt.evaluation.analyse.zones import Support  # imports NumPy

    if comparison.measure != LOSS or expected.documents is None:
        return True
    # How many documents of any size there are is not expected of a test; they are at least as many.
    documents = max(20, math.ceil(expected.documents))
    return Support(min(expected.sentences), documents, expected.documents).status == "decided"


def _systems(
    comparison: Comparison, expected: Expected, resolve: Callable[[str], Variant]
) -> tuple[dict[Variant, int], dict[Variant, float]]:
    """System -> the sign of its figures in the difference, and system -> their variance over seeds.

    A system that is on both sides has the sign of the first.
    """
    signs: dict[Variant, int] = {}
    variances: dict[Variant, float] = {}
    for side, count in zip(comparison.sides, _counts(comparison, expected), strict=False):
        for number, name in enumerate(side.variants):
            variant = resolve(name)
            signs.setdefault(variant, (1 if side is comparison.of else -1) * (-1) ** number)
            more = expected.deviation**2 + expected.interaction**2 / count
            variances[variant] = variances.get(variant, 0.0) + more
    return signs, variances


def _counts(comparison: Comparison, expected: Expected) -> list[int]:
    """The number of sentences of each side."""
    return expected.sentences if len(expected.sentences) == 2 else expected.sentences * len(comparison.sides)


def _over_sentences(comparison: Comparison, expected: Expected) -> float:
    """The variance over sentences: of one difference if both sides have the same sentences, else of two."""
    places = [(side.lengths, side.share) for side in comparison.sides]
    counts = _counts(comparison, expected)
    same = all(place == places[0] for place in places)
    return sum(expected.spread**2 / count for count in (counts[:1] if same else counts))
