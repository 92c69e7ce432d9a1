"""How often verdicts are right on simulated studies: the figures of the specification, within their binomial error."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "verdicts.py"
STUDIES = 4000


@pytest.fixture(scope="module")
def verdicts():
    spec = importlib.util.spec_from_file_location("verdicts_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "seeds", "coverage"),
    [
        ("BLEU, effect of seeds", 2, {"Welch": 95.8, "paired t": 90.0, "rule": 95.9}),
        ("BLEU, effect of seeds", 3, {"Welch": 97.0, "paired t": 93.5, "rule": 96.1}),
        ("BLEU, effect of seeds", 5, {"Welch": 97.6, "paired t": 95.0, "rule": 95.9}),
        ("BLEU, no effect of seeds", 3, {"Welch": 95.0, "paired t": 93.0, "rule": 96.0}),
        ("BLEU, one noisy system", 3, {"Welch": 94.5, "paired t": 92.0, "rule": 89.8}),
        ("NLL, 13 documents", 3, {"Welch": 99.1, "paired t": 95.4, "rule": 95.7}),
        ("BLEU, 4 systems", 2, {"rule": 93.7}),
        ("BLEU, 5 systems", 2, {"rule": 94.7}),
        ("one system, two lengths, effect of seeds", 3, {"rule": 95.0, "not split": 92.0}),
    ],
)
def test_coverage_is_that_of_the_specification(verdicts, name, seeds, coverage):
    (cell,) = [each for each, _ in verdicts.CELLS if each.name == name]
    found = verdicts.simulate(cell, seeds, STUDIES, np.random.default_rng(11))
    for test, expected in coverage.items():
        error = 100 * math.sqrt(expected / 100 * (1 - expected / 100) * (1 / STUDIES + 1 / 10_000))
        assert found[test].shares(cell.effects)[0] == pytest.approx(expected, abs=4 * error), test


def test_the_rule_has_more_power_than_welch_at_a_false_support_of_25_in_1000(verdicts):
    cell, _ = verdicts.CELLS[0]
    found = verdicts.simulate(cell, 3, STUDIES, np.random.default_rng(12))
    (_, false, power, strict), (_, _, of_welch, strict_welch) = (
        found[test].shares(cell.effects) for test in ("rule", "Welch")
    )
    assert false < 2.5 + 4 * 100 * math.sqrt(0.025 * 0.975 / STUDIES)
    assert all(one > other + 4 for one, other in zip(power, of_welch, strict=True))
    assert strict[2] > strict_welch[2] + 20


@pytest.mark.parametrize(("count", "alike"), [(10, 0.1), (35, 0.02)])
def test_sentences_of_one_document_are_no_sample(verdicts, count, alike):
    """Drawn one by one they promise too much; drawn in documents, intervals hold the truth."""
    test = verdicts.Documents(count, 0.96, alike)
    _, found = verdicts.simulate_documents(test, 3, STUDIES, np.random.default_rng(13))
    coverage = {name: each.shares(verdicts.BLEU)[0] for name, each in found.items()}
    assert coverage["sentences"] < 93
    assert coverage["documents"] < coverage["the rule"]
    assert coverage["the rule"] == pytest.approx(95, abs=1.5)
