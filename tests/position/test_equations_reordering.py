"""Reordering embeddings, additional positions and directional heads against plain loops, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt_position.absolute import sinusoids
from posnmt_position.directional import Directional
from posnmt_position.reordering import Additional, Reordering
from posnmt_position.seam import LayerPositions, Span, Stack
from tests.support.loops import attended, normalised, same_with_gradients, scaled
from tests.support.tiny import build, config, decoder, encoder, tokens

STACK = Stack(d_model=6, heads=3, layers=2, causal=False, max_length=32)


def penalties_by_loops(view, h, h_dash):
    """C19a eq. 6 for one token: h, h_dash [d]."""
    d = len(h)
    inner = [
        torch.tanh(sum(view.word.weight[a, b] * h[b] + view.context.weight[a, b] * h_dash[b] for b in range(d)))
        for a in range(d)
    ]
    return torch.stack([torch.sigmoid(sum(view.penalty.weight[a, b] * inner[b] for b in range(d))) for a in range(d)])


def test_counting_from_1_changes_elementwise_products_alone():
    """C19a counts words from 1: inner products of sinusoids stay as they are, those of `PE * PP` (eq. 7) do not."""
    torch.manual_seed(3)
    from_0, from_1 = (sinusoids(torch.arange(first, first + 9), 6).double() for first in (0, 1))
    torch.testing.assert_close(from_1 @ from_1.mT, from_0 @ from_0.mT, rtol=0, atol=1e-6)
    penalties = torch.rand(9, 6, dtype=torch.float64)
    first, second = from_0 * penalties, from_1 * penalties
    assert (second @ second.mT - first @ first.mT).abs().max() > 0.1
    assert (first[0, ::2] == 0).all()  # the sines of the first word, whatever the penalties
    assert (second[0, ::2] != 0).all()


@pytest.mark.parametrize("factor", [1.0, 2.5])
@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("kind", [Reordering, Additional])
def test_refinement_is_c19a(kind, start, factor):
    torch.manual_seed(3)
    scheme = kind(STACK, kind.Settings()).double()
    assert scheme.interpolate(factor)
    view = scheme.layer(1)
    h, h_dash = (torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    torch.nn.init.normal_(view.norm.weight)
    got = view.refine(h, h_dash, Span(start, 4, h.device))
    rows = []
    for b in range(2):
        for j in range(4):
            position = torch.tensor(
                [
                    (math.sin if i % 2 == 0 else math.cos)((start + j) / factor / 10000 ** (2 * (i // 2) / 6))
                    for i in range(6)
                ],
                dtype=torch.float64,
            )
            embedding = position
            if kind is Reordering:  # eq. 7
                embedding = position * penalties_by_loops(view, h[b, j], h_dash[b, j])
            rows.append(normalised(h_dash[b, j] + embedding, view.norm))  # eq. 8
    want = torch.stack(rows).reshape(2, 4, 6)
    same_with_gradients(got, want, [h, h_dash, *view.parameters()])


def test_a_layer_reads_c_and_keeps_h_dash():
    """C19a eq. 9, the whole encoder layer: the feed-forward network reads C, and its residual is H'."""
    model = build(system="re-both")
    layer, joined = model.encoder[1], model.encoder_views[1]
    [view] = joined.refining
    x, span = torch.randn(2, 5, 16, dtype=torch.float64), Span(0, 5, torch.device("cpu"))
    h_dash = layer.attention_norm(x + layer.attention(x, joined, span, None))
    pp = torch.sigmoid(torch.tanh(x @ view.word.weight.T + h_dash @ view.context.weight.T) @ view.penalty.weight.T)
    c = view.norm(h_dash + sinusoids(torch.arange(5), 16) * pp)
    want = layer.feed_forward_norm(layer.feed_forward(c, span) + h_dash)
    torch.testing.assert_close(layer(x, joined, span, None), want, rtol=0, atol=1e-12)


def test_in_the_decoder_attention_to_the_source_reads_c():
    model = build(system="re-decoder")
    layer, joined = model.decoder[0], model.decoder_views[0]
    [view] = joined.refining
    encoded = torch.randn(2, 3, 16, dtype=torch.float64)
    state = model.start(encoded, None)
    x, span = torch.randn(2, 5, 16, dtype=torch.float64), Span(0, 5, torch.device("cpu"))
    got = layer(x, joined, span, state.caches[0], state.memory[0], None, model.cross_views[0], None)
    h_dash = layer.attention_norm(x + layer.attention(x, joined, span, None))
    c = view.refine(x, h_dash, span)
    h = layer.cross_norm(h_dash + layer.cross(c, state.memory[0], None, model.cross_views[0], None))
    torch.testing.assert_close(got, layer.feed_forward_norm(h + layer.feed_forward(h, span)), rtol=0, atol=1e-12)


def test_directional_heads_see_one_side():
    """Shen et al. 2018's masks, with each token seeing itself: 4 heads, one query and one key at a time."""
    torch.manual_seed(1)
    stack = Stack(d_model=8, heads=4, layers=1, causal=False, max_length=8)
    view = Directional(stack, Directional.Settings()).layer(0)
    q, k, v = (torch.randn(2, 4, 6, 2, dtype=torch.float64, requires_grad=True) for _ in range(3))
    lengths = torch.tensor([6, 4])
    span = Span(0, 6, q.device, lengths)
    mask = (torch.arange(6) < lengths[:, None])[:, None, None]
    got = attend(Attention(scaled(q), k, v, LayerPositions([view]), span, mask, False, 0.0))
    for b in range(2):
        for head in range(4):
            for i in range(lengths[b]):
                seen = [j for j in range(lengths[b]) if (j <= i if head < 2 else j >= i)]
                e = [q[b, head, i] @ k[b, head, j] / math.sqrt(2) for j in seen]
                want = attended(e, [v[b, head, j] for j in seen])
                torch.testing.assert_close(got[b, head, i], want, rtol=0, atol=1e-12)
    assert got.isfinite().all()  # padding queries too: what they give must not become NaN further up
    got.sum().backward()
    assert q.grad.isfinite().all()


@pytest.mark.parametrize(
    ("sizes", "part", "sentence"),
    [
        (
            {},
            decoder({"scheme": "directional"}),
            "directional reads words to the right, so it cannot serve the decoder",
        ),
        (
            {"heads": 1},
            encoder({"scheme": "directional"}),
            "directional needs an even number of heads, half for each direction; 1 is odd",
        ),
        ({"d_model": 15, "heads": 3}, encoder({"scheme": "reordering"}), "reordering needs an even d_model; 15 is odd"),
        ({"d_model": 15, "heads": 3}, decoder({"scheme": "additional"}), "additional needs an even d_model; 15 is odd"),
        (
            {"d_model": 12},
            encoder({"scheme": "relative", "vectors": "sinusoidal"}),
            "relative needs an even width of a head for sinusoidal vectors; d_model / heads = 3 is odd",
        ),
        (
            {},
            decoder({"scheme": "relative", "frequencies": "head"}),
            "relative has no frequencies if vectors are trained; leave frequencies: head out",
        ),
    ],
)
def test_refusals(sizes, part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(**sizes, **part)


def test_an_evaluation_does_not_spoil_training():
    """Tables that were made while translating serve training after it."""
    model = build(system="re-both")
    with torch.inference_mode():
        model(tokens(1, 70), None, tokens(1, 70))
    model(tokens(1, 70), None, tokens(1, 70)).sum().backward()
