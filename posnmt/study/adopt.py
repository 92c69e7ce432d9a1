"""Trainings that a published copy holds finished, so that a study goes on elsewhere without their weights."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from posnmt.base.files import read_json, write_json
from posnmt.run.run import checkpoints_in
from posnmt.study.copied import OF_RUN, Copy, RunFacts, SpeedFacts, StepFacts, name_of
from posnmt.study.plan import KINDS, SPEED, Plan
from posnmt.study.speed import RESULTS
from posnmt.study.workflow import status
from posnmt.study.workflow.folder import DONE, outputs
from posnmt.study.workflow.graph import Graph

COPIED = "copied_from"
"""The key of the copy in what says that a step is finished."""


def describe_step(done: Path, key: str) -> StepFacts:
    """What a copy says of the finished step in a folder."""
    facts = read_json(done / DONE) or {}
    return {"key": key, **{name: facts[name] for name in ("finished", "seconds", "versions")}}  # type: ignore[typeddict-item]


def adopt(study_plan: Plan, out: Path, copy: Copy) -> Iterator[str]:
    """Take over finished trainings with those of their translations that are there; yields a line for each.

    They are known by their keys, so a study of another recipe takes over what it has in common with the copy, by
    whatever names. Their weights are not there: see `give_up_weightless`. One that was begun here, for its weights as a
    rule, goes on here. Speeds that were measured in turn are taken over too.

    Args:
        study_plan: of the study.
        out: the study's folder.
        copy: what `publish` wrote, of this study or of another.

    Raises:
        UserError: a file of the copy is damaged.
    """
    graph = Graph(study_plan.steps.values(), KINDS)
    speeds = copy.speeds
    own = {name: status.own_state(graph, out, name).state for name in study_plan.trainings}
    left: dict[str, dict[str, RunFacts]] = {}  # trainings to take over, with their names in the copy
    for run in study_plan.runs:
        if own[run.train] in ("running", "altered"):
            continue
        names = copy.trained.get(graph.key(run.train), {})
        if not names:
            if own[run.train] != "done" and name_of(run) in copy.facts:
                same = (
                    "settings, texts and plugins"
                    if "plugins" in graph.steps[run.train].settings
                    else "settings and texts"
                )
                yield f"{run.train} is made again: the copy has no training with these {same}"
            continue
        tests = {facts["key"]: (name, test) for name in names for test, facts in names[name]["translations"].items()}
        for step in run.translations.values():
            if (copied := tests.get(graph.key(step))) is not None and not status.finished(graph, out, step):
                name, test = copied
                facts = names[name]["translations"][test]
                contents = {output: copy.translation(name, test, output) for output in facts.get("speed", {})}
                _write_translation(graph.folder(out, step), contents, facts, copy.folder)
        if own[run.train] != "done":
            left[run.train] = names
    unmeasured = SPEED in study_plan.steps and not status.finished(graph, out, SPEED)
    if unmeasured and speeds is not None and speeds["step"]["key"] == graph.key(SPEED):
        _write_speeds(graph.folder(out, SPEED), speeds, copy.folder)
        yield f"the speeds measured in turn are taken from {copy.folder}"
    for name, names in left.items():
        folder = graph.folder(out, name)
        begun = bool(checkpoints_in(folder / "run" / "checkpoints"))
        if begun and (waiting := _waiting(study_plan, graph, out, name, study_plan.steps)):
            yield f"{name} goes on from its checkpoint: {', '.join(waiting)} needs its weights, which the copy has not"
            continue
        _write_training(folder, next(iter(names)), copy)
        yield f"{name} is taken from {copy.folder}, without its weights{', and what was begun here is removed' * begun}"


def weightless(training: Path) -> bool:
    """Whether the finished training in a folder was taken over, without its weights."""
    return COPIED in (read_json(training / DONE) or {})


def give_up_weightless(study_plan: Plan, out: Path, wanted: Collection[str]) -> Iterator[str]:
    """Have trainings made again that were taken over and whose weights are needed; yields a line for each.

    Their translations stay as they were taken over.

    Args:
        wanted: the steps that are to be run. Of these a translation that the copy has not, and the measurement of
            speeds, need weights.
    """
    graph = Graph(study_plan.steps.values(), KINDS)
    for run in study_plan.runs:
        folder = graph.folder(out, run.train)
        if weightless(folder):
            waiting = _waiting(study_plan, graph, out, run.train, wanted)
            if waiting:
                shutil.rmtree(folder)
                yield f"{run.train} is made again: {', '.join(waiting)} needs its weights, which the copy has not"


def _waiting(study_plan: Plan, graph: Graph, out: Path, train: str, wanted: Collection[str]) -> list[str]:
    """The wanted steps that need the weights of a training and are not finished."""
    users = [name for name in wanted if train in study_plan.steps[name].needs.values()]
    return [name for name in users if not status.finished(graph, out, name)]


def _write_training(folder: Path, name: str, copy: Copy) -> None:
    """The step of a training, without weights."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)  # of a training that was started here
    run.mkdir(parents=True)
    for file in OF_RUN:
        (run / file).write_bytes(copy.file(name, file))
    _finish(folder, copy.facts[name]["train"], copy.folder)


def _write_translation(folder: Path, contents: Mapping[str, bytes], facts: StepFacts, copy: Path) -> None:
    """The step of a translation, with its outputs by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    write_json(folder / "speed.json", facts.get("speed", {}))
    _finish(folder, facts, copy)


def _write_speeds(folder: Path, speeds: SpeedFacts, copy: Path) -> None:
    """The step that measured speeds in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RESULTS, speeds["systems"])
    _finish(folder, speeds["step"], copy)


def _finish(folder: Path, facts: Mapping[str, Any], copy: Path) -> None:
    """Mark a step as finished."""
    done = {name: facts[name] for name in ("finished", "seconds", "versions")}
    write_json(folder / DONE, {**done, COPIED: str(copy), "files": outputs(folder)})
