"""A copy of a study for others: report, figures and outputs, without weights, corpora and paths of this machine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from posnmt.base.errors import UserError, refuse_unknown
from posnmt.base.files import load_json, read_json
from posnmt.base.output import as_json, finish, is_draft
from posnmt.base.plugins import Origin
from posnmt.base.progress import duration
from posnmt.base.version import FORMAT
from posnmt.config.yaml import read_yaml, written_yaml
from posnmt.evaluation.report.grid import csv_text
from posnmt.evaluation.report.write import write_files
from posnmt.study import database
from posnmt.study.adopt import describe_step
from posnmt.study.copied import (
    FACTS,
    FOLDERS,
    LOSSES,
    MARK,
    OF_RUN,
    RUNS,
    SPEEDS,
    TRANSLATIONS,
    Mark,
    RunFacts,
    Speed,
    SpeedFacts,
    column_of,
    name_of,
    packed_in,
)
from posnmt.study.copied_losses import files_of
from posnmt.study.measured import StudyResults
from posnmt.study.packed import archived, compressed, joined
from posnmt.study.page import render
from posnmt.study.plan import SPEED, Plan, PlannedRun
from posnmt.study.points import collapsed
from posnmt.study.registration import FILE as REGISTERED
from posnmt.study.registration import read as read_registered
from posnmt.study.speed import read
from posnmt.study.study import finished, results_of, with_analyses
from posnmt.study.workflow.graph import Graph

TEXTS = {".html", ".csv", ".tex", ".yaml", ".json", ".md"}
KNOWN = {
    "README.md", "recipe.yaml", "report.html", "runs.csv", database.PUBLISHED, MARK, REGISTERED, SPEEDS,
    *(packed_in(Path(), folder).name for folder in FOLDERS),
}  # fmt: skip
"""All files that a copy may have."""
_FIGURE = re.compile(rb'(data-(?:value|low|high|deviation))="([-\d.e]+)"')
Paths = Mapping[str, str]
Files = dict[str, bytes]
"""Path in the copy, before its folders are packed -> content."""


def publish(
    study_plan: Plan, out: Path, to: Path, seeds: int | None = None, losses: Collection[str] | None = None
) -> Path:
    """Write or renew the published copy of a study; the same study gives the same bytes.

    README.md        what it is, how far it is, and the command that repeats it
    published.json   what makes it a copy: format, recipe and scale; and the signatures of its metrics
    recipe.yaml      the whole recipe
    registered.json  what the study registered before its first training, and changed later
    report.html, tables.tar.xz, figures.tar.xz   as in the study, without sentences, and of figures only the numbers;
                     once an analysis is finished
    results.csv.xz, runs.csv   the tables of results.sqlite
    runs.tar.xz      runs/SYSTEM.TRAINING.SEED/ for each finished training, with config.yaml, record.json, its metrics
                     and steps.json, by which another study recognises it and its translations (see `adopt`)
    translations.tar.xz   translations/TEST.csv for each test text: a row for each line, a column for each training;
                     translations/losses/LIKELIHOOD/: the losses of references, rounded (see `copied_losses`)
    speeds.json      speeds measured in turn, if they were, with the key of their step

    Args:
        study_plan: of the study.
        out: the study's folder.
        to: the folder of the copy: new, empty, or an earlier copy of this study.
        seeds: number of seeds of each training whose translations are in the copy; None: all.
        losses: the likelihoods whose losses are in the copy; none: all.

    Raises:
        UserError: `to` holds something else, nothing of the study is finished, or it has no such likelihood.
    """
    _check(study_plan, out, to, losses)
    graph, _ = with_analyses(study_plan, out)
    done = {name: graph.folder(out, name) for name in finished(graph, out)}
    trained = [each for each in study_plan.runs if each.train in done]
    if not trained:
        raise UserError("no training of this study is finished, so there is nothing to publish", out, "run it first")
    shown = [run for run in trained if seeds is None or run.seed <= seeds]
    results = results_of(study_plan, out) if any(name.startswith("analyse/") for name in done) else None
    tree = collapsed(study_plan.recipe).model_dump(mode="json", by_alias=True, exclude_unset=True)
    files = {MARK: as_json(_mark(study_plan, results)), "recipe.yaml": written_yaml(tree).encode("utf-8")}
    if entries := read_registered(out):
        files[REGISTERED] = as_json(entries)
    if results is not None:
        files |= _report(study_plan, replace(results, published=True))
    for run in sorted(trained, key=name_of):
        files |= _of_run(run, graph, done, with_translations=run in shown)
    if SPEED in done:
        speeds: SpeedFacts = {"step": describe_step(done[SPEED], graph.key(SPEED)), "systems": read(done[SPEED])}
        files[SPEEDS] = as_json(speeds)
    for test in sorted({test for run in trained for test in run.translations}):
        if outputs := _outputs(test, shown, done):
            files[f"{TRANSLATIONS}/{test}.csv"] = joined(outputs)
    files |= _losses(graph, done, losses)
    files["README.md"] = "".join(f"{line}\n" for line in _readme(study_plan, done, files, seeds)).encode("utf-8")
    places = {str(place): name for place, name in _places(study_plan, out, trained, done)}
    _write(_without_places(files, places), to)
    return to / "README.md"


def _mark(study_plan: Plan, results: StudyResults | None) -> Mark:
    """What makes the folder a copy."""
    signatures = {name: each.results["signatures"] for name, each in (results.measured if results else {}).items()}
    return {
        "format": FORMAT, "recipe": study_plan.recipe.recipe, "scale": study_plan.scale, "signatures": signatures,
    }  # fmt: skip


def _without_places(files: Files, places: Paths) -> Files:
    """The files, with the folders of this machine replaced in their texts; translations stay as they are."""
    return {
        name: _named(content.decode("utf-8"), places).encode("utf-8")
        if Path(name).suffix in TEXTS and not name.startswith(f"{TRANSLATIONS}/")
        else content
        for name, content in files.items()
    }


def _write(files: Files, to: Path) -> None:
    """Write the copy, with its folders packed, and remove files of an earlier copy that this one does not have."""
    copy = {name: content for name, content in files.items() if "/" not in name and name != database.PUBLISHED}
    for folder in FOLDERS:
        if inside := {name: content for name, content in files.items() if name.startswith(f"{folder}/")}:
            place = packed_in(to, folder)
            copy[place.name] = compressed(archived(inside), place)
    if database.PUBLISHED in files:
        copy[database.PUBLISHED] = compressed(files[database.PUBLISHED], to / database.PUBLISHED)
    write_files(copy, to, KNOWN)


def _check(study_plan: Plan, out: Path, to: Path, likelihoods: Collection[str] | None) -> None:
    """Refuse a folder that is neither empty nor a copy of this study, and a likelihood that the study has not."""
    for name in likelihoods or ():
        refuse_unknown(name, study_plan.recipe.likelihoods_at(study_plan.scale), "likelihood of this study")
    another = "choose another --to"
    if to.exists() and not to.is_dir():
        raise UserError("the folder of the copy is a file", to, another)
    if to.resolve() == out.resolve() or out.resolve() in to.resolve().parents:
        raise UserError("the copy cannot be inside the study", to, another)
    finish(to)
    if to.is_dir() and not all(is_draft(path.name) for path in to.iterdir()):
        mark = read_json(to / MARK)
        if mark is None or mark.get("recipe") != study_plan.recipe.recipe or mark.get("scale") != study_plan.scale:
            raise UserError("the folder is not empty, and holds no copy of this study", to, another)


def _report(study_plan: Plan, results: StudyResults) -> Files:
    """The page with its tables and figures, and all results as CSV."""
    with TemporaryDirectory() as name:
        made = Path(name)
        render(results, made)
        # the page has the figures, and `posnmt figure` draws them for print
        written = [path for path in sorted(made.rglob("*")) if path.is_file() and path.suffix not in (".svg", ".pdf")]
        pages = {path.relative_to(made).as_posix(): path for path in written}
        files = {name: path.read_bytes() for name, path in pages.items()}
        files["report.html"] = _FIGURE.sub(_shortened, files["report.html"])
        database.write(made, study_plan.recipe.recipe, study_plan.scale, results.runs, results.analyses)
        for table, columns in database.TABLES.items():
            rows = database.read(made, f"SELECT * FROM {table}")  # noqa: S608
            text = csv_text([list(columns), *([*row.values()] for row in rows)])
            # `results` has the figures of every output by length, and is a tenth as large when compressed
            files[database.PUBLISHED if table == "results" else f"{table}.csv"] = text.encode("utf-8")
    return files


def _shortened(figure: re.Match[bytes]) -> bytes:
    """A figure that the page sorts by, with six digits; the tables beside it have all."""
    return b'%s="%s"' % (figure[1], f"{float(figure[2]):.6g}".encode())


def _of_run(run: PlannedRun, graph: Graph, done: Mapping[str, Path], with_translations: bool) -> Files:
    """The configuration, record and metrics of a training, and the facts about its translations in the copy."""
    folder = done[run.train] / "run"
    files = {name: (folder / name).read_bytes() for name in OF_RUN}
    record = load_json(folder / "record.json", dict[str, Any], "the record of a run", "train it again")
    files["record.json"] = as_json({name: value for name, value in record.items() if name != "command"})
    about: RunFacts = {"train": describe_step(done[run.train], graph.key(run.train)), "translations": {}}
    for test, step in run.translations.items():
        if with_translations and step in done:
            about["translations"][test] = {**describe_step(done[step], graph.key(step)), "speed": _speed(done[step])}
    files[FACTS] = as_json(about)
    return {f"{RUNS}/{name_of(run)}/{name}": content for name, content in files.items()}


def _speed(translated: Path) -> dict[str, Speed]:
    """Output -> its speed, of a finished translation."""
    return load_json(translated / "speed.json", dict[str, Speed], "speeds", "translate it again")


def _outputs(test: str, shown: Sequence[PlannedRun], done: Mapping[str, Path]) -> dict[str, bytes]:
    """Column -> translation of a test text, for every training that has translated it."""
    translated = [(run, done[run.translations[test]]) for run in shown if run.translations.get(test) in done]
    return {
        column_of(name_of(run), output): (folder / output).read_bytes()
        for run, folder in translated
        for output in _speed(folder)
    }


def _losses(graph: Graph, done: Mapping[str, Path], chosen: Collection[str] | None) -> Files:
    """The losses of the finished likelihoods, or of those that are chosen."""
    wanted = {f"likelihood/{name}" for name in chosen} if chosen else done
    names = [name for name in done if name.startswith("likelihood/") and name in wanted]
    return {
        f"{LOSSES}/{name.removeprefix('likelihood/')}/{file}": content
        for name in names
        for file, content in files_of(graph.steps[name], graph, done[name]).items()
    }


def _readme(study_plan: Plan, done: Mapping[str, Path], files: Files, seeds: int | None) -> Iterator[str]:
    """The lines of README.md.

    Args:
        files: of the copy.
    """
    recipe, trainings = study_plan.recipe, len(study_plan.trainings)
    ready = [done[name] / "run" / "record.json" for name in study_plan.trainings if name in done]
    seconds = sum((read_json(path) or {}).get("seconds") or 0.0 for path in ready)
    command = ["posnmt", "study", "run", "recipe.yaml", "--scale", study_plan.scale, "--out", "study"]
    command += [] if study_plan.data is None else ["--data", "data"]
    yield f"# {recipe.title}: scale {study_plan.scale}"
    yield ""
    yield f"A study of posnmt. {len(ready)} of {trainings} trainings are finished; they took {duration(seconds)}."
    if len(ready) < trainings:
        yield "**It is not complete**: what the report says rests on what is finished."
    yield from [
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {what} |" for name, what in _contents(files, seeds).items()),
        "",
    ]
    yield f"To repeat it: `{shlex.join(command)}`" + (
        "." if len(ready) == trainings else "; to go on with it, add `--adopt .`."
    )
    for part in (Origin(**each) for each in study_plan.parts):
        of = "" if part.shown == part.name else f" of {part.shown}"
        yield f"The {part.kind} `{part.name}`{of} is not part of posnmt and must be importable."
    yield "`tar -xf runs.tar.xz` unpacks a folder."
    yield "In the files `STUDY` is the study's folder and `DATA` that of the corpora."


def _contents(files: Files, seeds: int | None) -> dict[str, str]:
    """Files, as links of README.md -> what is in them."""
    of_seeds = "" if seeds is None else f" with a seed of at most {seeds}"
    scored = any(name.startswith(f"{LOSSES}/") for name in files)
    losses = "; and losses of references, rounded so that sums stay true" if scored else ""
    rows = {
        "[recipe.yaml](recipe.yaml)": "the recipe",
        "[runs.tar.xz](runs.tar.xz)": "each training's configuration, record and metrics",
        "[translations.tar.xz](translations.tar.xz)": "of each test text, line by line as its source, a column for"
        f" each training{of_seeds}{losses}",
    }
    if REGISTERED in files:
        rows[f"[{REGISTERED}]({REGISTERED})"] = "the claims and their test, as registered, and later changes"
    if SPEEDS in files:
        rows[f"[{SPEEDS}]({SPEEDS})"] = "speeds of systems, measured in turn"
    if "report.html" in files:
        rows["[report.html](report.html)"] = "the report, with the verdicts"
        shown = [name for name in ("tables", "figures") if any(each.startswith(f"{name}/") for each in files)]
        what = {"tables": "tables", "figures": "the numbers of its figures"}
        named = ", ".join(f"[{name}.tar.xz]({name}.tar.xz)" for name in shown)
        rows[named] = f"its {' and '.join(what[name] for name in shown)}"
        rows["[results.csv.xz](results.csv.xz), [runs.csv](runs.csv)"] = "every measure of every output; every training"
    return rows


def _places(
    study_plan: Plan, out: Path, trained: Sequence[PlannedRun], done: Mapping[str, Path]
) -> Iterator[tuple[Path, str]]:
    """Folders of this machine that the files may name, inner ones first, each with the word that replaces it."""
    yield out.resolve(), "STUDY"
    if study_plan.data is not None:
        yield study_plan.data.resolve(), "DATA"
        yield study_plan.data.absolute(), "DATA"
    for run in trained:  # in the folder that the study was run in
        tree, _ = read_yaml(done[run.train] / "run" / "config.yaml", "config", "a config is a YAML mapping")
        if (root := Path(tree["data"]["root"])).is_absolute():
            yield root, "."
    yield Path.cwd(), "."


def _named(text: str, places: Paths) -> str:
    """A text in which words replace folders, except for `/`, which says nothing about this machine."""
    for place, name in places.items():
        if place != Path(place).anchor:
            text = re.sub(rf"{re.escape(place)}(?![.-]?\w)", name, text)  # no folder that only begins so
    return text
