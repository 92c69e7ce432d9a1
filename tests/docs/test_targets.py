"""What calls `make` calls targets that exist: people, by the pages, and both workflows."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("path", ["CONTRIBUTING.md", "README.md", ".ci/run"])
def test_targets_exist(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:.*`)?make ([a-z][a-z-]*)", text, re.MULTILINE))
    assert named
    assert named <= TARGETS


def test_the_workflow_calls_targets_and_the_gates_are_those_of_the_script():
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]
    called = {name: set(job["strategy"]["matrix"]["target"]) for name, job in jobs.items()}
    assert called["gates"] | called["nightly"] <= TARGETS
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert called["gates"] == set(re.findall(r"^make ([a-z-]+)", script, re.MULTILINE))
