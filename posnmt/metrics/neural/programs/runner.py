"""Run the program of a neural metric in its environment, and report to posnmt: one JSON object a line.

    python runner.py PROGRAM find|score REQUEST

PROGRAM is a Python file with `PACKAGES`, `find` and `load` (CONTRIBUTING.md). REQUEST is a JSON file.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Tell = Callable[..., None]
MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "std::bad_alloc", "Cannot allocate memory")


class Missing(Exception):
    """A model that is not here.

    Args:
        model: its id on the hub, or its path.
        reason: why it could not be downloaded; empty: it is no id on the hub.
    """

    def __init__(self, model: str, reason: str = "") -> None:
        super().__init__(model, reason)
        self.model, self.reason = model, reason


def find(program: Any, request: dict[str, Any], tell: Tell) -> None:
    """Find a model, or download it: report the paths of its parts.

    Args:
        program: its module.
        request: `model`, an id on the hub or a path; `folder`, which may have models, or None; `reference`: whether the
            metric reads one.
        tell: reports.
    """

    def get(model: str, patterns: Sequence[str] | None = None) -> str:
        return _folder_of(model, request["folder"], patterns)

    try:
        paths = program.find(request["model"], get, request["reference"])
    except ValueError as error:
        traceback.print_exc()
        tell(error="unsuitable", what=str(error))
    else:
        tell(paths=paths, versions=_versions(program))


def _folder_of(model: str, folder: str | None, patterns: Sequence[str] | None) -> str:
    """The folder of a model: one in `folder`, a path, one in the hub's cache, or a new one from the hub."""
    for path in (*(Path(folder, name) for name in (model, model.split("/")[-1]) if folder), Path(model)):
        if path.exists():
            return str(path.resolve())
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", model):
        raise Missing(model)
    try:
        from huggingface_hub import snapshot_download

        return str(snapshot_download(model, allow_patterns=patterns, local_files_only=folder is not None))
    except Exception as error:  # the hub's, the network's, and those of the libraries between
        traceback.print_exc()
        reason = f"it is neither in {folder} nor in the hub's cache" if folder else f"{type(error).__name__}: {error}"
        raise Missing(model, reason.strip().split("\n")[0]) from error


def score(program: Any, request: dict[str, Any], tell: Tell) -> None:
    """Score sentences, the longest first, so that memory that does not suffice is noticed at once.

    Args:
        program: its module.
        request: `sentences`, a file with a JSON object a line, with `source`, `hypothesis` and `reference`; `paths`,
            from `find`; `reference`; and `batch`, the number of sentences that are scored together.
        tell: reports the versions of the packages, then a list of [number of a sentence, score, whether it was cut].
    """
    tell(versions=_versions(program))
    scorer = program.load(request["paths"], request["reference"])
    with open(request["sentences"], encoding="utf-8") as file:
        sentences = [json.loads(line) for line in file]
    order = sorted(range(len(sentences)), key=lambda number: -sum(map(len, sentences[number].values())))
    for first in range(0, len(order), request["batch"]):
        numbers = order[first : first + request["batch"]]
        scores = scorer([sentences[number] for number in numbers])
        if len(scores) != len(numbers):
            raise ValueError(f"it gave {len(scores)} scores for {len(numbers)} sentences")
        tell(scores=[[number, float(one), bool(cut)] for number, (one, cut) in zip(numbers, scores, strict=True)])


def _versions(program: Any) -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in program.PACKAGES}


def main(path: str, do: str, request: str) -> int:
    """Run a program, and report its faults."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no report

    def tell(**report: Any) -> None:
        out.write(json.dumps(report) + "\n")
        out.flush()

    try:
        spec = importlib.util.spec_from_file_location("program", path)
        program = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(program)  # type: ignore[union-attr]
        with open(request, encoding="utf-8") as file:
            {"find": find, "score": score}[do](program, json.load(file), tell)
    except Missing as error:
        tell(error="missing", model=error.model, what=error.reason)
    except Exception as error:
        traceback.print_exc()
        what = str(error).strip().split("\n")[0]
        memory = isinstance(error, MemoryError) or any(words in str(error) for words in MEMORY)
        tell(error="memory" if memory else type(error).__name__, what=what)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
