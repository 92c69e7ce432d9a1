"""Losses of references in a published copy, so that a study goes on elsewhere without the weights of its trainings.

In a copy, `translations/losses/LIKELIHOOD/` has the losses of a finished likelihood, rounded so that sums stay true,
and what was scored. A study that adopts the copy keeps these files in `adopted/LIKELIHOOD/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from posnmt.base.files import load_json
from posnmt.base.output import as_json, write_bytes
from posnmt.evaluation.analyse.losses import (
    AFTER_LONG,
    AFTER_SHORT,
    PLAIN,
    SHIFTED,
    SIDES,
    coarse,
    read_losses,
)
from posnmt.study.copied import Copy
from posnmt.study.plan import KINDS, AdoptedLosses, Plan
from posnmt.study.workflow.graph import Graph, Step

FOLDER, SCORED = "adopted", "scored.json"
"""The folder in a study, and the file that says what was scored."""

DESIGNS = (PLAIN, AFTER_SHORT, AFTER_LONG, *(f"{SHIFTED}{side}" for side in SIDES))


class ScoredModel(TypedDict):
    """A model that was scored: the key of its training, and the positions that were changed for the search."""

    train: str
    positions: NotRequired[dict[str, Any]]


class ScoredText(TypedDict):
    """What the losses are of: the key of the text, the designs, and the models in the order of the rows."""

    test: str
    swap: bool
    shift: int | None
    models: list[ScoredModel]


def files_of(step: Step, graph: Graph, folder: Path) -> dict[str, bytes]:
    """The files of a finished likelihood as a copy has them; none if the models have several vocabularies."""
    losses = {name: folder / f"{name}.npz" for name in DESIGNS}
    if not losses[PLAIN].exists():
        return {}
    models = []
    for number, each in enumerate(step.settings["models"]):
        train = each["train"] if "row" in each else graph.key(step.needs[f"run-{number}"])
        models.append({"train": train, **{key: each[key] for key in ("positions",) if key in each}})
    about = {
        "test": graph.key(step.needs["test"]), "swap": step.settings["swap"], "shift": step.settings.get("shift"),
        "models": models,
    }  # fmt: skip
    files = {f"{name}.npz": coarse(read_losses(path)) for name, path in losses.items() if path.exists()}
    return {SCORED: as_json(about), **files}


def adopt_losses(study_plan: Plan, out: Path, copy: Copy) -> Iterator[str]:
    """Take over the losses of a copy; yields a line for each likelihood.

    Raises:
        UserError: a file of the copy is damaged.
    """
    for name in study_plan.recipe.likelihoods_at(study_plan.scale):
        files = copy.losses(name)
        if SCORED not in files:
            continue
        folder = out / FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        for file in (*(f"{design}.npz" for design in DESIGNS), SCORED):
            if file in files:
                write_bytes(folder / file, files[file])
        if (taken := adopted_losses(study_plan, out).get(name)) is not None:
            yield f"likelihood/{name}: the losses of {len(taken.rows)} models are taken from {copy.folder}"


def adopted_losses(study_plan: Plan, out: Path) -> dict[str, AdoptedLosses]:
    """Likelihood -> the losses that were taken over from a copy, of those that are of the same text and designs.

    Raises:
        UserError: a file is damaged.
    """
    found: dict[str, AdoptedLosses] = {}
    graph = Graph(study_plan.steps.values(), KINDS)
    for name, likelihood in study_plan.recipe.likelihoods_at(study_plan.scale).items():
        folder = out / FOLDER / name
        if not (folder / SCORED).exists():
            continue
        about = load_json(folder / SCORED, ScoredText, "the list of scored models", f"delete {folder}, and adopt again")
        texts = {graph.key(step) for step in study_plan.tests.get(likelihood.test, {}).values()}
        if about["test"] in texts and (about["swap"], about["shift"]) == (likelihood.swap, likelihood.shift):
            rows = [(each["train"], each.get("positions")) for each in about["models"]]
            paths = {design: folder / f"{design}.npz" for design in DESIGNS}
            files = {design: path for design, path in paths.items() if path.exists()}
            found[name] = AdoptedLosses(rows, {name: graph.key(name) for name in study_plan.trainings}, files)
    return found
