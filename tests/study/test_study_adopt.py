"""What a study takes from a published copy, and what it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posnmt.study.adopt import FACTS, FORMAT, MARK, METRICS, adopt, folder_of, give_up_weightless
from posnmt.study.load import load
from posnmt.study.packed import pack
from posnmt.study.plan import KINDS, Plan, plan
from posnmt.workflow.graph import Graph


@pytest.fixture
def study_plan() -> Plan:
    return plan(load("choose"), "smoke", None)


def copy_of(study_plan: Plan, copy: Path) -> Path:
    """A published copy of a study with its first training, and none of its translations."""
    run, graph = study_plan.runs[0], Graph(study_plan.steps.values(), KINDS)
    folder = folder_of(copy, run)
    folder.mkdir(parents=True)
    (copy / MARK).write_text(json.dumps({"format": FORMAT, "recipe": "choose", "scale": "smoke"}))
    for name in ("config.yaml", "record.json"):
        (folder / name).write_text("{}")
    pack(b"", folder / METRICS)
    step = {"key": graph.key(run.train), "finished": "2026-01-01T00:00:00+00:00", "seconds": 1.0, "versions": {}}
    (folder / FACTS).write_text(json.dumps({"train": step, "translations": {}}))
    return copy


def test_a_training_that_is_made_again_for_its_weights_goes_on_after_a_stop(study_plan: Plan, tmp_path: Path) -> None:
    """The same command, with --adopt, goes on with it: it does not begin it once more."""
    copy, out = copy_of(study_plan, tmp_path / "copy"), tmp_path / "study"

    def begin() -> list[str]:
        return [*adopt(study_plan, out, copy), *give_up_weightless(study_plan, out, [*study_plan.steps])]

    taken, made_again = begin()
    assert "is taken from" in taken
    assert "needs its weights, which the copy has not" in made_again
    run = Graph(study_plan.steps.values(), KINDS).folder(out, study_plan.runs[0].train) / "run"
    (run / "checkpoints" / "step-1000").mkdir(parents=True)
    assert begin() == []
    assert (run / "checkpoints" / "step-1000").is_dir()
