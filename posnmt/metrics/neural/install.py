"""Install a neural metric: its environment, its model, and a record of both.

A record names the model, where its files are, and what they are: the hub's commit, or the digest of their content. A
model whose files have changed since is refused, so that scores of two models never stand under one name.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from posnmt.base.errors import UserError
from posnmt.base.files import folder_digests, load_json, sha256_of
from posnmt.base.output import write_json
from posnmt.base.plugins import Origin
from posnmt.base.progress import Display
from posnmt.metrics.neural.environment import Environment, default_python, folder
from posnmt.metrics.neural.hub import refuse_unreachable
from posnmt.metrics.neural.metric import NeuralMetric
from posnmt.metrics.neural.run import advice, file_name, run

Facts = dict[str, tuple[int, int]]
"""File → its size and the time of its last change in nanoseconds."""


class Record(TypedDict):
    """What is installed for a metric.

    `model` is its name; `paths` has part → its folder; `revisions` part → the hub's commit, or the digest of its files;
    `versions` package → version; `files` part → the facts of its files.
    """

    model: str
    paths: dict[str, str]
    revisions: dict[str, str]
    versions: dict[str, str]
    files: dict[str, Facts]


@dataclass(frozen=True)
class Installed:
    """A metric that can be computed.

    Attributes:
        name: of the metric.
        metric: itself.
        record: of its installation.
    """

    name: str
    metric: NeuralMetric
    record: Record

    @property
    def identity(self) -> str:
        """A digest of all that a score of given texts depends on."""
        parts = {
            "program": sha256_of(self.metric.program),
            "reference": self.metric.reads_reference,
            **{key: self.record[key] for key in ("revisions", "versions")},  # type: ignore[literal-required]
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def origin(self) -> Origin:
        """The metric as a part of a study's keys."""
        return Origin("metric", self.name, self.metric.program.name, self.model, self.revision, self.identity)

    @property
    def model(self) -> str:
        """The model as a signature names it: its id on the hub, or the last part of its path."""
        name = self.record["model"]
        return Path(name).name if Path(name).is_absolute() else name

    @property
    def revision(self) -> str:
        """The revision of the model, shortened."""
        return self.record["revisions"]["model"][:12]

    @property
    def signature(self) -> str:
        """The model and the versions, in the style of sacreBLEU."""
        versions = "|".join(f"{package}:{version}" for package, version in self.record["versions"].items())
        references = 1 if self.metric.reads_reference else 0
        return f"nrefs:{references}|model:{self.model}|revision:{self.revision}|{versions}"


@dataclass(frozen=True)
class Request:
    """What `posnmt metrics install` is asked for.

    Attributes:
        model: an id on the hub or a path; None: the installed one, else the metric's default.
        origin: a folder with wheels, models or both, instead of the network.
        python: that makes the environment; None: the one that runs posnmt.
    """

    model: str | None = None
    origin: Path | None = None
    python: str | None = None


def install(name: str, metric: NeuralMetric, request: Request, display: Display) -> tuple[Installed, bool]:
    """Make the environment of a metric and find its model; what is complete stays as it is.

    Returns:
        What is installed, and whether anything was done.

    Raises:
        UserError: a package or the model cannot be had, or the model is not one for this metric.
    """
    if request.origin is not None and not request.origin.is_dir():
        raise UserError("there is no such folder", request.origin, "name a folder with wheels or models: --from FOLDER")
    environment = Environment(metric.packages)
    wheels = request.origin if request.origin is not None and any(request.origin.glob("*.whl")) else None
    model = request.model or (_record(name)["model"] if _place(name).exists() else metric.model)

    def before() -> None:
        if request.origin is None and not Path(model).exists():
            refuse_unreachable(model)

    made = environment.make(request.python or default_python(), wheels, tuple(metric.pythons), display, before)
    complete = None if made else _complete(name, metric)
    if complete is not None and request.model is None:
        return complete, False
    display.say(f"looking for the model of {name}")
    if Path(model).exists() and not (request.origin is not None and (request.origin / model).exists()):
        model = str(Path(model).resolve())
    asked = {
        "model": model,
        "folder": None if request.origin is None else str(request.origin.resolve()),
        "reference": metric.reads_reference,
    }
    (found,) = run(name, metric, "find", asked, online=request.origin is None)
    paths: dict[str, str] = found["paths"]
    record: Record = {
        "model": model,
        "paths": paths,
        "revisions": {part: _revision(Path(path)) for part, path in paths.items()},
        "versions": found["versions"],
        "files": {part: _facts(Path(path)) for part, path in paths.items()},
    }
    place = _place(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, record)
    return Installed(name, metric, record), True


def installed(name: str, metric: NeuralMetric) -> Installed:
    """What is installed for a metric.

    Raises:
        UserError: nothing is, its environment is not complete, or its model has changed or is gone.
    """
    todo, other = advice(name), advice(name, " --model MODEL")
    if not _place(name).exists():
        raise UserError(f"the metric {name} is not installed", None, todo)
    record = _record(name)
    if (fault := Environment(metric.packages).fault()) is not None:
        raise UserError(f"the environment of {name} cannot be used: {fault}", Environment(metric.packages).folder, todo)
    for part, path in record["paths"].items():
        if not Path(path).exists():
            raise UserError(f"the {part} of {name} is no longer there", path, f"put it back, or {other}")
        if _facts(Path(path)) != {file: tuple(facts) for file, facts in record["files"][part].items()}:
            raise UserError(f"the {part} of {name} has changed since it was installed", path, other)
    return Installed(name, metric, record)


def remove(name: str, metric: NeuralMetric, others: Mapping[str, NeuralMetric]) -> list[Path]:
    """Remove the record of a metric, and its environment unless another installed metric has the same.

    Args:
        name: of the metric.
        metric: itself.
        others: all other metrics by name.

    Returns:
        What was removed.
    """
    environment = Environment(metric.packages).folder
    shared = [each for each, other in others.items() if Environment(other.packages).folder == environment]
    gone = [path for path in (_place(name),) if path.exists()]
    if environment.exists() and not any(_place(each).exists() for each in shared):
        gone.append(environment)
    for path in gone:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return gone


def _record(name: str) -> Record:
    """The record of a metric.

    Raises:
        UserError: it is damaged.
    """
    return load_json(_place(name), Record, f"the record of {name}", f"remove it, and {advice(name)}")


def _complete(name: str, metric: NeuralMetric) -> Installed | None:
    """What is installed; None if it cannot be used."""
    try:
        return installed(name, metric)
    except UserError:
        return None


def _place(name: str) -> Path:
    """The file of a metric's record."""
    return folder() / "installed" / f"{file_name(name)}.json"


def _revision(path: Path) -> str:
    """The hub's commit of a folder of its cache, `…/snapshots/COMMIT`; else the digest of all files."""
    if path.parent.name == "snapshots":
        return path.name
    digests = folder_digests(path) if path.is_dir() else {path.name: sha256_of(path)}
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def _facts(path: Path) -> Facts:
    """The facts of a file, or of all files of a folder."""
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    facts = {each: each.stat() for each in sorted(files)}
    return {str(each.relative_to(path)): (stat.st_size, stat.st_mtime_ns) for each, stat in facts.items()}
