"""The commands for a machine with a GPU, end to end with tiny sizes and without one, so that they start there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
def test_a_study_in_slices(tmp_path: Path) -> None:
    """Stopped by the clock on one machine, and finished on another from its pack, with what was done there."""
    recipe = written(tmp_path)

    def a_slice(name: str, *options: str, only: tuple[str, ...] = ()) -> int:
        words = ["--study", tmp_path / name, "--pack", tmp_path / f"{name}-pack", "--part", "0.05", *options]
        chosen = [word for pattern in only for word in ("--only", pattern)]
        command = [
            sys.executable,
            ROOT / "benchmarks" / "gpu_study.py",
            *words,
            "--",
            recipe,
            "--scale",
            "smoke",
            *chosen,
        ]
        return subprocess.run(command, env=ALONE).returncode

    assert a_slice("first", "--seconds", "16") == 130
    assert len(list((tmp_path / "first-pack").glob("part.*"))) > 1
    before = {
        path.relative_to(tmp_path / "first"): path.stat().st_mtime_ns
        for path in (tmp_path / "first").glob("steps/*/*/done.json")
    }
    assert before
    assert a_slice("second", "--seconds", "600", "--unpack", str(tmp_path / "first-pack")) == 0
    after = {path: (tmp_path / "second" / path).read_text() for path in before}
    assert after == {path: (tmp_path / "first" / path).read_text() for path in before}
    assert values(tmp_path / "second", "select state from runs") == [("done",)]
    assert (tmp_path / "second" / "report.html").exists()
