"""A run folder: the self-contained result of training, for translation, scoring and export.

config.yaml          the resolved configuration
record.json          provenance, data, lengths of the training sentences, reason of the end
target-counts.txt    how often the training text has each target subword, a line for each
text/                tokenisation and subword models
metrics.jsonl        training and dev figures; tensorboard/, wandb/ and loggers.json are those of `train.loggers`
text-before/         the subwords that `subword.pieces: extended` extended, if it did
dev.source, dev.target  the dev pairs, if no two files of the user have them
checkpoints/         the newest checkpoints, for resuming and averaging
model.safetensors    the final model: the best by dev, or the average of the last checkpoints if that is better
best.safetensors, average.safetensors
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from typing_extensions import TypedDict

from posnmt.base import plugins
from posnmt.base.errors import UserError
from posnmt.base.files import load_json, locked, read_json, validator
from posnmt.base.output import creating, is_draft, sync, write_json, write_text
from posnmt.base.progress import warn
from posnmt.config.marks import MayChange, marked
from posnmt.config.schema import Config
from posnmt.data.exposure import read_counts, sentences_by_length, write_counts
from posnmt.data.text import TextPipeline, text_hash
from posnmt.run.resolve import dump, load, origins

if TYPE_CHECKING:
    from posnmt.model.base import TranslationModel

BEFORE = "text-before"
"""The text pipeline of the run that this one continues from, if this one has an extended vocabulary."""

EXPORTED = "posnmt.json"
"""The file that marks a folder as an exported model, which is not a run."""

DEV = ("dev.source", "dev.target")
"""The files of the dev pairs of a run."""

COUNTS = "target-counts.txt"
"""The file with the number of each target subword in the training text."""

LOCK = ".lock"
"""The lock file of the process that trains in a run folder."""

LOCATIONS = ("data.root", "data.store", "data.train", "data.dev", "subword.text")
"""Prefixes of settings that locate text. Texts are compared by their content instead: by the key of the store."""


CHECKPOINTS = ("model", "best", "average", "last")
"""The names of a run's weights."""

PARTS = "config.yaml, record.json, text/ and model.safetensors"
"""What people find in a run folder."""

MOST_NAMED = 3
"""The most runs that a message names."""

RESTORE = "copy it again from its origin"
"""What to do about a damaged file of a run folder."""

Plain = Annotated[str, Field(pattern=r"^[\w.+!-]+$", max_length=100)]
"""The name or the version of a distribution."""


class Part(TypedDict):
    """A part from outside posnmt at the time of training; see `posnmt.base.plugins.Origin`."""

    kind: str
    name: str
    target: str
    distribution: Plain | None
    version: Plain | None
    sha256: str | None


class Spread(TypedDict):
    """The shortest and the longest sentence, in subwords."""

    shortest: int
    longest: int


