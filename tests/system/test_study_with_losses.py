"""A whole study with a claim on likelihood by position: its verdict has the figure of the likelihood's own table."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
import yaml

from tests.support.commands import run

RECIPE = {
    "recipe": "losses",
    "title": "Two systems",
    "pair": {"source": "en", "target": "de"},
    "scales": {
        "smoke": {
            "seeds": 2,
            "artificial": {"train": 200, "dev": 20, "test": 120, "min_length": 3, "max_length": 8},
            "config": {
                "subword": {"vocabulary": 150},
                "model": {"size": "tiny"},
                "train": {"steps": 2, "evaluate_every": 2, "dev_bleu": False, "best_by": "perplexity", "average": 1},
                "decode": {"beam": 1, "max_extra": 2},
            },
        }
    },
    "systems": {"transformer": {"system": "transformer"}, "relative": {"system": "relative"}},
    "tests": {"test": {"corpus": "test"}},
    "runs": [{"systems": ["transformer", "relative"], "trainings": ["all"], "tests": ["test"]}],
    "analyses": {"test": {"test": "test", "trainings": ["all"], "metrics": ["bleu"]}},
    "likelihoods": {"own": {"test": "test", "trainings": ["all"], "shift": 9}},
    "claims": [
        {
            "claim": 1,
            "says": "Relative predicts the reference worse",
            "test": {
                "analysis": "own", "measure": "loss", "class": "dense", "of": {"system": "relative"}, "is": "higher",
                "than": {"system": "transformer"},
                "expects": {"smoke": {"effect": 0.1, "sentences": [120], "documents": 6}},
            },
        }
    ],
}  # fmt: skip


@pytest.mark.slow
def test_a_study_decides_a_claim_on_its_likelihood(tmp_path: Path) -> None:
    recipe, out = tmp_path / "own.yaml", tmp_path / "study"
    recipe.write_text(yaml.safe_dump(RECIPE, sort_keys=False), encoding="utf-8")
    told, _ = run("study", "plan", recipe, "--scale", "smoke", "--out", out, "--speed", 1000)
    assert "0 %," in told  # the power, and that it cannot be decided
    run("study", "run", recipe, "--scale", "smoke", "--out", out)
    rows = list(csv.DictReader((out / "tables" / "likelihood-own.csv").open(encoding="utf-8", newline="")))
    [row] = [each for each in rows if (each["axis"], each["bin"], each["system"]) == ("zone", "dense", "relative")]
    page = (out / "report.html").read_text(encoding="utf-8")
    [claim] = re.findall(r'<section class="claim (undecided|supported|contradicted)"(.*?)</section>', page, re.DOTALL)
    [value] = re.findall(r'<td data-value="([-\d.e]+)">', claim[1])[:1]
    assert float(value) == pytest.approx(float(row["Delta"]))
    assert "given a correct prefix" in claim[1]
    assert {each["bin"] for each in rows if each["bin"].startswith("D3")} == {
        f"D3 {side} +9" for side in ("source", "target", "both")
    }
