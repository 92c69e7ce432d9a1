"""Where a Transformer drops: on embeddings, on the output of every sub-layer, and where asked on attention weights."""

from __future__ import annotations

import pytest
import torch

import posnmt.model.kernels.plain as plain
from posnmt_position.dropout import Dropout
from tests.support.tiny import build, tokens


@pytest.mark.parametrize("training", [True, False])
def test_every_sub_layer_is_dropped_from_once(training):
    """Each dropout of a layer is given, in order, what the layer's sub-layers gave; the first is added to its input."""
    model = build(system="transformer", dropout=0.5).train(training)
    for layer in (*model.encoder, *model.decoder):
        names = ["attention", "cross", "feed_forward"] if hasattr(layer, "cross") else ["attention", "feed_forward"]
        gave, given, dropped, inputs, sums = layer.seen = [], [], [], [], []
        for name in names:
            getattr(layer, name).register_forward_hook(lambda _, x, out, gave=gave: gave.append(out))
        layer.dropout.register_forward_hook(lambda _, x, out, given=given: given.append(x[0]))
        layer.dropout.register_forward_hook(lambda _, x, out, dropped=dropped: dropped.append(out))
        layer.register_forward_pre_hook(lambda _, x, inputs=inputs: inputs.append(x[0]))
        layer.attention_norm.register_forward_hook(lambda _, x, out, sums=sums: sums.append(x[0]))
    model(tokens(2, 5), None, tokens(2, 7, seed=1))
    for layer in (*model.encoder, *model.decoder):
        gave, given, dropped, [x], [total] = layer.seen
        assert len(gave) == (3 if hasattr(layer, "cross") else 2)
        assert [id(each) for each in given] == [id(each) for each in gave]
        for before, after in zip(given, dropped, strict=True):
            assert (after == 0).any() == training
            torch.testing.assert_close(after[after != 0], before[after != 0] * (2 if training else 1))
        torch.testing.assert_close(total, x + dropped[0])


def test_embeddings_are_dropped_from():
    model, seen = build(system="transformer", dropout=0.5).train(), []
    for side in (model.source, model.target):
        side.dropout.register_forward_hook(lambda _, x, out: seen.append(tuple(x[0].shape)))
    model(tokens(2, 5), None, tokens(2, 7, seed=1))
    assert seen == [(2, 5, 16), (2, 7, 16)]


@pytest.mark.parametrize("system", ["transformer", "relative"])
def test_attention_weights_are_dropped_in_every_attention(system, monkeypatch):
    """With all weights dropped, each attention gives the bias of its output and nothing else."""
    model, shapes = build(system=system, attention_dropout=0.3).train(), []

    def everything(weights, probability):
        assert probability == 0.3
        shapes.append(tuple(weights.shape[-2:]))
        return torch.zeros_like(weights)

    monkeypatch.setattr(plain, "drop", everything)
    attentions = [layer.attention for layer in (*model.encoder, *model.decoder)]
    attentions += [layer.cross for layer in model.decoder]
    outputs = []
    for each in attentions:
        torch.nn.init.normal_(each.output.bias)
        each.register_forward_hook(lambda module, _, out: outputs.append((out - module.output.bias).abs().max().item()))
    model(tokens(2, 5), None, tokens(2, 7, seed=1))
    assert shapes == [(5, 5)] * 2 + [(7, 7), (7, 5)] * 2
    assert len(outputs) == 6
    assert max(outputs) == 0
    shapes.clear()
    model.eval()(tokens(2, 5), None, tokens(2, 7, seed=1))
    assert shapes == []


def test_feed_forward_dropout_stands_behind_relu():
    model, seen = build(system="transformer", feed_forward_dropout=0.4).train(), []
    for layer in (*model.encoder, *model.decoder):
        assert isinstance(layer.feed_forward.dropout, Dropout)
        layer.feed_forward.dropout.register_forward_hook(lambda _, x, out: seen.append((x[0] >= 0).all().item()))
    model(tokens(2, 5), None, tokens(2, 7, seed=1))
    assert seen == [True] * 4
