"""Trainings that a published copy holds finished, so that a study goes on elsewhere without their weights."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from posnmt.base.errors import UserError
from posnmt.base.files import load_json, read_json, write_json
from posnmt.run.run import checkpoints_in
from posnmt.study.packed import unpack, unpack_outputs
from posnmt.study.plan import KINDS, SPEED, Plan, PlannedRun
from posnmt.study.speed import RESULTS, SystemSpeeds
from posnmt.study.workflow import status
from posnmt.study.workflow.folder import DONE, outputs
from posnmt.study.workflow.graph import Graph

MARK, FACTS, METRICS, SPEEDS = "published.json", "steps.json", "metrics.jsonl.xz", "speeds.json"
COPIED = "copied_from"
"""The key of the copy in what says that a step is finished."""
FORMAT = 2
"""Of copies: translations of a test text together (2); a file for each (1, before 0.1)."""

OutputName = Annotated[str, Field(pattern=r"^output(-[0-9.e+-]+)?$")]
"""The file of a translation in its step: a copy comes from others, and must not name another place."""

TestName = Annotated[str, Field(pattern=r"^[^/\\]+$")]
"""The name of a test in a copy, and of the file of its translations."""


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
    translations: dict[TestName, StepFacts]


class SpeedFacts(TypedDict):
    """What a copy says of the speeds that were measured in turn."""

    step: StepFacts
    systems: list[SystemSpeeds]


def folder_of(copy: Path, run: PlannedRun) -> Path:
    """The folder of a training in a copy."""
    return copy / "runs" / f"{run.system}.{run.training}.{run.seed}"


def translations_of(copy: Path, test: str) -> Path:
    """The file of all translations of a test text in a copy."""
    return copy / "translations" / f"{test}.csv.xz"


def column_of(training: Path, output: str) -> str:
    """A translation's column: after `output` the name of the training's folder, after `output-0.5` also `-0.5`."""
    return f"{training.name}{output.removeprefix('output')}"


def describe_step(done: Path, key: str) -> StepFacts:
    """What a copy says of the finished step in a folder."""
    facts = read_json(done / DONE) or {}
    return {"key": key, **{name: facts[name] for name in ("finished", "seconds", "versions")}}  # type: ignore[typeddict-item]


def adopt(study_plan: Plan, out: Path, copy: Path) -> Iterator[str]:
    """Take over finished trainings with those of their translations that are there; yields a line for each.

    They are known by their keys, so a study of another recipe takes over what it has in common with the copy, by
    whatever names. Their weights are not there: see `give_up_weightless`. One that was begun here, for its weights as a
    rule, goes on here. Speeds that were measured in turn are taken over too.

    Args:
        study_plan: of the study.
        out: the study's folder.
        copy: what `publish` wrote, of this study or of another.

    Raises:
        UserError: the folder is no copy of a study, or is damaged.
    """
    _check(copy)
    graph = Graph(study_plan.steps.values(), KINDS)
    by_key, translations, speeds = trained(copy), Translations(copy), _speeds(copy)
    own = {name: status.own_state(graph, out, name).state for name in study_plan.trainings}
    left: dict[str, dict[Path, RunFacts]] = {}  # trainings to take over, with their folders in the copy
    for run in study_plan.runs:
        if own[run.train] in ("running", "altered"):
            continue
        places = by_key.get(graph.key(run.train), {})
        if not places:
            if own[run.train] != "done" and (folder_of(copy, run) / FACTS).exists():
                same = (
                    "settings, texts and plugins"
                    if "plugins" in graph.steps[run.train].settings
                    else "settings and texts"
                )
                yield f"{run.train} is made again: the copy has no training with these {same}"
            continue
        tests = {
            facts["key"]: (place, test) for place in places for test, facts in places[place]["translations"].items()
        }
        for step in run.translations.values():
            if (copied := tests.get(graph.key(step))) is not None and not status.finished(graph, out, step):
                place, test = copied
                facts = places[place]["translations"][test]
                contents = {name: translations.of(place, test, name) for name in facts.get("speed", {})}
                _write_translation(graph.folder(out, step), contents, facts, copy)
        if own[run.train] != "done":
            left[run.train] = places
    unmeasured = SPEED in study_plan.steps and not status.finished(graph, out, SPEED)
    if unmeasured and speeds is not None and speeds["step"]["key"] == graph.key(SPEED):
        _write_speeds(graph.folder(out, SPEED), speeds, copy)
        yield f"the speeds measured in turn are taken from {copy}"
    for name, places in left.items():
        folder = graph.folder(out, name)
        begun = bool(checkpoints_in(folder / "run" / "checkpoints"))
        if begun and (waiting := _waiting(study_plan, graph, out, name, study_plan.steps)):
            yield f"{name} goes on from its checkpoint: {', '.join(waiting)} needs its weights, which the copy has not"
            continue
        place, about = next(iter(places.items()))
        _write_training(folder, place, about["train"], copy)
        yield f"{name} is taken from {copy}, without its weights{', and what was begun here is removed' * begun}"


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


class Translations:
    """The translations of a copy; the file of a test text is read once.

    Args:
        copy: its folder.
    """

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self._of_test: dict[str, dict[str, bytes]] = {}

    def of(self, training: Path, test: str, output: str) -> bytes:
        """The translation of a test text after a training.

        Raises:
            UserError: it is missing, or its file is damaged.
        """
        file = translations_of(self._copy, test)
        if test not in self._of_test:
            self._of_test[test] = unpack_outputs(file)
        content = self._of_test[test].get(column := column_of(training, output))
        if content is None:
            raise UserError(f"the copy has no translation {column}", file, "publish the study again")
        return content


def _check(copy: Path) -> None:
    """Refuse a folder that is no copy, or one of another format."""
    mark = read_json(copy / MARK)
    if mark is None:
        raise UserError("there is no copy of a study", copy, "name a folder that `posnmt study publish` wrote")
    if mark.get("format") != FORMAT:
        what = f"the copy has format {mark.get('format')}, and this posnmt reads format {FORMAT}"
        raise UserError(what, copy / MARK, "publish the study again with this version")


def trained(copy: Path) -> dict[str, dict[Path, RunFacts]]:
    """Key of each finished training of a copy -> its folders, one for each system that it is of, and what they say."""
    trained: dict[str, dict[Path, RunFacts]] = {}
    for path in sorted(copy.glob(f"runs/*/{FACTS}")):
        facts = _facts(path.parent)
        trained.setdefault(facts["train"]["key"], {})[path.parent] = facts
    return trained


def _facts(place: Path) -> RunFacts:
    """What a copy says of a training."""
    return load_json(place / FACTS, RunFacts, "the list of its steps", "publish it again")


def _speeds(copy: Path) -> SpeedFacts | None:
    """What a copy says of speeds; None if they were not measured."""
    if not (copy / SPEEDS).exists():
        return None
    speeds: SpeedFacts = load_json(copy / SPEEDS, SpeedFacts, "the file of speeds", "publish the study again")
    return speeds


def _write_training(folder: Path, place: Path, facts: StepFacts, copy: Path) -> None:
    """The step of a training, without weights."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)  # of a training that was started here
    run.mkdir(parents=True)
    for name in ("config.yaml", "record.json"):
        shutil.copyfile(place / name, run / name)
    (run / "metrics.jsonl").write_bytes(unpack(place / METRICS))
    _finish(folder, facts, copy)


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
