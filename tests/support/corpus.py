"""A real little corpus and configuration in a folder, for tests that train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from posnmt.corpora.artificial.pairs import command


def memorised(folder: Path, **settings: Any) -> Path:
    """As `make`, but 20 sentences that a small model learns by heart in seconds: training and dev alike."""
    files = {"source": "corpus/dev.source", "target": "corpus/dev.target"}
    schedule = {"type": "constant", "warmup": 10}
    return make(
        folder,
        pairs=60,
        data={"train": files, "dev": files},
        model={"d_model": 64, "feed_forward": 128, "dropout": 0.0},
        train={
            "steps": 150,
            "batch": 300,
            "evaluate_every": 150,
            "learning_rate": 3e-3,
            "schedule": schedule,
            "average": 1,
            "dev_bleu": True,
        },
        subword={"vocabulary": 100},
        decode={"max_ratio": 3.0},
        **settings,
    )


def make(folder: Path, pairs: int = 300, **changes: Any) -> Path:
    """Artificial pairs and a config of a model that trains in seconds; the config's path.

    Args:
        changes: section → settings that win over those here.
    """
    command(folder / "corpus", train=pairs, dev=20, test=20, min_length=3, max_length=8, test_max_length=12)
    files = {
        split: {"source": f"corpus/{split}.source", "target": f"corpus/{split}.target"} for split in ("train", "dev")
    }
    stack = {"layers": 1}
    tree: dict[str, Any] = {
        "data": {**files, "store": str(folder / "stores")},
        "subword": {"vocabulary": 150},
        "model": {
            "system": "relative", "d_model": 16, "feed_forward": 32, "heads": 2, "encoder": stack, "decoder": stack,
        },
        "train": {
            "steps": 12, "batch": 250, "evaluate_every": 4, "log_every": 2, "average": 2, "learning_rate": 5e-3,
            "dev_bleu": False, "schedule": {"type": "noam", "warmup": 10},
        },
        "decode": {"beam": 2, "max_ratio": 1.0, "max_extra": 5},
    }  # fmt: skip
    for section, settings in changes.items():
        tree[section] = {**tree.get(section, {}), **settings}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return path
