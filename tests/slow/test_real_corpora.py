"""Training on real text. Slow because five minutes of training are the least that say anything about translation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from posnmt.run.resolve import load
from posnmt.training.train import train
from tests.support.shared import SHARED, needs

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, needs("")]


@pytest.mark.parametrize(("name", "least"), [("multi30k-en-de", 10.0), ("tanaka-en-ja", 8.0)])
def test_five_minutes_of_a_shipped_config(name, least, tmp_path, monkeypatch):
    monkeypatch.setenv("POSNMT_DATA", str(SHARED))
    config = load(ROOT / "configs" / f"{name}.yaml", ["train.minutes=5", f"data.store={tmp_path / 'stores'}"])
    run = train(config, tmp_path / "run")
    dev = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines() if '"dev"' in line]
    assert max(line["bleu"] for line in dev) > least
    perplexities = [line["perplexity"] for line in dev]
    assert perplexities == sorted(perplexities, reverse=True)


def test_recipes_state_the_sentences_that_their_claims_are_decided_on():
    """The power of a claim is calculated from them."""
    script = ROOT / "benchmarks" / "recipe_lengths.py"
    done = subprocess.run([sys.executable, script, "--data", SHARED, "--check"], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
