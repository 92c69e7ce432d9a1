"""ConvS2S against plain loops written from Gehring et al. 2017, one sentence and one word at a time, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.registry import count_parameters
from posnmt_position.dropout import Dropout
from tests.support.loops import attended, learns_in_bf16, padded, same_last_token, same_model
from tests.support.tiny import VOCABULARY, build, config, settings, tokens

LENGTHS = [5, 1, 4]
OPTIONS = {
    "plain": {},
    "widths": {"widths": [12, 12, 20], "kernels": [3, 2, 1]},
    "wide": {"kernels": [5], "widths": [10]},
}
every_shape = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def system(options):
    return {"system": "convs2s", "encoder": {"layers": 3}, "decoder": {"layers": 3}, "options": options}


def linear_by_hand(part, x):
    """`g (v / |v|) x + b`, one output unit at a time (Salimans and Kingma 2016)."""
    rows = []
    for v, g, b in zip(part.direction, part.length[:, 0], part.bias, strict=True):
        rows.append(g * (v @ x) / torch.sqrt((v * v).sum()) + b)
    return torch.stack(rows)


def gates_by_hand(layer, neighbours):
    """`A sigmoid(B)` of the words under the kernel, end to end."""
    a, b = linear_by_hand(layer.map, torch.cat(neighbours)).chunk(2)
    return a * torch.sigmoid(b)


def words_by_hand(embedding, sentence):
    """e: the words, and a vector for each position."""
    d = embedding.table.embedding_dim
    return [
        embedding.table.weight[word] * math.sqrt(d) + embedding.schemes[0].table[place]
        for place, word in enumerate(sentence)
    ]


def residual_by_hand(layer, x):
    return x if layer.residual is None else linear_by_hand(layer.residual, x)


def encode_by_hand(model, sentence):
    e = words_by_hand(model.source, sentence)
    h = [linear_by_hand(model.source_rise, word) for word in e]
    for layer in model.encoder:
        k, zero, new = layer.kernel, torch.zeros_like(h[0]), []
        for i in range(len(h)):
            window = range(i - (k - 1) // 2, i + k // 2 + 1)
            around = [h[j] if 0 <= j < len(h) else zero for j in window]
            new.append((gates_by_hand(layer, around) + residual_by_hand(layer, h[i])) * math.sqrt(0.5))
        h = new
    z = [linear_by_hand(model.source_fall, state) for state in h]
    share = 1 / (2 * len(model.decoder))  # of the gradient; the value stays
    z = [state * share + (state * (1 - share)).detach() for state in z]
    return z, [(state + word) * math.sqrt(0.5) for state, word in zip(z, e, strict=True)]


def attend_by_hand(query, z, values):
    """Weights `softmax_j(d . z_j)`, and m sqrt(1/m) times the weighted sum."""
    return len(z) * math.sqrt(1 / len(z)) * attended([query @ state for state in z], values)


def translate_by_hand(model, sentence, target):
    """What predicts the word after each target word."""
    z, values = encode_by_hand(model, sentence)
    g = words_by_hand(model.target, target)
    h = [linear_by_hand(model.target_rise, word) for word in g]
    for layer in model.decoder:
        k, zero, new = layer.kernel, torch.zeros_like(h[0]), []
        for i in range(len(h)):
            before = [h[j] if j >= 0 else zero for j in range(i - k + 1, i + 1)]
            state = gates_by_hand(layer, before)
            query = (linear_by_hand(layer.query, state) + g[i]) * math.sqrt(0.5)
            found = linear_by_hand(layer.context, attend_by_hand(query, z, values))
            state = (state + found) * math.sqrt(0.5)
            new.append((state + residual_by_hand(layer, h[i])) * math.sqrt(0.5))
        h = new
    return torch.stack([linear_by_hand(model.target_fall, state) for state in h])


def parts(options):
    """A model and a padded batch of sentences, one of them a single word."""
    model = build(**system(options))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("bias", "length")):  # no longer 0 and |v|
                weight.add_(torch.linspace(-0.3, 0.4, weight.numel()).view_as(weight))
        model.source.table.weight.mul_(6)  # weights of attention that are far from even
        model.target.table.weight.mul_(6)
    return model, padded(LENGTHS), tokens(3, 6, seed=1)


def by_hand(model, source, target):
    return torch.stack([translate_by_hand(model, source[b, :n], target[b]) for b, n in enumerate(LENGTHS)])


@every_shape
def test_the_model_is_gehring_et_al(options):
    model, source, target = parts(options)
    got, want = model(source, torch.tensor(LENGTHS), target), by_hand(model, source, target)
    same_model(model, got, want)


@every_shape
def test_the_last_token_alone_is_gehring_et_al(options):
    model, source, target = parts(options)
    same_last_token(model, source, LENGTHS, target, by_hand(model, source, target))


def test_attention_weights_matter():
    """The tests above would not see attention that is even, or that looks at one word alone."""
    model, source, target = parts({})
    z, _ = encode_by_hand(model, source[0])
    query = words_by_hand(model.target, target[0])[0]
    weights = torch.stack([query @ state for state in z]).softmax(0)
    assert 0.25 < weights.max() < 0.9


def test_the_source_is_not_copied_for_each_hypothesis():
    model, source, target = parts({})
    state = model.start(model.encode(source, None), None)
    kept = state.keys, state.values
    state.select(torch.arange(3).repeat_interleave(4))
    model.advance(target.repeat_interleave(4, 0), state)
    assert [given.shape for given in state.inputs] == [(12, 2, 16)] * 3
    assert (state.keys is kept[0], state.values is kept[1]) == (True, True)
    state.select(torch.arange(8), torch.tensor([0, 2]))
    assert torch.equal(state.keys, kept[0][[0, 2]])


def test_the_start_is_that_of_the_paper():
    """Deviations of section 3.5: words 0.1; maps sqrt(p/n), before gates sqrt(4p/n); and W is v at first."""
    model = build(system="convs2s", d_model=256, dropout=0.2, options={"widths": [192]})
    layer = model.decoder[0]
    wanted = {
        layer.map: math.sqrt(4 * 0.8 / (3 * 192)),
        layer.query: 192**-0.5,
        layer.context: 256**-0.5,
        model.target_rise: math.sqrt(0.8 / 256),
        model.source_fall: 192**-0.5,
    }
    for part, deviation in wanted.items():
        assert part.direction.std().item() == pytest.approx(deviation, rel=0.02)
        torch.testing.assert_close(part.weight(), part.direction, rtol=0, atol=1e-6)
        assert not part.bias.any()
    assert (model.source.table.weight * model.source.scale).std().item() == pytest.approx(0.1, rel=0.05)


def test_dropout_falls_on_words_before_convolutions_and_before_the_vocabulary():
    model, (source, target) = build(**system({}), dropout=0.5), (tokens(2, 5), tokens(2, 6, seed=1))
    seen = []
    for dropout in (module for module in model.modules() if isinstance(module, Dropout)):
        dropout.register_forward_hook(lambda module, given, out: seen.append(tuple(given[0].shape)))
    model(source, None, target)
    assert seen == [(2, 5, 16)] * 4 + [(2, 6, 16)] * 5
    model.train()
    torch.manual_seed(7)
    once, again = (model(source, None, target) for _ in range(2))
    assert (once - again).abs().max() > 1e-4
    torch.manual_seed(7)
    torch.testing.assert_close(once, model(source, None, target), rtol=0, atol=0)


def test_parameters_are_counted_from_the_paper():
    """20 layers of 512: 2 maps and 20 convolutions a side, 2 maps more for each attention."""
    d, layers, places, words = 512, 20, 1024, 1000
    map_, convolution = d * d + 2 * d, 3 * d * 2 * d + 2 * 2 * d  # weight normalisation: a length beside each bias
    wanted = 2 * (words * d + places * d + 2 * map_ + layers * convolution) + layers * 2 * map_ + words * d + words
    part = {"d_model": d, "heads": 8, "encoder": {"layers": layers}, "decoder": {"layers": layers}}
    assert count_parameters(settings(system="convs2s", **part), words, words) == wanted


def test_it_trains_under_bf16():
    torch.manual_seed(0)
    learns_in_bf16(build(**system({})).float())


@pytest.mark.parametrize("scheme", ["sinusoidal", "recurrent", "shape", "none"])
def test_schemes_that_change_the_embeddings_serve_it(scheme):
    position = [] if scheme == "none" else [{"scheme": scheme}]
    model = build(system="convs2s", encoder={"position": position}, decoder={"position": position})
    source, target = tokens(2, 6), tokens(2, 5, seed=1)
    whole, state = model(source, None, target), model.start(model.encode(source, None), None)
    steps = torch.cat([model.advance(target[:, [place]], state) for place in range(5)], dim=1)
    torch.testing.assert_close(steps, whole, rtol=0, atol=1e-12)
    assert model.longest_source is None
    assert model.interpolate(2.0) == (scheme in ("sinusoidal", "shape"))


def test_learned_positions_are_finite():
    model = build(system="convs2s", max_length=7)
    assert (model.longest_source, model.longest_target) == (7, 7)
    with pytest.raises(UserError, match="there are 7 learned positions, and position 8 is needed"):
        model.encode(tokens(1, 8), None)


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            {"encoder": {"position": [{"scheme": "relative"}]}},
            "model.encoder.position: relative acts inside the layers of a Transformer, which convs2s lacks",
        ),
        (
            {"decoder": {"position": [{"scheme": "sinusoidal"}, {"scheme": "rope"}]}},
            "model.decoder.position: rope acts inside the layers of a Transformer",
        ),
        ({"encoder": {"position": [{"scheme": "recurrent-heads"}]}}, "recurrent-heads acts inside the layers"),
        ({"d_model": 15, "heads": 3, "encoder": {"position": [{"scheme": "sinusoidal"}]}}, "15 is odd"),
        ({"attention_dropout": 0.1}, "model.attention_dropout: convs2s has no such dropout; set 0, got 0.1"),
        ({"feed_forward_dropout": 0.2}, "model.feed_forward_dropout: convs2s has no such dropout"),
        ({"options": {"kernel": 3}}, "model.options: convs2s has no option 'kernel'; did you mean 'kernels'"),
        ({"options": {"kernels": [0]}}, "convs2s.kernels.0: Input should be greater than or equal to 1, got 0"),
        ({"options": {"kernels": []}}, "convs2s.kernels: .* at least 1 item"),
        (
            {"options": {"widths": [8, 8, 16]}},
            "convs2s.widths has 3 numbers for the 2 layers of the encoder; write one, or one for each layer",
        ),
    ],
)
def test_what_it_has_not_got_is_refused(part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(system="convs2s", **part)


def test_recurrent_heads_without_separate_projections_only_change_the_embeddings():
    scheme = {"scheme": "recurrent-heads", "head_projection": "full"}
    assert config(system="convs2s", encoder={"position": [scheme]}).model.encoder.position[0].options


def test_matrices_can_be_shared():
    model = build(system="convs2s", tie_embeddings="all")
    assert model.output.weight is model.target.table.weight
    assert model.source.table is model.target.table
    assert model.project(torch.zeros(1, 16, dtype=torch.float64)).shape == (1, VOCABULARY)
