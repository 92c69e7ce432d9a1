"""A small recipe, and what is wrong with another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from posnmt.base.errors import UserError
from posnmt.study.load import load

CORPORA = {name: {"source": f"{name}.a", "target": f"{name}.b"} for name in ("train", "dev", "test")}


SMALL: dict[str, Any] = {
    "recipe": "own",
    "title": "Two systems",
    "pair": {"source": "en", "target": "de"},
    "scales": {
        "smoke": {
            "seeds": 2,
            "artificial": {"train": 100},
            "config": {"model": {"size": "tiny"}, "train": {"steps": 1}},
        },
        "small": {"corpora": CORPORA, "config": {"train": {"steps": 1}}},
    },
    "systems": {"transformer": {"system": "transformer"}, "relative": {"system": "relative"}},
    "trainings": {"all": {}, "long": {"part": {"of": 3, "take": 3}}, "reordered": {"reorder": True}},
    "tests": {
        "test": {"corpus": "test"},
        "joined": {"corpus": "test", "join": 2},
        "swapped": {"corpus": "test", "swap": [0.1]},
    },
    "runs": [{"systems": ["transformer", "relative"], "trainings": ["all"], "tests": ["test", "joined", "swapped"]}],
    "analyses": {"test": {"test": "test", "trainings": ["all"]}},
}  # fmt: skip


def written(folder: Path, tree: dict[str, Any]) -> str:
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    return str(path)


def faults_of(name: str, *overrides: str) -> str:
    with pytest.raises(UserError) as raised:
        load(name, overrides)
    return "\n".join(raised.value.lines)
