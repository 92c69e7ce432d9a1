"""Where layer normalisation stands: `model.norm`. Pre-norm and DeepNorm as loops, their place in a model, refusals.

What holds for every model holds for pre-norm ones too: tiny.py has two of them.
"""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.registry import build_model, count_parameters
from posnmt.testing import CHECKS
from posnmt_position.absolute import sinusoids
from posnmt_position.seam import Span
from tests.support import loops
from tests.support.loops import normalised
from tests.support.tiny import (
    MODELS,
    NAMED,
    TRANSFORMERS,
    VOCABULARY,
    build,
    config,
    each_of,
    encoder,
    settings,
    subject,
    tokens,
)

HEADS, D = 4, 16


def self_attention(x, layer, causal):
    return loops.self_attention(x, layer.attention, HEADS, causal)


def cross_attention(y, x, layer):
    return loops.cross_attention(y, x, layer.cross, HEADS)


def feed_forward(x, layer):
    return loops.feed_forward(x, layer.feed_forward)


def with_drawn_norms(model):
    """Gains and biases of layer normalisations that a test would notice if it left them out."""
    torch.manual_seed(2)
    for part in model.modules():
        if isinstance(part, torch.nn.LayerNorm):
            torch.nn.init.uniform_(part.weight, 0.5, 2.0)
            torch.nn.init.normal_(part.bias)
    return model


def test_the_whole_model_is_a_pre_norm_transformer():
    """x + Sublayer(LN(x)), and LN at the end of the encoder and of the decoder (fairseq's normalize_before)."""
    model = with_drawn_norms(build(system="transformer", norm="pre"))
    source, target = tokens(1, 6)[0], tokens(1, 5, seed=1)[0]
    x = model.source.table.weight[source] * math.sqrt(D) + sinusoids(torch.arange(6), D)
    for layer in model.encoder:
        x = x + self_attention(normalised(x, layer.attention_norm), layer, causal=False)
        x = x + feed_forward(normalised(x, layer.feed_forward_norm), layer)
    x = normalised(x, model.encoder_norm)
    torch.testing.assert_close(model.encode(source[None], None)[0], x, rtol=0, atol=1e-12)
    y = model.target.table.weight[target] * math.sqrt(D) + sinusoids(torch.arange(5), D)
    for layer in model.decoder:
        y = y + self_attention(normalised(y, layer.attention_norm), layer, causal=True)
        y = y + cross_attention(normalised(y, layer.cross_norm), x, layer)
        y = y + feed_forward(normalised(y, layer.feed_forward_norm), layer)
    y = normalised(y, model.decoder_norm)
    torch.testing.assert_close(model(source[None], None, target[None])[0], y, rtol=0, atol=1e-12)


def penalised(view, before, after):
    """C19a eq. 6-8 for one sentence [T,d]."""
    inner = torch.tanh(before @ view.word.weight.T + after @ view.context.weight.T)
    penalties = torch.sigmoid(inner @ view.penalty.weight.T)
    return normalised(after + sinusoids(torch.arange(len(after)), D) * penalties, view.norm)


def test_reordering_embeddings_in_a_pre_norm_encoder_layer():
    """The reading: H is LN(x), H' is the next sub-layer's LN(h); C is read, and the residual keeps h."""
    model = with_drawn_norms(build(system="re-both", norm="pre"))
    layer, joined = model.encoder[1], model.encoder_views[1]
    [view] = joined.refining
    x = torch.randn(5, D, dtype=torch.float64) * 3
    before = normalised(x, layer.attention_norm)
    h = x + self_attention(before, layer, causal=False)
    c = penalised(view, before, normalised(h, layer.feed_forward_norm))
    got = layer(x[None], joined, Span(0, 5, x.device), None)[0]
    torch.testing.assert_close(got, h + feed_forward(c, layer), rtol=0, atol=1e-12)


