"""Golden values: weights by formula, no random numbers, so the figures survive another PyTorch and catch a silent change."""

from __future__ import annotations

import pytest
import torch
from tiny import STACKS, build, fill_by_formula

SOURCE = torch.tensor([[4, 7, 5, 12, 6, 9, 9, 4]])
TARGET = torch.tensor([[2, 8, 4, 11, 10, 5]])
GOLDEN: dict[str, list[float]] = {}
"""The logits of subwords 4, 5 and 6 after the last target token."""


@pytest.mark.parametrize("name", STACKS)
def test_logits_are_what_they_were(name):
    model = build(STACKS[name], max_length=32)
    fill_by_formula(model)
    logits = model.project(model(SOURCE, None, TARGET))[0, -1, 4:7]
    assert logits.tolist() == pytest.approx(GOLDEN[name], abs=1e-9)
