"""The folder of an exported model: the files of the other program's format, and ours.

posnmt.json        the manifest: format, origin, system, limits, and the digest of every other file
text/              tokenisation and subword models, as in a run folder
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from posnmt.base.errors import UserError
from posnmt.base.files import folder_digests, is_file, read_json, sha256_of
from posnmt.base.output import creating, write_json
from posnmt.base.version import FORMAT, __version__, check_format
from posnmt.config.schema import Decode
from posnmt.data.text import TextPipeline
from posnmt.run.run import EXPORTED, Run

EXPORT_AGAIN = "export the run again, or copy the whole folder again"


class Manifest(BaseModel):
    """The content of `posnmt.json`.

    Attributes:
        format: version of the manifest's format.
        kind: the program that reads the model.
        posnmt: version of posnmt that exported it.
        run: name of the run folder.
        checkpoint, weights: the exported checkpoint of the run, and its SHA-256.
        system: the named system; None if the run names none.
        architecture, positions: the model's architecture, and the position schemes of each side.
        languages: codes of source and target.
        precision: precision of the weights.
        limits: the longest source with its end symbol and the longest target with its begin symbol, in tokens; None: no
            limit.
        training_lengths: the shortest and longest training sentences of each side, in subwords, if recorded.
        sentences_per_line: for each side, the shares of training lines with at least 1, 2, … sentences, if recorded.
        marks: mark of a target language → number of training pairs.
        decode: the run's search settings.
        verified: result of `posnmt.deploy.verify`.
        code: whether the folder has the code that the other program runs.
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
    code: bool = False
    files: dict[str, str] = {}


def describe(run: Run, checkpoint: str) -> dict[str, Any]:
    """The values of a manifest that come from the run."""
    model, data = run.config.model, run.config.data
    return {
        "run": run.folder.resolve().name,
        "checkpoint": checkpoint,
        "weights": sha256_of(run.trained_weights(checkpoint)),
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
    """A new folder that is filled in the block and gets its name at the end. After an error nothing is left of it.

    Raises:
        UserError: the place exists, or its parent does not exist.
    """
    exists = UserError("the output exists already and is not overwritten", place, "choose another --out")
    if place.exists():
        raise exists
    if not place.resolve().parent.is_dir():
        raise UserError("the parent folder of the output does not exist", place, "create it, or choose another --out")
    try:
        with creating(place) as building:
            yield building
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # another process has made it meanwhile
            raise exists from None
        raise


def seal(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a complete folder, with the digests of its files."""
    sealed = manifest.model_copy(update={"files": folder_digests(folder)})
    write_json(folder / EXPORTED, sealed.model_dump(mode="json"))


def is_exported(folder: Path) -> bool:
    """Whether a folder has a manifest, which may be damaged."""
    return (folder / EXPORTED).exists()


def choose_engine(requested: str | None, folders: Sequence[Path], precision: str | None) -> str:
    """The engine that translates with some folders.

    Args:
        requested: the engine that the user named; None: PyTorch for runs, CTranslate2 for an exported model.
        folders: runs, or an exported model.
        precision: the requested precision.

    Raises:
        UserError: PyTorch was requested for an exported model or for int8.
    """
    exported = next(filter(is_exported, folders), None)
    if requested == "auto" and (len(folders) > 1 or precision == "bf16"):
        requested = "torch"
    engine = requested or ("torch" if exported is None else "ctranslate2")
    if engine == "torch" and exported is not None:
        raise UserError("PyTorch cannot read an exported model", exported, "name the run, or leave --engine out")
    if engine == "torch" and precision == "int8":
        raise UserError("PyTorch does not translate in int8 here", "--precision", "add --engine ctranslate2")
    return engine


def open_folder(folder: Path) -> tuple[Manifest, TextPipeline]:
    """Check every file of a folder that was exported for CTranslate2, and return its manifest and text pipeline.

    Raises:
        UserError: there is no manifest, it is of a newer posnmt or of another kind, or a file is missing or has
            changed.
    """
    tree = read_json(folder / EXPORTED)
    if tree is None:
        what = "posnmt.json cannot be read" if is_exported(folder) else "the folder has no posnmt.json"
        raise UserError(f"not an exported model: {what}", folder, EXPORT_AGAIN)
    check_format(tree.get("format"), folder / EXPORTED)
    try:
        manifest = Manifest.model_validate(tree)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        raise UserError(f"{key}: {problem['msg']}", folder / EXPORTED, EXPORT_AGAIN) from None
    if manifest.kind != "ctranslate2":
        what = f"the model was exported for {manifest.kind}, not for ctranslate2"
        raise UserError(what, folder, "export the run with --format ctranslate2")
    for name, digest in manifest.files.items():
        path = folder / name
        if not is_file(path):
            raise UserError("a file of the exported model is missing", path, EXPORT_AGAIN)
        if sha256_of(path) != digest:
            raise UserError("a file of the exported model has changed", path, EXPORT_AGAIN)
    return manifest, TextPipeline.load(folder / "text")
