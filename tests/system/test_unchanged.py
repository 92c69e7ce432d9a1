"""What `benchmarks/unchanged.py` calls a difference between two files of results."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "unchanged.py"
TENSOR = "bias (2,) torch.float32 tensor:12ab34 1.5 0.25"
BEFORE = {"train": {"weights": TENSOR, "stdout": "epoch 3 loss 0.5"}, "help": {"posnmt": "Usage"}}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unchanged", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def status(script: ModuleType, folder: Path, after: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> int:
    """What the command exits with."""
    for name, results in (("before", BEFORE), ("after", after)):
        (folder / name).write_text(json.dumps({"results": results}), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["unchanged.py", "--compare", str(folder / "before"), str(folder / "after")])
    with pytest.raises(SystemExit) as ended:
        script.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": TENSOR.replace("1.5", "1.6").replace("12ab34", "99ab34")},
        {"weights": TENSOR.replace("bias", "shift")},
        {"weights": TENSOR.replace("(2,)", "(3,)")},
        {"stdout": "epoch 3 loss 0.50000000001"},
        {"stdout": "epoch 4 loss 0.5"},
        {"stderr": "warning"},
    ],
)
def test_a_change_is_named_with_its_job(script, tmp_path, monkeypatch, capsys, changes):
    assert status(script, tmp_path, {**BEFORE, "train": {**BEFORE["train"], **changes}}, monkeypatch) == 1
    said = capsys.readouterr().out.splitlines()
    assert next(line for line in said if not line.startswith(" ")) == f"train: {next(iter(changes))}"
    assert re.findall(r"\d+", said[-1])[:2] == ["1", "2"]


def test_a_job_or_a_text_that_is_gone_is_a_change(script, tmp_path, monkeypatch, capsys):
    assert status(script, tmp_path, {"train": {"weights": TENSOR}}, monkeypatch) == 1
    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert said[:-1] == ["help: posnmt", "train: stdout"]


@pytest.mark.parametrize(
    ("changes", "exact"),
    [
        ({}, 2),
        ({"stdout": "epoch 3 loss 0.50000000000001"}, 1),
        ({"weights": TENSOR.replace("12ab34", "99ab34").replace("0.25", "0.25000000000001")}, 1),
    ],
)
def test_rounding_is_no_change_but_not_equal_to_the_bit(script, tmp_path, monkeypatch, capsys, changes, exact):
    assert status(script, tmp_path, {**BEFORE, "train": {**BEFORE["train"], **changes}}, monkeypatch) == 0
    assert re.findall(r"\d+", capsys.readouterr().out)[:3] == [str(exact), "2", str(2 - exact)]


def test_times_and_places_are_left_out_and_nothing_else(script):
    def tidy(line: str) -> str:
        return script.tidy("stdout", line, [("/tmp/a", "<work>")])

    assert tidy("12 s, 3.1 GiB, 2026-01-02T03:04:05+00:00, /tmp/a/b") == tidy(
        "7.5 s, 2 GiB, 2027-01-02T03:04:06+00:00, <work>/b"
    )
    assert tidy("loss 0.5 of 12 pairs") == "loss 0.5 of 12 pairs"
    long = "x" * script.LARGEST
    assert tidy(long) == long
    assert tidy(long + "y") != tidy(long + "z")


def test_the_jobs_use_public_names_alone():
    imported = re.findall(r"^\s*(?:from|import) (posnmt\S*.*)$", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert imported == ["posnmt"]