@dataclass(frozen=True)
class Run:
    """An existing run folder and its configuration."""

    folder: Path
    config: Config

    @classmethod
    def open(cls, folder: str | Path, allow_plugins: bool = False) -> Run:
        """The run in a folder. Prints a warning for each part from outside posnmt that has changed since the training.

        Args:
            allow_plugins: import the classes that its configuration names by `module:Class`.

        Raises:
            UserError: no such folder, or not a run folder; a part of it is not installed, cannot be imported, or is a
                class that is not allowed; `allow_plugins` is not a boolean.
        """
        if not isinstance(allow_plugins, bool):
            raise UserError(f"a boolean is needed; got {allow_plugins!r}", "allow_plugins", "write True or False")
        folder = Path(folder)
        if not (folder / "config.yaml").exists():
            raise _no_run(folder)
        recorded = _validated(read_json(folder / "record.json") or {}, "plugins", list[Part], [], folder)
        _refuse_missing(recorded, folder)
        with plugins.allowing(allow_plugins):
            config = load(folder / "config.yaml")
        for change in changed_parts(recorded, origins(config.model)):
            _warn_once(f"{change} ({folder})")
        return cls(folder, config)

    @classmethod
    def create(
        cls,
        folder: Path,
        config: Config,
        text: TextPipeline,
        record: dict[str, Any],
        before: Path | None = None,
        counts: NDArray[np.int64] | None = None,
    ) -> Run:
        """Create a new run folder, which `refuse_existing` has checked.

        Args:
            before: the folder of the text pipeline that `text` extends, if it does.
            counts: int64 [V], of each target subword in the training text, if there was one.
        """
        folder.mkdir(parents=True, exist_ok=True)
        sync(folder.parent)
        for name in ("text", BEFORE):  # of an attempt that was killed
            shutil.rmtree(folder / name, ignore_errors=True)
        with creating(folder / "text") as building:
            text.save(building)
        if before is not None:
            with creating(folder / BEFORE) as building:
                shutil.copytree(before, building, dirs_exist_ok=True)
        if counts is not None:
            write_counts(folder / COUNTS, counts)
        run = cls(folder, config)
        run.write_record(record)
        write_text(folder / "config.yaml", dump(config))
        return run

    def change(self, config: Config, step: int) -> None:
        """Write the configuration with which the run goes on; add the changed settings and the step to the record."""
        old, new = (_flat(each.model_dump(mode="json")) for each in (self.config, config))
        changed = {key: new.get(key) for key in sorted({*old, *new}) if old.get(key) != new.get(key)}
        if changed:
            record = self.record
            self.write_record({**record, "changed": [*record.get("changed", []), {"step": step, "settings": changed}]})
            write_text(self.folder / "config.yaml", dump(config))

    @property
    def record(self) -> dict[str, Any]:
        """The record of the run, read from `record.json`."""
        return read_record(self.folder)

    @property
    def training_lengths(self) -> dict[str, Spread]:
        """The lengths of the training sentences by side, source and target; empty if they are not recorded.

        Raises:
            UserError: the record is damaged.
        """
        return _validated(self.record, "training_lengths", dict[str, Spread], {}, self.folder)

    @property
    def sentences_by_length(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target sentences of the training text by length, int64 [L+1] each; lengths from 0 in subwords.

        Raises:
            UserError: the record does not have them, or is damaged.
        """
        place = self.folder / "record.json"
        recorded = _validated(self.record, "training_histograms", dict[str, str], {}, self.folder)
        if not recorded:
            what = "the run's record does not have the lengths of all training sentences"
            raise UserError(what, place, "train it again with this version of posnmt")
        try:
            return sentences_by_length(recorded["source"]), sentences_by_length(recorded["target"])
        except (KeyError, ValueError):
            raise UserError("the run's record is damaged: training_histograms", place, RESTORE) from None

    def target_counts(self, size: int) -> NDArray[np.int64]:
        """int64 [V]: how often the training text has each target subword; `size`: V.

        Raises:
            UserError: the run does not have them, or they are damaged.
        """
        return read_counts(self.folder / COUNTS, size)

    @property
    def sentences_per_line(self) -> dict[str, list[float]]:
        """The shares of training lines with at least 1, 2, … sentences, by side; empty if they are not recorded.

        Raises:
            UserError: the record is damaged.
        """
        return _validated(self.record, "sentences_per_line", dict[str, list[float]], {}, self.folder)

    @property
    def marks(self) -> dict[str, int]:
        """Mark of a target language -> sampled training pairs that have it; empty if no marks are recorded.

        Raises:
            UserError: the record is damaged.
        """
        return _validated(read_json(self.folder / "record.json") or {}, "marks", dict[str, int], {}, self.folder)

    @property
    def known_marks(self) -> list[str]:
        """The marks that a source may begin with: of target languages, and of corpora."""
        return list(dict.fromkeys([*self.marks, *self.text().source.marks]))

    def with_own_text(self, config: Config) -> Config:
        """The configuration for resuming this run: it reads the run's own copy of the text pipeline.

        So a run that was started from another one (`train.init`) does not need the other folder any more.
        """
        if config.train.init is None:
            return config
        before = self.folder / BEFORE
        folder = before if before.is_dir() else self.folder / "text"
        subword = config.subword.model_copy(update={"text": str(folder.resolve())})
        return config.model_copy(update={"subword": subword})

    def write_record(self, record: dict[str, Any]) -> None:
        """Write a new record in place of the old one, all or nothing."""
        write_json(self.folder / "record.json", record)

    def text(self) -> TextPipeline:
        """Load the run's tokenisers and subword models."""
        return TextPipeline.load(self.folder / "text")

    def text_hash(self) -> str:
        """A hash that is equal for runs whose subword ids have the same meaning."""
        return text_hash(self.folder / "text")

    def model(self, checkpoint: str = "model") -> TranslationModel:
        """The trained model, in evaluation mode.

        Args:
            checkpoint: `model` (the final model), `best`, `average`, or `last`.
        """
        import torch

        from posnmt.model.registry import build_undrawn
        from posnmt.model.weights import load_model, refuse_large_tables, refuse_other_weights

        text, weights = self.text(), self.trained_weights(checkpoint)
        build = partial(build_undrawn, self.config.model, text.source.size, text.target.size, text.pairs)
        with torch.device("meta"):  # no memory is allocated before the configuration is seen to be that of the weights
            declared = build()
        refuse_other_weights(declared, weights)
        refuse_large_tables(declared, self.folder)
        model = build()
        load_model(model, weights)
        return model.eval()

    def trained_weights(self, checkpoint: str = "model") -> Path:
        """The file of a checkpoint by name, which exists.

        Raises:
            UserError: the run has no model yet, or no such checkpoint.
        """
        path = self.weights(checkpoint)
        if path.exists():
            return path
        there = [name for name in CHECKPOINTS if self.weights(name).exists()]
        if "model" in there:
            todo = f"choose one that it has: {', '.join(there)}"
            raise UserError(f"the run has no checkpoint {checkpoint!r}", self.folder, todo)
        todo = f"go on with `{resuming(self.folder)}`"
        if is_claimed(self.folder):
            todo = "it is being trained: wait for its first evaluation"
        if there:
            todo += f", or choose the checkpoint {there[0]!r}"
        raise UserError("the run has no model yet: its training has not completed an evaluation", self.folder, todo)

    def weights(self, checkpoint: str = "model") -> Path:
        """The file of a checkpoint by name."""
        if checkpoint != "last":
            return self.folder / f"{checkpoint}.safetensors"
        newest = checkpoints_in(self.folder / "checkpoints")[-1:]
        return (newest[0] if newest else self.folder / "checkpoints") / "model.safetensors"


def resuming(folder: Path) -> str:
    """The command that goes on with the training in a folder."""
    return shlex.join(["posnmt", "train", "--out", str(folder), "--resume"])


def _no_run(folder: Path) -> UserError:
    """Why a folder is no run, and what to do."""
    if (folder / EXPORTED).exists():
        return UserError("an exported model, not a run", folder, "name the run that it was exported from")
    if not folder.exists():
        return UserError("no such run folder", folder, "name a folder made by `posnmt train`")
    if not folder.is_dir():
        todo = "name a folder made by `posnmt train`; an option, such as --input, names a text"
        return UserError("this is a file, not a run folder", folder, todo)
    if LOCK in (path.name for path in folder.iterdir()) and is_unfinished(folder):
        what = "the run in this folder has no config.yaml yet: it was stopped before its first update, or is starting"
        return UserError(what, folder, "repeat the `posnmt train` command that began it")
    what = f"this is not a run folder, which has {PARTS}"
    runs = sorted(str(path.parent) for path in folder.glob("*/config.yaml"))
    inside = ", ".join(runs[:MOST_NAMED]) + ", …" * (len(runs) > MOST_NAMED)
    return UserError(what, folder, f"name a run in it: {inside}" if runs else "name a folder made by `posnmt train`")


def read_record(folder: Path) -> dict[str, Any]:
    """The record of the run in a folder.

    Raises:
        UserError: it has no record, or a damaged one.
    """
    return load_json(folder / "record.json", dict[str, Any], "the run's record", RESTORE)


def _validated(record: dict[str, Any], name: str, kind: Any, default: Any, folder: Path) -> Any:
    """An entry of the record of a run, checked to be of a type.

    Raises:
        UserError: the record is damaged there.
    """
    try:
        return validator(kind).validate_python(record.get(name, default))
    except ValidationError:
        raise UserError(f"the run's record is damaged: {name}", folder / "record.json", RESTORE) from None


def _refuse_missing(parts: list[Part], folder: Path) -> None:
    """Check that the parts of a run are installed, classes by `module:Class` aside.

    Raises:
        UserError: one is not; the message says which package has it.
    """
    from posnmt.config.systems import SYSTEMS
    from posnmt.model.positions import SCHEMES

    known = {"system": {*SYSTEMS}, "scheme": {*SCHEMES}}
    for part in parts:
        kind, name = part["kind"], part["name"]
        if plugins.is_class(name) or kind not in known or name in known[kind] or name in plugins.names(kind):
            continue
        package = part["distribution"]
        what = f"the run needs the {kind} {name!r} " + (
            f"of {package} {part['version']}, which is not installed"
            if package
            else f"({part['target']}), which its program registered in posnmt.position.SCHEMES"
        )
        todo = f'pip install "{package}=={part["version"]}"' if package else "register it before the run is opened"
        raise UserError(what, folder, todo)


def changed_parts(recorded: list[Part], parts: list[plugins.Origin]) -> Iterator[str]:
    """A clause for each part that has changed since the training."""
    before = {(part["kind"], part["name"]): part for part in recorded}
    for part in parts:
        old = before.get((part.kind, part.name))
        if old is None:
            continue
        if (old["distribution"], old["version"]) != (part.distribution, part.version):
            was = f"{old['distribution']} {old['version']}" if old["distribution"] else old["target"]
            yield f"the {part.kind} {part.name} was {was} at the training and is {part.shown} here"
        elif old["sha256"] != part.sha256:
            target = "" if part.target == part.name else f" ({part.target})"
            yield f"the source of the {part.kind} {part.name}{target} has changed since the training"


_warn_once = cache(warn)
"""`warn`, once for each message in this process."""


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    named = (path for path in folder.glob("step-*") if re.fullmatch(r"step-\d+(-\d+)?", path.name))
    return sorted(named, key=step_and_version)


def step_and_version(place: Path) -> tuple[int, int]:
    """The step and version of a checkpoint, from its name."""
    _, step, *version = place.name.split("-")
    return int(step), int(version[0]) if version else 1


def is_unfinished(folder: Path) -> bool:
    """Whether a folder is empty, or only has the files that `Run.create` writes before the configuration.

    A process that is killed before its first update leaves such a folder.
    """
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()}
    names = {name for name in names if not is_draft(name)}
    return names <= {LOCK, "text", BEFORE, COUNTS, "record.json"} and (not names or LOCK in names)


