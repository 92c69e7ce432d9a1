"""What differences between systems a study could find, estimated before anything is trained.

A difference can be found if it is so large that 4 of 5 simulated studies would tell it from chance
(`posnmt.study.power`), by intervals that are corrected for all comparisons of all pairs. How much figures will vary on
a corpus is not known before: it is taken from our published studies of captions and short sentences.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES
from posnmt.study.blocks import planned
from posnmt.study.claims import CHRF_EXPECTED, LOSS_EXPECTED, Comparison, Expected, Scale
from posnmt.study.measures import LOSS
from posnmt.study.pairs import corrected_level
from posnmt.study.power import detectable, units_of
from posnmt.study.recipe import Recipe
from posnmt.study.verdict import FEWEST_DOCUMENTS

VARIES: Mapping[str, Mapping[str, float]] = {"chrf": CHRF_EXPECTED, LOSS: LOSS_EXPECTED}
"""Measure -> standard deviations, as in `posnmt.study.claims.Expected`."""


@dataclass(frozen=True)
class Sample:
    """The sentences of some lengths.

    Attributes:
        sentences: how many there are.
        documents: the number of documents of equal size that they count as, G*.
    """

    sentences: int
    documents: float


def differences(recipe: Recipe, scale: Scale, samples: Mapping[str, Sample]) -> dict[str, float | None]:
    """Place of the section `recommend` -> the smallest difference that can be found there; imports PyTorch.

    Of several pairs of systems it is that of the pair where it is largest. None: nothing can be decided there.

    Args:
        recipe: which compares the systems by chrF and by loss.
        scale: of the study.
        samples: lengths -> the test sentences of them; a loss rests on those that are `longer`.
    """
    section, trainings = recipe.recommend, planned(recipe, scale)
    assert section is not None
    level = corrected_level(section, len(recipe.systems))

    def smallest(comparison: Comparison) -> float | None:
        sample = samples["longer" if comparison.measure == LOSS else str(comparison.of.lengths)]
        if sample.sentences < FEWEST_SENTENCES or sample.documents < FEWEST_DOCUMENTS:
            return None
        varies: Any = {"sentences": [sample.sentences], "documents": sample.documents, **VARIES[comparison.measure]}
        grouped = units_of(recipe, scale, comparison, trainings)
        return detectable(comparison, Expected(effect=0.0, **varies), grouped, recipe.variant, level)

    found: dict[str, list[float | None]] = {}
    for pair in itertools.combinations(recipe.systems, 2):
        for place, comparison in section.comparisons(*pair).items():
            found.setdefault(place, []).append(smallest(comparison))
    return {place: None if None in each else max(filter(None, each)) for place, each in found.items()}
