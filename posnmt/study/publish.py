"""A copy of a study for others: report, figures and outputs, without weights, corpora and paths of this machine."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.base.files import PARTIAL, load_json, read_json, write_json, write_text
from posnmt.base.plugins import Origin
from posnmt.base.progress import duration
from posnmt.config.yaml import read_yaml, written_yaml
from posnmt.evaluation.report.grid import csv_text
from posnmt.study import database
from posnmt.study.adopt import (
    FACTS,
    FORMAT,
    MARK,
    METRICS,
    SPEEDS,
    RunFacts,
    Speed,
    SpeedFacts,
    column_of,
    describe_step,
    folder_of,
    translations_of,
)
from posnmt.study.packed import pack, pack_outputs
from posnmt.study.page import render
from posnmt.study.plan import SPEED, Plan, PlannedRun
from posnmt.study.points import collapsed
from posnmt.study.registration import FILE as REGISTERED
from posnmt.study.registration import read as read_registered
from posnmt.study.speed import read
from posnmt.study.study import finished, results_of, with_analyses
from posnmt.study.workflow.graph import Graph

TEXTS = {".html", ".csv", ".tex", ".yaml", ".json", ".md"}
Paths = Mapping[str, str]


def publish(study_plan: Plan, out: Path, to: Path, seeds: int | None = None) -> Path:
    """Write or renew the published copy of a study; the same study gives the same bytes.

    README.md                   what it is, how far it is, and the command that repeats it
    recipe.yaml                 the whole recipe
    report.html, tables/, figures/   as in the study, without sentences; once an analysis is finished
    results.csv.xz, runs.csv    the tables of results.sqlite
    translations/TEST.csv.xz    the translations of each test text, a line each, a column for each training
    runs/SYSTEM.TRAINING.SEED/  of each finished training config.yaml, record.json and its metrics, and steps.json, by
                                which another study knows it and its translations again (see `adopt`)
    speeds.json                 speeds measured in turn, once they are, with what they are known by
    registered.json             what the study registered before its first training, and changed later

    Args:
        study_plan: of the study.
        out: the study's folder.
        to: the folder of the copy: new, empty, or an earlier copy of this study.
        seeds: the translations of so many seeds of each training are in the copy; None: of all.

    Raises:
        UserError: `to` holds something else, or nothing of the study is finished.
    """
    _check(study_plan, out, to)
    graph, _ = with_analyses(study_plan, out)
    done = {name: graph.folder(out, name) for name in finished(graph, out)}
    trained = [each for each in study_plan.runs if each.train in done]
    if not trained:
        raise UserError("no training of this study is finished, so there is nothing to publish", out, "run it first")
    shown = [run for run in trained if seeds is None or run.seed <= seeds]
    to.mkdir(parents=True, exist_ok=True)
    write_json(to / MARK, {"format": FORMAT, "recipe": study_plan.recipe.recipe, "scale": study_plan.scale})
    if entries := read_registered(out):
        write_json(to / REGISTERED, entries)
    tree = collapsed(study_plan.recipe).model_dump(mode="json", by_alias=True, exclude_unset=True)
    write_text(to / "recipe.yaml", written_yaml(tree))
    if any(name.startswith("analyse/") for name in done):
        _write_report(study_plan, out, to)
    for run in trained:
        _write_run(run, graph, done, folder_of(to, run), with_translations=run in shown)
    if SPEED in done:
        speeds: SpeedFacts = {"step": describe_step(done[SPEED], graph.key(SPEED)), "systems": read(done[SPEED])}
        write_json(to / SPEEDS, speeds)
    written = {folder_of(to, run) for run in trained}
    for test in dict.fromkeys(test for run in trained for test in run.translations):
        if outputs := _outputs(test, shown, done, to):
            pack_outputs(outputs, translations_of(to, test))
            written.add(translations_of(to, test))
    _remove_others(written, to)
    write_text(to / "README.md", "\n".join(_readme(study_plan, done, to, seeds)) + "\n")
    _name_places(to, {str(place): name for place, name in _places(study_plan, out, to)})
    return to / "README.md"


def _remove_others(written: Collection[Path], to: Path) -> None:
    """Remove trainings and translations of an earlier copy that the study has no more, such as a renamed system's."""
    for earlier in [*to.glob("runs/*"), *to.glob("translations/*")]:
        if earlier not in written:
            shutil.rmtree(earlier) if earlier.is_dir() else earlier.unlink()


def _check(study_plan: Plan, out: Path, to: Path) -> None:
    """Refuse a folder that is not this study's copy."""
    another = "choose another --to"
    if to.exists() and not to.is_dir():
        raise UserError("the folder of the copy is a file", to, another)
    if to.resolve() == out.resolve() or out.resolve() in to.resolve().parents:
        raise UserError("the copy cannot be inside the study", to, another)
    if to.is_dir() and any(to.iterdir()):
        mark = read_json(to / MARK)
        if mark is None or mark.get("recipe") != study_plan.recipe.recipe or mark.get("scale") != study_plan.scale:
            raise UserError("the folder is not empty, and holds no copy of this study", to, another)


def _write_report(study_plan: Plan, out: Path, to: Path) -> None:
    """The page with its tables and figures, and all results as CSV."""
    results = replace(results_of(study_plan, out), published=True)
    render(results, to)
    base = database.write(to, study_plan.recipe.recipe, study_plan.scale, results.runs, results.analyses)
    for name, columns in database.TABLES.items():
        rows = database.read(to, f"SELECT * FROM {name}")  # noqa: S608
        text = csv_text([list(columns), *([*row.values()] for row in rows)])
        if name == "results":  # the figures of every output by length: a tenth as large when compressed
            pack(text.encode("utf-8"), to / database.PUBLISHED)
        else:
            write_text(to / f"{name}.csv", text)
    base.unlink()


