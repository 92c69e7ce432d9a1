"""A model that has learned single sentences by heart, and so drops the second one of a line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support import corpus
from tests.support.commands import run


def learned(factory: pytest.TempPathFactory) -> Path:
    """A folder with the corpus and the model, `run`, of one's own; it is trained once for all processes."""
    base = factory.getbasetemp()
    whole = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "single"
    with FileLock(f"{whole}.lock"):
        if not (whole / "done").exists():
            shutil.rmtree(whole, ignore_errors=True)
            whole.mkdir()
            run("train", config(whole), "--out", whole / "run")
            (whole / "done").touch()
    return shutil.copytree(whole, factory.mktemp("single"), dirs_exist_ok=True)


def config(folder: Path, **settings) -> Path:
    """As `corpus.memorised`, with sentences that begin with a capital letter and end with a full stop."""
    path = corpus.memorised(folder, **settings)
    for side in ("source", "target"):
        file = folder / "corpus" / f"dev.{side}"
        file.write_text("".join(f"{each[:1].upper()}{each[1:]}.\n" for each in file.read_text().splitlines()))
    return path


def sentences(folder: Path, side: str = "source") -> list[str]:
    """The sentences that it has learned."""
    return (folder / "corpus" / f"dev.{side}").read_text().splitlines()
