"""Write a model of another toolkit as a run folder."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posnmt.base.errors import UserError
from posnmt.base.files import sha256_of
from posnmt.base.version import __version__
from posnmt.data.text import TextPipeline
from posnmt.deploy.folder import new_folder
from posnmt.deploy.importing.vocabulary import settings
from posnmt.model.registry import build_undrawn
from posnmt.model.weights import save_model
from posnmt.run.resolve import from_tree
from posnmt.run.run import Run


@dataclass(frozen=True)
class Imported:
    """A model of another toolkit.

    Attributes:
        model: the `model` section of a configuration.
        text: subwords and languages.
        weights: posnmt's name → tensor.
        format: the format's name, as in the command.
        files: the files that were read.
        marks: marks of target languages, which are subwords of the source.
        decode: search settings.
        notes: sentences for the user.
    """

    model: dict[str, Any]
    text: TextPipeline
    weights: dict[str, Tensor]
    format: str
    files: Sequence[Path]
    marks: Sequence[str] = ()
    decode: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


def write(imported: Imported, out: Path) -> Run:
    """Write a run folder.

    The configuration names a placeholder for the training text, which is not known, and one update of training.

    Raises:
        UserError: the folder exists, posnmt has no such model, or a weight is not finite.
    """
    text = imported.text
    source, target = text.source.words.language, text.target.words.language
    config = from_tree(
        {
            "data": {
                "root": str(out.resolve()),
                "train": {"source": f"unknown.{source}", "target": f"unknown.{target}"},
                "source_language": source,
                "target_language": target,
            },
            "subword": {"shared": text.shared, **settings(text.target.subwords)},
            "model": imported.model,
            "train": {"steps": 1},
            "decode": imported.decode,
        }
    )
    model = build_undrawn(config.model, text.source.size, text.target.size)
    parameters = dict(model.named_parameters())
    assert parameters.keys() == imported.weights.keys()
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(imported.weights[name])
    infinite = [name for name, parameter in parameters.items() if not parameter.isfinite().all()]
    if infinite:
        what = f"{infinite[0]} has values that are not finite"
        raise UserError(what, imported.files[0], "get the checkpoint again")
    record = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "posnmt": __version__,
        "parameters": sum(parameter.numel() for parameter in parameters.values()),
        "imported": {
            "format": imported.format,
            "files": _digests(imported.files),
        },
        "marks": dict.fromkeys(imported.marks, 0),  # no training pairs are known
    }
    with new_folder(out) as building:
        run = Run.create(building, config, text, record)
        save_model(model, run.weights(), {"imported": imported.format})
    return Run.open(out)


def _digests(files: Sequence[Path]) -> dict[str, str]:
    """Name → SHA-256 of files; the path in place of the name if several files have the same name."""
    paths = list(dict.fromkeys(files))
    names = Counter(path.name for path in paths)
    return {path.name if names[path.name] == 1 else str(path): sha256_of(path) for path in paths}