def _write_run(run: PlannedRun, graph: Graph, done: Mapping[str, Path], to: Path, with_translations: bool) -> None:
    """One training's configuration, record and metrics, and the facts of the translations that the copy has."""
    folder = done[run.train] / "run"
    to.mkdir(parents=True, exist_ok=True)
    write_text(to / "config.yaml", (folder / "config.yaml").read_text(encoding="utf-8"))
    record: dict[str, Any] = load_json(folder / "record.json", dict[str, Any], "the record of a run", "train it again")
    write_json(to / "record.json", {name: value for name, value in record.items() if name != "command"})
    pack((folder / "metrics.jsonl").read_bytes(), to / METRICS)
    about: RunFacts = {"train": describe_step(done[run.train], graph.key(run.train)), "translations": {}}
    for test, step in run.translations.items():
        if with_translations and step in done:
            about["translations"][test] = {**describe_step(done[step], graph.key(step)), "speed": _speed(done[step])}
    write_json(to / FACTS, about)


def _speed(translated: Path) -> dict[str, Speed]:
    """The names of the outputs of a finished translation, and how fast each came."""
    speed: dict[str, Speed] = load_json(translated / "speed.json", dict[str, Speed], "speeds", "translate it again")
    return speed


def _outputs(test: str, shown: Sequence[PlannedRun], done: Mapping[str, Path], to: Path) -> dict[str, bytes]:
    """Column -> translation of a test text, after every training that has finished it."""
    translated = [(run, done[run.translations[test]]) for run in shown if run.translations.get(test) in done]
    return {
        column_of(folder_of(to, run), output): (folder / output).read_bytes()
        for run, folder in translated
        for output in _speed(folder)
    }


def _readme(study_plan: Plan, done: Mapping[str, Path], to: Path, seeds: int | None) -> Iterator[str]:
    """The lines of README.md."""
    recipe, trainings = study_plan.recipe, len(study_plan.trainings)
    ready = [done[name] / "run" / "record.json" for name in study_plan.trainings if name in done]
    seconds = sum((read_json(path) or {}).get("seconds") or 0.0 for path in ready)
    command = ["posnmt", "study", "run", "recipe.yaml", "--scale", study_plan.scale, "--out", "study"]
    command += [] if study_plan.data is None else ["--data", "data"]
    rows = {
        "[recipe.yaml](recipe.yaml)": "the recipe",
        "`runs`": "each training's configuration and record",
        "`translations`": "of each test text, line by line as its source, a column for each training"
        + ("" if seeds is None else f" with a seed of at most {seeds}"),
    }
    if (to / REGISTERED).exists():
        rows[f"[{REGISTERED}]({REGISTERED})"] = "the claims and their test, as registered, and later changes"
    if (to / SPEEDS).exists():
        rows[f"[{SPEEDS}]({SPEEDS})"] = "speeds of systems, measured in turn"
    if (to / "report.html").exists():
        rows["[report.html](report.html), tables, figures"] = "the report, its tables and figures, the verdicts"
        rows["[results.csv.xz](results.csv.xz), [runs.csv](runs.csv)"] = "every measure of every output; every training"
    yield f"# {recipe.title}: scale {study_plan.scale}"
    yield ""
    yield f"A study of posnmt. {len(ready)} of {trainings} trainings are finished; they took {duration(seconds)}."
    if len(ready) < trainings:
        yield "**It is not complete**: what the report says rests on what is finished."
    yield from ["", "| | |", "|---|---|", *(f"| {name} | {what} |" for name, what in rows.items()), ""]
    yield f"To repeat it: `{shlex.join(command)}`" + (
        "." if len(ready) == trainings else "; to go on with it, add `--adopt .`."
    )
    for part in (Origin(**each) for each in study_plan.parts):
        of = "" if part.shown == part.name else f" of {part.shown}"
        yield f"The {part.kind} `{part.name}`{of} is not part of posnmt and must be importable."
    yield "In the files `STUDY` is the study's folder and `DATA` that of the corpora."


def _places(study_plan: Plan, out: Path, to: Path) -> Iterator[tuple[Path, str]]:
    """Folders of this machine that the files may name, inner ones first, and what stands in their place."""
    yield out.resolve(), "STUDY"
    if study_plan.data is not None:
        yield study_plan.data.resolve(), "DATA"
        yield study_plan.data.absolute(), "DATA"
    for config in sorted(to.glob("runs/*/config.yaml")):  # trained in the folder that the study was run in
        tree, _ = read_yaml(config, "config", "a config is a YAML mapping")
        if (root := Path(tree["data"]["root"])).is_absolute():
            yield root, "."
    yield Path.cwd(), "."


def _name_places(to: Path, places: Paths) -> None:
    """Replace the folders of this machine in the texts of the copy, but for `/`, which says nothing of it."""
    places = {place: name for place, name in places.items() if place != Path(place).anchor}
    for path in sorted(to.rglob("*")):
        if path.suffix in TEXTS and not path.name.endswith(PARTIAL):
            text = path.read_text(encoding="utf-8")
            for place, name in places.items():
                text = re.sub(rf"{re.escape(place)}(?![.-]?\w)", name, text)  # no folder that only begins so
            if text != path.read_text(encoding="utf-8"):
                write_text(path, text)
