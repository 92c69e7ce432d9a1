"""Golden values: weights by formula, no random numbers, so the figures survive another PyTorch version.

`python -m tests.model.test_golden` adds the values of models that have none yet; it never changes one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.support.tiny import NAMED, build, fill_by_formula

SOURCE = torch.tensor([[4, 7, 5, 12, 6, 9, 9, 4]])
TARGET = torch.tensor([[2, 8, 4, 11, 10, 5]])
FILE = Path(__file__).with_name("golden.json")
GOLDEN: dict[str, list[float]] = json.loads(FILE.read_text())
"""The logits of subwords 4, 5 and 6 after the last target token."""


def logits(name: str) -> list[float]:
    model = build(**NAMED[name], max_length=32)
    fill_by_formula(model)
    return model.project(model(SOURCE, None, TARGET))[0, -1, 4:7].tolist()


@pytest.mark.parametrize("name", NAMED)
def test_logits_are_what_they_were(name):
    assert logits(name) == pytest.approx(GOLDEN[name], abs=1e-9)


def test_there_is_a_value_for_each_model_and_no_other():
    assert set(GOLDEN) == set(NAMED)


if __name__ == "__main__":
    missing = {name: logits(name) for name in NAMED if name not in GOLDEN}
    rows = [f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in sorted({**GOLDEN, **missing}.items())]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
