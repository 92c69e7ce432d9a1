"""DTMT against plain loops written from Meng and Zhang 2019, one sentence, word and cell at a time, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.registry import count_parameters
from posnmt_position.absolute import sinusoids
from posnmt_position.dropout import Dropout
from tests.support.loops import learns_in_bf16, padded, same_last_token, same_model, softmax
from tests.support.tiny import VOCABULARY, build, config, settings, tokens

LENGTHS = [5, 1, 4]
OPTIONS = {
    "paper": {},
    "shallow": {"encoder": {"layers": 1}, "decoder": {"layers": 1}},
    "no-layer-norm": {"options": {"layer_norm": False}},
}
every_shape = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def system(**part):
    return {"system": "dtmt", "encoder": {"layers": 3}, "decoder": {"layers": 3}, **part}


def gate_by_hand(cell, way, gate, total):
    """The gate's number of (r, z, l), from the sum in front of it."""
    if cell.layer_norm:
        mean = sum(total) / len(total)
        variance = sum((number - mean) ** 2 for number in total) / len(total)
        total = cell.gain[way, 0, gate] * (total - mean) / torch.sqrt(variance + 1e-6)
    return torch.sigmoid(total + cell.offset[way, 0, gate])


def transition_by_hand(transition, way, x, h):
    """One L-GRU that reads x, and T-GRUs."""
    d = len(h)
    read = transition.read.weight[way * 5 * d : (way + 1) * 5 * d]
    w_r, w_z, w_l, w, w_linear = (read[part * d : (part + 1) * d] for part in range(5))
    first, *others = transition.cells
    u_r, u_z, u_l, u = (first.own[way][:, part * d : (part + 1) * d].T for part in range(4))
    r, z, linear = (
        gate_by_hand(first, way, gate, given @ x + own @ h)
        for gate, (given, own) in enumerate([(w_r, u_r), (w_z, u_z), (w_l, u_l)])
    )
    new = torch.tanh(w @ x + r * (u @ h + first.bias[way, 0])) + linear * (w_linear @ x)
    h = (1 - z) * h + z * new
    for cell in others:
        u_r, u_z, u = (cell.own[way][:, part * d : (part + 1) * d].T for part in range(3))
        r, z = (gate_by_hand(cell, way, gate, own @ h) for gate, own in enumerate([u_r, u_z]))
        h = (1 - z) * h + z * torch.tanh(r * (u @ h + cell.bias[way, 0]))
    return h


def words_by_hand(embedding, sentence):
    d = embedding.table.embedding_dim
    places = sinusoids(torch.arange(len(sentence)), d)
    return [embedding.table.weight[word] * math.sqrt(d) + place for word, place in zip(sentence, places, strict=True)]


def encode_by_hand(model, sentence):
    words, sides = words_by_hand(model.source, sentence), []
    for way, order in enumerate((range(len(words)), reversed(range(len(words))))):
        h, written = torch.zeros(model.config.d_model, dtype=torch.float64), {}
        for j in order:
            written[j] = h = transition_by_hand(model.encoder, way, words[j], h)
        sides.append(written)
    return [torch.cat([sides[0][j], sides[1][j]]) for j in range(len(words))]


