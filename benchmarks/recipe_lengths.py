"""Lengths of the corpora of recipes at a scale, and the sentences that each claim is decided on.

    python benchmarks/recipe_lengths.py --data FOLDER [--scale small] [--check] [RECIPE ...]

Makes and prepares the texts as a study does, and trains nothing. `--check` ends with status 1 where a recipe states
another number of sentences than there are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from posnmt.data.store import Store
from posnmt.study.claims import Figures
from posnmt.study.load import load
from posnmt.study.measures import SPEEDS
from posnmt.study.plan import KINDS, Plan, plan
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.steps import store_of
from posnmt.study.workflow import runner
from posnmt.study.workflow.executors import Where
from posnmt.study.workflow.graph import Graph

PERCENTILES = (5, 25, 50, 75, 90, 95, 99, 100)


def main() -> int:
    """Print the tables of each recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--scale", choices=["smoke", "small", "paper"], default="small")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    names = arguments.recipes or ["rosendahl2019", "neishi2019", "chen2019a", "chen2019b", "schemes", "schemes-enja"]
    faults = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            faults += report(load(name), arguments.scale, arguments.data, Path(folder))
    return 1 if arguments.check and faults else 0


def report(recipe: Recipe, scale: Scale, data: Path, out: Path) -> int:
    """Print the lengths of one recipe; return how many of its stated numbers of sentences are wrong."""
    study_plan = plan(recipe, scale, data)
    steps = [step for step in study_plan.steps.values() if step.kind not in ("train", "translate", "speed")]
    graph = Graph(steps, KINDS)
    summary = runner.run(graph, out / "study", Where(jobs=1))
    if summary.failed:
        sys.exit("\n".join(summary.failed.values()))
    folders = {step.name: graph.folder(out / "study", step.name) for step in steps}
    stores = {
        step.name.removeprefix("prepare/"): Store.open(store_of(folders[step.name]))
        for step in steps
        if step.kind == "prepare"
    }
    print(f"\n## {recipe.recipe}, {scale}\n")
    print(f"| text | pairs | {' | '.join(f'{each} %' for each in PERCENTILES)} | target tokens |")
    print("|" + "---|" * (len(PERCENTILES) + 3))
    for name, store in stores.items():
        split = store.split("train")
        longer = np.maximum(split.source_lengths, split.target_lengths)
        row(f"{name}, training: source", split.source_lengths, int(split.target_lengths.sum()))
        row(f"{name}, training: longer side", longer)
    text = next(iter(stores.values())).text
    tests = {}
    for test, of_trainings in study_plan.tests.items():
        lines = (folders[of_trainings[""]] / "source").read_text(encoding="utf-8").removesuffix("\n").split("\n")
        tests[test] = np.array([len(ids) for ids in text.source.encode(lines)])
        row(f"{test}: source", tests[test])
    print()
    return sum(claim_is_wrong(study_plan, claim, stores, tests) for claim in recipe.claims_at(scale))


def row(name: str, lengths: np.ndarray, tokens: int | None = None) -> None:
    """Print the percentiles of some lengths."""
    found = " | ".join(f"{value:.0f}" for value in np.percentile(lengths, PERCENTILES))
    print(f"| {name} | {len(lengths):,} | {found} | {'' if tokens is None else f'{tokens:,}'} |")


def claim_is_wrong(study_plan: Plan, claim: Any, stores: dict[str, Store], tests: dict[str, np.ndarray]) -> bool:
    """Print the sentences of a claim's test; whether the recipe states other numbers."""
    recipe, scale = study_plan.recipe, study_plan.scale
    test = claim.test
    if test.measure in SPEEDS:
        return False
    lengths = tests[recipe.analyses[test.analysis].test]
    counts = [chosen(side, recipe, scale, stores, lengths) for side in test.sides]
    sides = [(side.lengths, side.share) for side in test.sides]
    counts = counts[:1] if all(side == sides[0] for side in sides) else counts
    stated = test.expects[scale].sentences if scale in test.expects else None
    print(f"- claim {claim.claim}: {counts} sentences" + ("" if stated == counts else f"; the recipe states {stated}"))
    return stated is not None and stated != counts


def chosen(figures: Figures, recipe: Recipe, scale: Scale, stores: dict[str, Store], lengths: np.ndarray) -> int:
    """The number of test sentences of the lengths of one side of a comparison."""
    trained = stores[recipe.variant(figures.system)[1]].split("train").source_lengths
    wanted = figures.lengths_at(scale)
    if isinstance(wanted, list):
        first, last = wanted
    else:
        shortest, longest = int(trained.min()), int(trained.max())
        ends: dict[Any, tuple[int | None, int | None]] = {
            "all": (None, None), "seen": (shortest, longest), "longer": (longest + 1, None),
            "shorter": (None, shortest - 1),
        }  # fmt: skip
        first, last = ends[wanted]
    return int(((lengths >= (first or 0)) & (lengths <= (last or lengths.max()))).sum())


if __name__ == "__main__":
    sys.exit(main())
