"""The faults of mutants.yaml stand in the code, once each: code that moves takes its faults with it."""

from __future__ import annotations

import ast

import yaml

from tests.mutants.mutants import ROOT, chosen, misplaced


def test_every_fault_has_its_place_and_its_tests():
    listed = (ROOT / "tests" / "mutants" / "mutants.yaml").read_text(encoding="utf-8")
    assert misplaced(chosen(yaml.safe_load(listed), []), ROOT) == []


def test_every_fault_is_still_python():
    """Not a file that cannot be read, which every test would notice."""
    listed = yaml.safe_load((ROOT / "tests" / "mutants" / "mutants.yaml").read_text(encoding="utf-8"))
    for mutant in chosen(listed, []):
        if mutant["file"].endswith(".py"):
            sound = (ROOT / mutant["file"]).read_text(encoding="utf-8")
            ast.parse(sound.replace(mutant["find"], mutant["put"]), mutant["fault"])


def test_a_fault_out_of_place_is_named():
    mutant = {
        "fault": "gone",
        "file": "posnmt/base/errors.py",
        "find": "no such text",
        "put": "",
        "tests": "test_errors.py",
    }
    assert misplaced([mutant], ROOT) == ["gone: posnmt/base/errors.py: 'no such text', test_errors.py"]
