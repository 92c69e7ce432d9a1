"""Trainings that a published copy holds finished, so that a study goes on elsewhere without their weights."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from posnmt.data.unpack import unpacking
from posnmt.errors import UserError
from posnmt.files import load_json, read_json, write_json
from posnmt.study.plan import KINDS, Plan, PlannedRun
from posnmt.workflow import status
from posnmt.workflow.folder import DONE, outputs
from posnmt.workflow.graph import Graph

MARK, FACTS, METRICS = "published.json", "steps.json", "metrics.jsonl.xz"

OutputName = Annotated[str, Field(pattern=r"^output(-[0-9.e+-]+)?$")]
"""The file of a translation in its step: a copy comes from others, and must not name another place."""


class Speed(TypedDict):
    """What speed.json holds of an output: see `posnmt.translate.command.Work`."""

    lines: int
    source_subwords: int
    seconds: float


class StepFacts(TypedDict):
    """What a copy says of a finished step.

    Attributes:
        key: of its result.
        finished: when.
        seconds: how long it took.
        versions: of the software that results depend on.
        speed: of a translation, what its speed.json holds.
    """

    key: str
    finished: str
    seconds: float
    versions: dict[str, str]
    speed: NotRequired[dict[OutputName, Speed]]


class RunFacts(TypedDict):
    """What a copy says of a training and of its finished translations, by test."""

    train: StepFacts
    translations: dict[str, StepFacts]


def folder_of(copy: Path, run: PlannedRun) -> Path:
    """The folder of a training in a copy."""
    return copy / "runs" / f"{run.system}.{run.training}.{run.seed}"


def packed_name(test: str, output: str) -> str:
    """The file of a translation in a training's folder: `output` and `output-0.5` are TEST.xz and TEST-0.5.xz."""
    return f"{test}{output.removeprefix('output')}.xz"


def describe_step(done: Path, key: str) -> StepFacts:
    """What a copy says of the finished step in a folder."""
    facts = read_json(done / DONE) or {}
    return {"key": key, **{name: facts[name] for name in ("finished", "seconds", "versions")}}  # type: ignore[typeddict-item]


def adopt(study_plan: Plan, out: Path, copy: Path) -> Iterator[str]:
    """Take over finished trainings with all their translations; yields a line for each.

    Their weights are not there. So a training is left out, and made again, where a step that is not finished needs
    them: a translation that the copy has not, or the measurement of speed.

    Args:
        study_plan: of the study.
        out: the study's folder.
        copy: what `publish` wrote, of this study or of one whose trainings have the same keys.

    Raises:
        UserError: the folder is no copy of a study, or is damaged.
    """
    if not (copy / MARK).exists():
        raise UserError("there is no copy of a study", copy, "name a folder that `posnmt study publish` wrote")
    graph = Graph(study_plan.steps.values(), KINDS)
    for run in study_plan.runs:
        place = folder_of(copy, run)
        state = status.own_state(graph, out, run.train).state
        if state in ("done", "running", "altered") or not (place / FACTS).exists():
            continue
        about: RunFacts = load_json(place / FACTS, RunFacts, "the list of its steps", "publish it again")
        missing = [*_missing(graph, run, about)]
        if missing:
            yield f"{run.train} is made again: the copy has no {', '.join(missing)}"
            continue
        for test, step in run.translations.items():
            facts = about["translations"][test]
            _write_translation(graph.folder(out, step), place, test, facts, copy)
        _write_training(graph.folder(out, run.train), place, about["train"], copy)
        yield f"{run.train} is taken from {copy}, without its weights"


def _missing(graph: Graph, run: PlannedRun, about: RunFacts) -> Iterator[str]:
    """What a copy lacks of a training: its own step, or one that needs its weights."""
    if about["train"]["key"] != graph.key(run.train):
        yield "training with these settings and texts"
        return
    tests = {step: test for test, step in run.translations.items()}
    for name, step in graph.steps.items():
        if run.train in step.needs.values():
            facts = about["translations"].get(tests.get(name, ""))
            if facts is None or facts["key"] != graph.key(name):
                yield name


def _write_training(folder: Path, place: Path, facts: StepFacts, copy: Path) -> None:
    """The step of a training, without weights."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)  # of a training that was begun here
    run.mkdir(parents=True)
    for name in ("config.yaml", "record.json"):
        shutil.copyfile(place / name, run / name)
    (run / "metrics.jsonl").write_bytes(_unpacked(place / METRICS))
    _finish(folder, facts, copy)


def _write_translation(folder: Path, place: Path, test: str, facts: StepFacts, copy: Path) -> None:
    """The step of a translation."""
    folder.mkdir(parents=True, exist_ok=True)
    for output in facts.get("speed", {}):
        (folder / output).write_bytes(_unpacked(place / packed_name(test, output)))
    write_json(folder / "speed.json", facts.get("speed", {}))
    _finish(folder, facts, copy)


def _unpacked(path: Path) -> bytes:
    """The content of a packed file of a copy.

    Raises:
        UserError: it is missing or damaged, or far larger than text can be.
    """
    try:
        with lzma.open(path) as packed:
            return unpacking(cast(BinaryIO, packed), path).read()
    except (OSError, lzma.LZMAError, EOFError):
        raise UserError("a file of the copy is missing or damaged", path, "publish the study again") from None


def _finish(folder: Path, facts: Mapping[str, Any], copy: Path) -> None:
    """Mark a step as finished."""
    done = {name: facts[name] for name in ("finished", "seconds", "versions")}
    write_json(folder / DONE, {**done, "copied_from": str(copy), "files": outputs(folder)})
