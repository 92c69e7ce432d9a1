"""A folder with an exported model: the files of its format, the text pipeline, and what they are.

posnmt.json        format, origin, system, limits, and the digest of every other file
text/              tokenisation and subword models, as in a run folder
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from posnmt.base.errors import UserError
from posnmt.base.files import PARTIAL, commit_folder, folder_digests, is_file, read_json, sha256_of, write_json
from posnmt.base.lock import Lock
from posnmt.base.version import FORMAT, __version__, check_format
from posnmt.config.schema import Decode
from posnmt.data.text import TextPipeline
from posnmt.run.run import EXPORTED, Run

"""Version of the meaning of the manifest."""

BUILDING, LOCK = "folder", ".lock"
"""In `NAME.partial`: the folder that is not complete, and the lock file of the process that fills it."""

AGAIN = "export the run again, or copy the whole folder again from its origin"


class Manifest(BaseModel):
    """What an exported folder is.

    Attributes:
        format: version of this manifest.
        kind: the program that reads the model.
        posnmt: version that exported it.
        run: name of the run folder, and `checkpoint` and `weights` (SHA-256) in it.
        system: the named system, or None; `positions` has the schemes of both sides, `architecture` the rest.
        languages: codes of source and target.
        precision: of the weights.
        limits: the longest source with its end symbol and the longest target with its begin symbol, in tokens.
        training_lengths: the shortest and longest training sentences of each side, in subwords, if recorded.
        sentences_per_line: the shares of training lines with at least 1, 2, … sentences by side, if recorded.
        marks: training pairs for each mark of a target language.
        decode: the run's settings of search.
        verified: the check at the export, see `posnmt.deploy.verify`.
        files: path → SHA-256.
    """

    model_config = ConfigDict(extra="allow")

    format: int = FORMAT
    kind: Literal["ctranslate2", "huggingface"]
    posnmt: str = __version__
    run: str
    checkpoint: str
    weights: str
    system: str | None
    architecture: str
    positions: dict[str, list[dict[str, Any]]]
    languages: dict[str, str]
    precision: str = "fp32"
    limits: dict[str, int | None]
    training_lengths: dict[str, dict[str, int]] | None = None
    sentences_per_line: dict[str, list[float]] | None = None
    marks: dict[str, int] = {}
    decode: Decode
    verified: dict[str, Any] = {}
    files: dict[str, str] = {}


def describe(run: Run, checkpoint: str) -> dict[str, Any]:
    """The part of a manifest that a run says of itself."""
    model, data = run.config.model, run.config.data
    return {
        "run": run.folder.resolve().name,
        "checkpoint": checkpoint,
        "weights": sha256_of(run.weights(checkpoint)),
        "system": model.system,
        "architecture": model.architecture,
        "positions": {
            place: [choice.model_dump(mode="json") for choice in choices]
            for place, choices in model.recorded_schemes.items()
        },
        "languages": {"source": data.source_language, "target": data.target_language},
        "training_lengths": run.training_lengths or None,
        "sentences_per_line": run.sentences_per_line or None,
        "marks": run.marks,
        "decode": run.config.decode,
    }


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """A folder to be filled in the block, which then gets its name; nothing is left of it after an error.

    Until then it is in `NAME.partial`, beside a lock file. What a process that was killed left there is removed.

    Raises:
        UserError: the place exists, or its parent does not; `NAME.partial` is another's folder, or in use.
    """
    if place.exists():
        raise UserError("the output exists already and is not overwritten", place, "choose another --out")
    if not place.resolve().parent.is_dir():
        raise UserError("the output cannot be written: its parent is no folder", place, "create it, or choose another")
    collected = place.with_name(place.name + PARTIAL)
    if os.path.lexists(collected) and not _is_ours(collected):
        todo = "choose another --out, or remove it if nothing there is needed"
        raise UserError("the output is collected there until it is complete, and it exists", collected, todo)
    collected.mkdir(exist_ok=True)
    try:
        lock = Lock(collected / LOCK)
    except BlockingIOError:
        raise UserError("another process is writing this output", place, "wait for its end") from None
    building = collected / BUILDING
    try:
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        yield building
        commit_folder(building, place)
    finally:
        shutil.rmtree(building, ignore_errors=True)
        lock.release()
        with suppress(OSError):
            collected.rmdir()


def _is_ours(collected: Path) -> bool:
    """Whether a folder has what `new_folder` leaves when its process is killed, and nothing else."""
    if collected.is_symlink() or not collected.is_dir():
        return False
    names = {path.name for path in collected.iterdir()}
    locks = {name for name in names if name.startswith(LOCK)}
    return names == locks or (len(locks) > 0 and names - locks == {BUILDING})


def seal(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a complete folder, with the digests of its files."""
    sealed = manifest.model_copy(update={"files": folder_digests(folder)})
    write_json(folder / EXPORTED, sealed.model_dump(mode="json"))


def is_exported(folder: Path) -> bool:
    """Whether a folder has a manifest, sound or not."""
    return (folder / EXPORTED).exists()


def choose_engine(asked: str | None, folders: Sequence[Path], precision: str | None) -> str:
    """The engine that translates with some folders: what was asked for, or what the first folder is made for.

    Raises:
        UserError: PyTorch for an exported model or for int8.
    """
    exported = next(filter(is_exported, folders), None)
    if asked == "auto" and (len(folders) > 1 or precision == "bf16"):
        asked = "torch"
    engine = asked or ("torch" if exported is None else "ctranslate2")
    if engine == "torch" and exported is not None:
        raise UserError("an exported model is not for PyTorch", exported, "name the run, or leave --engine out")
    if engine == "torch" and precision == "int8":
        raise UserError("PyTorch does not translate in int8 here", "--precision", "add --engine ctranslate2")
    return engine


def open_folder(folder: Path, kind: str) -> tuple[Manifest, TextPipeline]:
    """The manifest and the text pipeline of an exported folder, every file checked.

    Args:
        kind: `ctranslate2` or `huggingface`.

    Raises:
        UserError: no manifest, one of a newer posnmt or of another kind, or a missing or changed file.
    """
    tree = read_json(folder / EXPORTED)
    if tree is None:
        what = "its posnmt.json cannot be read" if is_exported(folder) else "it has no posnmt.json"
        raise UserError(f"not an exported model: {what}", folder, AGAIN)
    check_format(tree.get("format"), folder / EXPORTED)
    try:
        manifest = Manifest.model_validate(tree)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        raise UserError(f"{key}: {problem['msg']}", folder / EXPORTED, AGAIN) from None
    if manifest.kind != kind:
        raise UserError(f"exported for {manifest.kind}, not for {kind}", folder, f"export the run with --format {kind}")
    for name, digest in manifest.files.items():
        path = folder / name
        if not is_file(path):
            raise UserError("a file of the exported model is missing", path, AGAIN)
        if sha256_of(path) != digest:
            raise UserError("a file of the exported model is not what was exported", path, AGAIN)
    return manifest, TextPipeline.load(folder / "text")
