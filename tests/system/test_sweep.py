"""A sweep through the command line: run, and run again with one more point."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import run

SMOKE = {
    "seeds": 1,
    "artificial": {"train": 300, "dev": 20, "test": 30, "min_length": 3, "max_length": 8, "test_max_length": 12},
    "config": {
        "subword": {"vocabulary": 150},
        "model": {"size": "tiny", "tie_embeddings": "all"},
        "train": {
            "steps": 4, "batch": 512, "evaluate_every": 4, "log_every": 1, "dev_bleu": False, "best_by": "perplexity",
            "average": 1,
        },
        "decode": {"beam": 1, "max_extra": 4},
    },
}  # fmt: skip
RECIPE: dict[str, Any] = {
    "recipe": "tiny",
    "title": "A sweep",
    "pair": {"source": "en", "target": "de"},
    "scales": {"smoke": SMOKE},
    "systems": {"relative": {"system": "relative"}},
    "tests": {"test": {"corpus": "test"}},
    "analyses": {"test": {"test": "test", "trainings": ["all"], "metrics": ["chrf"]}},
}


def swept(folder: Path, *distances: int) -> Path:
    grid = {"clip": {"of": "relative.distance", "values": list(distances)}}
    sweep = {"clips": {"systems": ["relative"], "analyses": ["test"], "grid": grid}}
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump({**RECIPE, "sweep": sweep}, sort_keys=False), encoding="utf-8")
    return path


def started(said: str) -> list[str]:
    return sorted(line.split()[1] for line in said.split("\n") if line.startswith("started "))


@pytest.mark.slow
def test_another_point_runs_its_own_steps_alone(tmp_path: Path) -> None:
    out = tmp_path / "study"
    _, said = run("study", "run", swept(tmp_path, 2, 8), "--scale", "smoke", "--out", out)
    assert len([name for name in started(said) if name.startswith("train/")]) == 2
    trained = {path: path.stat().st_mtime_ns for path in out.glob("steps/train/*/done.json")}
    _, said = run("study", "run", swept(tmp_path, 2, 4, 8), "--scale", "smoke", "--out", out)
    assert started(said) == [
        "analyse/test", "train/relative@clip=4/all/seed-1", "translate/relative@clip=4/all/seed-1/test",
    ]  # fmt: skip
    assert all(path.stat().st_mtime_ns == when for path, when in trained.items())
    with (out / "figures" / "figure-1a.csv").open(newline="") as file:
        points = [(row["row"], row["column"]) for row in csv.DictReader(file)]
    assert points == [("relative", "2"), ("relative", "4"), ("relative", "8")]
    assert 'id="figure-1"' in (out / "report.html").read_text(encoding="utf-8")
    told, _ = run("study", "plan", swept(tmp_path, 2, 4, 8), "--scale", "smoke", "--out", out, "--speed", 3000)
    assert "Sweep clips: 3 points (3 of clip), 3 trainings with all seeds, 0." in told
