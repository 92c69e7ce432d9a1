"""BiARN against plain loops from the equations in its docstrings, one sentence and step at a time, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.cli.systems import describe
from posnmt.config.systems import SYSTEMS
from posnmt.model.registry import count_parameters
from posnmt_position.absolute import sinusoids
from tests.support.loops import (
    cross_attention,
    elman,
    feed_forward,
    gru,
    linear,
    lstm,
    normalised,
    padded,
    same_last_token,
    same_model,
    self_attention,
    weights_of,
)
from tests.support.tiny import build, config, settings, tokens

HEADS, D = 4, 16
LENGTHS = [5, 1, 4]
OPTIONS = {
    "recalled": {"steps": 3},
    "gate": {"steps": 3, "join": "gate", "reach": "all", "cell": "gru"},
    "joined": {"steps": 2, "directions": "joined", "reach": "all", "cell": "elman"},
}
every_reading = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


CELLS = {torch.nn.GRUCell: gru, torch.nn.RNNCell: elman}


def direction_by_hand(network, x, steps):
    h, memory, states = torch.zeros(D, dtype=torch.float64), torch.zeros(D, dtype=torch.float64), []
    kind, weights = type(network.cell), weights_of(network.cell)
    for _ in range(steps):
        c = cross_attention(h[None], x, network.attention, HEADS)[0]
        if kind is torch.nn.LSTMCell:
            h, memory = lstm(weights, c, h, memory)
        else:
            h = CELLS[kind](weights, c, h)
        states.append(h)
    return states


def recurrence_by_hand(encoder, x, options):
    ahead = direction_by_hand(encoder.forward_network, x, options["steps"])
    back = direction_by_hand(encoder.backward_network, x, options["steps"])[::-1]
    states = torch.stack([*ahead, *back])
    if options.get("directions") == "joined":
        states = torch.stack([linear(torch.cat(pair), encoder.joint) for pair in zip(ahead, back, strict=True)])
    c = normalised(states, encoder.recurrence_norm)
    return normalised(feed_forward(c, encoder.feed_forward) + c, encoder.feed_forward_norm)


def words_by_hand(embedding, sentence):
    return embedding.table.weight[sentence] * math.sqrt(D) + sinusoids(torch.arange(len(sentence)), D)


def translate_by_hand(model, source, target, options):
    x = words_by_hand(model.source, source)
    recurrent = recurrence_by_hand(model.recurrence, x, options)
    for layer in model.encoder:
        x = normalised(x + self_attention(x, layer.attention, HEADS, causal=False), layer.attention_norm)
        x = normalised(x + feed_forward(x, layer.feed_forward), layer.feed_forward_norm)
    y = words_by_hand(model.target, target)
    for index, layer in enumerate(model.decoder):
        c = normalised(y + self_attention(y, layer.attention, HEADS, causal=True), layer.attention_norm)
        attended = cross_attention(c, x, layer.cross, HEADS)
        if options.get("reach") != "all" and index + 1 < len(model.decoder):
            y = normalised(attended + c, layer.cross_norm)
        elif options.get("join") == "gate":
            other = cross_attention(c, recurrent, layer.recurrent, HEADS)
            gate = torch.sigmoid(linear(torch.cat([attended, other], dim=1), layer.gate))
            y = normalised(gate * attended + (1 - gate) * other + c, layer.cross_norm)
        else:
            r_e = normalised(attended + c, layer.cross_norm)
            y = normalised(cross_attention(r_e, recurrent, layer.recurrent, HEADS) + r_e, layer.recurrent_norm)
        y = normalised(y + feed_forward(y, layer.feed_forward), layer.feed_forward_norm)
    return y


def parts(options):
    """A model with no parameter at 0 or 1, and a padded batch of sentences, one of them a single word."""
    model = build(system="biarn", options=options)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                weight.add_(torch.linspace(-0.4, 0.5, weight.numel()).view_as(weight))
    return model, padded(LENGTHS), tokens(3, 6, seed=1)


def by_hand(model, source, target, options):
    rows = [translate_by_hand(model, source[b, :n], target[b], options) for b, n in enumerate(LENGTHS)]
    return torch.stack(rows)


@every_reading
def test_the_model_is_what_its_equations_say(options):
    model, source, target = parts(options)
    same_model(model, model(source, torch.tensor(LENGTHS), target), by_hand(model, source, target, options))


@every_reading
def test_the_last_token_alone_is_what_the_equations_say(options):
    model, source, target = parts(options)
    same_last_token(model, source, LENGTHS, target, by_hand(model, source, target, options))


def test_the_parameters_are_those_that_the_papers_let_expect():
    """36 d^2 of weights, 39 d of biases and norms: 9.457 M at base size, where 97.4 - 88.0 M are cited."""
    d, plain = 512, describe("transformer", 16_004, "base")["parameters"]
    added = describe("biarn", 16_004, "base")["parameters"] - plain
    assert added == 36 * d * d + 39 * d == 9_457_152
    assert abs(added / 1e6 - (97.4 - 88.0)) < 0.1  # both figures are rounded
    small = {"d_model": 16, "feed_forward": 64, "heads": 4}

    def count(**options):
        return count_parameters(settings(system="biarn", options=options, **small), 20, 20)

    d, recalled = 16, count()
    assert count(steps=3) == recalled
    assert count(reach="all") - recalled == 4 * d * d + 6 * d  # an attention and its norm in the other layer of two
    assert count(join="gate") - recalled == 2 * d * d + d - 2 * d
    assert count(directions="joined") - recalled == 2 * d * d + d
    assert recalled - count(cell="gru") == 2 * (2 * d * d + 2 * d)


def test_it_is_called_a_reconstruction():
    shown = describe("biarn", 104, "tiny")
    assert shown["summary"].startswith("reconstruction: ")
    assert "97.4 M" in shown["established"]
    assert "88.0 M" in shown["recalled"]
    assert "9.457 M" in shown["chosen"]
    marked = [name for name, system in SYSTEMS.items() if system.reconstruction is not None]
    assert marked == [name for name, system in SYSTEMS.items() if system.summary.startswith("reconstruction: ")]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": 0}, "biarn.steps: Input should be greater than or equal to 1, got 0"),
        ({"cell": "sru"}, "biarn.cell: .* got 'sru'"),
        ({"step": 3}, "biarn has no option 'step'; did you mean 'steps'"),
    ],
)
def test_refusals(options, sentence):
    with pytest.raises(UserError, match=sentence):
        config(system="biarn", options=options)