def refuse_existing(folder: Path, what: str | None = None, todo: str = "choose another --out") -> None:
    """Check that a new run would not overwrite anything.

    Args:
        what: the folder's name in the message; None: it is to be a run folder.
        todo: what to do if it exists.

    Raises:
        UserError: the folder exists and is not empty.
    """
    if not folder.exists() or is_unfinished(folder):
        return
    if what is None and (folder / "config.yaml").exists():
        what, todo = "the run folder", f"{todo}, or continue the run with --resume"
    elif what is None:
        kind = "a folder that is no run" if folder.is_dir() else "a file"
        raise UserError(f"{kind} is here already, and is not overwritten", folder, todo)
    raise UserError(f"{what} exists already and is not overwritten", folder, todo)


def refuse_other_config(run: Run, config: Config) -> None:
    """Check that a resumed run was started with the same configuration.

    Settings marked `MayChange`, such as the end of the training, locations of text, and `decode` may differ.

    Raises:
        UserError: names each setting that differs, with both values.
    """
    may_differ = {*marked(Config, MayChange)}
    old, new = _flat(run.config.model_dump(mode="json")), _flat(config.model_dump(mode="json"))
    differing = [
        key
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key) and key not in may_differ and not key.startswith((*LOCATIONS, "decode."))
    ]
    was, now = (_mixture(each) for each in (run.config, config))
    if was != now:
        differing.append("data.train")
        old, new = {**old, "data.train": was}, {**new, "data.train": now}
    if differing:
        shown = ", ".join(f"{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in differing[:5])
        more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
        raise UserError(
            f"the run was started with another config: {shown}{more}", run.folder,
            "resume with the run's own config.yaml, or start a new run with another --out",
        )  # fmt: skip


def _mixture(config: Config) -> list[dict[str, float]]:
    """The settings of the corpora of a list that the batches depend on, and the store does not."""
    return [{"weight": each.weight, "from": each.begin, "until": each.until} for each in config.data.corpora]


def refuse_other_text(run: Run, key: str) -> None:
    """Check that a resumed run was started on the same text, wherever that is now.

    Args:
        key: key of the store of its corpora, which depends on contents and not on paths.

    Raises:
        UserError: the text differs.
    """
    before = run.record.get("data")
    if before not in (None, key):
        raise UserError(
            f"the run was started on other text: the key of the store of its corpora was {before[:16]}, is {key[:16]}",
            run.folder,
            "resume with the files that it was started with, or start a new run with another --out",
        )


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Lock a run folder for training; it is created if it is missing.

    Raises:
        UserError: another process is training there.
    """

    def busy() -> None:
        raise UserError(
            "another process is training in this folder", folder, "wait for its end, or choose another --out"
        )

    with locked(folder / LOCK, busy):
        try:
            yield
        finally:
            if is_unfinished(folder):  # the run was not created
                shutil.rmtree(folder, ignore_errors=True)  # Windows keeps the lock file, which is open


def is_claimed(folder: Path) -> bool:
    """Whether a process is training in a run folder."""
    claims: list[bool] = []

    def busy() -> None:
        claims.append(True)
        raise InterruptedError

    with suppress(OSError):  # also of a folder in which nothing may be written
        if (folder / LOCK).exists():
            with locked(folder / LOCK, busy):
                pass
    return bool(claims)


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """A nested dictionary as one level of dotted keys."""
    if not isinstance(tree, dict):
        return {prefix: tree}
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat.update(_flat(value, f"{prefix}.{key}" if prefix else key))
    return flat