def test_reordering_embeddings_in_a_pre_norm_decoder_layer():
    """Attention to the source reads C; the feed-forward layer its own normalised input."""
    model = with_drawn_norms(build(system="re-decoder", norm="pre"))
    layer, joined = model.decoder[0], model.decoder_views[0]
    [view] = joined.refining
    encoded = torch.randn(3, D, dtype=torch.float64)
    state = model.start(encoded[None], None)
    x = torch.randn(5, D, dtype=torch.float64) * 3
    before = normalised(x, layer.attention_norm)
    h = x + self_attention(before, layer, causal=True)
    c = penalised(view, before, normalised(h, layer.cross_norm))
    h = h + cross_attention(c, encoded, layer)
    want = h + feed_forward(normalised(h, layer.feed_forward_norm), layer)
    places = Span(0, 5, x.device)
    got = layer(x[None], joined, places, state.caches[0], state.memory[0], None, model.cross_views[0], None)[0]
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_the_whole_model_is_a_deepnorm_transformer():
    """LN(alpha x + Sublayer(x)), with the constants of Wang et al. 2022, figure 2: 3 encoder and 2 decoder layers."""
    model = with_drawn_norms(build(system="transformer", norm="deep", encoder={"layers": 3}))
    source, target = tokens(1, 6)[0], tokens(1, 5, seed=1)[0]
    alpha = 0.81 * (3**4 * 2) ** (1 / 16)
    x = model.source.table.weight[source] * math.sqrt(D) + sinusoids(torch.arange(6), D)
    for layer in model.encoder:
        x = normalised(alpha * x + self_attention(x, layer, causal=False), layer.attention_norm)
        x = normalised(alpha * x + feed_forward(x, layer), layer.feed_forward_norm)
    alpha = (3 * 2) ** 0.25
    y = model.target.table.weight[target] * math.sqrt(D) + sinusoids(torch.arange(5), D)
    for layer in model.decoder:
        y = normalised(alpha * y + self_attention(y, layer, causal=True), layer.attention_norm)
        y = normalised(alpha * y + cross_attention(y, x, layer), layer.cross_norm)
        y = normalised(alpha * y + feed_forward(y, layer), layer.feed_forward_norm)
    torch.testing.assert_close(model(source[None], None, target[None])[0], y, rtol=0, atol=1e-12)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_every_sub_layers_output_is_dropped_before_it_is_added(side):
    """With all of it dropped, the residual stream goes through a stack unchanged, up to the last normalisation."""
    model = build(norm="pre", dropout=0.5).train()
    for layer in getattr(model, side):
        layer.dropout.register_forward_hook(lambda _, given, out: torch.zeros_like(out))
    seen = []
    getattr(model, side)[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    getattr(model, f"{side}_norm").register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model(tokens(2, 5), None, tokens(2, 5, seed=1))
    assert torch.equal(*seen)


@pytest.mark.parametrize("name", each_of(TRANSFORMERS))
def test_every_scheme_serves_pre_norm_layers(name):
    CHECKS["selection"](subject({**MODELS[name], "norm": "pre"}))


@pytest.mark.parametrize("name", [name for name in TRANSFORMERS if name in NAMED and "norm" not in NAMED[name]])
def test_a_pre_norm_model_has_a_normalisation_more_for_each_stack(name):
    post, pre = (count_parameters(settings(**NAMED[name], norm=norm), 20, 20) for norm in ("post", "pre"))
    stacks = 3 if "biarn" in name else 2
    assert pre == post + stacks * 2 * D


def test_one_seed_draws_the_same_weights_wherever_the_norm_stands():
    torch.manual_seed(1)
    post = dict(build_model(settings(system="re-both"), VOCABULARY, VOCABULARY).named_parameters())
    torch.manual_seed(1)
    pre = dict(build_model(settings(system="re-both", norm="pre"), VOCABULARY, VOCABULARY).named_parameters())
    added = {f"{side}_norm.{part}" for side in ("encoder", "decoder") for part in ("weight", "bias")}
    assert set(pre) - set(post) == added
    assert all(torch.equal(pre[name], weight) for name, weight in post.items())


def test_post_norm_is_the_default_and_ends_without_a_normalisation_of_its_own():
    model = build(system="transformer")
    assert settings().norm == "post"
    assert not list(model.encoder_norm.parameters())
    source = tokens(1, 4)
    seen = []
    model.encoder[-1].register_forward_hook(lambda _, given, out: seen.append(out))
    assert torch.equal(model.encode(source, None), seen[0])


def test_the_residual_stream_of_a_pre_norm_model_is_narrow_in_training_in_bf16_alone():
    model, words = build(system="relative", norm="pre").float().train(), torch.tensor([[4, 5, 6]])
    seen = []
    model.encoder_norm.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    for narrow, training in ((True, True), (True, False), (False, True)):
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            model.train(training)(words, torch.tensor([3]), words)
    assert seen == [torch.bfloat16, torch.float32, torch.float32]


@pytest.mark.parametrize("system", ["rnn-nmt", "rnnsearch+distortion", "convs2s", "dtmt"])
def test_pre_norm_without_a_place_is_refused(system):
    with pytest.raises(UserError, match=r"model.norm: .* has no Transformer layers to normalise; leave it out, got"):
        config(system=system, norm="pre")


def test_an_unknown_place_is_refused():
    with pytest.raises(UserError, match=r"model.norm: input should be 'post', 'pre' or 'deep', got 'sandwich'"):
        config(**encoder(), norm="sandwich")
