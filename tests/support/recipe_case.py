"""A small recipe, and what is wrong with another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from posnmt.errors import UserError
from posnmt.study.load import load, shipped

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


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with every file that a shipped recipe names, empty."""
    folder = tmp_path / "data"
    for name in shipped():
        recipe = load(name)
        for setting in recipe.scales.values():
            for texts in setting.corpora.values():
                for text in texts if isinstance(texts, list) else [texts]:
                    for part in (text.source, text.target, text.documents):
                        if part is not None:
                            path = folder / part.format(**recipe.pair.model_dump())
                            path.parent.mkdir(parents=True, exist_ok=True)
                            path.touch()
    return folder
