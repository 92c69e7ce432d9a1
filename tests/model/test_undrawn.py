"""A model whose weights are read from a file next draws none, and is the same model all the same."""

from __future__ import annotations

import pytest
import torch

from posnmt.model.registry import build_undrawn
from posnmt.model.weights import load_model, save_model
from tests.support.tiny import MODELS, VOCABULARY, build, each_of, settings, tokens


@pytest.mark.parametrize("name", each_of())
def test_an_undrawn_model_with_its_weights_is_the_saved_one(name, tmp_path):
    saved = build(**MODELS[name])
    save_model(saved, tmp_path / "model.safetensors", {})
    model = build_undrawn(settings(**MODELS[name]), VOCABULARY, VOCABULARY).double().eval()
    load_model(model, tmp_path / "model.safetensors")
    source, target = tokens(2, 7), tokens(2, 5, seed=1)
    with torch.no_grad():
        torch.testing.assert_close(model(source, None, target), saved(source, None, target), rtol=0, atol=0)


def test_the_weights_of_a_transformer_are_not_drawn():
    state = torch.get_rng_state()
    build_undrawn(settings(system="relative"), VOCABULARY, VOCABULARY)
    assert torch.equal(torch.get_rng_state(), state)
    build(seed=int(state[0]) + 1)
    assert not torch.equal(torch.get_rng_state(), state), "a model that is drawn draws"
