"""Take over finished trainings from a published copy, so that a study goes on elsewhere without their weights."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from posnmt.base.files import read_json
from posnmt.base.output import as_json, write_bytes, write_json
from posnmt.run.run import checkpoints_in
from posnmt.study.copied import OF_RUN, Copy, RunFacts, StepFacts, name_of
from posnmt.study.plan import KINDS, SPEED, Plan, PlannedRun
from posnmt.study.speed import RESULTS
from posnmt.study.workflow import status
from posnmt.study.workflow.folder import DONE, outputs
from posnmt.study.workflow.graph import Graph

COPIED = "copied_from"
"""The key in done.json that names the copy."""


def describe_step(done: Path, key: str) -> StepFacts:
    """The facts about the finished step in a folder, as a copy has them."""
    facts = read_json(done / DONE) or {}
    return {"key": key, **{name: facts[name] for name in ("finished", "seconds", "versions")}}  # type: ignore[typeddict-item]


def adopt(study_plan: Plan, out: Path, copy: Copy) -> Iterator[str]:
    """Take over the finished trainings of a copy, with their translations; yields a line for each.

    Steps are recognised by their keys, so a study of another recipe takes over what it has in common with the copy,
    whatever the names. The copy has no weights: see `discard_weightless`. A training that has a checkpoint here goes on
    here if a step needs its weights. Speeds that were measured in turn are taken over, too.

    Args:
        study_plan: of the study.
        out: the study's folder.
        copy: what `publish` wrote, of this study or of another.

    Raises:
        UserError: a file of the copy is damaged.
    """
    graph = Graph(study_plan.steps.values(), KINDS)
    speeds = copy.speeds  # a damaged file is refused before anything is taken over
    own = {name: status.own_state(graph, out, name).state for name in study_plan.trainings}
    left: dict[str, dict[str, RunFacts]] = {}  # trainings to take over, with their names in the copy
    for run in study_plan.runs:
        if own[run.train] in ("running", "altered"):
            continue
        names = copy.trained.get(graph.key(run.train), {})
        _adopt_translations(run, names, graph, out, copy)
        if own[run.train] == "done":
            continue
        if names:
            left[run.train] = names
        elif name_of(run) in copy.facts:
            plugins = "plugins" in graph.steps[run.train].settings
            same = "settings, texts and plugins" if plugins else "settings and texts"
            yield f"{run.train} is made again: the copy has no training with these {same}"
    unmeasured = SPEED in study_plan.steps and not status.finished(graph, out, SPEED)
    if unmeasured and speeds is not None and speeds["step"]["key"] == graph.key(SPEED):
        _write_step(graph.folder(out, SPEED), {RESULTS: as_json(speeds["systems"])}, speeds["step"], copy.folder)
        yield f"the speeds measured in turn are taken from {copy.folder}"
    for name, names in left.items():
        folder = graph.folder(out, name)
        begun = bool(checkpoints_in(folder / "run" / "checkpoints"))
        if begun and (waiting := _waiting(study_plan, graph, out, name, study_plan.steps)):
            needs = f"{', '.join(waiting)} needs its weights, which the copy does not contain"
            yield f"{name} goes on from its checkpoint: {needs}"
            continue
        shutil.rmtree(folder / "run", ignore_errors=True)  # of a training that was started here
        first, facts = next(iter(names.items()))
        _write_step(folder, {f"run/{file}": copy.file(first, file) for file in OF_RUN}, facts["train"], copy.folder)
        yield f"{name} is taken from {copy.folder}, without its weights{', and what was begun here is removed' * begun}"


def _adopt_translations(run: PlannedRun, names: Mapping[str, RunFacts], graph: Graph, out: Path, copy: Copy) -> None:
    """Take over the translations of a training that are not finished here.

    Args:
        names: of the training in the copy, with what that says of each.
    """
    copied = {facts["key"]: (name, test) for name in names for test, facts in names[name]["translations"].items()}
    for step in run.translations.values():
        if graph.key(step) in copied and not status.finished(graph, out, step):
            name, test = copied[graph.key(step)]
            facts = names[name]["translations"][test]
            speed = facts.get("speed", {})
            files = {output: copy.translation(name, test, output) for output in speed}
            _write_step(graph.folder(out, step), {**files, "speed.json": as_json(speed)}, facts, copy.folder)


def weightless(training: Path) -> bool:
    """Whether the training in a folder was taken over from a copy, so that its weights are missing."""
    return COPIED in (read_json(training / DONE) or {})


def discard_weightless(study_plan: Plan, out: Path, selected: Collection[str]) -> Iterator[str]:
    """Discard trainings that were taken over if a step needs their weights; yields a line for each.

    They are then run here. Their translations are kept.

    Args:
        selected: the steps that are to be run. Translations that the copy lacks need weights, and so does the
            measurement of speeds.
    """
    graph = Graph(study_plan.steps.values(), KINDS)
    for run in study_plan.runs:
        folder = graph.folder(out, run.train)
        if weightless(folder) and (waiting := _waiting(study_plan, graph, out, run.train, selected)):
            shutil.rmtree(folder)
            yield f"{run.train} is made again: {', '.join(waiting)} needs its weights, which the copy does not contain"


def _waiting(study_plan: Plan, graph: Graph, out: Path, train: str, selected: Collection[str]) -> list[str]:
    """The unfinished ones of some steps that need the weights of a training."""
    users = [name for name in selected if train in study_plan.steps[name].needs.values()]
    return [name for name in users if not status.finished(graph, out, name)]


def _write_step(folder: Path, files: Mapping[str, bytes], facts: Mapping[str, Any], copy: Path) -> None:
    """Write the files of a step, by their paths in its folder, and mark it as finished."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / name, content)
    done = {name: facts[name] for name in ("finished", "seconds", "versions")}
    write_json(folder / DONE, {**done, COPIED: str(copy), "files": outputs(folder)})
