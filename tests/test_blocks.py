"""Attention in blocks of queries, as long inputs have it, is attention of all queries at once, gradients included."""

from __future__ import annotations

import pytest
import torch

import posnmt.model.attention as attention
from posnmt.model.transformer import Transformer
from tiny import MODELS, build, tokens

LENGTH = 23


@pytest.mark.parametrize("name", MODELS)
def test_blocks_are_the_whole(name, monkeypatch):
    model = build(**MODELS[name])
    if not isinstance(model, Transformer):
        pytest.skip("has no self-attention of this kind")
    source, target, lengths = tokens(2, LENGTH), tokens(2, LENGTH, seed=1), torch.tensor([LENGTH, LENGTH - 6])

    def computed(small, block):
        monkeypatch.setattr(attention, "SMALL", small)
        monkeypatch.setattr(attention, "BLOCK", block)
        hidden = model(source, lengths, target)
        gradients = torch.autograd.grad(hidden.cos().sum(), list(model.parameters()), allow_unused=True)
        return [hidden, *(each for each in gradients if each is not None)]

    whole, parts = computed(10**9, 10**9), computed(1, 5)
    assert len(whole) == len(parts) > 1
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_a_long_input_is_attended_from_in_blocks(monkeypatch):
    widths = []
    whole = attention.attend
    monkeypatch.setattr(attention, "attend", lambda q, *rest: widths.append(q.shape[-2]) or whole(q, *rest))
    build(system="relative")(tokens(1, 300), None, tokens(1, 300))
    assert set(widths) == {300, attention.BLOCK, 300 % attention.BLOCK}
