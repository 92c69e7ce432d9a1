"""A run like `tests/frozen/learned` with another position scheme, and weights that were never trained."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
import yaml

from posnmt.model.registry import build_model
from posnmt.model.weights import save_model
from posnmt.run.run import Run

LEARNED = Path(__file__).parents[1] / "frozen" / "learned"


def untrained(folder, scheme, **options):
    """The run, in a new folder; `options` are settings of its model."""
    shutil.copytree(LEARNED, folder)
    path = folder / "config.yaml"
    tree = yaml.safe_load(path.read_text())
    tree["model"].update(system=None, **options)
    for side in ("encoder", "decoder"):
        tree["model"][side]["position"] = [{"scheme": scheme}]
    path.write_text(yaml.safe_dump(tree))
    torch.manual_seed(3)
    run_of = Run.open(folder)
    size = run_of.text().source.size
    save_model(build_model(run_of.config.model, size, size), folder / "model.safetensors", {})
    return folder
