"""How often `posnmt compare` finds a difference where there is none, for few seeds and many systems.

`python -m benchmarks.pairs_level [STUDIES]` prints a row for each number of seeds and of systems: how often the lower
end of an interval at the corrected level is above 0 in simulated studies without any difference (500 sentences in
documents, the deviations of `CHRF_EXPECTED`), and how often it should be.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from posnmt.study.blocks import planned
from posnmt.study.claims import CHRF_EXPECTED, Expected
from posnmt.study.load import load
from posnmt.study.pairs import corrected_level
from posnmt.study.power import _simulated, units_of
from tests.support.recipe_case import SMALL, written

SEEDS = (2, 3, 5)
SYSTEMS = (("transformer", "relative"), ("transformer", "relative", "rope", "lstm", "rr"))


def false_findings(systems: tuple[str, ...], seeds: int, studies: int) -> tuple[float, float]:
    """The corrected level, and the share of simulated studies that find the first system ahead of the second."""
    [runs] = SMALL["runs"]
    recommended = {"analyses": ["test"], "lengths": ["seen", "longer"], "measure": "chrf"}
    tree = {
        **SMALL,
        "systems": {name: {"system": name} for name in systems},
        "runs": [{**runs, "systems": [*systems]}],
        "claims": [],
        "recommend": recommended,
    }
    with TemporaryDirectory() as folder:
        recipe = load(written(Path(folder), tree), (f"scales.smoke.seeds={seeds}",))
    comparisons = recipe.recommend.comparisons(*systems[:2]).values()
    comparison = next(each for each in comparisons if each.measure != "loss")
    level = corrected_level(recipe.recommend, len(systems))
    nothing = Expected(effect=0.0, sentences=[500], documents=40.0, **CHRF_EXPECTED)
    units = units_of(recipe, "smoke", comparison, planned(recipe, "smoke"))
    found = [each.interval(level)[0] > 0 for each in _simulated(comparison, nothing, units, recipe.variant, studies, 3)]
    return level, sum(found) / len(found)


def main() -> None:
    """A row for each number of seeds and of systems."""
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    for seeds in SEEDS:
        for systems in SYSTEMS:
            level, found = false_findings(systems, seeds, studies)
            wanted = (1 - level) / 2
            print(f"{seeds} seeds, {len(systems)} systems: {found:.2%} of {studies:,} studies, {wanted:.3%} wanted")


if __name__ == "__main__":
    main()
