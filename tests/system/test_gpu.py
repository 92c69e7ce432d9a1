"""The commands for a machine with a GPU, end to end with tiny sizes and without one, so that they start there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.sources import SOURCES
from tests.system.test_study import values, written

ROOT = Path(__file__).parents[2]
ALONE = {**os.environ, "PYTHONPATH": SOURCES, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def staged(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """The status and the results of benchmarks/gpu.py."""
    out = folder / "gpu.json"
    command = [sys.executable, ROOT / "benchmarks" / "gpu.py", "--out", out, *words]
    status = subprocess.run(command, env=ALONE, stdout=subprocess.DEVNULL).returncode
    return status, json.loads(out.read_text())


@pytest.mark.slow
def test_a_stage_that_fails_or_is_cut_off_does_not_lose_the_others(tmp_path: Path) -> None:
    """Without a GPU both stages end with a refusal, one after its lines; a run cut off says what it left out."""
    status, found = staged(tmp_path, "--stages", "ceilings", "environment", "--limit", "100")
    assert status == 2
    for refused in found.values():
        assert refused["state"] == "failed with status 1"
        assert "no GPU is here" in refused["log"]
    assert found["environment"]["lines"]
    # `run` starts Python and PyTorch more than once, which no machine does in the time it gets here
    status, found = staged(tmp_path, "--tiny", "--stages", "run", "graphs", "--limit", "2.5")
    assert status == 2
    assert found["run"]["state"].startswith("cut off after")
    assert found["graphs"] == {"state": "not started"}


@pytest.mark.slow
def test_every_stage_runs_without_a_gpu(tmp_path: Path) -> None:
    status, found = staged(tmp_path, "--tiny", "--limit", "1200")
    assert status == 0, [each.get("log") for each in found.values()]
    assert {each["state"] for each in found.values()} == {"done"}
    lines = {name: each["lines"] for name, each in found.items()}
    assert all(lines.values())
    assert all("version" in each for each in lines["environment"] if "package" in each)
    assert [each["outcome"] for each in lines["tests"][:-1]] == ["passed"]
    assert lines["tests"][-1] == {"status": 0, "passed": 1}
    assert [each["same"] for each in lines["agreement"]] == [8]
    assert [each["updates"] for each in lines["step"]] == [3, 3]
    assert {each["combination"] for each in lines["profile"]} == {"relative/new/eager"}
    assert all(abs(each["gradient"]) < (0.1 if each["precision"] == "bf16" else 1e-4) for each in lines["gradients"])
    assert lines["run"][0]["stopped_at"] < 12  # it was stopped half way and went on
    assert lines["run"][1]["losses"][-1][0] == 12
    assert lines["run"][-1]["sentences"] == 40


@pytest.mark.slow
def test_a_study_that_is_packed_trains_elsewhere_and_its_copy_is_analysed_here(tmp_path: Path) -> None:
    """Stopped by the clock there, it goes on. Its texts are not needed there, nor its weights here."""
    recipe, here, there = written(tmp_path, claims=[]), tmp_path / "here", tmp_path / "there"
    words = ["study", "run", str(recipe), "--scale", "smoke", "--out"]
    texts = [word for pattern in ("prepare/*", "test/*") for word in ("--only", pattern)]
    packed, out, script = tmp_path / "packed.tar.xz", tmp_path / "out", str(ROOT / "benchmarks" / "gpu_study.py")

    def run(*words: object) -> str:
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, env=ALONE, check=True, capture_output=True, text=True).stdout

    run("-m", "posnmt", *words, here, *texts)
    run(script, "pack", "--study", here, "--out", packed)
    there_words = [script, "run", packed, "--study", there, "--out", out, "--per-gpu", 2, "--first", "train/*"]
    assert "the time for training is over" in run(*there_words, "--seconds", 42, "--scoring", 0)
    assert "written" in run(*there_words, "--seconds", 600, "--weights", "train/*")
    assert [path.stat().st_size > 10_000 for path in out.glob("*.safetensors")] == [True]
    assert [path for path in there.glob("steps/*/*/source") if path.stat().st_size and not any(path.read_bytes())]
    with tarfile.open(out / "copy.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    home = tmp_path / "home"
    run("-m", "posnmt", *words, home, "--adopt", tmp_path / "copy")
    assert not list(home.glob("steps/train/*/run/*.safetensors"))
    assert values(home, "select state from runs") == [("done",)]
    assert list(home.glob("steps/likelihood/*/done.json"))

    # with another seed: what was adopted is not made again
    two = ["--set", "scales.smoke.seeds=2"]
    run("-m", "posnmt", *words, home, *two, *texts)
    run(script, "pack", "--study", home, "--out", packed)
    more, begun = tmp_path / "more", tmp_path / "more out"
    said = run(script, "run", packed, "--study", more, "--out", begun, "--per-gpu", 2, "--seconds", 600)
    assert "written" in said
    assert len(list(more.glob("steps/train/*/run/model.safetensors"))) == 1
    with tarfile.open(begun / "copy.tar") as tar:
        tar.extractall(tmp_path / "second", filter="data")
    final = tmp_path / "final"
    run("-m", "posnmt", *words, final, *two, "--adopt", tmp_path / "second" / "copy")
    assert not list(final.glob("steps/train/*/run/*.safetensors"))
    assert values(final, "select state from runs") == [("done",), ("done",)]
