"""A small parallel corpus and its configuration."""

from pathlib import Path
from typing import Any

import pytest

from posnmt.base.errors import UserError
from posnmt.config.schema import Config
from posnmt.data.prepare import prepare
from posnmt.data.store import Store

NOUNS = ["cat", "dog", "house", "tree", "river", "stone", "bird", "friend", "letter", "window"]
VERBS = ["sees", "likes", "finds", "paints", "follows"]


def sentences(count: int, of: str = "the {0} {1} the {2} number {3}") -> list[str]:
    return [of.format(NOUNS[i % 10], VERBS[i // 10 % 5], NOUNS[i // 3 % 10], i) for i in range(count)]


SOURCE = sentences(300)
TARGET = sentences(300, "number {3} , die {2} {1} der {0} !")


def write(folder: Path, name: str, lines: list[str]) -> None:
    (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")


def configure(folder: Path, subword: dict[str, Any] | None = None, **data: Any) -> Config:
    files = {name: {"source": f"{name}.en", "target": f"{name}.de"} for name in ("train", "dev")}
    return Config.model_validate(
        {
            "data": {"root": str(folder), **files, "store": "stores", **data},
            "subword": {"vocabulary": 100, **(subword or {})},
            "train": {"steps": 1, "dev_bleu": False},
        }
    )


def contents(store: Store) -> list[Any]:
    """All that a store holds, as plain values."""
    pairs = []
    for name in store.splits:
        split = store.split(name)
        for index in range(len(split)):
            source, target = split.pair(index)
            pairs.append((name, int(split.lines[index]), split.document(index), source.tolist(), target.tolist()))
    return [pairs, store.manifest["splits"], store.text.source.subwords.model, store.split("dev").source_texts]


def left_in(root: Path) -> list[Path]:
    """What a folder of stores holds besides lock files."""
    return [path for path in root.glob("*") if path.suffix != ".lock"]


def faults_of(config: Config) -> list[str]:
    with pytest.raises(UserError) as raised:
        prepare(config)
    root = Path(config.data.root) / "stores"
    assert left_in(root) == [], "nothing is left of a build that failed"
    return raised.value.lines


def small_corpus(folder: Path) -> Path:
    """300 pairs to train on and 9 of them as a dev set."""
    for name, lines in {"train.en": SOURCE, "train.de": TARGET, "dev.en": SOURCE[:9], "dev.de": TARGET[:9]}.items():
        write(folder, name, lines)
    return folder