def attend_by_hand(model, q, states):
    """The context, and the attention weights of each head."""
    heads, d = model.heads, len(q)
    query, keys = model.query.weight @ q, [model.key.weight @ state for state in states]
    found, weights = [], []
    for head in range(heads):
        own, twice = (slice(head * width, (head + 1) * width) for width in (d // heads, 2 * d // heads))
        scores = [model.score.weight[0] @ torch.tanh(query[own] + key[own]) for key in keys]
        weights.append(torch.stack(softmax(scores)))
        found.append(sum(a * state[twice] for a, state in zip(weights[-1], states, strict=True)))
    return model.context.weight @ torch.cat(found) + model.context.bias, torch.stack(weights)


def translate_by_hand(model, sentence, target):
    """`o_t` of every target token, and the attention weights."""
    states = encode_by_hand(model, sentence)
    s = torch.tanh(model.bridge.weight @ (sum(states) / len(states)) + model.bridge.bias)
    out, weights = [], []
    for word in words_by_hand(model.target, target):
        q = transition_by_hand(model.query_transition, 0, word, s)
        c, weight = attend_by_hand(model, q, states)
        s = transition_by_hand(model.decoder_transition, 0, c, q)
        out.append(torch.tanh(model.readout.weight @ torch.cat([s, c, word]) + model.readout.bias))
        weights.append(weight)
    return torch.stack(out), torch.stack(weights)


def parts(options):
    """A model and a padded batch of sentences, one of them a single word."""
    model = build(**system(**options))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("bias", "gain", "offset")):  # no longer 0 and 1
                weight.add_(torch.linspace(-0.4, 0.5, weight.numel()).view_as(weight))
        model.score.weight.mul_(3)  # weights of attention that are far from even
    return model, padded(LENGTHS), tokens(3, 6, seed=1)


def by_hand(model, source, target):
    return torch.stack([translate_by_hand(model, source[b, :n], target[b])[0] for b, n in enumerate(LENGTHS)])


@every_shape
def test_the_model_is_meng_and_zhang(options):
    model, source, target = parts(options)
    got, want = model(source, torch.tensor(LENGTHS), target), by_hand(model, source, target)
    same_model(model, got, want)


@every_shape
def test_the_last_token_alone_is_meng_and_zhang(options):
    model, source, target = parts(options)
    same_last_token(model, source, LENGTHS, target, by_hand(model, source, target))


def test_attention_weights_matter():
    """The tests above would not see attention that is even, or the same in all heads."""
    model, source, target = parts({})
    _, weights = translate_by_hand(model, source[0], target[0])
    assert weights.max() > 0.35
    assert (weights[:, 0] - weights[:, 1]).abs().max() > 0.05


def test_the_source_is_not_copied_for_each_hypothesis():
    model, source, target = parts({})
    state = model.start(model.encode(source, None), None)
    kept = state.keys, state.values
    state.select(torch.arange(3).repeat_interleave(4))
    model.advance(target.repeat_interleave(4, 0), state)
    assert state.hidden.shape == (12, 16)
    assert (state.keys is kept[0], state.values is kept[1]) == (True, True)
    state.select(torch.arange(8), torch.tensor([0, 2]))
    assert torch.equal(state.keys, kept[0][[0, 2]])


def test_layers_count_the_cells():
    """A T-GRU has 3 d^2 + d parameters, and a gain and an offset of d for each of its 2 gates."""
    d, sizes = 16, {"feed_forward": 24, "heads": 4}
    two, three, four = (
        count_parameters(settings(system="dtmt", encoder={"layers": a}, decoder={"layers": b}, **sizes), 20, 20)
        for a, b in ((2, 2), (3, 2), (2, 3))
    )
    assert three - two == four - two == 2 * (3 * d * d + 5 * d)  # both directions; both transitions


@pytest.mark.parametrize(("rate", "kept"), [(None, 0.5), (0.0, 0.0)])
def test_dropout_falls_on_words_new_states_and_the_output(rate, kept):
    model, (source, target) = build(**system(options={"cell_dropout": rate}), dropout=0.5), (tokens(2, 5), tokens(2, 6))
    seen = []
    for name, dropout in ((n, module) for n, module in model.named_modules() if isinstance(module, Dropout)):
        assert dropout.probability == (kept if "cells" in name else 0.5)
        dropout.register_forward_hook(lambda module, given, out: seen.append(tuple(given[0].shape)))
    model(source, None, target)
    read, written = [(2, 2, 16)] * (5 * 3), [(1, 2, 16)] * (6 * 6)
    assert seen == [(2, 5, 16), *read, (2, 6, 16), *written, (2, 6, 16)]
    model.train()
    torch.manual_seed(7)
    once, again = (model(source, None, target) for _ in range(2))
    assert (once - again).abs().max() > 1e-4
    torch.manual_seed(7)
    torch.testing.assert_close(once, model(source, None, target), rtol=0, atol=0)


def test_it_trains_under_bf16():
    torch.manual_seed(0)
    model, source, target = build(**system()).float(), tokens(8, 5), tokens(8, 6, seed=1)
    learns_in_bf16(model)
    with torch.autocast("cpu", torch.bfloat16):
        state = model.start(model.encode(source, None), None)
        model.advance(target, state)
    assert state.hidden.dtype == torch.float32


@pytest.mark.parametrize("scheme", ["none", "learned", "recurrent", "cape"])
def test_schemes_that_change_the_embeddings_serve_it(scheme):
    position = [] if scheme == "none" else [{"scheme": scheme}]
    model = build(**system(encoder={"position": position}, decoder={"position": position}))
    source, target = tokens(2, 6), tokens(2, 5, seed=1)
    whole, state = model(source, None, target), model.start(model.encode(source, None), None)
    steps = torch.cat([model.advance(target[:, [place]], state) for place in range(5)], dim=1)
    torch.testing.assert_close(steps, whole, rtol=0, atol=1e-12)
    assert (model.longest_source is None) == (scheme != "learned")


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            {"decoder": {"position": [{"scheme": "alibi"}]}},
            "model.decoder.position: alibi acts inside the layers of a Transformer, which dtmt lacks; choose a",
        ),
        ({"attention_dropout": 0.1}, "model.attention_dropout: dtmt has no such dropout; set 0, got 0.1"),
        ({"feed_forward_dropout": 0.2}, "model.feed_forward_dropout: dtmt has no such dropout"),
        ({"options": {"cell_dropout": 1.0}}, "dtmt.cell_dropout: Input should be less than 1, got 1.0"),
        ({"options": {"transitions": 4}}, "model.options: dtmt has no option 'transitions'"),
    ],
)
def test_what_it_has_not_got_is_refused(part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(system="dtmt", **part)


def test_matrices_can_be_shared():
    model = build(system="dtmt", tie_embeddings="target")
    assert model.output.weight is model.target.table.weight
    assert model.project(torch.zeros(1, 16, dtype=torch.float64)).shape == (1, VOCABULARY)
