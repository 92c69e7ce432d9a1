"""Golden values: weights by formula, no random numbers, so the figures survive another PyTorch version."""

from __future__ import annotations

import pytest
import torch

from tiny import STACKS, build, fill_by_formula

SOURCE = torch.tensor([[4, 7, 5, 12, 6, 9, 9, 4]])
TARGET = torch.tensor([[2, 8, 4, 11, 10, 5]])
GOLDEN: dict[str, list[float]] = {
    "sinusoidal": [0.169047495811, 0.755632080245, 0.200031854378],
    "learned": [-0.456572075212, 0.425854407324, 0.302304563842],
    "relative": [-0.390763431364, 0.432527517549, 0.229538592688],
    "none": [0.169122439654, 0.755898136494, 0.20006493196],
    "relative-key": [-0.155624086437, 1.018916105055, 0.779328870266],
    "relative-near": [-0.390436874273, 0.432003912841, 0.228999446993],
    "relative+absolute": [-0.390734797668, 0.432520169498, 0.229506975612],
}
"""The logits of subwords 4, 5 and 6 after the last target token."""


@pytest.mark.parametrize("name", STACKS)
def test_logits_are_what_they_were(name):
    model = build(STACKS[name], max_length=32)
    fill_by_formula(model)
    logits = model.project(model(SOURCE, None, TARGET))[0, -1, 4:7]
    assert logits.tolist() == pytest.approx(GOLDEN[name], abs=1e-9)
